"""Reports the floating IPs that this host translates: ACTIVE once their router is applied, ERROR if it cannot be."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from neutrino.agent.runtime.role import RoleFeed
from neutrino.model.routing import FloatingIp, Router

FLOATING_IP = "floatingip"


class ForwardedIp(NamedTuple):
    """A floating IP with port forwardings, in place of a port."""

    id: str
    forwardings: frozenset[str]  # with other ones it is reported again: the last one may have been deleted meanwhile


@dataclass
class FloatingIpReports:
    feed: RoleFeed
    _active: dict[str, frozenset[FloatingIp | ForwardedIp]] = field(default_factory=dict)  # by router, those reported

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
        # One with other forwardings than before is not among them: those that it had are still in force.
        forwarded = {forwarded_ip.id for forwarded_ip in _forwarded_ips(applied)} if applied is not None else set()
        wanted = _translated_here(router, active=active) - known
        failed = {each for each in wanted if isinstance(each, FloatingIp) or each.id not in forwarded}
        for floating_ip in failed:
            self.feed.status(FLOATING_IP, floating_ip.id, "ERROR")
        self._active[router.id] = self._active.get(router.id, frozenset()) - failed

    def forget(self, router_id: str) -> None:
        self._active.pop(router_id, None)


def _translated_here(router: Router, *, active: bool) -> frozenset[FloatingIp | ForwardedIp]:
    """All floating IPs where the host is active; of a distributed router also those of ports on this host."""
    if router.gateway is None:
        return frozenset()
    here = (floating_ip for floating_ip in router.floating_ips if active or (router.distributed and floating_ip.host))
    return frozenset((*here, *(_forwarded_ips(router) if active else ())))


def _forwarded_ips(router: Router) -> Iterator[ForwardedIp]:
    by_floating_ip: defaultdict[str, set[str]] = defaultdict(set)
    for port_forwarding in router.port_forwardings:
        by_floating_ip[port_forwarding.floatingip_id].add(port_forwarding.id)
    yield from (ForwardedIp(key, frozenset(ids)) for key, ids in by_floating_ip.items() if key)
