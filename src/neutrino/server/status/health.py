"""The status for pages that poll it: `GET /v2.0/health`, and one host's: `GET /v2.0/hosts/{name}`. For administrators.

    ?problems=EDITION&hosts=EDITION     parts that the caller has: they are null in the answer unless they have changed
    If-None-Match: W/"…"                the ETag of an earlier answer: 304 without a body if nothing has changed

The facts are read at most once in RECENT seconds by a process, however many pages poll it, and less often where reading
takes long: polls take at most a tenth of the time of one thread.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from neutrino.diagnosis import health, host_details
from neutrino.diagnosis.facts import Facts
from neutrino.diagnosis.findings import find
from neutrino.diagnosis.health import PARTS, Health
from neutrino.diagnosis.problems import Finding
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.db.session import Database
from neutrino.server.db.tables import network_segments, ports
from neutrino.server.hosts.registry import Registry
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.status import reader
from neutrino.server.status.routes import RULE

RECENT: Final = 2.0  # seconds
SHARE: Final = 10  # the facts are kept for so many times as long as it takes to read them
MOST: Final = 1000  # objects of one problem
TUNNELS: Final = ("vxlan", "gre", "geneve")
_here = ports.alias("ports_here")
_TUNNEL_NETWORKS = (
    sa.select(_here.c.network_id)
    .join(network_segments, network_segments.c.network_id == _here.c.network_id)
    .where(_here.c.host == sa.bindparam("host"), network_segments.c.network_type.in_(TUNNELS))
    .distinct()
)
_PEERS = (
    sa.select(ports.c.host)
    .where(ports.c.network_id.in_(_TUNNEL_NETWORKS), ports.c.host.not_in(("", sa.bindparam("host"))))
    .distinct()
)
_PORTS = sa.select(ports.c.status, sa.func.count()).where(ports.c.host == sa.bindparam("host")).group_by(ports.c.status)
_NETWORKS = sa.select(sa.func.count(sa.distinct(ports.c.network_id))).where(ports.c.host == sa.bindparam("host"))


@dataclass(frozen=True)
class Assessment:
    """What was read at one moment, and what follows from it."""

    facts: Facts
    findings: Sequence[Finding]
    health: Health


@dataclass(eq=False)
class Assessor:
    """Reads the facts, and keeps them for a moment."""

    db: Database
    registry: Registry
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _latest: Assessment | None = None
    _until: float = 0.0

    def assess(self) -> Assessment:
        with self._lock:  # one reads, and the others wait for what it has read
            began = self.clock()
            if self._latest is None or began >= self._until:
                self._latest = self._read()
                took = self.clock() - began
                self._until = self.clock() + max(RECENT, took * SHARE)
            return self._latest

    def _read(self) -> Assessment:
        facts = reader.read(self.db, self.registry.clock(), self.registry.down_time, most=MOST)
        findings = find(facts)
        return Assessment(facts, findings, health.assess(facts, findings))


@dataclass(frozen=True)
class HealthRoutes:
    db: Database
    assessor: Assessor

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def show_health(request: Request) -> Reply:
            authorizer.require(request.context, RULE, {})
            known = _known(request.pairs)
            current = self.assessor.assess().health
            return Reply(200, _document(current, known), compressible=True, etag=current.edition)

        def show_host(request: Request) -> Reply:
            authorizer.require(request.context, RULE, {})
            shown = self.host(request.key)
            if shown is None:
                raise errors.HTTPNotFound(f"There is no host {request.key[:255]!r}.")
            return Reply(200, {"host": shown}, compressible=True)

        return [Route("GET", f"{PREFIX}/health", show_health), Route("GET", f"{PREFIX}/hosts/{{key}}", show_host)]

    def host(self, name: str) -> Object | None:
        latest = self.assessor.assess()
        parameters = {"host": name}
        with self.db.read() as connection:
            peers = list(connection.execute(_PEERS, parameters).scalars())
            by_status = reader.counts(connection, _PORTS, parameters)
            networks = connection.execute(_NETWORKS, parameters).scalar() or 0
        shown = host_details.document(latest.facts, latest.findings, name, peers)
        if shown is None:
            return None
        return {**shown, "ports": {"total": sum(by_status.values()), "by_status": by_status}, "networks": networks}


def _document(current: Health, known: dict[str, str]) -> Object:
    parts = {name: None if known.get(name) == current.editions[name] else current.parts[name] for name in PARTS}
    return {"health": {"editions": dict(current.editions), **parts}}


def _known(pairs: list[tuple[str, str]]) -> dict[str, str]:
    values = dict(pairs)
    if unknown := sorted(values.keys() - set(PARTS)):
        raise errors.HTTPBadRequest(f"There is no parameter {unknown[0][:64]!r}: {' and '.join(PARTS)} are known.")
    return values
