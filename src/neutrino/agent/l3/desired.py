"""The desired state of the L3 role: the feed's routers, which of them this host serves, and objects of extensions."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from neutrino.agent.l3.extension_api import Objects
from neutrino.agent.role import RoleFeed
from neutrino.model.routing import Router

ROUTER = "router"


class RouterFeed(RoleFeed, Protocol):
    def status(self, kind: str, key: str, status: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class DesiredRouters:
    """As the feed has it at the moment of each call."""

    feed: RouterFeed
    refusal: Callable[[Router], str | None] = lambda router: None  # why this host does not serve a router
    kinds: frozenset[str] = frozenset()  # of the objects that extensions read

    def all(self) -> list[Router]:
        return [each for each in self.feed.state.objects[ROUTER].values() if isinstance(each, Router)]

    def served(self) -> list[Router]:
        return [each for each in self.all() if each.admin_state_up and self.refusal(each) is None]

    def objects(self) -> Objects:
        return {kind: self.feed.state.objects[kind] for kind in self.kinds}
