"""The contract of a router's services: what belongs to a router on this host besides its namespaces.

The role calls all of them, in one order (`in_order`): `ensure` in this order, after a router is applied; `release` and
`stop` in reverse, before it is applied or removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from neutrino.agent.l3.services.keepalived.render import Failover
from neutrino.agent.runtime.queue import USUAL
from neutrino.model.routing import Router


class Put(Protocol):
    """Queues a router to be reconciled."""

    def __call__(self, router_id: str, /, priority: int = USUAL) -> None: ...


@dataclass(frozen=True)
class Serving:
    """How this host serves a router, at the moment of a call."""

    active: bool = True  # it has the part of the router that only the active host has
    synced: bool = True  # False: the router is from the cache. What is missing is started, and nothing else is changed
    standby: bool = False  # another host is known to be active: that is newer than any cache
    failover: Failover | None = None  # what keepalived sets; None: the router has no HA

    @property
    def may_stop(self) -> bool:
        """Whether a service that the router does not need here may be stopped."""
        return self.synced or self.standby


class RouterService:
    """Base class: a service without work. One instance serves all routers of the host, several of them at once."""

    async def start(self, put: Put) -> None:
        """Called once, before any router is changed."""

    async def run(self) -> None:
        """Work of its own while the agent runs."""

    async def release(self, router: Router, serving: Serving) -> None:
        """Before the router is applied, while it still has its former gateway and addresses: end what it lacks now."""

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        """After the router is applied. Gives problems of this service alone; an exception fails the router."""
        return []

    async def stop(self, router_id: str, *, moved: bool) -> None:
        """Before the router is removed from this host; `moved`: it may be on another host by now."""

    async def removed(self, router_id: str) -> None:
        """After the router was removed from this host."""

    def find(self, router: Router, serving: Serving) -> list[str]:
        """What the methods above would change, a line for each change. Blocking."""
        return []

    def described(self) -> Mapping[str, object]:
        """Values of all routers for the agent's description in the API."""
        return {}

    async def close(self) -> None:
        """When the agent ends: daemons go on."""


def in_order(
    *,
    keepalived: RouterService,
    conntrackd: RouterService,
    radvd: RouterService,
    bfd: RouterService,
    charon: RouterService,
    dibbler: RouterService,
    meters: RouterService,
    firewall_logs: RouterService,
) -> tuple[RouterService, ...]:
    """All services in their order.

    * meters: next to the change of the namespaces. Counters are read right before it, and right after it.
    * keepalived: a service that cannot be started must not keep the router from failing over.
    * conntrackd: it is ended before keepalived, whose directory its files are in.
    * radvd: without it instances lose their default route.
    * bfd: its sessions end before keepalived does, so that the routes of a standby host have all next hops.
    * charon, then dibbler: they need the gateway. When the router leaves, dibbler is ended first, as its port may be
      another host's by now, and charon while it can still notify its peers.
    * firewall_logs: last, as nothing depends on them.
    """
    return meters, keepalived, conntrackd, radvd, bfd, charon, dibbler, firewall_logs
