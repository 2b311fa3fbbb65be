"""The feed as the L3 role uses it: routers that this host serves, objects of extensions, statuses of floating IPs."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from neutrino.agent.l3.extension_api import Objects
from neutrino.agent.role import RoleFeed
from neutrino.model.routing import FloatingIp, Router

ROUTER, FLOATING_IP = "router", "floatingip"


class RouterFeed(RoleFeed, Protocol):
    def status(self, kind: str, key: str, status: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class DesiredRouters:
    """As the feed has them at the moment of each call, from any thread."""

    feed: RouterFeed
    refusal: Callable[[Router], str | None] = lambda router: None  # why this host does not serve a router
    kinds: frozenset[str] = frozenset()  # of the objects that extensions read

    def all(self) -> list[Router]:
        # A copy: a worker thread reads the routers while the event loop changes them.
        return list(self.feed.state.objects[ROUTER].values())

    def served(self) -> list[Router]:
        return [each for each in self.all() if each.admin_state_up and self.refusal(each) is None]

    def objects(self) -> Objects:
        return {kind: self.feed.state.objects[kind] for kind in self.kinds}


@dataclasses.dataclass
class FloatingIpReports:
    feed: RouterFeed
    _active: dict[str, frozenset[FloatingIp]] = dataclasses.field(default_factory=dict)  # by router, those reported

    def applied(self, router: Router, *, active: bool) -> None:
        """The router is applied: its floating IPs on this host are ACTIVE, reported once for each revision."""
        here = _translated_here(router, active=active)
        # By value with its revision: one that was disassociated and associated again is reported again.
        for floating_ip in here - self._active.get(router.id, frozenset()):
            self.feed.status(FLOATING_IP, floating_ip.id, "ACTIVE")
        self._active[router.id] = here

    def failed(self, router: Router, applied: Router | None, *, active: bool) -> None:
        """The router cannot be applied: new floating IPs are ERROR; of those that it had, nothing is known."""
        known = frozenset(applied.floating_ips if applied is not None else ())
        failed = _translated_here(router, active=active) - known
        for floating_ip in failed:
            self.feed.status(FLOATING_IP, floating_ip.id, "ERROR")
        self._active[router.id] = self._active.get(router.id, frozenset()) - failed

    def forget(self, router_id: str) -> None:
        self._active.pop(router_id, None)


def _translated_here(router: Router, *, active: bool) -> frozenset[FloatingIp]:
    """All floating IPs where the host is active; of a distributed router also those of ports on this host."""
    floating_ips = router.floating_ips if router.gateway is not None else ()
    return frozenset(each for each in floating_ips if active or (router.distributed and each.host))
