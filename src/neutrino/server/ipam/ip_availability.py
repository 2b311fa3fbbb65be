"""Network IP availability: total and used addresses per network, subnet and allocation pool.

A list takes three queries, whatever its length: networks, subnets, allocated addresses. The database cannot compare
addresses with allocation pools, so for the details every address is read; a caller that asks for the totals only (`fields`)
gets them counted in the database.
"""

import ipaddress
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.network import NETWORK_IP_AVAILABILITY
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode
from neutrino.server.db.session import Database
from neutrino.server.db.sql import Condition, NamedRow, Selection
from neutrino.server.db.view import View, one_of
from neutrino.server.query import Query

Pools = list[tuple[int, int]]
MAX_IDS = 500  # network ids in one statement; for more networks, all subnets are read
DETAILED = frozenset({"subnet_ip_availability", "ip_availability_details"})
DETAILS = ("total_ips_in_subnet", "total_ips_in_allocation_pool", "used_ips_in_subnet", "used_ips_in_allocation_pool")
OF_NETWORK = ("network_id", "network_name", "project_id", "tenant_id")


def _with_subnets_of(versions: tuple[object, ...]) -> Condition:
    return sa.exists(
        sa.select(t.subnets.c.id).where(
            t.subnets.c.network_id == t.networks.c.id, one_of(t.subnets.c.ip_version, versions)
        )
    )


VIEW = View(
    t.networks,
    columns=("project_id",),
    renamed={"network_id": "id", "network_name": "name"},
    filters={"ip_version": _with_subnets_of},
)


class IpAvailability:
    extensions = (
        Extension("network-ip-availability", "Network IP Availability", "How many addresses of a network are taken."),
        Extension(
            "network-ip-availability-details",
            "Network IP Availability Details Extension",
            "The same by allocation pool.",
        ),
    )

    def __init__(self, db: Database) -> None:
        self.collections = ((NETWORK_IP_AVAILABILITY, self),)
        self.db = db

    def index(self, context: Context, query: Query) -> list[Object]:
        versions = tuple(query.filters.get("ip_version", ()))
        with self.db.read() as connection:
            networks = VIEW.many(connection, replace(query, fields=OF_NETWORK), context.project_id)
            return self._availability(connection, networks, versions, query.fields)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self.db.read() as connection:
            network = VIEW.show(connection, key, project=context.project_id, everyone=everyone, fields=OF_NETWORK)
            return None if network is None else self._availability(connection, [network], (), fields)[0]

    def _availability(
        self,
        connection: Connection,
        networks: Sequence[Object],
        versions: tuple[object, ...],
        fields: Sequence[str] | None,
    ) -> list[Object]:
        ids = {network["network_id"] for network in networks}
        subnets = _subnets(connection, ids, versions)
        pools = {subnet.id: _numbers(subnet.allocation_pools) for subnet in subnets}
        if fields is None or DETAILED & set(fields):
            used, pooled = _used_by_pool(connection, pools, ids)
        else:
            used, pooled = _used(connection, ids), Counter()
        of_network: dict[str, list[Object]] = {network_id: [] for network_id in ids}
        for subnet in subnets:
            shown = _shown(subnet, pools[subnet.id], used[subnet.id], pooled[subnet.id])
            of_network[subnet.network_id].append(shown)
        return [{**network, **_summed(of_network[network["network_id"]])} for network in networks]


def _shown(subnet: NamedRow, pools: Pools, used: int, pooled: int) -> Object:
    addresses = ipaddress.ip_network(subnet.cidr).num_addresses
    hosts = max(addresses - 2, 0) if subnet.ip_version == 4 else addresses  # without network and broadcast address
    in_pools = sum(last - first + 1 for first, last in pools)
    return {
        "subnet_id": subnet.id,
        "subnet_name": subnet.name,
        "ip_version": subnet.ip_version,
        "cidr": subnet.cidr,
        "used_ips": used,
        "total_ips": in_pools if pools else addresses,
        "ip_availability_details": dict(zip(DETAILS, (hosts, in_pools, used, pooled), strict=True)),
    }


def _summed(subnets: Sequence[Object]) -> Object:
    """The numbers of a network: the sums of its subnets."""
    return {
        "subnet_ip_availability": subnets,
        "used_ips": sum(subnet["used_ips"] for subnet in subnets),
        "total_ips": sum(subnet["total_ips"] for subnet in subnets),
        "ip_availability_details": {
            name: sum(subnet["ip_availability_details"][name] for subnet in subnets) for name in DETAILS
        },
    }


def _subnets(connection: Connection, networks: Collection[str], versions: tuple[object, ...]) -> list[NamedRow]:
    statement = sa.select(
        t.subnets.c.id,
        t.subnets.c.network_id,
        t.subnets.c.name,
        t.subnets.c.ip_version,
        t.subnets.c.cidr,
        t.subnets.c.allocation_pools,
    ).order_by(t.subnets.c.id)
    if versions:
        statement = statement.where(one_of(t.subnets.c.ip_version, versions))
    rows = connection.execute(_only(statement, t.subnets.c.network_id, networks))
    return [row for row in rows if row.network_id in networks]


def _numbers(allocation_pools: str) -> Pools:
    """Allocation pools as pairs of the first and the last address."""
    return [(_number(pool["start"]), _number(pool["end"])) for pool in decode(allocation_pools)]


def _used(connection: Connection, networks: Collection[str]) -> Counter[str]:
    counts = sa.select(t.ip_allocations.c.subnet_id, sa.func.count()).group_by(t.ip_allocations.c.subnet_id)
    return Counter(
        {key: int(number) for key, number in connection.execute(_only(counts, t.ip_allocations.c.network_id, networks))}
    )


def _used_by_pool(
    connection: Connection, pools: Mapping[str, Pools], networks: Collection[str]
) -> tuple[Counter[str], Counter[str]]:
    """Allocated addresses by subnet, and those of them that are in its allocation pools."""
    used: Counter[str] = Counter()
    pooled: Counter[str] = Counter()
    addresses = _only(
        sa.select(t.ip_allocations.c.subnet_id, t.ip_allocations.c.ip_address), t.ip_allocations.c.network_id, networks
    )
    for subnet_id, address in connection.execute(addresses):
        if subnet_id in pools:
            number = _number(address)
            used[subnet_id] += 1
            pooled[subnet_id] += any(first <= number <= last for first, last in pools[subnet_id])
    return used, pooled


def _only(statement: Selection, column: sa.ColumnElement[str], networks: Collection[str]) -> Selection:
    return statement.where(column.in_(sorted(networks))) if len(networks) <= MAX_IDS else statement


def _number(address: str) -> int:
    return int(ipaddress.ip_address(address))
