"""The history of objects: GET /v2.0/changes lists rows of the change log.

    ?after=POSITION      the changes after a position, in the order of commits; a client continues after the last one
    ?object_id=ID        the changes of one object, as far back as the log goes
    ?kind=port           only of this kind; repeatable        ?limit=N   at most so many
    ?since=3600          newest first: those of the last so many seconds, or from a time on (ISO 8601)
        ?before=POSITION     continues such a list: those before the last one       ?project_id=ID   only of this project

Rows of updates have in `changed` the attributes that they have changed, with old and new values, as far as the caller may
read them of the object; secrets are `***`, and of a long value there is the beginning (db/changed_values.py).

The response has `position`, where a client continues, and `removed`: if that is above the client's `after`, it has missed
changes and reads everything again. Without `after` and `object_id` there are no rows: that is where a client starts.

For administrators these are positions of the log: its last one, and the last one that was removed ([feed] keep_changes).
Members get cursors (`change_cursors.py`) that advance with the changes of their project, and as `removed` 0 or MISSED.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Resource
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.resources.change import CHANGE
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import visible
from neutrino.server.api.stages.query_string import Pairs, parse_fields
from neutrino.server.change_cursors import Cursors, resting
from neutrino.server.change_times import parse_since, position_before
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.changed_values import decode_changed
from neutrino.server.db.session import Database
from neutrino.server.db.sql import Condition, NamedRow, Selection
from neutrino.server.policy.authorizer import Authorizer

MAX_ROWS: Final = 1000  # in one response
MAX_KINDS: Final = 50
MISSED: Final = 2**53  # above all positions and cursors
RULE: Final = "get_change"
_PARAMETERS: Final = frozenset({"after", "limit", "object_id", "kind", "fields", "since", "before", "project_id"})
_COLUMNS = (
    t.changes.c.position,
    t.changes.c.at,
    t.changes.c.kind,
    t.changes.c.object_id,
    t.changes.c.created,
    t.changes.c.deleted,
    t.changes.c.project_id,
    t.changes.c.request_id,
    t.changes.c.user_id,
    t.changes.c.changed,
)
# What rules of policy depend on: nothing else of the object is known when its changes are read.
_OWNERS: Final = ("project_id", "tenant_id", "ext_parent:project_id", "security_group:project_id")
_HEAD = sa.select(t.change_head.c.position, t.change_head.c.removed, t.change_head.c.identity).where(
    t.change_head.c.id == 1
)


@dataclass(frozen=True)
class _Asked:
    after: int | None
    object_id: str | None
    kinds: Sequence[str]
    limit: int
    since: str | None = None  # newest first
    before: int | None = None  # only with `since`
    project_id: str | None = None


@dataclass(frozen=True)
class Changes:
    db: Database
    resources: Mapping[str, Resource]  # of the API, by kind of the change log
    clock: Callable[[], float] = time.time

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def index(request: Request) -> Reply:
            asked, fields = _parse(request.pairs, self.clock()), parse_fields(CHANGE, request.pairs)
            context = request.context
            visibility = authorizer.visibility(context, CHANGE, RULE)
            if visibility.all_rows:
                rows, position, removed = self.read(asked)
            else:
                rows, position, removed = self.read_project(asked, context.project_id or "-")
            own = (self._with_values(row, authorizer, context) for row in rows if visibility.hidden(row) is not None)
            shown = visible.present(CHANGE, [row for row in own if row is not None], visibility, fields)
            return Reply(200, {"changes": shown, "position": position, "removed": removed}, compressible=True)

        return [Route("GET", f"{PREFIX}/{CHANGE.url}", index)]

    def _with_values(self, row: Object, authorizer: Authorizer, context: Context) -> Object | None:
        """The row with the attributes that the caller sees of the object; None if a member may not know of the object.

        Such as a log that an administrator has made for the packets of a project.
        """
        resource = self.resources.get(row["kind"])
        if resource is None:
            return {**row, "changed": []}
        seen = authorizer.visibility(context, resource, f"get_{resource.full_name}")
        hidden = seen.hidden(dict.fromkeys(_OWNERS, row["project_id"]))
        if hidden is None:
            return {**row, "changed": []} if context.is_admin else None
        names = (frozenset(resource.visible) | resource.secrets) - hidden
        return {**row, "changed": [one for one in decode_changed(row["changed"]) if one["name"] in names]}

    def read(self, asked: _Asked) -> tuple[list[Object], int, int]:
        """All rows, and the head's two positions."""
        with self.db.read() as connection:
            position, removed, _ = _head(connection)
            if (asked.after or 0) > position:  # of a database that was restored since
                return [], position, MISSED
            if asked.since is not None:
                rows = _read_since(connection, asked, asked.before, position, removed, asked.project_id)
                return [_shown(row, None) for row in rows], position, removed
            if asked.after is None and asked.object_id is None:
                return [], position, removed
            rows = connection.execute(_sorted(_where(asked, asked.after or 0, position), asked.limit)).all()
        return [_shown(row, None) for row in rows], position, removed

    def read_project(self, asked: _Asked, project_id: str) -> tuple[list[Object], int, int]:
        """The rows that a project sees, with cursors as positions; where it continues, and whether it has missed rows."""
        with self.db.read() as connection:
            head, removed, identity = _head(connection)
            cursors = Cursors(identity, project_id)
            after = cursors.position(asked.after) if asked.after else 0
            has_missed = after is None or after > head or after < removed
            if asked.since is not None:
                before = cursors.position(asked.before) if asked.before is not None else None
                is_own = asked.project_id in (None, project_id) and (asked.before is None or before is not None)
                rows = _read_since(connection, asked, before, head, removed, project_id) if is_own else []
                return [_for_members(row, project_id, cursors) for row in rows], 0, 0
            if asked.after is None and asked.object_id is None:
                # The project's last row, not the log's: how often that one changes is not for members.
                last = connection.execute(_LAST, {"project_id": project_id, "head": head}).scalar() or 0
                return [], cursors.cursor(resting(last, removed, head)) if head else 0, 0
            after = 0 if after is None or after > head else after
            rows = connection.execute(_of_project(asked, after, head, project_id)).all()
        last = rows[-1].position if rows else resting(after, removed, head)
        shown = [_for_members(row, project_id, cursors) for row in rows]
        return shown, cursors.cursor(last) if head else 0, MISSED if has_missed else 0


_LAST = sa.select(sa.func.max(t.changes.c.position)).where(
    t.changes.c.project_id == sa.bindparam("project_id"), t.changes.c.position <= sa.bindparam("head")
)


def _head(connection: Connection) -> tuple[int, int, str]:
    """Read before the rows: what is committed in between has a later position, and comes with the next request."""
    head = connection.execute(_HEAD).first()
    return (head.position, head.removed, head.identity) if head is not None else (0, 0, "")  # the feed has never run


def _read_since(
    connection: Connection, asked: _Asked, before: int | None, head: int, removed: int, project_id: str | None
) -> Sequence[NamedRow]:
    """The newest rows first, of a project or of all. The log is read from the first row that is new enough."""
    after = position_before(connection, str(asked.since), removed, head)
    last = head if before is None else min(head, before - 1)
    if project_id is not None:
        return connection.execute(_of_project(asked, after, last, project_id)).all()
    return connection.execute(_sorted(_where(asked, after, last), asked.limit, newest=True)).all()


def _where(asked: _Asked, after: int, position: int) -> list[Condition]:
    where = [t.changes.c.position > after, t.changes.c.position <= position, t.changes.c.kind.in_(list(asked.kinds))]
    where += [t.changes.c.at >= asked.since] if asked.since is not None else []
    return [*where, t.changes.c.object_id == asked.object_id] if asked.object_id is not None else where


def _sorted(where: Sequence[Condition], limit: int, *, newest: bool = False) -> Selection:
    position = t.changes.c.position
    return sa.select(*_COLUMNS).where(*where).order_by(position.desc() if newest else position).limit(limit)


def _of_project(asked: _Asked, after: int, position: int, project_id: str) -> Selection:
    """The changes of a project's objects. Some writes do not know the project of an object: it is read from the object.

    Two queries by the index (project_id, position): with OR, databases would rather walk the whole log in its order.
    """
    where = _where(asked, after, position)
    owned = [
        sa.and_(
            t.changes.c.kind == history.kind,
            t.changes.c.object_id.in_(sa.select(table.c.id).where(table.c.project_id == project_id)),
        )
        for table, history in t.histories().items()
        if history.feed and history.kind in asked.kinds
    ]
    halves = [
        [*where, t.changes.c.project_id == project_id],
        [*where, t.changes.c.project_id.is_(None), sa.or_(sa.false(), *owned)],
    ]
    newest = asked.since is not None
    parts = (sa.select(_sorted(half, asked.limit, newest=newest).subquery()) for half in halves)
    both = sa.union_all(*parts).subquery()
    return sa.select(both).order_by(both.c.position.desc() if newest else both.c.position).limit(asked.limit)


def _for_members(row: NamedRow, project_id: str, cursors: Cursors) -> Object:
    return {**_shown(row, project_id), "position": cursors.cursor(row.position)}


def _shown(row: NamedRow, project_id: str | None) -> Object:
    action = "deleted" if row.deleted else "created" if row.created else "updated"
    values: Object = row._asdict()
    del values["created"], values["deleted"]
    if project_id is not None:  # who administers the cloud is not for members
        values["user_id"] = None
    return {**values, "action": action, "project_id": row.project_id if row.project_id is not None else project_id}


def _parse(pairs: Pairs, now: float) -> _Asked:
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in _PARAMETERS:
            raise errors.HTTPBadRequest(f"A list cannot be filtered by {name!r}.")
        if "\x00" in value:  # PostgreSQL fails on it
            raise errors.HTTPBadRequest(f"Invalid input for {name!r}: a character in it cannot be stored.")
        values.setdefault(name, []).append(value)
    kinds = set(values.get("kind", ()))
    # The log also has rows that are no objects of the API.
    known = {"agent", *(history.kind for history in t.histories().values())}
    if len(kinds) > MAX_KINDS:
        raise errors.HTTPBadRequest(f"Invalid input for kind: a filter has at most {MAX_KINDS} values.")
    if "since" in values and "after" in values:
        raise errors.HTTPBadRequest(
            "since and after exclude each other: a list is newest first or in the order of commits."
        )
    if "since" not in values and values.keys() & {"before", "project_id"}:
        raise errors.HTTPBadRequest("before and project_id need since.")
    return _Asked(
        since=parse_since(values["since"][-1], now) if "since" in values else None,
        before=_number("before", values) if "before" in values else None,
        project_id=values["project_id"][-1] if "project_id" in values else None,
        after=_number("after", values) if "after" in values else None,
        object_id=values["object_id"][-1].lower() if "object_id" in values else None,
        kinds=sorted(known & kinds if kinds else known),
        limit=min(_number("limit", values), MAX_ROWS) or MAX_ROWS if "limit" in values else MAX_ROWS,
    )


def _number(name: str, values: dict[str, list[str]]) -> int:
    text = values[name][-1]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise errors.HTTPBadRequest(f"Invalid input for {name}: '{text[:64]}' is not a non-negative integer.")
    return int(text)
