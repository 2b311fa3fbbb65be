"""Routers and floating IPs as a trace reads them, in a bounded number of queries."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.feed import read_agent_gateways, read_bases
from neutrino.features.router.hosts import read_agent_modes, read_disabled_hosts, read_local_hosts, read_placements
from neutrino.features.router.tables import floatingips, port_forwardings, router_ports, routers
from neutrino.server import features
from neutrino.server.api.resources.common import protocol_number
from neutrino.server.db import tables as t
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.readers.rows import build, read_ids, read_rows
from neutrino.server.trace.routing import PublicAddress, Routing
from neutrino.server.trace.values import Placement, TracedFloatingIp, TracedForwarding, TracedRouter

_FLOATING_IPS = sa.select(
    *(floatingips.c[name] for name in ("id", "project_id", "floating_network_id", "floating_ip_address", "status")),
    *(floatingips.c[name] for name in ("router_id", "port_id", "fixed_ip_address")),
)
_OPTIONAL = ("router_id", "port_id", "fixed_ip_address")
_FORWARDED = (
    sa.select(port_forwardings, floatingips.c.floating_ip_address, floatingips.c.floating_network_id)
    .join(floatingips, floatingips.c.id == port_forwardings.c.floatingip_id)
    .order_by(port_forwardings.c.id)
)


class TracedRouting(Routing):
    def read(self, connection: Connection, router_ids: Collection[str]) -> dict[str, TracedRouter]:
        bases = read_bases(connection, sorted(router_ids), features.sources().additions["router"])
        placements = read_placements(connection, sorted(bases)) if bases else {}
        disabled = read_disabled_hosts(connection, sorted(bases)) if bases else {}
        local: Mapping[str, frozenset[str]] = {}
        gateways: Mapping[str, Any] = {}
        distributed = sorted(key for key, (base, _) in bases.items() if base.distributed)
        if distributed:
            local = read_local_hosts(connection, distributed, read_agent_modes(connection))
            outside = {base.gateway.network_id for base, _ in bases.values() if base.distributed and base.gateway}
            gateways = read_agent_gateways(connection, outside)
        return {
            key: TracedRouter(
                router=base,
                is_ha=is_ha,
                placements=tuple(Placement(host, state) for host, (_, state) in placements.get(key, {}).items()),
                disabled_hosts=tuple(disabled.get(key, ())),
                local_hosts=local.get(key, frozenset()),
                agent_gateways=gateways.get(base.gateway.network_id, {}) if base.gateway is not None else {},
            )
            for key, (base, is_ha) in bases.items()
        }

    def routers_on(self, connection: Connection, network_ids: Collection[str]) -> set[str]:
        statement = sa.select(router_ports.c.router_id).join(t.ports, t.ports.c.id == router_ports.c.port_id)
        return read_ids(connection, statement, t.ports.c.network_id, sorted(network_ids))

    def routers_of(self, connection: Connection, port_ids: Collection[str]) -> dict[str, str]:
        statement = sa.select(router_ports.c.port_id, router_ports.c.router_id)
        rows = read_rows(connection, statement, router_ports.c.port_id, sorted(port_ids))
        return {row.port_id: row.router_id for row in rows}

    def ports_of(self, connection: Connection, router_ids: Collection[str]) -> set[str]:
        return read_ids(connection, sa.select(router_ports.c.port_id), router_ports.c.router_id, sorted(router_ids))

    def networks_of(self, connection: Connection, router_ids: Collection[str]) -> set[str]:
        statement = sa.select(t.ports.c.network_id).join(router_ports, router_ports.c.port_id == t.ports.c.id)
        return read_ids(connection, statement, router_ports.c.router_id, sorted(router_ids))

    def network_outside(self, connection: Connection, subnet_ids: Collection[str]) -> str:
        statement = (
            sa.select(routers.c.gw_network_id)
            .join(router_ports, router_ports.c.router_id == routers.c.id)
            .join(t.ip_allocations, t.ip_allocations.c.port_id == router_ports.c.port_id)
            .where(t.ip_allocations.c.subnet_id.in_(sorted(subnet_ids)), routers.c.gw_network_id.is_not(None))
            .order_by(routers.c.id)
        )
        return connection.execute(statement).scalar() or ""

    def floating_ips(
        self,
        connection: Connection,
        *,
        addresses: Collection[str] = (),
        port_ids: Collection[str] = (),
        router_ids: Collection[str] = (),
    ) -> dict[str, TracedFloatingIp]:
        def rows() -> Iterator[NamedRow]:
            yield from read_rows(connection, _FLOATING_IPS, floatingips.c.floating_ip_address, sorted(addresses))
            yield from read_rows(connection, _FLOATING_IPS, floatingips.c.port_id, sorted(port_ids))
            yield from read_rows(connection, _FLOATING_IPS, floatingips.c.router_id, sorted(router_ids))

        return {row.id: build(TracedFloatingIp, row, **{n: getattr(row, n) or "" for n in _OPTIONAL}) for row in rows()}

    def forwardings(self, connection: Connection, floating_ip_ids: Collection[str]) -> dict[str, TracedForwarding]:
        column = port_forwardings.c.floatingip_id
        statement = sa.select(port_forwardings.c.id, column, port_forwardings.c.internal_ip_address)
        rows = read_rows(connection, statement, column, sorted(floating_ip_ids))
        return {row.id: TracedForwarding(row.floatingip_id, row.internal_ip_address) for row in rows}

    def forwarded(self, connection: Connection, port_id: str, protocol: int, port: int) -> PublicAddress | None:
        for row in connection.execute(_FORWARDED.where(port_forwardings.c.internal_port_id == port_id)):
            first, last = map(int, row.internal_port_range.split(":"))
            if protocol_number(row.protocol) == protocol and first <= port <= last:
                outer = int(row.external_port_range.split(":")[0]) + port - first
                return PublicAddress(row.floating_ip_address, row.floating_network_id, outer)
        return None
