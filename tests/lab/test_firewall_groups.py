"""Firewall groups on real packets, through the API: routers of every kind, and instance ports."""

from __future__ import annotations

import contextlib
import dataclasses
import select
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.firewall import (
    GRE,
    ICMP,
    LOST,
    PASSES,
    PATIENCE,
    REFUSED,
    SCTP,
    SECONDS,
    TCP,
    UDP,
    assert_fates,
    first_packet,
)
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    INTERFACES,
    MACHINE,
    SOON,
    active_host,
    connect,
    external_network,
    failed_host,
    floating_ip,
    in_router,
    make_router,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
)
from tests.support.single_packets import new_token, packet

CENTRAL = ("h1", "h2")
KINDS: dict[str, dict[str, bool]] = {
    "legacy": {},
    "ha": {"ha": True},
    "dvr": {"distributed": True},
    "dvr-ha": {"distributed": True, "ha": True},
}
NAMES = {TCP: "tcp", UDP: "udp", ICMP: "icmp"}


class Firewalls:
    """Rules, policies and groups, deleted in the right order."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._made: list[tuple[str, str]] = []

    def _create(self, kind: str, **values: Any) -> Object:
        singular = kind.removesuffix("s").replace("policie", "policy")
        found: Object = self._lab.api.request("POST", f"/v2.0/fwaas/{kind}", {singular: values})[singular]
        self._made.append((kind, found["id"]))
        return found

    def rule(self, action: str, protocol: int | None = None, **values: Any) -> str:
        given = {"action": action, "protocol": NAMES.get(protocol) if protocol else None, **values}
        return str(self._create("firewall_rules", **given)["id"])

    def policy(self, *rules: str) -> str:
        return str(self._create("firewall_policies", name="policy", firewall_rules=list(rules))["id"])

    def group(self, ports: list[str], ingress: str | None = None, egress: str | None = None, **values: Any) -> str:
        policies = {"ingress_firewall_policy_id": ingress, "egress_firewall_policy_id": egress}
        made = self._create("firewall_groups", name="group", ports=ports, **policies, **values)
        self.wait_active(made["id"])
        return str(made["id"])

    def update(self, kind: str, key: str, **values: Any) -> None:
        self._lab.api.request("PUT", f"/v2.0/fwaas/{kind}s/{key}", {kind: values})

    def remove_rule(self, policy: str, rule: str) -> None:
        path = f"/v2.0/fwaas/firewall_policies/{policy}/remove_rule"
        self._lab.api.request("PUT", path, {"firewall_rule_id": rule})

    def wait_active(self, key: str, status: str = "ACTIVE") -> None:
        def reached() -> bool:
            found = self._lab.api.request("GET", f"/v2.0/fwaas/firewall_groups/{key}")["firewall_group"]
            return bool(found["status"] == status)

        wait_until(reached, SOON, f"the group is not {status}")

    def close(self) -> None:
        for kind in ("firewall_groups", "firewall_policies", "firewall_rules"):
            for key in (key for made, key in self._made if made == kind):
                if kind == "firewall_groups":
                    self.update("firewall_group", key, ports=[])  # one that filters ports cannot be deleted
                self._lab.api.request("DELETE", f"/v2.0/fwaas/{kind}/{key}")


@dataclasses.dataclass
class Site:
    """A router of each kind between `<kind>-blue` on h3, `<kind>-red` on h2, and `<kind>-near` beside red, on h3."""

    lab: Lab
    out: Object
    routers: dict[str, Object]
    guests: dict[str, Guest]

    def blue_ports(self, kind: str) -> list[str]:
        """The router's ports on the blue network."""
        network = self.lab.api.show("port", self.guests[f"{kind}-blue"].port_id)["network_id"]
        ports = self.lab.api.list("port", device_id=self.routers[kind]["id"], network_id=network)
        return [port["id"] for port in ports if port["device_owner"] in INTERFACES]

    def send(
        self,
        client: str,
        server: str,
        protocol: int,
        port: int = 0,
        *,
        to: str = "",
        version: int = 4,
        size: int = 0,
    ) -> str:
        target = to or (MACHINE if server == EXTERNAL else self.guests[server].addresses[version])
        if protocol == ICMP:
            argv = ["ping", "-n", "-q", "-c", "1", "-W", "0.5", target]
            return PASSES if self.lab.run(client, argv, check=False).returncode == 0 else LOST
        ends = partial(self._socket, client), partial(self._socket, server)
        return first_packet(*ends, protocol, target, port, size=size)

    def send_one(self, client: str, server: str, protocol: int, *, reply: bool = False) -> str:
        """What becomes of one packet of a protocol that no stack here knows; with `reply`, of an answer to one."""
        ends = self.guests[client].addresses[4], self.guests[server].addresses[4]
        token = new_token()
        sent = packet(protocol, *ends, 5000, reply=reply, payload=token)[20:]  # a raw socket adds the IP header
        raw = [
            self.lab.inside(name, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol))
            for name in (client, server)
        ]
        with raw[0] as here, raw[1] as there:
            here.sendto(sent, (ends[1], 0))
            return PASSES if select.select([there], [], [], SECONDS)[0] and token in there.recv(2000) else LOST

    def _socket(self, where: str, family: int, kind: int) -> socket.socket:
        made = self.lab.inside(where, lambda: socket.socket(family, kind))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return made


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    out = external_network(lab)
    group, _ = make_group(lab, "open", *EVERYTHING)
    routers, specs = {}, []
    for number, (kind, attributes) in enumerate(KINDS.items()):
        blue = tenant_network(lab, f"{kind}-blue", 2 * number + 1)
        red = tenant_network(lab, f"{kind}-red", 2 * number + 2)
        routers[kind] = make_router(lab, out, blue, red, **{"ha": False, "distributed": False, **attributes})
        places = ((f"{kind}-blue", blue, "h3"), (f"{kind}-red", red, "h2"), (f"{kind}-near", red, "h3"))
        specs += [Spec(*place, [group]) for place in places]
        if kind == "legacy":
            specs.append(Spec("peer", blue, "h3", [group]))
    guests = {guest.name: guest for guest in make_guests(lab, *specs)}
    for name in guests:
        wait_until_reachable(lab, name, MACHINE)
    return Site(lab, out, routers, guests)


@pytest.fixture
def firewalls(lab: Lab) -> Iterator[Firewalls]:
    made = Firewalls(lab)
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rule_on_every_kind_of_router(site: Site, firewalls: Firewalls, kind: str) -> None:
    blue, red, rule = f"{kind}-blue", f"{kind}-red", firewalls.rule
    ingress = firewalls.policy(
        rule("deny", TCP, destination_port="81"),
        rule("allow", TCP, destination_port="80:90"),
        rule("reject", TCP, destination_port="23"),
        rule("allow", UDP, destination_port="53", source_ip_address=site.guests[red].addresses[4]),
        rule("allow", TCP, destination_port="99", enabled=False),
        rule("allow", TCP, destination_port="80", ip_version=6),
    )
    egress = firewalls.policy(rule("allow", TCP, destination_port="8080", destination_ip_address=f"{MACHINE}/32"))
    firewalls.group(site.blue_ports(kind), ingress, egress)
    # ACTIVE is after the first host; a distributed router is on three.
    wait_until(
        lambda: site.send(red, blue, TCP, 81) == LOST == site.send(blue, EXTERNAL, ICMP), SOON, "it is not filtered"
    )
    # Between subnets, of a distributed router on two hosts.
    assert_fates(lambda port: site.send(red, blue, TCP, port), {80: PASSES, 81: LOST, 99: LOST, 23: REFUSED})
    assert_fates(lambda port: site.send(red, blue, UDP, port), {53: PASSES, 54: LOST})
    assert_fates(lambda port: site.send(red, blue, TCP, port, version=6), {80: PASSES, 82: LOST})
    assert site.send(red, blue, ICMP) == site.send(blue, red, TCP, 8080) == LOST
    # To and from the outside: by the router's address, then by a floating IP. The other network is not affected.
    assert_fates(lambda port: site.send(blue, EXTERNAL, TCP, port), {8080: PASSES, 8081: LOST})
    assert_fates(lambda port: site.send(red, EXTERNAL, TCP, port), {8081: PASSES})
    public = floating_ip(site.lab, site.out, site.guests[blue].port_id)
    address = public["floating_ip_address"]
    wait_until(lambda: site.send(EXTERNAL, blue, TCP, 80, to=address) == PASSES, SOON, "the floating IP does not work")
    assert_fates(lambda port: site.send(EXTERNAL, blue, TCP, port, to=address), {81: LOST, 90: PASSES, 23: REFUSED})
    assert site.send(EXTERNAL, blue, UDP, 53, to=address) == LOST, "from another source"
    assert_fates(lambda port: site.send(blue, EXTERNAL, TCP, port), {8080: PASSES, 8081: LOST})
    site.lab.api.delete("floatingip", public["id"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_no_rule_matches_is_dropped_whatever_may_be_sent_in_the_other_direction(
    site: Site, firewalls: Firewalls, kind: str
) -> None:
    """Every packet in could be a reply, as the rules allow everything out; none is one."""
    blue, rule = f"{kind}-blue", firewalls.rule
    ingress = firewalls.policy(rule("deny", ICMP), rule("allow", TCP, destination_port="80"))
    egress = firewalls.policy(rule("allow"), rule("allow", ip_version=6))
    firewalls.group(site.blue_ports(kind), ingress, egress)
    for other in (f"{kind}-red", f"{kind}-near"):
        wait_until(lambda other=other: site.send(other, blue, TCP, 81) == LOST, SOON, "it is not filtered")  # type: ignore[misc]
        assert_fates(lambda port, other=other: site.send(other, blue, TCP, port), {80: PASSES})  # type: ignore[misc]
        for version in (4, 6):
            assert site.send(other, blue, ICMP, version=version) == LOST
            assert site.send(other, blue, UDP, 5000, version=version) == LOST
            assert site.send(other, blue, TCP, 5000, version=version) == LOST
            assert_fates(
                lambda protocol, version=version, other=other: site.send(blue, other, protocol, 5000, version=version),  # type: ignore[misc]
                {TCP: PASSES, UDP: PASSES, ICMP: PASSES},
            )
            assert site.send(other, blue, ICMP, version=version) == LOST, "a request is no reply to another one"
            assert site.send(other, blue, UDP, 5001, version=version) == LOST, "nor is a packet to another port"
        for protocol in (SCTP, GRE):
            assert site.send_one(other, blue, protocol) == LOST
            assert_fates(lambda each, other=other: site.send_one(blue, other, each), {protocol: PASSES})  # type: ignore[misc]
            assert_fates(lambda each, other=other: site.send_one(other, blue, each, reply=True), {protocol: PASSES})  # type: ignore[misc]
        assert_fates(lambda size, other=other: site.send(blue, other, UDP, 5000, size=size), {4000: PASSES})  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["legacy", "ha", "dvr"])
def test_a_change_cuts_what_it_forbids_and_nothing_else(site: Site, firewalls: Firewalls, kind: str) -> None:
    blue, red, lab = f"{kind}-blue", f"{kind}-red", site.lab
    web, ssh = (firewalls.rule("allow", TCP, destination_port=port) for port in ("8000", "2222"))
    both = firewalls.policy(web, ssh)
    group = firewalls.group(site.blue_ports(kind), both, both)
    with contextlib.ExitStack() as stack:
        paths = ((red, blue, site.guests[blue].addresses[4]), (blue, EXTERNAL, MACHINE))
        cut = [stack.enter_context(connect(lab, *path, 8000)) for path in paths]
        kept = [stack.enter_context(connect(lab, *path, 2222)) for path in paths]
        assert all(each.passes_data(PATIENCE) for each in (*cut, *kept))
        firewalls.remove_rule(both, web)
        firewalls.wait_active(group)
        wait_until(lambda: not any(each.passes_data(0.5) for each in cut), SOON, "a forbidden connection goes on")
        assert all(each.passes_data(PATIENCE) for each in kept)
        firewalls.update("firewall_group", group, admin_state_up=False)
        wait_until(lambda: not any(each.passes_data(0.5) for each in kept), SOON, "a group that is down lets pass")
    firewalls.wait_active(group, "DOWN")


@pytest.mark.parametrize("kind", ["ha"])
def test_a_host_that_takes_over_filters_the_same(site: Site, firewalls: Firewalls, kind: str) -> None:
    blue, lab = f"{kind}-blue", site.lab
    web = firewalls.policy(firewalls.rule("allow", TCP, destination_port="8000"))
    firewalls.group(site.blue_ports(kind), None, web)
    active = active_host(lab, site.routers[kind], among=CENTRAL)
    with connect(lab, blue, EXTERNAL, MACHINE, 8000) as going_on, failed_host(lab, site.routers[kind], active):
        wait_until(lambda: site.send(blue, EXTERNAL, TCP, 8000) == PASSES, 2 * SOON, "no host takes over")
        assert going_on.passes_data(3 * PATIENCE)
        assert site.send(blue, EXTERNAL, TCP, 8001) == LOST
        assert site.send(blue, EXTERNAL, ICMP) == LOST


def test_an_instance_port_passes_its_group_and_its_security_groups(site: Site, firewalls: Firewalls) -> None:
    here, peer, lab = site.guests["legacy-blue"], "peer", site.lab
    ingress = firewalls.policy(
        firewalls.rule("deny", TCP, destination_port="81"),
        firewalls.rule("allow", TCP, destination_port="80:90"),
        firewalls.rule("allow", TCP, destination_port="80", ip_version=6),
    )
    egress = firewalls.policy(firewalls.rule("allow", UDP, destination_port="53"))
    group = firewalls.group([here.port_id], ingress, egress)

    def send(client: str, server: str, protocol: int, port: int = 0, version: int = 4) -> str:
        return site.send(client, server, protocol, port, version=version)

    assert_fates(lambda port: send(peer, here.name, TCP, port), {80: PASSES, 81: LOST, 91: LOST})
    assert_fates(lambda port: send(peer, here.name, TCP, port, 6), {80: PASSES, 82: LOST})
    assert_fates(lambda port: send(here.name, peer, UDP, port), {53: PASSES, 54: LOST})
    assert_fates(lambda port: site.send(here.name, peer, UDP, port, size=4000), {53: PASSES, 54: LOST})  # fragments
    assert_fates(lambda port: send("legacy-red", here.name, TCP, port), {85: PASSES})  # through the router
    assert send(peer, here.name, ICMP) == send(here.name, EXTERNAL, TCP, 80) == LOST
    with (
        connect(lab, peer, here.name, here.addresses[4], 85) as cut,
        connect(lab, "legacy-red", here.name, here.addresses[4], 86) as kept,
    ):
        assert cut.passes_data(PATIENCE)
        assert kept.passes_data(PATIENCE)
        rule = firewalls.rule("deny", TCP, destination_port="85")
        body = {"firewall_rule_id": rule, "insert_before": "", "insert_after": ""}
        lab.api.request("PUT", f"/v2.0/fwaas/firewall_policies/{ingress}/insert_rule", body)
        firewalls.wait_active(group)
        wait_until(lambda: not cut.passes_data(0.5), SOON, "a connection goes on that is forbidden")
        assert kept.passes_data(PATIENCE)
    firewalls.update("firewall_group", group, ports=[])
    wait_until(lambda: send(peer, here.name, ICMP) == PASSES, SOON, "the group's flows are still there")


def test_an_instance_port_answers_what_its_group_rejects(site: Site, firewalls: Firewalls) -> None:
    """In both directions: to a sender on the same host and behind the router, and to the instance itself."""
    here, lab = site.guests["legacy-blue"], site.lab
    rejected = [
        firewalls.rule("reject", protocol, destination_port="82", ip_version=version)
        for protocol in (TCP, UDP)
        for version in (4, 6)
    ]
    others = [firewalls.rule("allow", TCP, destination_port="85"), firewalls.rule("deny", TCP, destination_port="84")]
    policy = firewalls.policy(*rejected, *others)
    group = firewalls.group([here.port_id], policy, policy)
    for client, server in (
        ("peer", here.name),
        ("legacy-red", here.name),
        (here.name, "peer"),
        (here.name, "legacy-red"),
    ):
        for version in (4, 6):
            send = partial(site.send, client, server, version=version)
            assert_fates(lambda case: send(*case), {(TCP, 82): REFUSED, (UDP, 82): REFUSED})  # noqa: B023
        assert_fates(lambda port: site.send(client, server, TCP, port), {84: LOST, 85: PASSES})  # noqa: B023
    with connect(lab, "peer", here.name, here.addresses[4], 85) as cut:  # one that exists ends with a reset
        assert cut.passes_data(PATIENCE)
        rule = firewalls.rule("reject", TCP, destination_port="85")
        body = {"firewall_rule_id": rule, "insert_before": "", "insert_after": ""}
        lab.api.request("PUT", f"/v2.0/fwaas/firewall_policies/{policy}/insert_rule", body)
        firewalls.wait_active(group)
        cut.client.send(b"more")
        assert select.select([cut.client], [], [], PATIENCE)[0], "the sender gets no answer"
        with pytest.raises(ConnectionResetError):
            cut.client.recv(1)
    wait_until_no_drift(lab, "h3")


def test_there_is_no_drift_and_drops_are_counted(site: Site, firewalls: Firewalls) -> None:
    ports = [*site.blue_ports("legacy"), site.guests["legacy-red"].port_id]  # of the router, and of an instance on h2
    group = firewalls.group(ports, firewalls.policy(), firewalls.policy(firewalls.rule("allow")))
    assert site.send("legacy-red", "legacy-blue", TCP, 80) == LOST
    lab, router = site.lab, site.routers["legacy"]
    host = next(each for each in CENTRAL if f"qrouter-{router['id']}" in lab.run(each, ["ip", "netns"]).stdout)
    counters = in_router(lab, router, host, "nft", "list", "counters", "table", "inet", "neutrino")
    assert "packets 0 " not in counters.split(f"firewall_ingress_{group}")[1].split("}")[0]
    for each in {host, "h2"}:
        wait_until_no_drift(lab, each)
