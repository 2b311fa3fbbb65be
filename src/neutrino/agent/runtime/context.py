"""What the roles of an agent share, and are built from."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from oslo_config import cfg

from neutrino.agent.guard.gate import GuardOptions
from neutrino.agent.runtime.role import RoleFeed
from neutrino.agent.runtime.switch import Switch


@dataclass
class Intervals:
    """Seconds; may be changed while the roles run."""

    check: float = 5.0
    repair: float = 60.0


class PortHolds:
    """Wired ports of this host, and holds: a role may defer the unwiring of a deleted port. Belongs to one event loop.

    The L2 role publishes which ports are wired and unwires a deleted port at once, unless another role holds it. The DHCPv6
    client of a delegated prefix holds the gateway's port until it has sent its release; keepalived waits for its port to be
    wired, since a keepalived that receives no advertisements makes its host a second active one.
    """

    def __init__(self) -> None:
        self._wired: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._holds: dict[str, str] = {}  # holder → port
        self.on_change: Callable[[], None] = lambda: None

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self._holds.values())

    def hold(self, holder: str, port_id: str) -> None:
        """A holder holds one port: a hold on another port is released."""
        if self._holds.get(holder) != port_id:
            self._holds[holder] = port_id
            self.on_change()

    def release(self, holder: str) -> None:
        if self._holds.pop(holder, None) is not None:
            self.on_change()

    def set_wired(self, ports: Iterable[str]) -> None:
        self._wired = frozenset(ports)  # all ports at once: one that is missing is unwired
        self._changed.set()  # wakes the waiters of now; later ones wait for the next change
        self._changed = asyncio.Event()

    async def wait_wired(self, port_id: str, seconds: float) -> bool:
        """Wait until the port is wired; False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while port_id not in self._wired:  # each change wakes all waiters
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


@dataclass(frozen=True)
class RoleContext:
    conf: cfg.ConfigOpts
    feed: RoleFeed
    switch: Switch
    intervals: Intervals = field(default_factory=Intervals)
    report_soon: Callable[[], None] = lambda: None
    port_holds: PortHolds = field(default_factory=PortHolds)
    guard: GuardOptions = field(default_factory=GuardOptions)
