"""The port layout of a router by its kind: planned from any state, and stable once it is reached."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from neutrino.features.router.routers.port_layout import (
    Address,
    PortPlan,
    RouterAgent,
    RouterPort,
    central_host,
    plan_ports,
)
from neutrino.features.router.scheduling.candidates import CHANCE, LEAST, choose_agents, driver_named, fits
from neutrino.model.device_owners import DVR_INTERFACE, GATEWAY, HA_INTERFACE, HA_PORT, INTERFACE, SNAT
from neutrino.server.scheduling.placements import Candidate

KINDS = list(itertools.product((False, True), repeat=3))


def router(distributed: bool = False, ha: bool = False, gateway: bool = False) -> dict[str, Any]:
    return {"id": "r", "distributed": distributed, "ha": ha, "gw_network_id": "out" if gateway else None}


def port(key: str, type_: str, host: str = "", *subnets: str) -> RouterPort:
    addresses = tuple(Address(s, f"10.{s}.0.1", f"10.{s}.0.0/24") for s in subnets)
    return RouterPort(key, type_, "net", host, "", addresses)


def carried_out(
    plan: PortPlan, ports: tuple[RouterPort, ...], agents: tuple[RouterAgent, ...], host: str
) -> tuple[tuple[RouterPort, ...], tuple[RouterAgent, ...]]:
    """The ports and agents when a plan has been carried out."""
    gone = {p.id for p in plan.delete}
    out = []
    for one in ports:
        if one.id in gone:
            continue
        place = plan.move.get(one.id)
        out.append(one if place is None else replace(one, type=place.type, host=place.host))
    out += [replace(p, id=f"snat-{p.id}", type=SNAT, host=host) for p in plan.add_snat_for]
    lacking = {agent.agent_id for agent in plan.add_ha_port_for}
    new = tuple(replace(a, ha_port_id=f"ha-{a.agent_id}") if a.agent_id in lacking else a for a in agents)
    out += [port(f"ha-{key}", HA_PORT, key) for key in sorted(lacking)]
    return tuple(out), new


@pytest.mark.parametrize(("distributed", "ha", "gateway"), KINDS)
@pytest.mark.parametrize("before", KINDS)
def test_any_kind_becomes_any_other(
    before: tuple[bool, bool, bool], distributed: bool, ha: bool, gateway: bool
) -> None:
    ports: tuple[RouterPort, ...] = (port("i", INTERFACE, "h1", "1"), port("g", GATEWAY, "h1", "9"))
    agents: tuple[RouterAgent, ...] = (RouterAgent("h1", "h1"), RouterAgent("h2", "h2"))
    for kind in (before, (distributed, ha, gateway)):
        if not kind[1]:
            agents = tuple(replace(a, ha_port_id=None) for a in agents[:1])
        if not kind[2]:
            ports = tuple(p for p in ports if p.type != GATEWAY)
        elif all(p.type != GATEWAY for p in ports):
            ports = (*ports, port("g", GATEWAY, "", "9"))
        plan = plan_ports(router(*kind), ports, agents)
        ports, agents = carried_out(plan, ports, agents, central_host(agents))
    again = plan_ports(router(distributed, ha, gateway), ports, agents)
    assert again == PortPlan({}, (), (), (), ())
    interface = DVR_INTERFACE if distributed else HA_INTERFACE if ha else INTERFACE
    wanted = [
        interface,
        *[GATEWAY] * gateway,
        *[SNAT] * (distributed and gateway),
        *[HA_PORT] * (len(agents) if ha else 0),
    ]
    assert sorted(p.type for p in ports) == sorted(wanted)
    hosts = {p.type: p.host for p in ports}
    assert hosts[interface] == ("" if distributed else "h1")
    assert hosts.get(GATEWAY, "h1") == "h1"


def test_the_active_host_has_what_is_at_one_place() -> None:
    agents = (RouterAgent("a", "h1", "p1", "standby"), RouterAgent("b", "h2", "p2", "active"))
    assert central_host(agents, "h1") == "h2"
    two = (replace(agents[0], ha_state="active"), agents[1])
    assert central_host(two, "h2") == "h2"  # of two, the one where it is
    assert central_host((), "h1") == ""
    plan = plan_ports(router(ha=True, gateway=True), (port("g", GATEWAY, "h1", "9"),), agents)
    assert plan.move["g"].host == "h2"


def test_snat_follows_the_subnets() -> None:
    agents = (RouterAgent("a", "h1"),)
    both = (port("i", DVR_INTERFACE, "", "1", "2"), port("s", SNAT, "h1", "1"))
    plan = plan_ports(router(distributed=True, gateway=True), both, agents)
    assert [p.id for p in plan.add_snat_for] == ["i"]
    one = (port("i", DVR_INTERFACE, "", "1"), port("s", SNAT, "h1", "1", "2"))
    assert [p.id for p in plan_ports(router(distributed=True, gateway=True), one, agents).trim_snat] == ["s"]


# --- agents -----------------------------------------------------------------------------------------------------------


def agent(key: str, load: int = 0, zone: str | None = None, alive: bool = True, **configurations: Any) -> Candidate:
    return Candidate(key, zone, load, alive, host=key, configurations=configurations)


@pytest.mark.parametrize(
    ("configurations", "kind", "fitting"),
    [
        ({}, {}, True),
        ({"agent_mode": "dvr"}, {}, False),
        ({"agent_mode": "dvr_snat"}, {}, True),
        ({"agent_mode": "legacy"}, {"distributed": True}, False),
        ({"agent_mode": "dvr_snat"}, {"distributed": True}, True),
        ({"handle_internal_only_routers": False}, {}, False),
        ({"handle_internal_only_routers": False}, {"gateway": True}, True),
        ({"gateway_external_network_id": "other"}, {"gateway": True}, False),
        ({"gateway_external_network_id": "out"}, {"gateway": True}, True),
    ],
)
def test_which_agents_fit(configurations: dict[str, Any], kind: dict[str, bool], fitting: bool) -> None:
    assert fits(agent("a", **configurations), router(**kind)) is fitting


def test_the_choice() -> None:
    agents = [agent("a", 3), agent("b", 1), agent("c", 0, alive=False)]

    def chosen(kind: dict[str, Any], serving: set[str], most: int = 3, driver: str = LEAST[0]) -> list[str]:
        return [a.id for a in choose_agents(agents, kind, serving, (), most, driver)]

    assert chosen(router(), set()) == ["b"]
    assert chosen(router(), {"a"}) == []
    assert chosen(router(ha=True), {"a"}) == ["b"]
    assert chosen(router(ha=True), set(), most=0) == ["b", "a"]
    assert chosen(router(ha=True), set(), most=1) == ["b"]
    assert {tuple(chosen(router(), set(), driver=CHANCE)) for _ in range(60)} == {("a",), ("b",)}


def test_the_option() -> None:
    assert driver_named("neutron.scheduler.l3_agent_scheduler.ChanceScheduler") == CHANCE
    with pytest.raises(ValueError, match="router_scheduler_driver"):
        driver_named("FancyScheduler")
