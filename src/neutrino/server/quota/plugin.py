"""The quota API: limits and usage of projects.

    GET /v2.0/quotas                 projects with limits of their own
    GET /v2.0/quotas/{key}           a project's limits        PUT     set some of them; -1 is unlimited
    GET …/{key}/default              the default limits        DELETE  reset to the default limits
    GET …/{key}/details              limits and usage          GET     /v2.0/quotas/project, /tenant: the caller's project

Usage is read from the counters (`db/transaction.py`); if a resource has none, its objects are counted. `recount` repairs
the counters.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Handler, Route
from neutrino.server.api.stages.body import decode
from neutrino.server.api.types import Bool, Integer, Text, parse_attribute
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import UNLIMITED, Transaction
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.quota.quotas import Quotas

Object = dict[str, Any]
_q, _u = t.quotas.c, t.quota_usages.c
LIMIT = Integer(min=UNLIMITED)


class QuotaPlugin:
    extensions = (
        Extension("quotas", "Quota management support", "Limits on what each project may have."),
        Extension("quota_details", "Quota details management support", "How much of its limits a project uses."),
        Extension(
            "quota-check-limit", "Quota engine limit check", "No limit is set below what is used, unless forced."
        ),
    )

    def __init__(self, db: Database, quotas: Quotas) -> None:
        self._db = db
        self._quotas = quotas

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def allowed(rule: str, handler: Handler) -> Handler:
            def check(request: Request) -> Reply:
                target = {"project_id": request.key, "tenant_id": request.key} if request.key else {}
                authorizer.require(request.context, rule, target)
                return handler(request)

            return check

        def shown(read: Callable[[str], Object]) -> Handler:
            return allowed("get_quota", lambda request: Reply(200, {"quota": read(request.key)}))

        base = f"{PREFIX}/quotas"
        member = f"{base}/{{key}}"
        return [
            Route("GET", base, allowed("get_quota", lambda r: Reply(200, {"quotas": self.all_limits()}))),
            Route("GET", f"{base}/tenant", lambda r: _whose(r, "tenant")),
            Route("GET", f"{base}/project", lambda r: _whose(r, "project")),
            Route("GET", member, shown(self.limits)),
            Route("GET", f"{member}/default", shown(lambda _: self.defaults())),
            Route("GET", f"{member}/details", shown(self.details)),
            Route("PUT", member, allowed("update_quota", self._put)),
            Route("DELETE", member, allowed("delete_quota", self._delete)),
        ]

    # --- reading ------------------------------------------------------------------------------------------------------

    def defaults(self) -> Object:
        return dict(self._quotas.defaults)

    def limits(self, project_id: str) -> Object:
        with self._db.read() as connection:
            return self.defaults() | self._own(connection, project_id)

    def details(self, project_id: str) -> Object:
        with self._db.read() as connection:
            limits = self.defaults() | self._own(connection, project_id)
            used = _usage(connection, project_id)
        return {name: {"limit": limit, "used": used.get(name, 0), "reserved": 0} for name, limit in limits.items()}

    def all_limits(self) -> list[Object]:
        found: dict[str, Object] = {}
        with self._db.read() as connection:
            rows = connection.execute(sa.select(_q.project_id, _q.resource, _q.limit).order_by(_q.project_id)).all()
        for project_id, resource, limit in rows:
            if project_id not in found:
                found[project_id] = {**self.defaults(), "project_id": project_id, "tenant_id": project_id}
            if resource in self._quotas.defaults:
                found[project_id][resource] = limit
        return list(found.values())

    def _own(self, connection: Connection, project_id: str) -> Object:
        rows = connection.execute(sa.select(_q.resource, _q.limit).where(_q.project_id == project_id)).all()
        return {resource: limit for resource, limit in rows if resource in self._quotas.defaults}

    # --- writing ------------------------------------------------------------------------------------------------------

    def set_limits(self, project_id: str, limits: Mapping[str, int], *, force: bool = False) -> Object:
        def attempt() -> None:
            if not force:
                with self._db.read() as connection:
                    used = _usage(connection, project_id)
                for name, limit in limits.items():
                    if limit != UNLIMITED and used.get(name, 0) > limit:
                        raise errors.HTTPBadRequest(
                            f"The project already has {used[name]} of {name}: a limit of {limit} needs 'force'."
                        )
            with self._db.transaction() as tx:
                for name, limit in limits.items():
                    _write_limit(tx, project_id, name, limit)

        self._db.retrying(attempt)
        return self.limits(project_id)

    def forget_limits(self, project_id: str) -> None:
        def attempt() -> int:
            with self._db.transaction() as tx:
                return tx.execute(sa.delete(t.quotas).where(_q.project_id == project_id)).rowcount

        if not self._db.retrying(attempt):
            raise errors.TenantQuotaNotFound(tenant_id=project_id)

    def _put(self, request: Request) -> Reply:
        body = decode(request.raw)
        wanted = body.get("quota") if isinstance(body, dict) else None
        if not isinstance(wanted, dict):
            raise errors.HTTPBadRequest("The body has no 'quota'.")
        wanted = dict(wanted)
        force = parse_attribute("force", Bool(), wanted.pop("force", False))
        wanted.pop("check_limit", None)  # accepted for clients; limits are always checked
        unknown = sorted(set(wanted) - set(self._quotas.defaults))
        if unknown:
            raise errors.HTTPBadRequest(f"There is no quota for {', '.join(map(repr, unknown))}.")
        limits = {name: parse_attribute(name, LIMIT, value) for name, value in wanted.items()}
        parse_attribute("project_id", Text(255), request.key)
        return Reply(200, {"quota": self.set_limits(request.key, limits, force=force)})

    def _delete(self, request: Request) -> Reply:
        self.forget_limits(request.key)
        return Reply(204)


def _usage(connection: Connection, project_id: str) -> dict[str, int]:
    rows = connection.execute(sa.select(_u.resource, _u.used).where(_u.project_id == project_id)).all()
    used = {row.resource: int(row.used) for row in rows}
    for name, table in t.COUNTED.items():
        if name not in used:  # no counter: unlimited, or not used under a limit yet
            count = sa.select(sa.func.count()).select_from(table).where(table.c.project_id == project_id)
            used[name] = connection.execute(count).scalar_one()
    return used


def _write_limit(tx: Transaction, project_id: str, resource: str, limit: int) -> None:
    known = sa.update(t.quotas).where(_q.project_id == project_id, _q.resource == resource).values(limit=limit)
    # Two administrators who insert at once: one fails on the primary key and retries with the update.
    if not tx.execute(known).rowcount:
        tx.execute(sa.insert(t.quotas).values(project_id=project_id, resource=resource, limit=limit))


def _whose(request: Request, word: str) -> Reply:
    if not request.context.project_id:
        raise errors.QuotaMissingTenant()
    return Reply(200, {word: {f"{word}_id": request.context.project_id}})


# --- repair -----------------------------------------------------------------------------------------------------------


class Correction(NamedTuple):
    project_id: str
    resource: str
    was: int
    now: int


def recount(db: Database, counted: Mapping[str, sa.FromClause] = t.COUNTED) -> list[Correction]:
    """Set every existing counter to the number of objects; returns the corrected ones.

    The server may run meanwhile: the counters are locked before the objects are counted, so a writer whose object is not
    counted waits and then increments the correct counter. A project without a counter is counted by its first use under a
    limit.
    """

    def attempt() -> list[Correction]:
        with db.transaction() as tx:
            locked = tx.execute(sa.select(t.quota_usages).where(_u.resource.in_(list(counted))).with_for_update())
            stored = {(row.project_id, row.resource): int(row.used) for row in locked}
            actual = {
                (row.project_id, resource): int(row.number)
                for resource, table in counted.items()
                for row in tx.execute(
                    sa.select(table.c.project_id, sa.func.count().label("number")).group_by(table.c.project_id)
                )
            }
            return [
                _correct(tx, key, stored[key], actual.get(key, 0))
                for key in sorted(stored)
                if stored[key] != actual.get(key, 0)
            ]

    return db.retrying(attempt)


def _correct(tx: Transaction, key: tuple[str, str], was: int, now: int) -> Correction:
    project_id, resource = key
    change = sa.update(t.quota_usages).where(_u.project_id == project_id, _u.resource == resource)
    tx.execute(change.values(used=now))
    return Correction(project_id, resource, was, now)
