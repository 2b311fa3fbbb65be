"""What drivers written for Neutron reach without being given it: Neutron's modules and plugins are global in a process.

`Runtime` is the server that the driver belongs to; `CALL` the call of a driver that is running, which also tells an error
where it comes from.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.errors import ApiError
from neutrino.server.hosts.registry import Registry
from neutrino.server.ml2.operations import Mechanisms, Operations
from neutrino.server.ml2.segments import Segments

if TYPE_CHECKING:
    from neutrino.server.ml2.networks import Networks
    from neutrino.server.ml2.ports.collection import Ports
    from neutrino.server.ml2.ports.provisioning import Provisioning
    from neutrino.server.ml2.subnets import Subnets


@dataclass(frozen=True, eq=False)
class Runtime:
    conf: cfg.ConfigOpts
    db: Database
    registry: Registry
    operations: Operations
    segments: Segments
    networks: "Networks"
    subnets: "Subnets"
    ports: "Ports"
    provisioning: "Provisioning"

    @property
    def mechanisms(self) -> Mechanisms:
        return self.operations.mechanisms


class GivenUp(Exception):
    """A precommit that has not returned in time goes on, and uses its transaction, which has been rolled back."""


class Fence:
    """Keeps a call that has been given up out of its transaction: a connection is for one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_closed = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise GivenUp(f"{where()} was given up: its transaction is closed")
            yield

    def close(self) -> None:
        """Waits for a statement that is being executed."""
        with self._lock:
            self._is_closed = True


@dataclass(frozen=True)
class Call:
    """One call of a driver's method."""

    server: Runtime
    driver: str
    method: str
    object_id: str
    tx: Transaction | None = None  # of a precommit
    # The port that is being bound, whose row may not exist yet: components are kept for the write of the binding.
    binding: str = ""
    components: list[str] = field(default_factory=list)
    fence: Fence = field(default_factory=Fence)
    # The client's error for what the driver raises; None: a mechanism driver's.
    error_of: "Callable[[Call, Exception], ApiError] | None" = None

    def __str__(self) -> str:
        return f"driver {self.driver}, {self.method} of {self.object_id}"


CALL: ContextVar[Call | None] = ContextVar("CALL", default=None)
_servers: list[Runtime] = []


def begin(runtime: Runtime) -> None:
    """Make a server the one of this process."""
    _servers[:] = [runtime]


def is_current(runtime: Runtime) -> bool:
    return _servers == [runtime]


def current() -> Runtime:
    """The server of the running call; of threads that drivers start, the server of the process."""
    call = CALL.get()
    if call is not None:
        return call.server
    if not _servers:
        raise RuntimeError("a driver written for Neutron was called before the server was assembled")
    return _servers[0]


def where() -> str:
    """The call that is running, for messages."""
    call = CALL.get()
    return str(call) if call is not None else "a driver written for Neutron"


class NotProvided(AttributeError):
    """A driver uses a part of Neutron that is not here. An AttributeError, as drivers probe for parts with hasattr."""

    def __init__(self, part: str) -> None:
        super().__init__(f"{where()} uses {part}, which is not provided (docs/design/neutron-drivers.md)")


def components_of_call(port_id: str) -> list[str] | None:
    """The components of the port that the running call binds; None if it binds no port, or another one."""
    call = CALL.get()
    return call.components if call is not None and call.binding == port_id else None


@contextmanager
def transaction() -> Iterator[Transaction | None]:
    """The transaction of the running call, if it is a precommit that has not been given up."""
    call = CALL.get()
    if call is None or call.tx is None:
        yield None
        return
    with call.fence.inside():
        yield call.tx


def matching(rows: Sequence[dict[str, Any]], filters: "dict[str, Any] | None") -> list[dict[str, Any]]:
    """The rows whose values are among those of each filter."""
    wanted = {name: set(v) if isinstance(v, list | tuple | set) else {v} for name, v in (filters or {}).items()}
    return [row for row in rows if all(row.get(name) in values for name, values in wanted.items())]
