"""The hybrid firewall across hosts: ports that are filtered on a bridge of their own, beside a host with the native one."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.addresses import link_local
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_frames import EVERYBODY, advertises, arp_request, arriving, datagram, ends, routes
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    Guest,
    Spec,
    add_rule,
    allow,
    attempts,
    can_ping,
    connections,
    expect,
    flows,
    make_group,
    make_guests,
    make_network,
    wait_to_fall_silent,
    wait_until_reachable,
)

HYBRID_HOSTS = ("h1", "h2")
ETHERTYPE = {4: "IPv4", 6: "IPv6"}
NOT_MINE = {4: "10.0.0.240", 6: "fd00:10::240"}
OTHER_MAC = "02:00:00:00:00:98"
NOBODY = "10.0.0.254"
UNSECURED = {"port_security_enabled": False, "security_groups": []}


@dataclasses.dataclass(frozen=True)
class Place:
    lab: Lab
    network: Object
    clients: str
    open: str
    client: Guest  # on h1, hybrid
    servers: tuple[Guest, Guest]  # on h1 and h2, hybrid
    native: Guest  # on h3, whose firewall is the switch's
    ear: Guest  # on h3, without port security: it hears all that comes

    def serve(self, *groups: str) -> None:
        for server in self.servers:
            server.update(security_groups=list(groups))


@pytest.fixture(scope="module")
def place(lab: Lab) -> Place:
    _restart(lab, dict.fromkeys(HYBRID_HOSTS, "iptables_hybrid"))
    clients, _ = make_group(lab, "clients")
    everybody, _ = make_group(lab, "open", *EVERYTHING)
    net = make_network(lab, "blue")
    client, near, far, native, ear = make_guests(
        lab,
        Spec("client", net, "h1", [clients]),
        Spec("near", net, "h1", [everybody]),
        Spec("far", net, "h2", [everybody]),
        Spec("native", net, "h3", [everybody]),
        Spec("ear", net, "h3", values=UNSECURED),
    )
    return Place(lab, net, clients, everybody, client, (near, far), native, ear)


def test_such_ports_are_plugged_through_a_bridge_and_not_filtered_in_the_switch(place: Place) -> None:
    for guest in (place.client, *place.servers):
        assert guest.port["binding:vif_details"]["ovs_hybrid_plug"] is True
        assert guest.vm.switch_device.startswith("qvo")
        assert guest.vm.bridge in place.lab.run(guest.host, ["ip", "-br", "link", "show", "type", "bridge"]).stdout
    assert place.native.port["binding:vif_details"]["ovs_hybrid_plug"] is False
    assert not any("table=71" in line and "reg5" in line for line in flows(place.lab, "h1").splitlines())
    expect(attempts(place.client, [*place.servers, place.native]))


def test_nothing_comes_in_unless_a_rule_lets_it(place: Place) -> None:
    closed, _ = make_group(place.lab, "closed")
    place.serve(closed)
    own = attempts(place.servers, [place.native])
    expect(own, attempts([place.client, place.native], place.servers))
    for server in place.servers:
        assert not can_ping(place.native, server)
        wait_until_reachable(server, place.native, 6)


def test_rules_that_another_program_flushes_come_back(place: Place) -> None:
    """As a reload of firewalld does; by the check for drift, every repair_interval, which is two seconds here."""
    closed, _ = make_group(place.lab, "flushed")
    place.serve(closed)
    expect([], attempts(place.native, place.servers))
    tools = [(server.host, tool) for server in place.servers for tool in ("iptables", "ip6tables")]
    for host, tool in tools:
        place.lab.run(host, [tool, "-F", "FORWARD"])
    for host, tool in tools:
        listed = [tool, "-S", "FORWARD"]
        wait_until(
            lambda host=host, listed=listed: "neutron-openvswi-FORWARD" in place.lab.run(host, listed).stdout,
            SOON,
            "the rules are not put back",
        )
    expect(attempts(place.servers, [place.native]), attempts(place.native, place.servers))


def test_a_rule_and_its_connections_while_it_is_there(place: Place) -> None:
    lab = place.lab
    group, rules = make_group(lab, "web", *_tcp(80), *_tcp(7002))
    place.serve(group)
    callers = [place.client, place.native]
    one, two = attempts(callers, place.servers, 80), attempts(callers, place.servers, 7002)
    expect([*one, *two], attempts(callers, place.servers, 81))
    with contextlib.ExitStack() as stack:
        ending, staying = connections(stack, one), connections(stack, two)
        for rule in rules[:2]:
            lab.api.delete("security_group_rule", rule)
        wait_to_fall_silent(*ending)
        assert all(connection.talks() for connection in staying)
    expect(two, one)


def test_by_remote_group(place: Place) -> None:
    group, _ = make_group(place.lab, "members", *_tcp(80, remote_group_id=place.clients))
    place.serve(group)
    mine, theirs = attempts(place.client, place.servers), attempts(place.native, place.servers)
    expect(mine, [*theirs, *attempts(place.client, place.servers, 81)])
    place.native.update(security_groups=[place.open, place.clients])
    expect([*mine, *theirs])
    with contextlib.ExitStack() as stack:
        staying, leaving = connections(stack, mine), connections(stack, theirs)
        place.native.update(security_groups=[place.open])
        wait_to_fall_silent(*leaving)
        assert all(connection.talks() for connection in staying)
    expect(mine, theirs)


def test_packets_are_logged(place: Place) -> None:
    """Accepted and dropped ones, in the agent's log: `local_output_log_base` is not set."""
    lab, server = place.lab, place.servers[0]
    group, _ = make_group(lab, "logged", allow("udp", 7000), allow("udp", 7000, ethertype="IPv6"))
    place.serve(group)
    values = {"resource_type": "security_group", "name": "hybrid", "target_id": server.port_id}
    made = lab.api.request("POST", "/v2.0/log/logs", {"log": values})["log"]

    def rules() -> str:
        return str(lab.run(server.host, ["iptables-save", "-t", "filter"]).stdout)

    def is_read() -> bool:
        """Whether the agent reads netfilter's log."""
        return bool(lab.run(server.host, ["cat", "/proc/net/netfilter/nfnetlink_log"]).stdout.strip())

    def lines(port: int) -> list[str]:
        text = lab.paths.log(f"{server.host}-agent").read_text()
        return [line for line in text.splitlines() if "network_log" in line and f" src_port={port} " in line]

    wait_until(lambda: "-j NFLOG" in rules() and is_read(), SOON, "no rule copies packets")
    for version, number, action in ((4, 7000, "ACCEPT"), (4, 7001, "DROP"), (6, 7000, "ACCEPT"), (6, 7001, "DROP")):
        with place.native.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", (server.addresses[version], number))
            port = int(sender.getsockname()[1])
        wait_until(lambda port=port: lines(port) != [], SOON, f"IPv{version} to port {number} is not logged")  # type: ignore[misc]
        (line,) = lines(port)
        for word in (
            *(f"action={action}", f"log_resource_ids=['{made['id']}']", f"vm_port={server.port_id}"),
            *("direction=ingress", f"eth_src={place.native.mac}", f"src={place.native.addresses[version]}"),
        ):
            assert word in line, line
    with server.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", (place.native.addresses[4], 7009))
        port = int(sender.getsockname()[1])
    wait_until(lambda: lines(port) != [], SOON, "what it sends is not logged")
    assert "action=ACCEPT" in lines(port)[0]
    assert "direction=egress" in lines(port)[0]
    lab.api.request("DELETE", f"/v2.0/log/logs/{made['id']}")
    wait_until(lambda: "NFLOG" not in rules(), SOON, "rules of the log are left")


def test_egress(place: Place) -> None:
    silent, _ = make_group(place.lab, "silent", lets_out=False)
    place.serve(place.open)
    place.client.update(security_groups=[silent])
    targets = [*place.servers, place.native]
    expect(attempts(place.native, place.servers), attempts(place.client, targets))
    for rule in _tcp(80, direction="egress"):
        add_rule(place.lab, silent, rule)
    expect(attempts(place.client, targets), attempts(place.client, targets, 81))
    place.client.update(security_groups=[place.clients])
    expect(attempts(place.client, targets, 81))


def test_lies_are_dropped_and_the_truth_passes(place: Place) -> None:
    liar, ear = place.client, place.ear
    own4, own6, local = liar.addresses[4], liar.addresses[6], str(link_local(liar.mac))
    truths = {
        "datagram": datagram((liar.mac, own4), ends(ear)),
        "IPv6 datagram": datagram((liar.mac, own6), ends(ear, 6)),
        "ARP": arp_request(liar.mac, (liar.mac, own4), NOBODY),
        "advertisement": advertises(liar.mac, own6),
        "DHCP client": datagram((liar.mac, "0.0.0.0"), (EVERYBODY, "255.255.255.255"), (68, 67)),
    }
    lies = {
        "a MAC": datagram((OTHER_MAC, own4), ends(ear)),
        "an address": datagram((liar.mac, NOT_MINE[4]), ends(ear)),
        "an IPv6 address": datagram((liar.mac, NOT_MINE[6]), ends(ear, 6)),
        "ARP for another": arp_request(liar.mac, (liar.mac, NOT_MINE[4]), NOBODY),
        "ARP with another MAC": arp_request(liar.mac, (OTHER_MAC, own4), NOBODY),
        "advertisement for another": advertises(liar.mac, NOT_MINE[6]),
        "router advertisement": routes(liar.mac),
        "DHCP server": datagram((liar.mac, own4), (EVERYBODY, "255.255.255.255"), (67, 68)),
        "DHCPv6 server": datagram((liar.mac, local), (ear.mac, str(link_local(ear.mac))), (547, 546)),
    }
    assert arriving(liar, ear, truths | lies, truths["datagram"]) == truths.keys()


def test_after_a_change_of_the_driver_each_port_is_filtered_where_it_was_plugged(place: Place) -> None:
    group, _ = make_group(place.lab, "web", *_tcp(80))
    near, far = place.servers
    _restart(place.lab, {"h1": "openvswitch", "h3": "iptables_hybrid"})
    late = make_guests(place.lab, Spec("late", place.network, "h3", [group]))[0]
    assert late.vm.switch_device.startswith("qvo")
    place.serve(group)
    place.native.update(security_groups=[group])
    servers = [near, place.native, late]
    expect(attempts(far, servers), attempts(far, servers, 81))


def _restart(lab: Lab, drivers: Mapping[str, str]) -> None:
    """These hosts' agents anew, with these firewall drivers."""

    def restart(host: str) -> None:
        lab.stop_agent(host)
        lab.start_agent(
            host,
            {"securitygroup": {"firewall_driver": drivers[host]}, "agent": {"repair_interval": 2, "check_interval": 5}},
        )

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(restart, drivers))


def _tcp(number: int, **more: Any) -> list[dict[str, Any]]:
    return [allow("tcp", number, ethertype=kind) | more for kind in ETHERTYPE.values()]
