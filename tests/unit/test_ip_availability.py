"""How many addresses are there and taken: the numbers, the filters, and the number of queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.context import admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh, new_id
from neutrino.server.db.session import Database
from neutrino.server.ipam.ip_availability import MAX_IDS, IpAvailability
from neutrino.server.query import Query
from tests.support.databases import prepared_sqlite

ADMIN = admin_context("admin")


class Cloud:
    def __init__(self, path: Path) -> None:
        self.db = Database(prepared_sqlite(path / "n.db"), sqlite_durable=False)
        self.plugin = IpAvailability(self.db)

    def insert(self, table: sa.Table, **values: Any) -> str:
        made = fresh({"name": "", "project_id": "a", **values})
        with self.db.transaction() as tx:
            tx.execute(sa.insert(table).values(as_row(table, made)))
        return str(made["id"])

    def subnet(self, network: str, cidr: str, *pools: tuple[str, str], ip_version: int = 4) -> str:
        return self.insert(
            t.subnets,
            network_id=network,
            ip_version=ip_version,
            cidr=cidr,
            allocation_pools=[{"start": start, "end": end} for start, end in pools],
        )

    def take(self, network: str, subnet: str, *addresses: str) -> None:
        port = self.insert(t.ports, network_id=network, mac_address=new_id()[:17])
        with self.db.transaction() as tx:
            for address in addresses:
                tx.execute(
                    sa.insert(t.ip_allocations).values(
                        subnet_id=subnet, ip_address=address, port_id=port, network_id=network
                    )
                )

    def list(self, *, fields: tuple[str, ...] | None = None, **filters: Any) -> list[Object]:
        query = Query(filters={k: (v,) for k, v in filters.items()}, fields=fields, everyone=True)
        return self.plugin.index(ADMIN, query)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path)
    yield made
    made.db.close()


def details(subnet: int, pool: int, used: int, pooled: int) -> Object:
    return {
        "total_ips_in_subnet": subnet,
        "total_ips_in_allocation_pool": pool,
        "used_ips_in_subnet": used,
        "used_ips_in_allocation_pool": pooled,
    }


def test_numbers_of_a_network_are_sums_of_its_subnets(cloud: Cloud) -> None:
    network = cloud.insert(t.networks, name="n3")
    first = cloud.subnet(network, "10.50.0.0/24", ("10.50.0.2", "10.50.0.254"))
    second = cloud.subnet(network, "10.51.0.0/24", ("10.51.0.2", "10.51.0.9"), ("10.51.0.20", "10.51.0.21"))
    cloud.take(network, first, "10.50.0.1", "10.50.0.2", "10.50.0.254")
    cloud.take(network, second, "10.51.0.15")
    found = cloud.plugin.show(ADMIN, network, None, True)
    assert found is not None
    found["subnet_ip_availability"].sort(key=lambda s: s["cidr"])
    common = {"subnet_name": "", "ip_version": 4}
    assert found == {
        "network_id": network,
        "network_name": "n3",
        "project_id": "a",
        "tenant_id": "a",
        "subnet_ip_availability": [
            {
                **common,
                "subnet_id": first,
                "cidr": "10.50.0.0/24",
                "used_ips": 3,
                "total_ips": 253,
                "ip_availability_details": details(254, 253, 3, 2),
            },
            {
                **common,
                "subnet_id": second,
                "cidr": "10.51.0.0/24",
                "used_ips": 1,
                "total_ips": 10,
                "ip_availability_details": details(254, 10, 1, 0),
            },
        ],
        "used_ips": 4,
        "total_ips": 263,
        "ip_availability_details": details(508, 263, 4, 2),
    }
    listed = cloud.list()
    listed[0]["subnet_ip_availability"].sort(key=lambda s: s["cidr"])
    assert listed == [found]


def test_without_pools_all_addresses_count_and_ipv6_is_large(cloud: Cloud) -> None:
    network = cloud.insert(t.networks)
    cloud.subnet(network, "2001:db8::/64", ip_version=6)
    found = cloud.list()[0]
    assert found["total_ips"] == 2**64
    assert found["ip_availability_details"] == details(2**64, 0, 0, 0)
    assert b"18446744073709551616" in msgspec.json.encode(found)


def test_a_network_without_subnets_has_nothing(cloud: Cloud) -> None:
    cloud.insert(t.networks)
    found = cloud.list()[0]
    assert (found["total_ips"], found["used_ips"], found["subnet_ip_availability"]) == (0, 0, [])
    assert cloud.plugin.show(ADMIN, new_id(), None, True) is None


def test_filters(cloud: Cloud) -> None:
    four, both = cloud.insert(t.networks, name="four"), cloud.insert(t.networks, name="both", project_id="b")
    cloud.subnet(four, "10.0.0.0/24")
    cloud.subnet(both, "10.1.0.0/24")
    cloud.subnet(both, "2001:db8::/64", ip_version=6)
    assert [n["network_id"] for n in cloud.list(network_name="four")] == [four]
    assert [n["network_id"] for n in cloud.list(project_id="b")] == [both]
    assert [n["network_name"] for n in cloud.list(network_id=both)] == ["both"]
    six = cloud.list(ip_version=6)
    assert [n["network_id"] for n in six] == [both]
    assert [s["ip_version"] for s in six[0]["subnet_ip_availability"]] == [6]
    assert cloud.plugin.index(ADMIN, Query()) == []  # only the caller's own


def test_pages_follow_the_order(cloud: Cloud) -> None:
    keys = sorted(cloud.insert(t.networks) for _ in range(5))
    page = cloud.plugin.index(ADMIN, Query(limit=2, marker=keys[1], everyone=True))
    assert [n["network_id"] for n in page] == keys[2:4]


@pytest.mark.parametrize("fields", [None, ("network_id", "used_ips", "total_ips")])
def test_three_queries_however_many_networks(cloud: Cloud, fields: tuple[str, ...] | None) -> None:
    number = MAX_IDS + 5
    networks = [fresh({"name": "n", "project_id": "a"}) for _ in range(number)]
    with cloud.db.transaction() as tx:
        tx.execute(sa.insert(t.networks), [as_row(t.networks, n) for n in networks])
    key = networks[0]["id"]
    cloud.take(key, cloud.subnet(key, "10.0.0.0/24", ("10.0.0.2", "10.0.0.254")), "10.0.0.7")
    statements: list[str] = []
    sa.event.listen(cloud.db._reads, "before_cursor_execute", lambda c, cursor, text, *rest: statements.append(text))
    found = cloud.list(fields=fields)
    assert len(found) == number
    assert len(statements) == 3
    assert sum(n["used_ips"] for n in found) == 1
    assert sum(n["total_ips"] for n in found) == 253
