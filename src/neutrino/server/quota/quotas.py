"""Limits of projects, from the configuration or set for the project.

A limit is enforced by a conditional update of the counter in the transaction that creates the object
(`db/transaction.py`), so concurrent writers cannot exceed it. The check here is for requests that are refused for another
reason, because clients expect a quota error before any other.
"""

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, Read, first, read
from neutrino.server.db.session import Database
from neutrino.server.db.sql import Row
from neutrino.server.db.transaction import UNCOUNTED, UNLIMITED, NewLimit

_P, _R = sa.bindparam("p", type_=sa.String), sa.bindparam("r", type_=sa.String)
_LIMIT = sa.select(t.quotas.c.limit).where(t.quotas.c.project_id == _P, t.quotas.c.resource == _R)
_USED = sa.select(t.quota_usages.c.used).where(t.quota_usages.c.project_id == _P, t.quota_usages.c.resource == _R)
_LIMIT_AND_USE = Lookup(sa.select(_LIMIT.scalar_subquery(), _USED.scalar_subquery()), first)


class Quotas:
    def __init__(self, db: Database, defaults: Mapping[str, int]) -> None:
        """`defaults` has every resource with a quota."""
        self._db = db
        self.defaults = dict(defaults)

    def reading(self, resource: str, project_id: str) -> Read[int]:
        """The limit of a project, to be read together with other things."""
        return _LIMIT_AND_USE(p=project_id, r=resource).then(lambda row: self._limit_and_use(resource, row)[0])

    def limit(self, connection: Connection, resource: str, project_id: str) -> int:
        """Return the limit of a project; UNCOUNTED if it has none and no counter exists."""
        return self._read(connection, resource, project_id)[0]

    def limits(self, connection: Connection, resource: str, objects: Iterable[Values]) -> dict[str, int]:
        """The limits of the projects of these objects."""
        projects = {one["project_id"] for one in objects}
        return {project: self.limit(connection, resource, project) for project in projects}

    def _read(self, connection: Connection, resource: str, project_id: str) -> tuple[int, int]:
        return self._limit_and_use(resource, read(connection, _LIMIT_AND_USE(p=project_id, r=resource)))

    def _limit_and_use(self, resource: str, row: Row | None) -> tuple[int, int]:
        own, used = row or (None, None)
        limit = self.defaults.get(resource, UNLIMITED) if own is None else int(own)
        # A counter from an earlier limit stays correct only if unlimited projects keep counting.
        if used is None:
            return (UNCOUNTED if limit < 0 else NewLimit(limit)), 0
        return limit, used

    def check(self, resource: str, projects: Sequence[str]) -> None:
        """Refuse a request that would exceed a limit; `projects` has the project of each new object."""
        for project_id in dict.fromkeys(projects):
            with self._db.read() as connection:
                limit, used = self._read(connection, resource, project_id)
            if limit >= 0 and used + projects.count(project_id) > limit:
                raise errors.OverQuota(overs=[resource])
