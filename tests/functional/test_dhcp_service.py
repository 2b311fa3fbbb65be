"""A network served by a real dnsmasq over a real switch, with real DHCP clients."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.agent.dhcp.network import NAMESPACE_KIND, ServedNetwork
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime.namespaces import DesiredDevice, DesiredNamespace, Plug
from neutrino.agent.runtime.supervisor import Action
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.values import address
from neutrino.dataplane.process.api import ProcessError
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.model.dhcp import DhcpPort
from tests.support.checksum import captured, has_right_checksum, sniff
from tests.support.dhcp import option
from tests.support.dhcp_lab import Client, Lab, run
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until

STATEFUL = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}
STATELESS = {"ipv6_ra_mode": "dhcpv6-stateless", "ipv6_address_mode": "dhcpv6-stateless"}


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as made:
        yield made


@pytest.fixture
def lab(switch: OpenVSwitch) -> Iterator[Lab]:
    with Lab(switch) as made:
        yield made


def simple(lab: Lab, *ports: DhcpPort, **more: object) -> ServedNetwork:
    """One subnet, and these ports on it."""
    v4 = lab.network.subnet(1)
    return lab.network.network((v4,), lab.network.dhcp_port(0xD1, "10.0.0.2", on=(v4,)), *ports, **more)


def vm(lab: Lab, number: int = 1, address: str = "10.0.0.11", **more: object) -> DhcpPort:
    return lab.network.port(number, address, on=(lab.network.subnet(1),), **more)


def is_running(pid: int) -> bool:
    """A process that has exited and is not reaped yet has no command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


def query(client: Client, name: str, server: str, own: str) -> str:
    client.ip("addr", "replace", own, "dev", "eth0")
    return client.lookup(name, server)


# --- leases and their options --------------------------------------------------------------------------------------


def test_a_lease_with_its_options(lab: Lab) -> None:
    network = lab.network
    v4 = network.subnet(1, host_routes=(("192.0.2.0/24", "10.0.0.9"),))
    other = network.subnet(2, "10.0.1.0/24")
    own = network.dhcp_port(0xD1, "10.0.0.2", "10.0.1.2", on=(v4, other))
    one, two = network.port(1, "10.0.0.11", on=(v4,)), network.port(2, "10.0.1.12", on=(other,))
    lab.serve(network.network((v4, other), own, one, two, mtu=1450))
    lease = lab.client(one).dhclient("-4", options="also request rfc3442-classless-static-routes;")
    assert (lease["new_ip_address"], lease["new_subnet_mask"]) == ("10.0.0.11", "255.255.255.0")
    assert (lease["new_routers"], lease["new_interface_mtu"]) == ("10.0.0.1", "1450")
    assert (lease["new_domain_name"], lease["new_host_name"]) == ("example.org", "vm1")
    assert lease["new_domain_name_servers"] == lease["new_dhcp_server_identifier"] == "10.0.0.2"
    assert lease["new_dhcp_lease_time"] == "86400"
    second = lab.client(two).udhcpc("-O", "staticroutes", "-O", "mtu")
    assert (second["ip"], second["mask"], second["router"], second["mtu"]) == ("10.0.1.12", "24", "10.0.1.1", "1450")
    assert second["staticroutes"] == "10.0.0.0/24 0.0.0.0 0.0.0.0/0 10.0.1.1"


def test_unknown_clients_get_no_reply(lab: Lab) -> None:
    one = vm(lab)
    lab.serve(simple(lab, one))
    assert lab.client("fa:16:3e:99:99:99").udhcpc(tries=2) == {}
    assert lab.client(one).udhcpc()["ip"] == "10.0.0.11", "who is known does"


def test_extra_options_of_the_network_and_of_the_port(lab: Lab) -> None:
    own = (option("ntp-server", "192.0.2.77"), option("tag:ipxe,bootfile-name", "http://boot/ipxe"))
    plain, special = vm(lab), vm(lab, 2, "10.0.0.12", options=own)
    lab.serve(simple(lab, plain, special, options=(option("ntp-server", "192.0.2.1"), option("3", "10.0.0.254"))))
    first = lab.client(plain).udhcpc("-O", "ntpsrv")
    assert (first["ntpsrv"], first["router"]) == ("192.0.2.1", "10.0.0.254")
    second = lab.client(special)
    assert second.udhcpc("-O", "ntpsrv")["ntpsrv"] == "192.0.2.77", "the port's option overrides the network's"
    assert boot_file(second) is None
    assert boot_file(second, "-x", "0xaf:010101") == "http://boot/ipxe", "iPXE is known by option 175"


def cut(before: str, tail: str) -> str:
    """A text in few characters whose tail is beyond the 1024 bytes that dnsmasq reads of a line at a time."""
    count, rest = divmod(1024 - len(before), 4)
    return "a" * rest + "\U0001f600" * count + tail


def test_options_of_a_port_cannot_affect_other_ports(lab: Lab) -> None:
    """The tail of a long line of options would be an option for all clients; of hosts, another client's address."""
    victim, plain = vm(lab, 2, "10.0.0.12"), vm(lab, 3, "10.0.0.13")
    client = lab.client(victim)
    forged = cut(f"tag:port-{plain.id},252,", "option:ntp-server,192.0.2.66")
    identity = cut(f"{plain.mac_address},id:", victim.mac_address)
    for given in (option("252", forged), option("client-id", identity)):
        attacker = vm(lab, 3, "10.0.0.13", options=(given,))
        outcome = lab.serve(simple(lab, attacker, victim))
        lease = client.udhcpc("-O", "ntpsrv")
        assert (lease["ip"], lease.get("ntpsrv")) == ("10.0.0.12", None)
        assert len(outcome.problems) == 1
        assert f"port {attacker.id}" in outcome.problems[0]
    lab.serve(simple(lab, vm(lab, 3, "10.0.0.13", options=(option("ntp-server", "192.0.2.77"),)), victim))
    assert lab.client(plain).udhcpc("-O", "ntpsrv")["ntpsrv"] == "192.0.2.77"


def test_options_of_a_port_come_and_go_without_a_crash(lab: Lab) -> None:
    """dnsmasq 2.90 dies of a reload after a request of a client that has a tag: then it is restarted, not reloaded."""
    plain, other, third = vm(lab), vm(lab, 2, "10.0.0.12"), vm(lab, 3, "10.0.0.13")
    lab.serve(simple(lab, plain, other))
    client, special = lab.client(plain), vm(lab, options=(option("ntp-server", "192.0.2.77"),))
    changed = vm(lab, options=(option("ntp-server", "192.0.2.78"),))
    steps = ((special, other), (changed, other), (changed, other, third), (plain, other), (plain, other, third))
    actions = []
    for ports in steps:
        outcome = lab.serve(simple(lab, *ports))
        actions.append(outcome.action)
        assert client.udhcpc()["ip"] == "10.0.0.11"
        assert is_running(outcome.pid)
    assert actions == [Action.RESTART] * 4 + [Action.RELOAD]


def identifier(mac: str) -> str:
    return f"01:{mac}"


@pytest.mark.parametrize("chosen", ["client-id", "61"])
def test_a_client_id_does_not_take_the_lease_of_another_port(lab: Lab, chosen: str) -> None:
    """dnsmasq looks for a client's id before its MAC: the id of a port must not select it for the client of another."""
    victim = vm(lab, 2, "10.0.0.12")
    stolen = option(chosen, identifier(victim.mac_address)), option("router", "10.0.0.66")
    attacker = vm(lab, 3, "10.0.0.13", options=stolen)
    lab.serve(simple(lab, attacker, victim))
    sent = f"send dhcp-client-identifier {identifier(victim.mac_address)};"
    lease = lab.client(victim).dhclient("-4", options=sent)
    assert (lease["new_ip_address"], lease["new_routers"]) == ("10.0.0.12", "10.0.0.1")
    assert (lease["new_host_name"], lab.client(victim).udhcpc()["ip"]) == ("vm2", "10.0.0.12")
    own = lab.client(attacker).udhcpc()
    assert (own["ip"], own["router"]) == ("10.0.0.13", "10.0.0.66")


def test_routes_to_many_neighbours(lab: Lab) -> None:
    """More than go into one option, which dnsmasq would then refuse whole."""
    network = lab.network
    v4 = network.subnet(1, host_routes=(("192.0.2.0/24", "10.0.0.9"),))
    many = (network.subnet(100 + number, f"10.1.{number}.0/24", enable_dhcp=False) for number in range(60))
    own, one = network.dhcp_port(0xD1, "10.0.0.2", on=(v4,)), network.port(1, "10.0.0.11", on=(v4,))
    lab.serve(network.network((v4, *many), own, one))
    routes = lab.client(one).udhcpc("-O", "staticroutes")["staticroutes"]
    assert routes.endswith("192.0.2.0/24 10.0.0.9 0.0.0.0/0 10.0.0.1")
    assert routes.startswith("10.1.0.0/24 0.0.0.0 ")


def boot_file(client: Client, *words: str) -> str | None:
    lease = client.udhcpc("-O", "bootfile", *words)
    return lease.get("boot_file") or lease.get("bootfile")


def test_names_are_answered(lab: Lab) -> None:
    one = vm(lab)
    lab.serve(simple(lab, one, vm(lab, 2, "10.0.0.12")))
    answer = query(lab.client(one), "vm2.example.org", "10.0.0.2", "10.0.0.11/24")
    assert "10.0.0.12" in answer


def test_other_names_are_forwarded_to_the_configured_servers(switch: OpenVSwitch) -> None:
    with Lab(switch, dnsmasq_dns_servers=("10.0.0.99",)) as lab:
        one = vm(lab)
        lab.serve(simple(lab, one))
        above = lab.client("fa:16:3e:00:00:99")
        above.ip("addr", "add", "10.0.0.99/24", "dev", "eth0")
        pid_file = lab.directory / "above.pid"
        words = ("--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--address=/up.example/192.0.2.55")
        above.inside("dnsmasq", *words, f"--pid-file={pid_file}")
        try:
            assert "192.0.2.55" in query(lab.client(one), "up.example", "10.0.0.2", "10.0.0.11/24")
        finally:
            os.kill(int(pid_file.read_text()), signal.SIGTERM)


def test_the_hosts_own_names_do_not_leak(lab: Lab) -> None:
    one = vm(lab)
    lab.serve(simple(lab, one))
    name = next(line.split()[1] for line in Path("/etc/hosts").read_text().splitlines() if line[:1].isdigit())
    assert "Address: 127" not in query(lab.client(one), f"{name}.", "10.0.0.2", "10.0.0.11/24")


# --- IPv6 -------------------------------------------------------------------------------------------------------------


def test_stateful_ipv6(lab: Lab) -> None:
    network = lab.network
    v6 = network.subnet(4, "2001:db8:4::/64", dns_nameservers=("2001:db8::53",), **STATEFUL)
    v4 = network.subnet(1)
    own = network.dhcp_port(0xD1, "10.0.0.2", "2001:db8:4::2", on=(v4, v6))
    one = network.port(1, "10.0.0.11", "2001:db8:4::11", on=(v4, v6))
    lab.serve(network.network((v4, v6), own, one))
    client = lab.client(one)
    lease = client.dhclient("-6")
    assert (lease["new_ip6_address"], lease["new_dhcp6_name_servers"]) == ("2001:db8:4::11", "2001:db8::53")
    assert lease["new_dhcp6_domain_search"].rstrip(".") == "example.org"
    assert client.dhclient("-4")["new_ip_address"] == "10.0.0.11"
    assert lab.client("fa:16:3e:99:99:99").dhclient("-6", timeout=4) == {}


def test_stateless_ipv6_beside_ipv4(lab: Lab) -> None:
    network = lab.network
    v4, v6 = network.subnet(1), network.subnet(5, "2001:db8:5::/64", dns_nameservers=("2001:db8::53",), **STATELESS)
    own = network.dhcp_port(0xD1, "10.0.0.2", "2001:db8:5::2", on=(v4, v6))
    options = (option("ntp-server", "192.0.2.7"), option("domain-search", "port.example", 6))
    one = network.port(1, "10.0.0.11", "2001:db8:5::11", on=(v4, v6), options=options)
    lab.serve(network.network((v4, v6), own, one))
    client = lab.client(one)
    lease = client.dhclient("-6", "-S")
    assert lease["new_dhcp6_name_servers"] == "2001:db8::53"
    assert "new_ip6_address" not in lease
    assert lease["new_dhcp6_domain_search"].rstrip(".") == "port.example"
    assert client.udhcpc("-O", "ntpsrv")["ntpsrv"] == "192.0.2.7", "the entry for IPv6 is not in the way"


@pytest.mark.parametrize("mode", [STATEFUL, STATELESS], ids=["stateful", "stateless"])
@pytest.mark.parametrize("version", [4, 6])
def test_a_duid_does_not_select_another_port(lab: Lab, mode: dict[str, str], version: int) -> None:
    """With DHCPv6 the client id is a DUID, which dnsmasq compares with client ids of IPv4 options too."""
    network = lab.network
    v4, v6 = network.subnet(1), network.subnet(4, "2001:db8:4::/64", dns_nameservers=("2001:db8::53",), **mode)
    own = network.dhcp_port(0xD1, "10.0.0.2", "2001:db8:4::2", on=(v4, v6))
    victim = network.port(2, "10.0.0.12", "2001:db8:4::12", on=(v4, v6))
    duid = f"00:03:00:01:{victim.mac_address}"
    options = option("client-id", duid, version), option("dns-server", "[2001:db8::66]", 6)
    attacker = network.port(3, "10.0.0.13", "2001:db8:4::13", on=(v4, v6), options=options)
    lab.serve(network.network((v4, v6), own, attacker, victim))
    words = ("-6", "-S") if mode is STATELESS else ("-6",)
    client = lab.client(victim)
    lease = client.dhclient(*words, "-D", "LL")
    assert lease["new_dhcp6_name_servers"] == "2001:db8::53"
    assert lease.get("new_ip6_address") == (None if mode is STATELESS else "2001:db8:4::12")
    assert client.udhcpc()["ip"] == "10.0.0.12"
    assert lab.client(attacker).dhclient(*words)["new_dhcp6_name_servers"] == "2001:db8::66"


def test_a_client_id_selects_a_client_with_an_unknown_mac(lab: Lab) -> None:
    """As of InfiniBand, whose hardware address is not in requests."""
    one, two = vm(lab, 1, "10.0.0.11", options=(option("client-id", "ff:00:07"),)), vm(lab, 2, "10.0.0.12")
    lab.serve(simple(lab, one, two))
    stranger = lab.client("fa:16:3e:99:99:99")
    assert stranger.udhcpc("-x", "0x3d:ff0007")["ip"] == "10.0.0.11"
    assert stranger.udhcpc(tries=2) == {}
    assert lab.client(two).udhcpc()["ip"] == "10.0.0.12"


def test_a_client_id_of_two_ports_selects_none(lab: Lab) -> None:
    """Also in another spelling, and with the zero that dnsmasq ignores."""
    taken = "00:61:62"
    for other in (taken, "61:62", "ab", "0:61:62"):
        one = vm(lab, 1, "10.0.0.11", options=(option("client-id", other),))
        two = vm(lab, 2, "10.0.0.12", options=(option("client-id", taken),))
        outcome = lab.serve(simple(lab, one, two))
        assert [f"port {each.id}" in " ".join(outcome.problems) for each in (one, two)] == [True, True]
        client = lab.client(two)
        assert client.udhcpc("-x", "0x3d:006162")["ip"] == "10.0.0.12"


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_second_reconciliation_does_nothing(lab: Lab) -> None:
    this = simple(lab, vm(lab))
    first = lab.serve(this)
    assert (first.action, first.changed) == (Action.START, True)
    again = lab.serve(this)
    assert (again.action, again.changed, again.pid) == (Action.NOTHING, False, first.pid)
    assert lab.reconciler.plan(this) == ([], ())


def test_a_new_port_is_a_reload(lab: Lab) -> None:
    one, two = vm(lab), vm(lab, 2, "10.0.0.12")
    first = lab.serve(simple(lab, one))
    second = lab.serve(simple(lab, one, two))
    assert (second.action, second.pid) == (Action.RELOAD, first.pid)
    assert lab.client(two).udhcpc()["ip"] == "10.0.0.12"
    assert lab.serve(simple(lab, one, two, options=(option("ntp-server", "192.0.2.5"),))).action is Action.RELOAD


def test_the_lease_of_a_deleted_port_is_released(lab: Lab) -> None:
    one = vm(lab)
    lab.serve(simple(lab, one))
    assert lab.client(one).dhclient("-4")["new_ip_address"] == "10.0.0.11"
    assert "10.0.0.11" in lab.leases()
    heir = vm(lab, 2, "10.0.0.11")
    lab.serve(simple(lab, heir))
    assert one.mac_address not in lab.leases()
    assert lab.client(heir).udhcpc()["ip"] == "10.0.0.11"


def test_the_ipv6_lease_of_a_deleted_port_is_released(lab: Lab) -> None:
    network = lab.network
    v6 = network.subnet(4, "2001:db8:4::/64", **STATEFUL)
    own = network.dhcp_port(0xD1, "2001:db8:4::2", on=(v6,))
    one, heir = (network.port(n, "2001:db8:4::11", on=(v6,)) for n in (1, 2))
    lab.serve(network.network((v6,), own, one))
    assert lab.client(one).dhclient("-6")["new_ip6_address"] == "2001:db8:4::11"
    lab.serve(network.network((v6,), own, heir))
    assert "2001:db8:4::11" not in lab.leases()
    assert lab.client(heir).dhclient("-6")["new_ip6_address"] == "2001:db8:4::11"


def test_a_lease_is_renewed_and_given_back(lab: Lab) -> None:
    lab.serve(simple(lab, vm(lab)))
    client = lab.client(vm(lab))
    first = client.dhclient("-4")
    assert first["reason"] == "BOUND"
    again = client.dhclient("-4")
    assert (again["reason"], again["new_ip_address"]) == ("REBOOT", first["new_ip_address"])
    client.ip("addr", "add", "10.0.0.11/24", "dev", "eth0")  # it gives it back by it
    client.dhclient("-4", "-r")
    until_no_lease(lab, "10.0.0.11")


def until_no_lease(lab: Lab, address: str) -> None:
    wait_until(lambda: address not in lab.leases(), timeout=30, what=f"no lease of {address}", failed=lambda: None)


def test_another_address_of_a_port(lab: Lab) -> None:
    lab.serve(simple(lab, vm(lab)))
    client = lab.client(vm(lab))
    assert client.udhcpc()["ip"] == "10.0.0.11"
    lab.serve(simple(lab, vm(lab, 1, "10.0.0.44")))
    assert client.udhcpc()["ip"] == "10.0.0.44"


def test_a_killed_dnsmasq_is_started_with_its_leases(lab: Lab) -> None:
    this = simple(lab, vm(lab))
    first = lab.serve(this)
    client = lab.client(vm(lab))
    client.dhclient("-4")
    killed = first.pid
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not is_running(killed), timeout=30, what="it has ended", failed=lambda: None)
    again = lab.serve(this)
    assert again.action is Action.START
    assert again.pid != first.pid
    assert client.dhclient("-4")["reason"] == "REBOOT", "the client's old lease is confirmed, not refused"


def test_a_new_subnet_is_served(lab: Lab) -> None:
    network = lab.network
    one, other = network.subnet(1), network.subnet(2, "10.0.1.0/24")
    port = network.port(2, "10.0.1.12", on=(other,))
    lab.serve(simple(lab, vm(lab)))
    own = network.dhcp_port(0xD1, "10.0.0.2", "10.0.1.2", on=(one, other))
    assert lab.serve(network.network((one, other), own, vm(lab), port)).action is Action.RESTART
    assert lab.client(port).udhcpc()["serverid"] == "10.0.1.2"


def test_nothing_is_left_of_a_removed_network(lab: Lab) -> None:
    pid = lab.serve(simple(lab, vm(lab))).pid
    assert lab.reconciler.known() == {lab.network.id}
    assert lab.reconciler.remove(lab.network.id)
    assert not is_running(pid)
    assert f"qdhcp-{lab.network.id}" not in run("ip", "netns", "list")
    assert lab.switch.vsctl("list-ports", lab.bridge) == ""
    assert lab.reconciler.known() == frozenset()
    assert not lab.reconciler.remove(lab.network.id)


def test_nothing_is_left_of_a_network_that_could_not_be_plugged(lab: Lab) -> None:
    this = simple(lab, vm(lab))
    assert this.own is not None
    in_the_way = f"tap{this.own.id[:11]}"
    run("ip", "link", "add", in_the_way, "type", "veth", "peer", "name", f"x{lab.tag}")
    try:
        with pytest.raises(NetlinkError, match="File exists"):
            lab.serve(this)
    finally:
        run("ip", "link", "del", in_the_way)
    assert lab.reconciler.known() == {lab.network.id}
    assert lab.reconciler.remove(lab.network.id)
    assert f"qdhcp-{lab.network.id}" not in run("ip", "netns", "list")
    assert lab.reconciler.known() == frozenset()


def test_a_network_that_is_down_is_not_served(lab: Lab) -> None:
    lab.serve(simple(lab, vm(lab)))
    down = simple(lab, vm(lab), admin_state_up=False)
    assert not down.is_served
    assert lab.reconciler.plan(down)[0] == [f"network {lab.network.id} is not served here any more"]
    lab.reconciler.remove(down.id)
    assert lab.reconciler.known() == frozenset()


def test_the_switch_port_has_the_ids_of_its_port(lab: Lab) -> None:
    this = simple(lab, vm(lab))
    lab.serve(this)
    assert this.own is not None
    name = f"tap{this.own.id[:11]}"
    ids = lab.switch.vsctl("get", "interface", name, "external_ids")
    for word in (f'iface-id="{this.own.id}"', "iface-status=active", f'attached-mac="{this.own.mac_address}"'):
        assert word in ids


def test_an_internal_port_on_the_kernel_datapath(switch: OpenVSwitch) -> None:
    with Lab(switch, use_veth=False) as lab:
        this = simple(lab, vm(lab))
        lab.serve(this)
        assert lab.reconciler.plan(this) == ([], ())
        assert lab.client(vm(lab)).udhcpc()["ip"] == "10.0.0.11"
        lab.reconciler.remove(lab.network.id)
        assert lab.switch.vsctl("list-ports", lab.bridge).split() == [lab.clients[0][1]]


@pytest.mark.parametrize("use_veth", [True, False], ids=["to a veth pair", "to an internal port"])
def test_a_device_of_the_other_kind_is_plugged_anew(switch: OpenVSwitch, use_veth: bool) -> None:
    """As when ovs_use_veth changes."""
    with Lab(switch, use_veth=not use_veth) as lab:
        this = simple(lab, vm(lab))
        lab.serve(this)
        own = f"tap{this.own.id[:11]}" if this.own is not None else ""
        lab.reconciler.settings = dataclasses.replace(lab.settings, use_veth=use_veth)
        changes, _ = lab.reconciler.plan(this)
        assert f"{this.namespace} port {own} has to be plugged anew" in changes
        lab.serve(this)
        assert (lab.switch.vsctl("get", "interface", own, "type") == "internal") is not use_veth
        assert lab.reconciler.plan(this) == ([], ())
        assert lab.client(vm(lab)).udhcpc()["ip"] == "10.0.0.11"


@pytest.mark.parametrize("internal", [False, True], ids=["to a veth pair", "to an internal port"])
def test_a_routers_device_of_the_other_kind_is_plugged_anew(lab: Lab, internal: bool) -> None:
    """The internal port has the name that the inner end of the veth pair has."""
    port_id = str(uuid.uuid4())
    inner, outer, mac = f"qr-{port_id[:11]}", f"tap{port_id[:11]}", "fa:16:3e:00:00:01"
    services, name = lab.reconciler.services, f"qrouter-{lab.tag}"

    def desired(internal: bool) -> DesiredNamespace:
        return DesiredNamespace(
            name,
            devices=(DesiredDevice(inner, peer="" if internal else outer, mac=mac),),
            addresses=frozenset({address(inner, "10.0.0.1/24")}),
            device_prefixes=("qr-",),
            plugs=(Plug(lab.bridge, inner if internal else outer, port_id, mac, internal),),
        )

    try:
        services.reconcile(desired(not internal))
        assert services.find(desired(not internal)) == []
        assert any("has to be plugged anew" in line for line in services.find(desired(internal)))
        services.reconcile(desired(internal))
        assert services.find(desired(internal)) == []
        assert lab.switch.vsctl("list-ports", lab.bridge).split() == [inner if internal else outer]
        (found,) = (each for each in services.netlink.read(name).devices.values() if each.name == inner)
        assert (found.kind == "veth") is not internal
        assert address(inner, "10.0.0.1/24") in services.netlink.read(name).addresses
        assert services.reconcile(desired(internal)).changes == 0
    finally:
        services.remove(name)


def programs(leftovers: Leftovers, namespace: str) -> set[str]:
    return {Path(each.argv[0]).name for each in leftovers.processes.inside(namespace)}


def test_a_namespace_of_neutrons_agent_is_taken_over(switch: OpenVSwitch, tmp_path: Path) -> None:
    """With an internal port where ours is a veth pair, without our mark, and with a metadata proxy in it."""
    with Lab(switch, use_veth=True) as lab:
        this = simple(lab, vm(lab))
        assert this.own is not None
        name = f"tap{this.own.id[:11]}"
        run("ip", "netns", "add", this.namespace)
        ids = f"external_ids:iface-id={this.own.id}"
        lab.switch.vsctl("add-port", lab.bridge, name, "--", "set", "interface", name, "type=internal", ids)
        run("ip", "link", "set", name, "netns", this.namespace)
        stand_in = tmp_path / this.id / "haproxy"
        stand_in.parent.mkdir()
        stand_in.symlink_to("/usr/bin/sleep")
        inside = ["ip", "netns", "exec", this.namespace]
        haproxy = subprocess.Popen([*inside, str(stand_in), "600"])
        other = subprocess.Popen([*inside, "sleep", "600"])
        try:
            before = Path(f"/run/netns/{this.namespace}").stat().st_ino
            leftovers = Leftovers(lab.reconciler.services, RealForeignProcesses(), str(lab.directory))
            wait_until(
                # By name: `ip netns exec` is in the namespace a moment before it becomes the program.
                lambda: programs(leftovers, this.namespace) == {"haproxy", "sleep"},
                timeout=10,
                what="processes in the namespace",
                failed=lambda: None,
            )
            assert leftovers.find(NAMESPACE_KIND, ()) >= {this.id}
            lab.reconciler.leftovers = leftovers
            lab.reconciler.__post_init__()
            lab.serve(this)
            assert haproxy.poll() is None, "the metadata role replaces it"
            assert other.poll() is None, "no daemon of Neutron's"
            assert Path(f"/run/netns/{this.namespace}").stat().st_ino == before
            assert lab.reconciler.plan(this) == ([], ())
            assert lab.client(vm(lab)).udhcpc()["ip"] == "10.0.0.11"
        finally:
            for process in (haproxy, other):
                process.kill()
                process.wait()


@pytest.mark.parametrize("use_veth", [True, False], ids=["veth pair", "internal port"])
def test_replies_carry_their_checksum(switch: OpenVSwitch, use_veth: bool) -> None:
    """A client reads raw frames and drops a reply whose checksum was left to hardware. A device put back is repaired."""
    with Lab(switch, use_veth=use_veth) as lab:
        this = simple(lab, vm(lab))
        lab.serve(this)
        client, device = lab.client(vm(lab)), lab.dnsmasq.read(this.id, "interface")
        if use_veth:
            run("ip", "netns", "exec", this.namespace, "ethtool", "-K", str(device), "tx", "on")
            assert lab.serve(this).changed
        assert not lab.netlink.read(this.namespace).devices[str(device)].tx_checksum
        assert lab.reconciler.plan(this) == ([], ())
        sniffer = Namespaces().run(client.namespace, lambda: sniff(client.device))
        with sniffer:
            frames = captured(sniffer, 68, client.udhcpc)
        assert len(frames) >= 2, "an offer and an acknowledgement"
        assert all(map(has_right_checksum, frames))


def test_another_dhcp_port_takes_the_place_of_the_old(lab: Lab) -> None:
    network = lab.network
    v4 = network.subnet(1)
    lab.serve(simple(lab, vm(lab)))
    new = network.dhcp_port(0xE7, "10.0.0.3", on=(v4,))
    this = network.network((v4,), new, vm(lab))
    lab.serve(this)
    assert lab.switch.vsctl("list-ports", lab.bridge) == f"tap{new.id[:11]}"
    assert lab.reconciler.plan(this) == ([], ())
    assert lab.client(vm(lab)).udhcpc()["serverid"] == "10.0.0.3"


def test_a_dnsmasq_of_neutrons_agent_is_replaced(lab: Lab) -> None:
    """It carries no marks, and is known by the pid file on its command line."""
    this = simple(lab, vm(lab))
    lab.serve(this)
    argv = Path(f"/proc/{lab.pid(this.id)}/cmdline").read_text().split("\0")[:-1]
    lab.processes.stop(lab.processes.running()[f"dnsmasq {this.id}"])
    run("ip", "netns", "exec", this.namespace, *(word for word in argv if word != "--keep-in-foreground"))
    (foreign,) = lab.dnsmasq.pids(this.id)
    assert lab.reconciler.is_running(this.id)
    assert lab.serve(this).action is Action.START
    assert not is_running(foreign)
    assert list(lab.dnsmasq.pids(this.id, scan=True)) == [lab.pid(this.id)]
    assert lab.client(vm(lab)).udhcpc()["ip"] == "10.0.0.11"


def test_a_failed_start_has_the_reason(switch: OpenVSwitch, tmp_path: Path) -> None:
    wrong = tmp_path / "dnsmasq.conf"
    wrong.write_text("no-such-option\n")
    with Lab(switch, dnsmasq_config_file=str(wrong)) as lab, pytest.raises(ProcessError, match="bad option at line 1"):
        lab.serve(simple(lab, vm(lab)))
