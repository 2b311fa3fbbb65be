"""The state of a takeover on our side: the hosts that are converted, and whether requests may write.

They may not before the takeover is opened, and not any more once an export has begun to give the cloud back to Neutron.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec
import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.model.takeover import Compared, line
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import now
from neutrino.server.frozen import KEPT_SECONDS
from neutrino.server.hosts.registry import timestamp
from neutrino.takeover.checks import Refused
from neutrino.takeover.fleet.shadow import comparison_lines

NOTICE_SECONDS: Final = KEPT_SECONDS + 2.0  # until servers refuse writes, and have completed those that they had begun
SILENT_SECONDS: Final = 60.0  # a server process that has not written its time for so long has ended
_SHOWN: Final = 20  # hosts in a message
_HELD: Final = f"down: {words.HELD}"


class Phase(StrEnum):
    NONE = "none"  # no copy of a Neutron's database
    IMPORTED = "imported"  # Neutron goes on, and further imports follow
    FROZEN = "frozen"  # the final import is complete: hosts are converted
    OPEN = "open"  # requests write here; an export leads back
    CLOSED = "closed"  # an export was begun: requests do not write here any more
    EXPORTED = "exported"  # Neutron has all that has changed: hosts are given back
    FINISHED = "finished"  # there is no way back


@dataclass(frozen=True)
class Import:
    """A run of `neutrino takeover import`."""

    source: str  # Neutron's database, without credentials
    release: str
    started_at: str
    finished_at: str | None  # None: it was interrupted, or runs
    final: bool
    opened_at: str | None
    concluded_at: str | None = None
    closed_at: str | None = None
    exported_at: str | None = None


@dataclass(frozen=True)
class State:
    imports: tuple[Import, ...]  # in the order of their time
    converted: tuple[str, ...]  # hosts with an agent of ours
    left: tuple[str, ...]  # hosts with Neutron's agents
    failed_bindings: tuple[str, ...] = ()  # ports that could not be bound, as hosts may not while their agents are dead
    compared: Mapping[str, Compared | None] = field(default_factory=dict)  # of hosts whose agent of ours is held

    @property
    def is_frozen(self) -> bool:
        return any(one.opened_at is None or one.closed_at is not None for one in self.imports)

    @property
    def phase(self) -> Phase:
        if not self.imports:
            return Phase.NONE
        last = self.imports[-1]
        if last.concluded_at:
            return Phase.FINISHED
        if not self.is_frozen:
            return Phase.OPEN
        if last.closed_at:
            return Phase.EXPORTED if last.exported_at else Phase.CLOSED
        return Phase.FROZEN if last.final and last.finished_at else Phase.IMPORTED

    def to_text(self, differences: Mapping[str, Collection[str]] | None = None) -> str:
        """`differences`: all that hosts have found, by host; without it the first ones of their reports."""
        if not self.imports:
            return "nothing was imported: this database is no copy of Neutron's\n"
        last = self.imports[-1]
        ended = f"finished at {last.finished_at}" if last.finished_at else "not finished"
        kind = "final import" if last.final else "import"
        lines = [
            f"{len(self.imports)} imports; the last one, a {kind} of {last.source} ({last.release}), {ended}",
            f"phase: {self.phase}",
            *self._phase_lines(last),
            f"{len(self.converted)} of {len(self.converted) + len(self.left)} hosts are converted"
            + (f"; with Neutron's agents: {listed(self.left)}" if self.left else ""),
            *self._binding_lines(),
            *comparison_lines(self.compared, differences),
        ]
        return "".join(f"{line}\n" for line in lines)

    def _phase_lines(self, last: Import) -> Iterator[str]:
        if self.phase is Phase.CLOSED:
            yield f"an export was begun at {last.closed_at} and is not complete: run it again"
        elif self.phase is Phase.EXPORTED:
            yield f"exported to Neutron at {last.exported_at}: start its servers, and give the hosts back to its agents"
        if self.is_frozen:
            yield "requests that write are refused until `neutrino takeover open`"
        else:
            yield f"completed: requests write since {last.opened_at}"
        if last.concluded_at:
            yield f"finished at {last.concluded_at}: there is no way back to Neutron"

    def _binding_lines(self) -> Iterator[str]:
        if self.failed_bindings and not self.is_frozen:
            yield f"ports whose binding failed: {listed(self.failed_bindings)}"
            yield "  bind each again by an update of binding:host_id; Nova does so when an instance is rebooted hard"


def last_import_to_export(db: Database) -> Import:
    """The import whose database gets what changed since; Refused if there is nothing to export, or no way back."""
    state = read_state(db)
    match state.phase:
        case Phase.NONE:
            raise Refused("nothing was imported: this database is no copy of Neutron's, which has no place for it")
        case Phase.IMPORTED | Phase.FROZEN:
            raise Refused(
                "requests do not write here yet: nothing has changed since the import, and there is nothing to export"
            )
        case Phase.FINISHED:
            raise Refused(
                f"the takeover was finished at {state.imports[-1].concluded_at}: there is no way back any more"
            )
    return state.imports[-1]


def read_state(db: Database) -> State:
    c = t.takeovers.c
    states = (c.opened_at, c.concluded_at, c.closed_at, c.exported_at)
    columns = (c.source, c.release, c.started_at, c.finished_at, c.final, *states)
    agents = sa.select(t.agents.c.host, t.agents.c.configurations).where(t.agents.c.agent_type == words.OVS)
    with db.read() as connection:
        imports = tuple(Import(*row) for row in connection.execute(sa.select(*columns).order_by(c.started_at, c.id)))
        rows = connection.execute(agents.order_by(t.agents.c.host)).all()
        failed = (
            connection.execute(sa.select(t.ports.c.id).where(t.ports.c.vif_type == "binding_failed")).scalars().all()
        )
    compared = {
        row.host: _compared(configurations.get(words.TAKEOVER))
        for row in rows
        if (configurations := msgspec.json.decode(row.configurations)).get(words.DATAPLANE) == _HELD
    }
    # Only our agents report the state of the switch; one that is held has changed nothing on its host yet.
    reported = {row.host: msgspec.json.decode(row.configurations).get(words.DATAPLANE) for row in rows}
    converted = {host for host, dataplane in reported.items() if dataplane not in (None, _HELD)}
    left = tuple(row.host for row in rows if row.host not in converted)
    return State(imports, tuple(sorted(converted)), left, tuple(failed), compared)


def _compared(reported: object) -> Compared | None:
    """What a host reports; it may be anything."""
    if reported is None:
        return None
    try:
        return msgspec.convert(reported, Compared)
    except msgspec.ValidationError as error:
        return Compared(error=line(f"its report cannot be read: {error}"))


def open_writes(db: Database, despite: Collection[str] = ()) -> State:
    """Let requests write, if all hosts are converted but those of `despite`; Refused otherwise.

    Also after an export: the way back to Neutron is not taken then.
    """
    state = read_state(db)
    if not state.imports:
        raise Refused("nothing was imported: this database is no copy of Neutron's, and requests write already")
    last = state.imports[-1]
    if not state.is_frozen:
        raise Refused(f"requests write already, since {last.opened_at}")
    if not last.finished_at:
        raise Refused(f"the import that was started at {last.started_at} is not finished: run it again")
    if not last.final:
        raise Refused(
            f"the last import, at {last.started_at}, was not the final one: Neutron may have changed since. Let Neutron "
            "refuse writes, and run `neutrino takeover import --final`"
        )
    left = [host for host in state.left if host not in despite]
    if left:
        raise Refused(
            f"{len(left)} hosts have Neutron's agents, which would not learn of any change: {listed(left)}. Convert "
            "them, delete their agents, or name those that are out of use with --despite-hosts"
        )
    at = now()

    def attempt() -> None:
        with db.transaction() as tx:
            tx.write(sa.update(t.takeovers).where(t.takeovers.c.opened_at.is_(None)).values(opened_at=at))
            tx.write(sa.update(t.takeovers).values(closed_at=None, exported_at=None))

    db.retrying(attempt)
    return read_state(db)


@dataclass
class Closing:
    """Requests may not write while an export runs; nor after it, if it is complete."""

    is_complete: bool = False


@contextmanager
def closed(db: Database, wait: Callable[[float], None] = time.sleep) -> Iterator[Closing]:
    """Refuse writes for an export. They are let in again if it does not complete, unless an earlier one has closed it."""
    was_open = read_state(db).phase is Phase.OPEN
    closing = Closing()
    try:
        if was_open:
            _set(db, closed_at=now())
            if _has_servers(db):
                wait(NOTICE_SECONDS)
        yield closing
    finally:
        if closing.is_complete:
            _set(db, exported_at=now())
        elif was_open:
            _set(db, closed_at=None)


def _set(db: Database, **values: str | None) -> None:
    def attempt() -> None:
        with db.transaction() as tx:
            tx.write(sa.update(t.takeovers).values(values))

    db.retrying(attempt)


def _has_servers(db: Database) -> bool:
    silent = timestamp(time.time() - SILENT_SECONDS)
    servers = sa.select(t.server_processes.c.pid).where(t.server_processes.c.seen_at >= silent).limit(1)
    with db.read() as connection:
        return connection.execute(servers).first() is not None


def listed(hosts: Collection[str]) -> str:
    """The first names, and how many more there are."""
    shown = sorted(hosts)[:_SHOWN]
    return ", ".join(shown) + (f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else "")
