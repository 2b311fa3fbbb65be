"""The quota API: limits and usage of projects.

    GET /v2.0/quotas                 projects with limits of their own
    GET /v2.0/quotas/{key}           a project's limits        PUT     set some of them; -1 is unlimited
    GET …/{key}/default              the default limits        DELETE  reset to the default limits
    GET …/{key}/details              limits and usage          GET     /v2.0/quotas/project, /tenant: the caller's project

Usage is read from the counters (`db/transaction.py`); if a resource has none, its objects are counted. `recount` repairs
the counters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages.body import decode
from neutrino.server.api.types import Bool, Integer, Text, parse_attribute
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import UNLIMITED, count_all
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.quota.quotas import Quotas

LIMIT = Integer(min=UNLIMITED)


@dataclass(frozen=True)
class QuotaPlugin:
    db: Database
    quotas: Quotas
    extensions = (
        Extension("quotas", "Quota management support", "Limits on what each project may have."),
        Extension("quota_details", "Quota details management support", "How much of its limits a project uses."),
        Extension(
            "quota-check-limit", "Quota engine limit check", "No limit is set below what is used, unless forced."
        ),
        Extension(
            "quota-check-limit-default",
            "Quota engine limit check by default",
            "The check is made without being asked for.",
        ),
    )

    def routes(self, authorizer: Authorizer) -> list[Route]:
        base, member = f"{PREFIX}/quotas", f"{PREFIX}/quotas/{{key}}"
        handlers: tuple[tuple[str, str, str, Callable[[Request], Object | None]], ...] = (
            ("GET", base, "get_quota", lambda request: {"quotas": self._of_all_projects()}),
            ("GET", member, "get_quota", lambda request: {"quota": self._limits(request.key)}),
            ("GET", f"{member}/default", "get_quota", lambda request: {"quota": self.quotas.defaults}),
            ("GET", f"{member}/details", "get_quota", lambda request: {"quota": self._details(request.key)}),
            ("PUT", member, "update_quota", self._put),
            ("DELETE", member, "delete_quota", self._delete),
        )

        def checked(rule: str, handler: Callable[[Request], Object | None], request: Request) -> Reply:
            # Everyone reads the quota of the own project, as in Neutron.
            if rule != "get_quota" or not request.key or request.key != request.context.project_id:
                target = {"project_id": request.key, "tenant_id": request.key} if request.key else {}
                authorizer.require(request.context, rule, target)
            body = handler(request)
            return Reply(204 if body is None else 200, body)

        return [
            Route("GET", f"{base}/tenant", lambda request: _whose(request, "tenant")),
            Route("GET", f"{base}/project", lambda request: _whose(request, "project")),
            *(Route(method, path, partial(checked, rule, handler)) for method, path, rule, handler in handlers),
        ]

    # --- reading ------------------------------------------------------------------------------------------------------

    def _limits(self, project_id: str) -> Object:
        with self.db.read() as connection:
            rows = connection.execute(
                sa.select(t.quotas.c.resource, t.quotas.c.limit).where(t.quotas.c.project_id == project_id)
            ).all()
        return self.quotas.defaults | {name: limit for name, limit in rows if name in self.quotas.defaults}

    def _details(self, project_id: str) -> Object:
        limits = self._limits(project_id)
        with self.db.read() as connection:
            used = _usage(connection, project_id)
        return {name: {"limit": limit, "used": used.get(name, 0), "reserved": 0} for name, limit in limits.items()}

    def _of_all_projects(self) -> list[Object]:
        """The limits of the projects that have some of their own."""
        found: dict[str, Object] = {}
        with self.db.read() as connection:
            rows = connection.execute(
                sa.select(t.quotas.c.project_id, t.quotas.c.resource, t.quotas.c.limit).order_by(t.quotas.c.project_id)
            ).all()
        for project_id, resource, limit in rows:
            if project_id not in found:
                found[project_id] = {**self.quotas.defaults, "project_id": project_id, "tenant_id": project_id}
            if resource in self.quotas.defaults:
                found[project_id][resource] = limit
        return list(found.values())

    # --- writing ------------------------------------------------------------------------------------------------------

    def _put(self, request: Request) -> Object:
        body = decode(request.raw)
        wanted = body.get("quota") if isinstance(body, dict) else None
        if not isinstance(wanted, dict):
            raise errors.HTTPBadRequest("The body has no 'quota'.")
        wanted = dict(wanted)
        force = parse_attribute("force", Bool(), wanted.pop("force", False))
        wanted.pop("check_limit", None)  # accepted for clients; limits are always checked
        unknown = sorted(set(wanted) - set(self.quotas.defaults))
        if unknown:
            raise errors.HTTPBadRequest(f"There is no quota for {', '.join(map(repr, unknown))}.")
        limits = {name: parse_attribute(name, LIMIT, value) for name, value in wanted.items()}
        parse_attribute("project_id", Text(), request.key)
        self._write(request.key, limits, force)
        return {"quota": self._limits(request.key)}

    @retried
    def _write(self, project_id: str, limits: Mapping[str, int], force: bool) -> None:
        if not force:
            with self.db.read() as connection:
                used = _usage(connection, project_id)
            for name, limit in limits.items():
                if limit != UNLIMITED and used.get(name, 0) > limit:
                    raise errors.HTTPBadRequest(
                        f"The project already has {used[name]} of {name}: a limit of {limit} needs 'force'."
                    )
        with self.db.transaction() as tx:
            for name, limit in limits.items():
                known = sa.update(t.quotas).where(t.quotas.c.project_id == project_id, t.quotas.c.resource == name)
                # Two administrators who insert at once: one fails on the primary key and retries with the update.
                if not tx.execute(known.values(limit=limit)).rowcount:
                    tx.insert(t.quotas, [{"project_id": project_id, "resource": name, "limit": limit}])

    @retried
    def _delete(self, request: Request) -> None:
        with self.db.transaction() as tx:
            if not tx.execute(sa.delete(t.quotas).where(t.quotas.c.project_id == request.key)).rowcount:
                raise errors.TenantQuotaNotFound(tenant_id=request.key)


def _usage(connection: Connection, project_id: str) -> dict[str, int]:
    rows = connection.execute(
        sa.select(t.quota_usages.c.resource, t.quota_usages.c.used).where(t.quota_usages.c.project_id == project_id)
    ).all()
    used = {row.resource: int(row.used) for row in rows}
    for name, table in t.counted_rows().items():
        if name not in used:  # no counter: unlimited, or not used under a limit yet
            used[name] = connection.execute(count_all(table), {"p": project_id}).scalar_one()
    return used


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


def recount(db: Database) -> list[Correction]:
    """Set every existing counter to the number of objects; returns the corrected ones.

    The server may run meanwhile: the counters are locked before the objects are counted, so a writer whose object is not
    counted waits and then increments the correct counter. A project without a counter is counted by its first use under a
    limit.
    """
    counted = t.counted_rows()

    def attempt() -> list[Correction]:
        with db.transaction() as tx:
            locked = tx.execute(
                sa.select(t.quota_usages).where(t.quota_usages.c.resource.in_(list(counted))).with_for_update()
            )
            stored = {(row.project_id, row.resource): int(row.used) for row in locked}
            actual = {
                (row.project_id, resource): int(row.number)
                for resource, table in counted.items()
                for row in tx.execute(
                    sa.select(table.c.project_id, sa.func.count().label("number")).group_by(table.c.project_id)
                )
            }
            wrong = [key for key in sorted(stored) if stored[key] != actual.get(key, 0)]
            corrections = [Correction(*key, stored[key], actual.get(key, 0)) for key in wrong]
            for one in corrections:
                counter = sa.update(t.quota_usages).where(
                    t.quota_usages.c.project_id == one.project_id, t.quota_usages.c.resource == one.resource
                )
                tx.write(counter.values(used=one.now))
            return corrections

    return db.retrying(attempt)
