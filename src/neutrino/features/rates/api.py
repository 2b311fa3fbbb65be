"""GET /v2.0/rates: short series of what ports, routers and tunnels count, for a sparkline each.

    ?port_id=ID       repeatable      the ports
    ?router_id=ID     repeatable      the sums of the ports of each router
    ?host=NAME                        the busiest ports of a host, and its tunnels: for administrators

What a host reports of a port counts only while the port is on that host: it is read from the reports of the hosts that
have the port now. So no host can report on others' ports, whatever it sends.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.rates.reports import WINDOW
from neutrino.features.rates.series import COLUMNS, HostReport, busiest, port_series, tunnel_series
from neutrino.features.rates.tables import host_rates
from neutrino.features.router.hosts import read_router_hosts
from neutrino.features.router.tables import router_ports, routers
from neutrino.model.objects import Object
from neutrino.model.rates import Counted
from neutrino.server import errors
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.db.tables import ports
from neutrino.server.policy.authorizer import Authorizer

MAX_IDS: Final = 200
MAX_HOSTS: Final = 200  # whose reports are read for one request
MAX_TUNNELS: Final = 500  # of a host
MAX_PORTS: Final = 5000  # of the routers of one request: the others are counted in `ports_left` of their router
PORT, ROUTER, HOST = "port_id", "router_id", "host"
RULE, HOST_RULE = "get_rate", "get_rate:host"


class _Stored(msgspec.Struct):
    """A row of a host; most of its ports are not asked for, and stay encoded."""

    ports: dict[str, msgspec.Raw]
    tunnels: dict[str, msgspec.Raw]


_decode = msgspec.json.Decoder(_Stored).decode
_counted = msgspec.json.Decoder(Counted).decode


@dataclass(frozen=True)
class RatesApi:
    db: Database
    clock: Callable[[], float]

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def index(request: Request) -> Reply:
            name, keys = _parse(request.pairs)
            context = request.context
            with self.db.read() as connection:
                if name == HOST:
                    authorizer.require(context, HOST_RULE, {})
                    answer = self._of_host(connection, keys[0])
                elif name == ROUTER:
                    answer = self._of_routers(connection, authorizer, context, keys)
                else:
                    answer = self._of_ports(connection, authorizer, context, keys)
            none = {"columns": COLUMNS, "tunnels": [], "tunnels_left": 0, "hosts_left": 0}
            return Reply(200, {**none, **answer}, compressible=True)

        return [Route("GET", f"{PREFIX}/rates", index)]

    def _of_ports(
        self, connection: Connection, authorizer: Authorizer, context: Context, keys: Sequence[str]
    ) -> Object:
        rows = connection.execute(sa.select(ports.c.id, ports.c.project_id).where(ports.c.id.in_(keys))).all()
        seen = sorted(row.id for row in rows if authorizer.allows(context, RULE, _owned(row.project_id)))
        hosts = _hosts_of(connection, seen)
        where, left = _bounded(hosts)
        reports = self.reports(connection, where, hosts.keys())
        found = [{PORT: key, "samples": _samples(reports, hosts[key], [key])} for key in seen]
        return {"rates": found, "hosts_left": left}

    def _of_routers(
        self, connection: Connection, authorizer: Authorizer, context: Context, keys: Sequence[str]
    ) -> Object:
        rows = connection.execute(sa.select(routers.c.id, routers.c.project_id).where(routers.c.id.in_(keys))).all()
        seen = sorted(row.id for row in rows if authorizer.allows(context, RULE, _owned(row.project_id)))
        own = sa.select(router_ports.c.router_id, router_ports.c.port_id).where(router_ports.c.router_id.in_(seen))
        of_router: defaultdict[str, list[str]] = defaultdict(list)
        # Router by router, so that at most one has a part of its ports, and those after it none.
        for row in connection.execute(own.order_by(router_ports.c.router_id, router_ports.c.port_id).limit(MAX_PORTS)):
            of_router[row.router_id].append(row.port_id)
        numbers = _numbers_of_ports(connection, seen) if sum(map(len, of_router.values())) == MAX_PORTS else {}
        hosts = _hosts_of(connection, [key for several in of_router.values() for key in several])
        where, left = _bounded(hosts)
        reports = self.reports(connection, where, hosts.keys())
        found: list[Object] = []
        for key in seen:
            own_hosts = {host for port in of_router[key] for host in hosts[port]}
            left_out = max(0, numbers.get(key, 0) - len(of_router[key]))
            samples = _samples(reports, own_hosts, of_router[key], hosts)
            found.append({ROUTER: key, "samples": samples, "ports_left": left_out})
        return {"rates": found, "hosts_left": left}

    def _of_host(self, connection: Connection, host: str) -> Object:
        reports = self.reports(connection, [host], None).get(host, [])
        named = busiest(reports, MAX_IDS)
        hosts = _hosts_of(connection, named)
        own = [key for key in named if host in hosts[key]]
        addresses = sorted({address for report in reports for address in report.tunnels})
        return {
            "rates": [{PORT: key, "samples": port_series(reports, [key])} for key in own],
            "tunnels": [{"address": each, "samples": tunnel_series(reports, each)} for each in addresses[:MAX_TUNNELS]],
            "tunnels_left": max(0, len(addresses) - MAX_TUNNELS),
        }

    def reports(
        self, connection: Connection, hosts: Collection[str], ports_asked: Collection[str] | None
    ) -> dict[str, list[HostReport]]:
        """What these hosts have reported lately of these ports; None: of all, and of tunnels."""
        rows = sa.select(host_rates).where(host_rates.c.at > int(self.clock()) - WINDOW)
        found: defaultdict[str, list[HostReport]] = defaultdict(list)
        for row in connection.execute(rows.where(host_rates.c.host.in_(sorted(hosts)))):
            stored = _decode(row.counted)
            asked = stored.ports if ports_asked is None else stored.ports.keys() & ports_asked
            of_ports = {key: _counted(stored.ports[key]) for key in asked}
            tunnels = {} if ports_asked is not None else {key: _counted(raw) for key, raw in stored.tunnels.items()}
            found[row.host].append(HostReport(row.host, row.at, row.seconds, of_ports, tunnels))
        return found


def _samples(
    reports: Mapping[str, Sequence[HostReport]],
    hosts: Iterable[str],
    keys: Sequence[str],
    hosts_of: Mapping[str, Collection[str]] | None = None,
) -> list[list[int]]:
    """The series of ports by the reports of these hosts; of each host, the ports that it has."""
    own = [
        HostReport(
            *(one.host, one.at, one.seconds),
            {key: one.ports[key] for key in keys if key in one.ports and (not hosts_of or host in hosts_of[key])},
        )
        for host in hosts
        for one in reports.get(host, ())
    ]
    return port_series(own, keys)


def _hosts_of(connection: Connection, keys: Sequence[str]) -> dict[str, set[str]]:
    """The hosts that have these ports now: bound to them, or of routers that are on several."""
    found: dict[str, set[str]] = {key: set() for key in keys}
    for start in range(0, len(keys), MAX_IDS):
        some = keys[start : start + MAX_IDS]
        bound = sa.select(ports.c.id, ports.c.host).where(ports.c.id.in_(some), ports.c.host != "")
        for row in connection.execute(bound):
            found[row.id].add(row.host)
        several = read_router_hosts(connection, some)
        for key, hosts in [*several.replicated.items(), *several.distributed.items()]:
            found[key] |= hosts
    return found


def _numbers_of_ports(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    counted = sa.select(router_ports.c.router_id, sa.func.count()).where(router_ports.c.router_id.in_(keys))
    return {row[0]: row[1] for row in connection.execute(counted.group_by(router_ports.c.router_id))}


def _bounded(hosts: Mapping[str, Collection[str]]) -> tuple[list[str], int]:
    """The hosts whose reports are read, and the number of the others: a distributed router may be on all hosts."""
    every = sorted({host for some in hosts.values() for host in some})
    return every[:MAX_HOSTS], max(0, len(every) - MAX_HOSTS)


def _owned(project_id: str) -> Object:
    return {"project_id": project_id, "tenant_id": project_id}


def _parse(pairs: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
    """What is asked for: port_id, router_id or host, with its values."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in (PORT, ROUTER, HOST):
            raise errors.HTTPBadRequest(f"There is no parameter {name[:64]!r}: {PORT}, {ROUTER} and {HOST} are known.")
        if "\x00" in value or len(value) > 255:
            raise errors.HTTPBadRequest(f"Invalid input for {name}: it is too long, or has a NUL.")
        values.setdefault(name, []).append(value.lower() if name != HOST else value)
    if len(values) > 1:
        raise errors.HTTPBadRequest(f"{PORT}, {ROUTER} and {HOST} exclude each other.")
    if not values:
        return PORT, []  # nothing is asked for
    ((name, keys),) = values.items()
    keys = list(dict.fromkeys(keys))
    if len(keys) > (1 if name == HOST else MAX_IDS):
        raise errors.HTTPBadRequest(f"Invalid input for {name}: at most {1 if name == HOST else MAX_IDS} values.")
    return name, keys
