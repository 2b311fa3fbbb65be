"""What the L3 role reports of its routers to the server: problems, statuses of floating IPs, and the agent itself."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from neutrino.agent.role import RoleFeed
from neutrino.model import agents
from neutrino.model.routing import FloatingIp, Router

ROUTER, FLOATING_IP = "router", "floatingip"
MOST_PROBLEMS = 10  # that the agent shows


class RouterFeed(RoleFeed, Protocol):
    def status(self, kind: str, key: str, status: str) -> None: ...


class RouterReports:
    """`changed` is called when the agent's description has changed."""

    def __init__(self, feed: RouterFeed, description: agents.AgentState, changed: Callable[[], None]) -> None:
        self._feed = feed
        self._description = description
        self._changed = changed
        self._problems: dict[str, str] = {}
        self._active: dict[str, frozenset[FloatingIp]] = {}  # by router, those reported as ACTIVE
        self._last_repair: dict[str, object] = {}

    def describe(self, routers: Iterable[Router]) -> Iterator[agents.AgentState]:
        routers = list(routers)
        problems = {**self._feed.state.problems_of(ROUTER), **self._problems}
        yield dataclasses.replace(
            self._description,
            configurations={
                **self._description.configurations,
                "routers": len(routers),
                "ex_gw_ports": sum(each.gateway is not None for each in routers),
                "interfaces": sum(len(each.interfaces) for each in routers),
                "floating_ips": sum(len(each.floating_ips) for each in routers),
                agents.PROBLEMS: dict(sorted(problems.items())[:MOST_PROBLEMS]),
                **({agents.LAST_REPAIR: self._last_repair} if self._last_repair else {}),
            },
        )

    def problem_of(self, router_id: str) -> str:
        return self._problems.get(router_id, "")

    def problem(self, router_id: str, text: str) -> None:
        """An empty text clears it."""
        if text == self.problem_of(router_id):
            return
        if text:
            self._problems[router_id] = text
            self._feed.error(ROUTER, router_id, text)
        else:
            del self._problems[router_id]
        self._changed()

    def repaired(self, router_id: str, changes: int) -> None:
        self._last_repair = {"router": router_id, "changes": changes}
        self._changed()

    def floating_ips_active(self, router: Router, *, active: bool) -> None:
        """The router is applied: its floating IPs on this host are ACTIVE, reported once for each revision."""
        here = _translated_here(router, active=active)
        # By value with its revision: one that was disassociated and associated again is reported again.
        for floating_ip in here - self._active.get(router.id, frozenset()):
            self._feed.status(FLOATING_IP, floating_ip.id, "ACTIVE")
        self._active[router.id] = here

    def floating_ips_failed(self, router: Router, applied: Router | None, *, active: bool) -> None:
        """The router cannot be applied: new floating IPs are ERROR; of those that it had, nothing is known."""
        known = frozenset(applied.floating_ips if applied is not None else ())
        failed = _translated_here(router, active=active) - known
        for floating_ip in failed:
            self._feed.status(FLOATING_IP, floating_ip.id, "ERROR")
        self._active[router.id] = self._active.get(router.id, frozenset()) - failed

    def forget(self, router_id: str) -> None:
        self._active.pop(router_id, None)


def _translated_here(router: Router, *, active: bool) -> frozenset[FloatingIp]:
    """All floating IPs where the host is active; of a distributed router also those of ports on this host."""
    floating_ips = router.floating_ips if router.gateway is not None else ()
    return frozenset(each for each in floating_ips if active or (router.distributed and each.host))
