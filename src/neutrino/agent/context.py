"""What the roles of an agent share: each role is built from it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from oslo_config import cfg

from neutrino.agent.port_holds import PortHolds
from neutrino.agent.role import RoleFeed
from neutrino.agent.switch import Switch


@dataclass
class Intervals:
    """Seconds; may be changed while the roles run."""

    check: float = 5.0
    repair: float = 60.0


@dataclass(frozen=True)
class RoleContext:
    conf: cfg.ConfigOpts
    feed: RoleFeed
    switch: Switch
    intervals: Intervals = field(default_factory=Intervals)
    report_soon: Callable[[], None] = lambda: None
    port_holds: PortHolds = field(default_factory=PortHolds)
