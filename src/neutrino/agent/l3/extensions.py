"""What others do with routers on this host: told before and after each router is added, updated and deleted.

An extension is an entry point of `neutrino.agent.l3_extensions`, named in `l3_extensions`: it is called with the
configuration and gives an object with `before` and `after`. Both may block; each router is told of by one thread at a time,
several routers at once. What an extension fails to do is told as the router's problem and does not keep the router from
working.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from oslo_config import cfg
from stevedore import driver, exception

from neutrino.agent.l3.names import router_namespace
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
GROUP = "neutrino.agent.l3_extensions"
What = Literal["added", "updated", "deleted"]


@dataclasses.dataclass(frozen=True)
class RouterEvent:
    """`old` is None where the agent has just started: it tells of every router once, as added."""

    what: What
    router_id: str
    old: Router | None = None
    new: Router | None = None

    @property
    def namespace(self) -> str:
        """It is there after `added` and before `deleted`."""
        return router_namespace(self.router_id)


class L3Extension(Protocol):
    def before(self, event: RouterEvent) -> None: ...

    def after(self, event: RouterEvent) -> None: ...


class Extensions:
    """All of them, in the order of the configuration."""

    def __init__(self, extensions: Iterable[tuple[str, L3Extension]] = ()) -> None:
        self._extensions = tuple(extensions)

    def __bool__(self) -> bool:
        return bool(self._extensions)

    def before(self, event: RouterEvent) -> list[str]:
        """What went wrong, by extension."""
        return [text for name, each in self._extensions if (text := _told(name, each.before, event))]

    def after(self, event: RouterEvent) -> list[str]:
        return [text for name, each in self._extensions if (text := _told(name, each.after, event))]


def _told(name: str, tell: Callable[[RouterEvent], None], event: RouterEvent) -> str:
    try:
        tell(event)
    except Exception as error:  # it is somebody else's code: whatever it raises is its own failure, not the router's
        LOG.exception("extension %s failed with router %s that is %s", name, event.router_id, event.what)
        return f"extension {name}: {error}"
    return ""


def event_of(router_id: str, old: Router | None, new: Router | None) -> RouterEvent | None:
    """What is to be told, if anything is."""
    if old == new:
        return None
    if new is None:
        return RouterEvent("deleted", router_id, old, None)
    return RouterEvent("added" if old is None else "updated", router_id, old, new)


def load(conf: cfg.ConfigOpts) -> Extensions:
    """A name that no package offers is refused."""
    found: list[tuple[str, L3Extension]] = []
    for name in conf.l3_extensions:
        try:
            make: Callable[[cfg.ConfigOpts], L3Extension] = driver.DriverManager(
                GROUP, name, invoke_on_load=False
            ).driver
        except exception.NoMatches:
            raise ValueError(f"l3_extensions: no package offers {name!r} as {GROUP}") from None
        found.append((name, make(conf)))
    return Extensions(found)
