"""Why an instance of a lab gets no address, and what the words of `neutrino lab vm` mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from neutrino.cli.lab_arguments import UPLINKS, with_vm_action
from neutrino.lab import settings
from neutrino.lab.errors import LabError
from neutrino.lab.instances.addressing import DhcpClient, NoLease
from neutrino.lab.instances.leases import why_no_lease

PORT = {"network_id": "n1", "admin_state_up": True}
SUBNET = {"ip_version": 4, "cidr": "10.0.0.0/24"}


class Api:
    def __init__(self, *agents: dict[str, Any]) -> None:
        self.agents = agents

    def request(self, method: str, path: str) -> dict[str, Any]:
        assert path == "/v2.0/networks/n1/dhcp-agents"
        return {"agents": [*self.agents]}


def agent(**values: Any) -> dict[str, Any]:
    return {"host": "h1", "alive": True, "admin_state_up": True, "configurations": {}, **values}


@pytest.mark.parametrize(
    ("agents", "reason"),
    [
        ([], "no DHCP agent serves network n1: start an agent with the role dhcp"),
        ([agent(alive=False)], "no DHCP agent of network n1 works: h1 (it does not report)"),
        ([agent(admin_state_up=False)], "no DHCP agent of network n1 works: h1 (disabled)"),
        ([agent(configurations={"problems": {"n1": "dnsmasq failed"}})], "problems: h1: n1: dnsmasq failed"),
        ([agent(), agent(host="h2", alive=False)], "the DHCP agents on h1 are alive and report no problem"),
    ],
)
def test_reasons(agents: Sequence[dict[str, Any]], reason: str) -> None:
    assert reason in why_no_lease(Api(*agents), PORT, lambda host: f"{host}-agent.log")  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "kind"), [("failed with exit status 2: …", NoLease), ("no such device", LabError)])
def test_only_a_client_that_has_tried_in_vain_had_no_answer(text: str, kind: type, tmp_path: Path) -> None:
    def fail(argv: Sequence[str]) -> None:
        raise LabError(text)

    with pytest.raises(LabError) as raised:
        DhcpClient(tmp_path / "vm", fail).lease([SUBNET])
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("vm web --network x", "vm create web --network x"),
        ("vm --state s web", "vm --state s create web"),
        ("vm list", "vm list"),
        ("vm --help", "vm --help"),
        ("lab vm web --network x", "lab vm create web --network x"),
        ("lab --state s vm --network x web", "lab --state s vm create --network x web"),
        ("lab vm --state=s web", "lab vm --state=s create web"),
        ("lab vm --delete web", "lab vm delete web"),
        ("lab vm web --delete", "lab vm delete web"),
        ("lab vm exec web -- ls", "lab vm exec web -- ls"),
        ("lab vm --help", "lab vm --help"),
        ("lab vm", "lab vm"),
        ("lab exec vm -- x", "lab exec vm -- x"),
        ("status vm", "status vm"),
    ],
)
def test_the_action_of_vm_may_be_left_out(words: str, expected: str) -> None:
    assert with_vm_action(words.split()) == expected.split()


def test_uplinks_of_the_command_are_those_of_a_host() -> None:
    assert set(UPLINKS) == set(settings.UPLINKS)
