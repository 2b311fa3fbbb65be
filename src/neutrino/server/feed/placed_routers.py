"""Routers that hosts have, or had until lately: those whose traffic they may report. Pure; the clock is passed in.

The last counters of a router are reported after it has left the host, or was deleted. So a feed process remembers which
routers have left which hosts, for a bounded time and up to a bounded number; one that has started since does not.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from neutrino.feed.messages import Traffic
from neutrino.model.routing import MeteredTraffic, Router
from neutrino.server.feed.records import RouterRecord

LOG = logging.getLogger(__name__)
KEPT_SECONDS: Final = 24 * 3600.0  # a host may have been disconnected meanwhile
MAX_KEPT: Final = 100_000
_NONE: Final[RouterRecord] = {}


@dataclass(slots=True)
class PlacedRouters:
    clock: Callable[[], float] = time.monotonic
    kept_seconds: float = KEPT_SECONDS
    most: int = MAX_KEPT
    _placed: Mapping[str, RouterRecord] = field(default_factory=dict)  # by id, as the fan-out has them
    _left: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)  # host, router → project, when

    def follow(self, routers: Mapping[str, RouterRecord]) -> None:
        """Take all routers, as after everything was read again; changes of them are passed to `changed`."""
        before, self._placed = dict(self._placed), routers
        for router_id, record in before.items():
            self.changed(router_id, record, routers.get(router_id))

    def changed(self, router_id: str, before: RouterRecord | None, after: RouterRecord | None) -> None:
        now, hosts = self.clock(), after or _NONE
        for host, router in (before or _NONE).items():
            if host not in hosts:
                self._left.pop((host, router_id), None)  # re-inserted at the end: the dict is in order of time
                self._left[host, router_id] = router.project_id, now
        while len(self._left) > self.most:
            del self._left[next(iter(self._left))]

    def project_of(self, host: str, router_id: str) -> str | None:
        """The project of a router that the host has or had; None: it is not one of its routers."""
        router: Router | None = self._placed.get(router_id, _NONE).get(host)
        if router is not None:
            return router.project_id
        project_id, left_at = self._left.get((host, router_id), ("", -self.kept_seconds))
        return project_id if self.clock() - left_at < self.kept_seconds and (host, router_id) in self._left else None

    def own(self, host: str, message: Traffic) -> Traffic:
        """A report with the counters of the host's own routers, which are of these routers' projects."""
        kept: Sequence[MeteredTraffic] = [
            msgspec.structs.replace(counter, project_id=project_id)
            for counter in message.counters
            if (project_id := self.project_of(host, counter.router_id)) is not None
        ]
        if len(kept) < len(message.counters):
            refused = sorted({counter.router_id for counter in message.counters} - {each.router_id for each in kept})
            LOG.warning(
                "host %s reports traffic of %d routers that it does not have, such as %s: it is not counted",
                *(host, len(refused), refused[0]),
            )
        return msgspec.structs.replace(message, counters=tuple(kept))
