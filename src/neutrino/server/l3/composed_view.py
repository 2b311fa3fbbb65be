"""Reading objects of which a part is not in their rows: it is read for all rows together, and put in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from neutrino.server.db.view import Condition, View
from neutrino.server.query import Query

Object = dict[str, Any]


@dataclass(frozen=True)
class ComposedView:
    """`needed` names the rows' part of what is wanted; `finish` puts in the rest. `names`: all that the API shows."""

    view: View
    names: Sequence[str]
    needed: Callable[[Sequence[str]], tuple[str, ...]]
    finish: Callable[[Connection, list[Object], Sequence[str]], None]

    def many(self, connection: Connection, query: Query, project: str | None, *conditions: Condition) -> list[Object]:
        wanted = self.names if query.fields is None else query.fields
        asked = replace(query, fields=self.needed(wanted))
        return self._finished(connection, self.view.many(connection, asked, project, *conditions), wanted)

    def show(
        self, connection: Connection, key: str, *, project: str | None, everyone: bool, fields: Sequence[str] | None
    ) -> Object | None:
        wanted = self.names if fields is None else fields
        row = self.view.show(connection, key, project=project, everyone=everyone, fields=self.needed(wanted))
        return None if row is None else self._finished(connection, [row], wanted)[0]

    def _finished(self, connection: Connection, rows: list[Object], wanted: Sequence[str]) -> list[Object]:
        self.finish(connection, rows, wanted)
        return [{name: row[name] for name in wanted if name in row} for row in rows]
