"""Checks that tests of distributed routers share."""

from __future__ import annotations

from collections.abc import Callable

from neutrino.lab.errors import LabError, wait_until
from neutrino.model.objects import Object
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_guests import flows
from tests.support.routing_lab import SOON, l3_agent, remains_of

BRIDGES = ("br-int", "br-tun", "br-provider", "br-ex")


def agent_mode(lab: Lab, host: str) -> str:
    agent = l3_agent(lab, host)
    return str(agent["configurations"]["agent_mode"]) if agent is not None else ""


def namespaces(lab: Lab, host: str, prefix: str) -> list[str]:
    return [line for line in lab.run(host, ["ip", "netns"]).stdout.splitlines() if line.startswith(prefix)]


def in_snat(lab: Lab, router: Object, host: str, *argv: str, check: bool = True) -> str:
    """A command in the router's snat-… namespace."""
    return lab.run(host, ["ip", "netns", "exec", f"snat-{router['id']}", *argv], check=check).stdout


def gaps(ping: Pinging) -> list[int]:
    """Requests without a reply between the first and the last one that was answered.

    The test begins with the first answer, before which addresses are resolved; later ones were under way at the end.
    """
    answered = ping.received
    return [number for number in range(min(answered), max(answered)) if number not in answered]


# --- what is left -----------------------------------------------------------------------------------------------------


def wait_for_nothing_of(lab: Lab, router: Object, devices: list[str], macs: set[str]) -> None:
    """Waits until no host has any state of a deleted router."""
    for host in lab.hosts:
        wait_for_none(lambda host=host: remains_of(lab, router["id"], host, devices), f"on {host}")  # type: ignore[misc]
        wait_for_none(lambda host=host: namespaces(lab, host, "fip-"), f"on {host}")  # type: ignore[misc]
        wait_for_none(lambda host=host: _flows_with(lab, host, macs), f"on {host}")  # type: ignore[misc]


def wait_for_none(look: Callable[[], list[str]], where: str) -> None:
    left: list[str] = []

    def gone() -> bool:
        left[:] = look()
        return not left

    try:
        wait_until(gone, SOON, "something is left")
    except LabError:
        raise AssertionError(f"{where} is left: {left}") from None


def _flows_with(lab: Lab, host: str, macs: set[str]) -> list[str]:
    lines = [line for bridge in BRIDGES for line in flows(lab, host, bridge).splitlines()]
    return [line for line in lines if any(mac in line for mac in macs)]
