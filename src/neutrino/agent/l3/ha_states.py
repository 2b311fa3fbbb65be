"""States of HA routers on this host: what keepalived reports, what is reported to the server, conflicts between hosts."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from neutrino.agent.l3.router import ROUTER
from neutrino.agent.runtime.queue import URGENT, USUAL
from neutrino.agent.runtime.role import RoleFeed
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
ACTIVE, STANDBY = "active", "standby"
_STATES = {"MASTER": ACTIVE, "BACKUP": STANDBY, "FAULT": STANDBY, "STOP": STANDBY}
CONFLICT_SECONDS, REPORT_SECONDS = 10.0, 3.0


@dataclasses.dataclass
class HaStates:
    """Belongs to one event loop."""

    feed: RoleFeed
    host: str
    put: Callable[[str, int], None]  # queues a router with a priority
    activated: Callable[[str], None]  # called when this host has become the active one of a router
    conflicts: "HaConflicts" = dataclasses.field(init=False)
    _states: dict[str, str] = dataclasses.field(
        default_factory=dict, init=False
    )  # by router, as reported to the server

    def __post_init__(self) -> None:
        self.conflicts = HaConflicts(self.host)

    def get(self, router_id: str) -> str | None:
        return self._states.get(router_id)

    def count(self, state: str) -> int:
        return list(self._states.values()).count(state)

    def is_active(self, router: Router) -> bool:
        """Whether this host has the part of a router that only the active host has."""
        return router.ha is None or self._states.get(router.id) == ACTIVE

    def applied(self, router: Router, *, active: bool, before: str | None) -> None:
        """The router is applied, and its addresses show whether this host is active; `before`: its state before that."""
        if router.ha is None:
            # Its keepalived is stopped, and reports no more: the server must not show this host as active.
            if self._states.get(router.id) == ACTIVE:
                self.feed.status(ROUTER, router.id, STANDBY)
            self.forget(router.id)
        elif self._states.get(router.id) == before:  # else keepalived has reported since, which is newer
            state = ACTIVE if active else STANDBY
            if self._set(router.id, state) and before is not None:
                # It was rendered as of the other state, with the next hops that were lost then, and keepalived's own
                # report will be no news.
                self.put(router.id, URGENT)
            # As another host, which was active too, has stepped back and left the server without an active host; or the
            # server's database was restored.
            if router.ha.active_host == ("" if active else self.host):
                self.feed.status(ROUTER, router.id, state)

    def notified(self, router_id: str, lines: Iterable[str]) -> None:
        """By keepalived. Some services run on the active host alone, so the router is reconciled when its state changes."""
        state = last_state(lines)
        if state is not None and router_id in self._states and self._set(router_id, state):
            self.put(router_id, URGENT)

    def forget(self, router_id: str) -> None:
        self._states.pop(router_id, None)
        self.conflicts.forget(router_id)

    def conflict(self, router: Router) -> list[str]:
        """The problem of a router that is active on two hosts."""
        loop = asyncio.get_running_loop()
        active = self._states.get(router.id) == ACTIVE
        found = self.conflicts.check(router, active=active, now=loop.time())
        if found.report:
            LOG.warning("router %s is active here, and the server names another host: reported again", router.id)
            self.feed.status(ROUTER, router.id, ACTIVE)
        if found.check_again is not None:
            loop.call_later(found.check_again, self.put, router.id, USUAL)
        return [found.problem] if found.problem else []

    def _set(self, router_id: str, state: str) -> bool:
        """Reports a new state to the server; whether it is new."""
        if self._states.get(router_id) == state:
            return False
        self._states[router_id] = state
        LOG.info("router %s is %s on this host", router_id, state)
        self.feed.status(ROUTER, router_id, state)
        if state == ACTIVE:
            self.activated(router_id)
        return True


def last_state(lines: Iterable[str]) -> str | None:
    """The state in the last line such as `INSTANCE "VR_7" MASTER 50`, which keepalived writes when it changes."""
    words = [line.split() for line in lines]
    states = [_STATES.get(word[2]) for word in words if len(word) >= 3 and word[0] == "INSTANCE"]
    return next((state for state in reversed(states) if state is not None), None)


class Disagreement(NamedTuple):
    """What to do where this host is active and the server names another one as active."""

    problem: str = ""
    check_again: float | None = None  # after so many seconds
    report: bool = False  # that this host is active


@dataclasses.dataclass
class HaConflicts:
    """An HA router that is active on this host, while the server names another one: the last that reported to be active.

    During a failover two hosts may both be active for a moment. What lasts longer is either an error of the server, whose
    database was restored: then this host reports again. Or both hosts are active, as when the HA network is
    partitioned: the other one reports again too. So a host does that once, until it was standby: both would take the
    router's ports from each other for ever. The host that the server does not name after that has the conflict as a
    problem.
    """

    host: str
    seconds: float = CONFLICT_SECONDS
    report_seconds: float = REPORT_SECONDS
    _since: dict[str, float] = dataclasses.field(default_factory=dict)  # by router
    _reported: set[str] = dataclasses.field(default_factory=set)  # routers

    def check(self, router: Router, *, active: bool, now: float) -> Disagreement:
        other = router.ha.active_host if router.ha is not None else ""
        if not active:
            self.forget(router.id)
            return Disagreement()
        if other in ("", self.host):
            self._since.pop(router.id, None)
            return Disagreement()
        is_reported = router.id in self._reported
        left = self._since.setdefault(router.id, now) + (self.seconds if is_reported else self.report_seconds) - now
        if left > 0:
            return Disagreement(check_again=left)
        if not is_reported:
            self._reported.add(router.id)
            self._since[router.id] = now
            return Disagreement(check_again=self.seconds, report=True)
        return Disagreement(
            f"is active here and on {other} at once: the hosts do not receive each other's VRRP advertisements, "
            "check the HA network between them"
        )

    def forget(self, router_id: str) -> None:
        self._since.pop(router_id, None)
        self._reported.discard(router_id)
