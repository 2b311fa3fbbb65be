"""The history of objects: GET /v2.0/changes lists rows of the change log.

    ?after=POSITION      the changes after a position, in the order of commits; a client continues after the last one
    ?object_id=ID        the changes of one object, as far back as the log goes
    ?kind=port           only of this kind; repeatable        ?limit=N   at most so many

The response has the log's head too: `position` is the last position, and rows up to `removed` have been removed ([feed]
keep_changes). A client whose position is below `removed` has missed changes and reads everything again. Without `after` and
`object_id` it has no rows: that is where a client starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.resources.change import CHANGE
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import visible
from neutrino.server.api.stages.query_string import Pairs, parse_fields
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.policy.authorizer import Authorizer

Object = dict[str, Any]
MAX_ROWS: Final = 1000  # in one response
MAX_KINDS: Final = 50
RULE: Final = "get_change"
_KINDS: Final = frozenset({*t.HISTORY.values(), "agent"})  # the log also has rows that are no objects of the API
_PARAMETERS: Final = frozenset({"after", "limit", "object_id", "kind", "fields"})
_c, _h = t.changes.c, t.change_head.c
_HEAD = sa.select(_h.position, _h.removed).where(_h.id == 1)


@dataclass(frozen=True)
class _Asked:
    after: int | None
    object_id: str | None
    kinds: Sequence[str]
    limit: int


@dataclass(frozen=True)
class Changes:
    db: Database

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def index(request: Request) -> Reply:
            asked, fields = _parse(request.pairs), parse_fields(CHANGE, request.pairs)
            context = request.context
            visibility = authorizer.visibility(context, CHANGE, RULE)
            rows, position, removed = self.read(asked, None if visibility.all_rows else context.project_id or "-")
            shown = visible.present(
                CHANGE, [row for row in rows if visibility.hidden(row) is not None], visibility, fields
            )
            return Reply(200, {"changes": shown, "position": position, "removed": removed})

        return [Route("GET", f"{PREFIX}/{CHANGE.url}", index)]

    def read(self, asked: _Asked, project_id: str | None) -> tuple[list[Object], int, int]:
        """The rows that a project sees (None: every row), and the head's two positions."""
        with self.db.read() as connection:
            # Before the rows: what is committed in between has a later position, and comes with the next request.
            head = connection.execute(_HEAD).first()
            position, removed = head if head is not None else (0, 0)  # the feed has never run
            if asked.after is None and asked.object_id is None:
                return [], position, removed
            rows = connection.execute(_statement(asked, position, project_id)).all()
        return [_shown(row, project_id) for row in rows], position, removed


def _statement(asked: _Asked, position: int, project_id: str | None) -> sa.Select[Any]:
    columns = (_c.position, _c.at, _c.kind, _c.object_id, _c.created, _c.deleted, _c.project_id, _c.request_id)
    where = [_c.position > (asked.after or 0), _c.position <= position, _c.kind.in_(list(asked.kinds))]
    if asked.object_id is not None:
        where.append(_c.object_id == asked.object_id)
    if project_id is not None:
        where.append(_visible_to(project_id))
    return sa.select(*columns).where(*where).order_by(_c.position).limit(asked.limit)


def _visible_to(project_id: str) -> sa.ColumnElement[bool]:
    """The changes of a project's objects. Some writes do not know the project of an object: it is read from the object."""
    owned = [
        sa.and_(_c.kind == kind, _c.object_id.in_(sa.select(table.c.id).where(table.c.project_id == project_id)))
        for table, kind in t.LOGGED.items()
    ]
    return sa.or_(_c.project_id == project_id, sa.and_(_c.project_id.is_(None), sa.or_(*owned)))


def _shown(row: Any, project_id: str | None) -> Object:
    action = "deleted" if row.deleted else "created" if row.created else "updated"
    values: Object = row._asdict()
    del values["created"], values["deleted"]
    return {**values, "action": action, "project_id": row.project_id if row.project_id is not None else project_id}


def _parse(pairs: Pairs) -> _Asked:
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in _PARAMETERS:
            raise errors.HTTPBadRequest(f"A list cannot be filtered by {name!r}.")
        if "\x00" in value:  # PostgreSQL fails on it
            raise errors.HTTPBadRequest(f"Invalid input for {name!r}: a character in it cannot be stored.")
        values.setdefault(name, []).append(value)
    kinds = set(values.get("kind", ()))
    if len(kinds) > MAX_KINDS:
        raise errors.HTTPBadRequest(f"Invalid input for kind: a filter has at most {MAX_KINDS} values.")
    return _Asked(
        after=_number("after", values) if "after" in values else None,
        object_id=values["object_id"][-1].lower() if "object_id" in values else None,
        kinds=sorted(_KINDS & kinds if kinds else _KINDS),
        limit=min(_number("limit", values), MAX_ROWS) or MAX_ROWS if "limit" in values else MAX_ROWS,
    )


def _number(name: str, values: dict[str, list[str]]) -> int:
    text = values[name][-1]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise errors.HTTPBadRequest(f"Invalid input for {name}: '{text[:64]}' is not a non-negative integer.")
    return int(text)
