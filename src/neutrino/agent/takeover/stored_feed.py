"""A feed that is not connected: objects that another process has received, for roles that look and change nothing."""

from collections.abc import Mapping, Sequence

from neutrino.feed.state import State
from neutrino.model.kinds import Kind
from neutrino.model.rates import Counted
from neutrino.model.routing import MeteredTraffic


class StoredFeed:
    """Implements `RoleFeed`. The objects are complete; reports go nowhere."""

    def __init__(self, data: bytes, kinds: Mapping[str, Kind]) -> None:
        self.state = State(kinds)
        self.state.load(data)

    @property
    def is_synced(self) -> bool:
        return True

    @property
    def position(self) -> int:
        return self.state.cursor.position if self.state.cursor is not None else 0

    @property
    def is_traffic_acknowledged(self) -> bool:
        return True

    def port_up(self, port_id: str, revision: int, *, inactive: bool = False) -> None: ...

    def port_down(self, port_id: str, reason: str = "") -> None: ...

    def port_ready(self, port_id: str, revision: int) -> None: ...

    def status(self, kind: str, key: str, status: str, revision: int = 0, reason: str = "", role: str = "") -> None: ...

    def traffic(self, counters: Sequence[MeteredTraffic], *, granular: bool) -> None: ...

    def rates(self, seconds: int, ports: Mapping[str, Counted], tunnels: Mapping[str, Counted]) -> None: ...

    def error(self, kind: str, key: str, text: str) -> None: ...
