"""The reason why a router is DOWN, as it is logged."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.features.router.scheduling.candidates import why_down
from neutrino.server.scheduling.placements import Candidate

CENTRAL: dict[str, Any] = {"distributed": False, "ha": False, "gw_network_id": "out"}
SPREAD = {**CENTRAL, "distributed": True}


def agent(host: str, mode: str = "legacy", zone: str | None = None, **values: Any) -> Candidate:
    serves = {name: values.pop(name) for name in ("alive", "admin_state_up") if name in values}
    return Candidate(host, zone, host=host, configurations={"agent_mode": mode, **values}, **serves)


@pytest.mark.parametrize(
    ("router", "agents", "words"),
    [
        (CENTRAL, [], ["legacy or dvr_snat", "none has reported"]),
        (CENTRAL, [agent("h1", alive=False)], ["h1: dead"]),
        (CENTRAL, [agent("h1", alive=False, admin_state_up=False)], ["h1: dead, administratively down"]),
        (CENTRAL, [agent("h1", "dvr"), agent("h2", alive=False)], ["h1: agent_mode dvr; h2: dead"]),
        (CENTRAL, [agent("h1", gateway_external_network_id="x")], ["h1: for other routers"]),
        (CENTRAL, [agent("h1")], ["h1: not scheduled"]),
        (SPREAD, [agent("h1")], ["it is distributed", "dvr_snat can take it", "h1: agent_mode legacy"]),
        (SPREAD, [agent("h1", "dvr")], ["dvr_snat can take it", "h1: agent_mode dvr"]),
        ({**SPREAD, "gw_network_id": None}, [agent("h1")], ["it is distributed"]),
    ],
)
def test_reasons(router: dict[str, Any], agents: list[Candidate], words: list[str]) -> None:
    reason = why_down(router, agents, [], has_agent=False, has_interface=True)
    assert all(word in reason for word in words), reason


def test_a_line_of_the_log_names_some() -> None:
    many = [agent(f"h{number:03}", alive=False) for number in reversed(range(500))]
    reason = why_down(CENTRAL, many, [], has_agent=False, has_interface=True)
    assert "h000: dead; h001: dead" in reason
    assert "and 490 more" in reason
    assert len(reason) < 500


def test_zones_that_nobody_is_in() -> None:
    reason = why_down(CENTRAL, [agent("h1", zone="z1")], ["z2"], has_agent=False, has_interface=True)
    assert "h1: not in zone z2" in reason


def test_no_reason_where_it_has_what_it_needs() -> None:
    assert why_down(CENTRAL, [agent("h1")], [], has_agent=True, has_interface=True) == ""
    assert why_down(SPREAD, [agent("h1", "dvr_snat")], [], has_agent=True, has_interface=True) == ""
    inner = {**SPREAD, "gw_network_id": None}
    assert why_down(inner, [agent("h1", "dvr")], [], has_agent=False, has_interface=True) == ""
    assert why_down({**CENTRAL, "gw_network_id": None}, [], [], has_agent=False, has_interface=False) == ""
