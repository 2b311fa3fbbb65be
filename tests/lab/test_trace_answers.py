"""Answers of hosts to traces, compared with real packets: across hosts, through a router, with translations and drift."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from neutrino.model.trace import Cause, Exit, HostAnswer, Packet, Point, PointKind, Question
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, allow, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    SOON,
    can_connect,
    external_network,
    floating_ip,
    gateway_address,
    in_router,
    make_router,
    place_router,
    source_seen,
    tenant_network,
    wait_until_reachable,
)
from tests.support.trace_host import ask, follow, from_port, show, stop_answering, tcp, text_of

NOWHERE = "02:00:00:00:00:77"


@dataclasses.dataclass
class Site:
    """blue on both hosts, red on the second; the router is on the first."""

    lab: Lab
    out: Object
    router: Object
    guests: dict[str, Guest]
    macs: dict[str, str]  # by address

    def four(self, name: str) -> str:
        return self.guests[name].addresses[4]

    def question(self, source: str, target: str, port: int, *, address: str = "", **values: object) -> Question:
        """From an instance to another, by the router where it is on another subnet."""
        own, to = self.four(source), address or self.four(target)
        near = to.rpartition(".")[0] == own.rpartition(".")[0]
        gateway = f"{own.rpartition('.')[0]}.1"
        ends = self.macs[own], self.macs[to if near else gateway]
        return from_port(self.guests[source].port_id, tcp(ends, own, to, port, **values))

    def from_outside(self, address: str, port: int) -> Question:
        gateway = self.macs[gateway_address(self.lab, self.router)]
        packet = tcp((NOWHERE, gateway), MACHINE, address, port)
        return Question(point=Point(kind=PointKind.PHYSICAL, physical_network="external"), packet=packet)


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    out = external_network(lab)
    blue, red = tenant_network(lab, "blue", 1, six=False), tenant_network(lab, "red", 2, six=False)
    router = make_router(lab, out, blue, red)
    group, _ = make_group(lab, "open", *EVERYTHING)
    shut, _ = make_group(lab, "shut", allow("tcp", 22, remote_group_id=group))
    guests = make_guests(
        lab,
        Spec("a", blue, "h1", [group]),
        Spec("b", blue, "h2", [group]),
        Spec("c", red, "h2", [group]),
        Spec("shut", blue, "h1", [shut]),
    )
    place_router(lab, router, "h1")
    for name in ("a", "c"):
        wait_until_reachable(lab, name, MACHINE)
    macs = {fixed["ip_address"]: port["mac_address"] for port in lab.api.list("port") for fixed in port["fixed_ips"]}
    yield Site(lab, out, router, {guest.name: guest for guest in guests}, macs)
    stop_answering(lab)


def last(answers: list[tuple[str, HostAnswer]]) -> Exit:
    """The end of the last host's answer."""
    found = answers[-1][1]
    assert len(found.exits) == 1, text_of(answers)
    return found.exits[0]


@pytest.mark.parametrize(
    "source, target, port, hosts, passes",
    [
        ("a", "shut", 22, ["h1"], True),
        ("a", "shut", 23, ["h1"], False),
        ("a", "b", 8080, ["h1", "h2"], True),
        ("c", "shut", 22, ["h2", "h1"], True),
        ("b", "c", 8080, ["h2", "h1", "h2"], True),
    ],
)
def test_a_packet_ends_where_real_ones_do(
    site: Site, source: str, target: str, port: int, hosts: list[str], passes: bool
) -> None:
    wait_until(
        lambda: can_connect(site.lab, source, target, site.four(target), port) == passes,
        SOON,
        f"real packets have another fate than expected: passes={passes}",
    )
    answers = follow(site.lab, hosts[0], site.question(source, target, port))
    assert [host for host, _ in answers] == hosts, text_of(answers)
    if passes:
        assert last(answers).point == Point(kind=PointKind.PORT, port_id=site.guests[target].port_id), text_of(answers)
    else:
        assert last(answers).cause == Cause.SECURITY_GROUP_INGRESS, text_of(answers)
    assert not [line for _, found in answers for line in found.drift], text_of(answers)


def test_a_spoofed_source(site: Site) -> None:
    question = site.question("a", "b", 8080)
    forged = Packet(**{**_values(question.packet), "source": "10.0.1.250"})
    assert last(follow(site.lab, "h1", from_port(site.guests["a"].port_id, forged))).cause == Cause.ADDRESS_SPOOFED


def _values(packet: Packet) -> dict[str, object]:
    return {name: getattr(packet, name) for name in packet.__struct_fields__}


def test_sources_outside_are_those_that_the_machine_sees(site: Site) -> None:
    fip = floating_ip(site.lab, site.out, site.guests["b"].port_id)
    try:
        for name, host in (("a", "h1"), ("b", "h2")):
            seen = source_seen(site.lab, name, EXTERNAL, MACHINE)
            answers = follow(site.lab, host, site.question(name, "", 8080, address=MACHINE))
            found = last(answers)
            assert found.point is not None, text_of(answers)
            assert (found.point.kind, found.packet.source) == (PointKind.PHYSICAL, seen), text_of(answers)
        address = fip["floating_ip_address"]
        assert source_seen(site.lab, EXTERNAL, "b", address) == MACHINE
        answers = follow(site.lab, "h1", site.from_outside(address, 8080))
        assert last(answers).point == Point(kind=PointKind.PORT, port_id=site.guests["b"].port_id), text_of(answers)
        owners = {(each.owner_kind, each.owner_id) for _, found in answers for each in found.observations}
        assert ("floatingip", fip["id"]) in owners
    finally:
        site.lab.api.delete("floatingip", fip["id"])


def test_changes_by_hand_are_named(site: Site) -> None:
    """With the agent stopped, as it repairs them within seconds."""
    lab, a = site.lab, site.guests["a"]
    lab.stop_agent("h1")
    try:
        lab.run("h1", ["ovs-ofctl", "--strict", "del-flows", "br-int", f"table=25,priority=2,{_sender(site, 'a')}"])
        (found,) = ask(lab, "h1", site.question("a", "b", 8080))
        assert found.exits[0].cause == Cause.DRIFT, show(found)
        assert any(line.startswith("br-int + ") and "table=25" in line for line in found.drift), show(found)
        assert not can_connect(lab, "a", "b", site.four("b"))

        in_router(lab, site.router, "h1", "ip", "route", "del", "default")
        (found,) = ask(lab, "h1", site.question("shut", "", 80, address="198.51.100.7"))
        assert found.exits[0].cause == Cause.DRIFT, show(found)
        assert any("set route 0.0.0.0/0" in line for line in found.drift), show(found)
    finally:
        lab.start_agent("h1")
    wait_until(lambda: not ask(lab, "h1", site.question("a", "b", 8080))[0].drift, SOON, "the drift is not repaired")
    assert a.port_id in {each.owner_id for each in ask(lab, "h1", site.question("a", "b", 8080))[0].observations}


def _sender(site: Site, name: str) -> str:
    dump = site.lab.run("h1", ["ovs-ofctl", "dump-flows", "br-int", f"table=25,dl_src={site.macs[site.four(name)]}"])
    (line,) = (line for line in dump.stdout.splitlines() if "in_port=" in line)
    return line.rpartition("priority=2,")[2].split()[0]


def test_ports_that_are_down_or_gone(site: Site) -> None:
    lab, shut = site.lab, site.guests["shut"]
    lab.api.update("port", shut.port_id, admin_state_up=False)
    try:
        wait_until(
            lambda: last(follow(lab, "h1", site.question("a", "shut", 22))).cause == Cause.PORT_ADMIN_DOWN,
            SOON,
            "the port is not down",
        )
        wait_until(
            lambda: last(follow(lab, "h1", site.question("shut", "a", 22))).cause == Cause.PORT_ADMIN_DOWN,
            SOON,
            "the port is not down as a source",
        )
        assert not can_connect(lab, "a", "shut", site.four("shut"), 22)
    finally:
        lab.api.update("port", shut.port_id, admin_state_up=True)
    (found,) = ask(lab, "h2", site.question("shut", "a", 22))
    assert found.exits[0].cause == Cause.NO_DEVICE, show(found)
