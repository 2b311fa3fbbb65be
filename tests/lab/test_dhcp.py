"""DHCP as machines see it, with isc-dhcp-client and udhcpc: leases, and what happens to them when something breaks.

Clients renew every few seconds here, so that a lease that could not be kept would show.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.lab import address, open_group, pings, port, wait_until
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab, dhcp_options
from tests.support.lab_dhcp import (
    addresses,
    elsewhere,
    home,
    leases,
    pid,
    served,
    servers,
    udhcpc,
    wait_for_renewal,
)
from tests.support.lab_kinds import LabKind
from tests.support.lab_trace import trace
from tests.support.shared_labs import wait_for_agents

LAB = LabKind(
    hosts=3,
    roles=("l2", "dhcp"),
    server="[DEFAULT]\nagent_down_time = 8\n",
    agent="[DEFAULT]\ndhcp_renewal_time = 3\n[agent]\nreport_interval = 1\n",
)
DISTRIBUTED = {"DEFAULT": {"dhcp_distributed": "true"}}


@pytest.fixture(autouse=True)
def clean_lab(lab: Lab) -> Iterator[None]:
    wait_for_agents(lab)
    with cleaned(lab):
        open_group(lab)
        yield


def test_a_machine_gets_its_lease_keeps_it_and_gives_it_back(lab: Lab) -> None:
    blue = served(lab, "blue")
    there = home(lab, blue)
    away = elsewhere(lab, blue)[0]
    vm = lab.vm("a", network="blue", host=away, security_groups=["open"])
    lab.vm("b", network="blue", host=there, security_groups=["open"])
    own = address(lab, "a")
    assert addresses(lab, "a") == {f"{own}/24"}
    assert pings(lab, "a", address(lab, "b"))
    lease = dhcp_options(lab.dhcp("a"))
    assert lease["new_dhcp_server_identifier"] == servers(lab, blue)[0]["fixed_ips"][0]["ip_address"]
    assert (lease["new_routers"], lease["new_interface_mtu"]) == ("10.0.0.1", "1450")
    assert lease["new_domain_name"] == "openstacklocal"
    wait_for_renewal(lab, "a")
    # Another address: port security drops packets from the old one; the client requests the new one when it starts.
    lab.api.update("port", vm.port_id, fixed_ips=[{"ip_address": "10.0.0.250"}])
    wait_until(lambda: own not in leases(lab, there, blue), 60, "the old lease is kept")
    lab.address("a")
    assert addresses(lab, "a") == {"10.0.0.250/24"}
    # The release is one unicast packet, after which the client removes its address: without a neighbour entry of the server
    # it may still wait for ARP then, and is lost.
    assert pings(lab, "a", lease["new_dhcp_server_identifier"])
    lab.run("a", lab.dhcp("a").argv(4, "-r"))
    wait_until(lambda: "10.0.0.250" not in leases(lab, there, blue), 60, "the lease has not been given back")
    assert addresses(lab, "a") == set()


def test_traces_to_the_server(lab: Lab) -> None:
    """Its namespace consumes the packet, which is no drop, on its own host and from another one."""
    blue = served(lab, "blue")
    server = servers(lab, blue)[0]
    for name, host in (("a", elsewhere(lab, blue)[0]), ("b", home(lab, blue))):
        vm = lab.vm(name, network="blue", host=host, security_groups=["open"])
        assert pings(lab, name, server["fixed_ips"][0]["ip_address"])
        ends = {"source_port_id": vm.port_id, "destination_port_id": server["id"]}
        for protocol in ({"protocol": "icmp"}, {"protocol": "udp", "destination_port": 67}):
            found = trace(lab, **ends, **protocol)
            assert (found["verdict"], found["return_verdict"]) == ("delivered", "delivered"), found["summary"]
            assert found["agreement"], found["differences"]


def test_options_of_a_port_are_changed(lab: Lab) -> None:
    """By a restart of dnsmasq: 2.90 may crash when it reads its files again after a request of such a client."""
    served(lab, "blue")
    vm = lab.vm("a", network="blue", security_groups=["open"], dhcp=False)
    assert "boot_file" not in udhcpc(lab, "a")
    options = [
        {"opt_name": "bootfile-name", "opt_value": "pxelinux.0"},
        {"opt_name": "ntp-server", "opt_value": "192.0.2.9"},
    ]
    lab.api.update("port", vm.port_id, extra_dhcp_opts=options)

    def has_options() -> bool:
        now = udhcpc(lab, "a", "-O", "ntpsrv", "-O", "bootfile")
        return (now.get("ntpsrv"), now.get("bootfile", now.get("boot_file"))) == ("192.0.2.9", "pxelinux.0")

    wait_until(has_options, 60, "the client does not get the port's options")
    lab.api.update(
        "port", vm.port_id, extra_dhcp_opts=[{"opt_name": name["opt_name"], "opt_value": None} for name in options]
    )
    wait_until(lambda: "ntpsrv" not in udhcpc(lab, "a", "-O", "ntpsrv"), 60, "the client still gets the options")


def test_subnets_of_both_families_and_every_mode(lab: Lab) -> None:
    group = lab.api.find("security_group", "open")["id"]
    for number, name in enumerate(("stateful", "stateless", "slaac"), 1):
        network_id = served(lab, name, ("10.0.0.0/24", "10.0.1.0/24"))
        cidr, mode = f"fd00:{number}::/64", name if name == "slaac" else f"dhcpv6-{name}"
        more = {"ip_version": 6, "ipv6_address_mode": mode, "ipv6_ra_mode": mode, "dns_nameservers": ["2001:db8::53"]}
        lab.api.create("subnet", network_id=network_id, cidr=cidr, **more)
        subnets = {s["cidr"]: s["id"] for s in lab.api.list("subnet", network_id=network_id)}
        fixed = [{"subnet_id": subnets[each]} for each in ("10.0.1.0/24", cidr)]
        lab.api.create("port", network_id=network_id, name=name, fixed_ips=fixed, security_groups=[group])
        lab.vm(f"vm-{name}", port=name)
        fixed = {f["ip_address"] for f in port(lab, f"vm-{name}")["fixed_ips"]}
        assert {text.partition("/")[0] for text in addresses(lab, f"vm-{name}")} == fixed, name
    on_link = lab.run("vm-stateful", ["ip", "route", "show", "10.0.0.0/24"]).stdout
    assert "scope link" in on_link, "the other subnet is on-link"
    # Stateless: options without an address. SLAAC: no DHCP request at all.
    client = lab.dhcp("vm-stateless")
    lab.run("vm-stateless", client.argv(6, "-S", "-1"), timeout=15)
    assert dhcp_options(client)["new_dhcp6_name_servers"] == "2001:db8::53"
    assert "new_ip6_address" not in dhcp_options(client)
    silent = lab.dhcp("vm-slaac")
    lab.run("vm-slaac", ["timeout", "3", *silent.argv(6, "-S", "-1", "-d")], check=False)
    assert "new_dhcp6_name_servers" not in dhcp_options(silent)


def test_no_answer_to_others(lab: Lab) -> None:
    """Two networks with the same addresses, and a machine that has the MAC of a port of the other one."""
    blue, red = served(lab, "blue"), served(lab, "red")
    lab.vm("a", network="blue", host="h1", security_groups=["open"])
    open_port = {"port_security_enabled": False, "network_id": red, "name": "any", "security_groups": []}
    lab.api.create("port", **open_port)
    lab.vm("b", port="any", host="h1")
    for vm, network_id in (("a", blue), ("b", red)):
        assert addresses(lab, vm) == {f"{address(lab, vm)}/24"}
        lease = dhcp_options(lab.dhcp(vm))
        own = servers(lab, network_id)[0]["fixed_ips"][0]["ip_address"]
        assert lease["new_dhcp_server_identifier"] == own
    lab.dhcp("b").remove()
    for mac in (port(lab, "a")["mac_address"], "fa:16:3e:fe:ed:01"):
        lab.run("b", ["ip", "link", "set", "eth0", "address", mac])
        assert udhcpc(lab, "b", tries=2) == {}
    lab.run("b", ["ip", "link", "set", "eth0", "address", port(lab, "b")["mac_address"]])
    assert udhcpc(lab, "b")["ip"] == address(lab, "b")


def test_two_agents_give_the_same_lease_and_one_is_enough(lab: Lab) -> None:
    blue = served(lab, "blue")
    agents = {agent["host"]: agent["id"] for agent in lab.api.list("agent", agent_type="DHCP agent")}
    first, (second, third) = home(lab, blue), elsewhere(lab, blue)
    lab.api.request("POST", f"/v2.0/agents/{agents[second]}/dhcp-networks", {"network_id": blue})
    wait_until(lambda: pid(lab, second, blue) != 0, 60, f"{second} does not serve")
    lab.vm("a", network="blue", host=third, security_groups=["open"], dhcp=False)
    where = {p["binding:host_id"]: p["fixed_ips"][0]["ip_address"] for p in servers(lab, blue)}
    wait_until(lambda: address(lab, "a") in leases_file(lab, second, blue), 60, f"{second} does not know the port")
    offers: dict[str, str] = {}
    for host, other in ((first, second), (second, first)):
        process = pid(lab, other, blue)
        os.kill(process, signal.SIGSTOP)  # it does not answer, and is not started again
        try:
            lease = udhcpc(lab, "a", tries=5)
        finally:
            os.kill(process, signal.SIGCONT)
        offers[host] = lease["serverid"]
        assert lease["ip"] == address(lab, "a")
        assert set(lease["dns"].split()) == set(where.values())
    assert offers == where


def leases_file(lab: Lab, host: str, network_id: str) -> str:
    return (lab.paths.host(host) / "dhcp" / network_id / "host").read_text()


def test_what_dies_comes_back_and_what_restarts_leaves_it_alone(lab: Lab) -> None:
    blue = served(lab, "blue")
    there, away = home(lab, blue), elsewhere(lab, blue)[0]
    lab.vm("a", network="blue", host=away, security_groups=["open"])
    process = pid(lab, there, blue)
    # The agent exits: its daemons stay, and none is restarted.
    for kill in (False, True):
        lab.stop_agent(there, kill=kill)
        wait_for_renewal(lab, "a")
        lab.start_agent(there)
        assert address(lab, "a") in leases(lab, there, blue)
    assert pid(lab, there, blue) == process
    # dnsmasq itself.
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: pid(lab, there, blue) not in (0, process), 60, "dnsmasq is not back")
    wait_for_renewal(lab, "a")
    # The switch.
    process = pid(lab, there, blue)
    lab.stop_ovs(there)
    lab.start_ovs(there)
    wait_for_renewal(lab, "a")
    assert pid(lab, there, blue) == process
    assert addresses(lab, "a") == {f"{address(lab, 'a')}/24"}


def test_a_lost_host_is_replaced(lab: Lab) -> None:
    blue = served(lab, "blue")
    there, away = home(lab, blue), elsewhere(lab, blue)[0]
    lab.vm("a", network="blue", host=away, security_groups=["open"])
    before = servers(lab, blue)[0]
    lab.stop_agent(there, kill=True)
    lab.stop_ovs(there, kill=True)
    wait_until(lambda: home(lab, blue) != there, 60, "the network is still served by the host that is lost")
    (after,) = servers(lab, blue)
    assert (after["id"], after["fixed_ips"]) == (before["id"], before["fixed_ips"])
    wait_for_renewal(lab, "a")
    assert pid(lab, after["binding:host_id"], blue) != 0


def test_an_agent_that_is_set_down_is_relieved(lab: Lab) -> None:
    """Its clients go on with the same server, at the same address."""
    blue = served(lab, "blue")
    there, away = home(lab, blue), elsewhere(lab, blue)[0]
    lab.vm("a", network="blue", host=away, security_groups=["open"])
    (before,) = servers(lab, blue)
    (agent,) = lab.api.list("agent", agent_type="DHCP agent", host=there)
    lab.api.update("agent", agent["id"], admin_state_up=False)
    try:
        (after,) = servers(lab, blue)
        assert after["binding:host_id"] != there
        assert (after["id"], after["fixed_ips"]) == (before["id"], before["fixed_ips"])
        wait_until(lambda: pid(lab, there, blue) == 0, 60, f"{there} still serves")
        wait_for_renewal(lab, "a")
        assert dhcp_options(lab.dhcp("a"))["new_dhcp_server_identifier"] == before["fixed_ips"][0]["ip_address"]
    finally:
        lab.api.update("agent", agent["id"], admin_state_up=True)


def test_distributed_each_host_answers_its_own(lab: Lab) -> None:
    blue = served(lab, "blue")
    there, (away, bare) = home(lab, blue), elsewhere(lab, blue)
    for host in (away, bare):
        lab.stop_agent(host)
        lab.start_agent(host, DISTRIBUTED)
    lab.vm("a", network="blue", host=there, security_groups=["open"])
    lab.vm("b", network="blue", host=away, security_groups=["open"])
    wait_until(lambda: pid(lab, away, blue) != 0, 60, f"{away} does not answer its own ports")
    assert pid(lab, bare, blue) == 0, "a host without ports of the network serves none"
    (one,) = servers(lab, blue)
    with lab.capture(away, "udp") as seen:
        lease = udhcpc(lab, "b")
    assert lease["serverid"] == one["fixed_ips"][0]["ip_address"]
    assert lease["ip"] == address(lab, "b")
    assert not [line for line in seen.lines if "67" in line and "68" in line], "requests and replies stay on the host"
    # All others are gone: nothing reaches the host any more.
    assert pings(lab, "b", address(lab, "a"))
    lab.run(away, ["ip", "link", "set", "underlay", "down"])
    try:
        assert not pings(lab, "b", address(lab, "a"), seconds=1)
        wait_for_renewal(lab, "b")
        assert udhcpc(lab, "b")["serverid"] == one["fixed_ips"][0]["ip_address"]
    finally:
        lab.run(away, ["ip", "link", "set", "underlay", "up"])
    wait_until(lambda: pings(lab, "b", address(lab, "a"), seconds=1), 60, f"{away} is not back")
