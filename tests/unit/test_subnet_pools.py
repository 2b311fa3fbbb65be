"""Subnet pools: their rules, and that no two subnets ever get overlapping prefixes."""

from __future__ import annotations

import ipaddress
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.resources.subnetpool import SUBNETPOOL
from neutrino.server.api.stages.body import items_to_create
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh, new_id
from neutrino.server.db.session import Database, Stale
from neutrino.server.ipam import subnet_pools
from neutrino.server.ipam.subnet_pools import AddressScopes, SubnetPools, choose_prefix, claim
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas
from tests.support.databases import prepared_sqlite

ALICE, BOB, ADMIN = Context("a"), Context("b"), admin_context("admin")


class Cloud:
    def __init__(self, path: Path) -> None:
        self.db = Database(prepared_sqlite(path / "n.db"), sqlite_durable=False)
        self.quotas = Quotas(self.db, {"subnetpool": 20})
        self.pools = SubnetPools(self.db, self.quotas)
        self.scopes = AddressScopes(self.db)

    def pool(self, *cidrs: str, context: Context = ALICE, **values: Any) -> Object:
        body = {"subnetpool": {"name": "p", "prefixes": list(cidrs), **values}}
        items, _ = items_to_create(SUBNETPOOL, body, context)
        return self.pools.create(context, items[0].values)

    def scope(self, context: Context = ALICE, ip_version: int = 4, shared: bool = False) -> str:
        values = {"name": "s", "ip_version": ip_version, "shared": shared, "project_id": context.project_id}
        return str(self.scopes.create(context, values)["id"])

    def network(self) -> str:
        made = fresh({"name": "n", "project_id": "a"})
        self.insert(t.networks, made)
        return str(made["id"])

    def subnet(self, pool: Object | None, cidr: str, network: str | None = None, project: str = "a") -> str:
        values = {
            "network_id": network or self.network(),
            "project_id": project,
            "ip_version": ipaddress.ip_network(cidr).version,
            "cidr": cidr,
            "subnetpool_id": pool["id"] if pool else None,
        }
        made = fresh(values)
        self.insert(t.subnets, made)
        return str(made["id"])

    def insert(self, table: sa.Table, made: Object) -> None:
        with self.db.transaction() as tx:
            tx.execute(sa.insert(table).values(as_row(table, made)))

    def choose(self, pool: Object, prefixlen: int | None = None, cidr: str | None = None, project: str = "a") -> str:
        with self.db.read() as connection:
            found = subnet_pools.load(connection, pool["id"])
            assert found is not None
            return choose_prefix(connection, found, prefixlen, cidr, project)

    def allocate(self, pool: Object, prefixlen: int, network: str) -> str:
        """What whoever makes a subnet does."""

        def attempt() -> str:
            with self.db.read() as connection:
                found = subnet_pools.load(connection, pool["id"])
                assert found is not None
                cidr = choose_prefix(connection, found, prefixlen, None, "a")
            row = fresh(
                {"network_id": network, "project_id": "a", "ip_version": 4, "cidr": cidr, "subnetpool_id": pool["id"]}
            )
            with self.db.transaction() as tx:
                claim(tx, found)
                tx.execute(sa.insert(t.subnets).values(as_row(t.subnets, row)))
            return cidr

        return self.db.retrying(attempt)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path)
    yield made
    made.db.close()


# --- making and changing them -----------------------------------------------------------------------------------------


def test_a_new_pool_shows_its_compacted_prefixes_and_bounds(cloud: Cloud) -> None:
    scope = cloud.scope()
    made = cloud.pool(
        "10.128.0.0/16",
        "10.129.0.0/16",
        default_prefixlen="26",
        min_prefixlen=20,
        max_prefixlen=28,
        address_scope_id=scope,
    )
    shown = cloud.pools.show(ALICE, made["id"], None, False)
    assert shown is not None
    shown = subnet_pools.VIEW.decoded(shown)
    assert shown == {
        "id": made["id"],
        "name": "p",
        "project_id": "a",
        "tenant_id": "a",
        "default_prefixlen": "26",
        "min_prefixlen": "20",
        "max_prefixlen": "28",
        "is_default": False,
        "shared": False,
        "prefixes": ["10.128.0.0/15"],
        "ip_version": 4,
        "default_quota": None,
        "address_scope_id": scope,
        "description": "",
        "tags": [],
        "created_at": made["created_at"],
        "updated_at": made["updated_at"],
        "revision_number": 0,
    }
    assert {name: made[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("cidr", "bounds"), [("10.0.0.0/8", ("8", "8", "32")), ("2001:db8:f000::/40", ("64", "64", "128"))]
)
def test_bounds_that_are_not_given_follow_the_ip_version(cloud: Cloud, cidr: str, bounds: tuple[str, str, str]) -> None:
    made = cloud.pool(cidr)
    assert (made["default_prefixlen"], made["min_prefixlen"], made["max_prefixlen"]) == bounds


@pytest.mark.parametrize(
    ("cidrs", "values", "error"),
    [
        ((), {}, errors.EmptySubnetPoolPrefixList),
        (("10.0.0.0/8", "2001:db8::/32"), {}, errors.PrefixVersionMismatch),
        (("10.0.0.0/8",), {"min_prefixlen": 24, "max_prefixlen": 20}, errors.IllegalSubnetPoolPrefixBounds),
        (("10.0.0.0/8",), {"default_prefixlen": 33}, errors.IllegalSubnetPoolPrefixBounds),
        (("10.0.0.0/8",), {"max_prefixlen": 33}, errors.IllegalSubnetPoolPrefixBounds),
        (("10.0.0.0/8",), {"min_prefixlen": 20, "default_prefixlen": 16}, errors.IllegalSubnetPoolPrefixBounds),
        (("10.0.0.0/8",), {"address_scope_id": new_id()}, errors.AddressScopeNotFound),
    ],
)
def test_invalid_pools_are_refused(
    cloud: Cloud, cidrs: tuple[str, ...], values: Object, error: type[errors.ApiError]
) -> None:
    with pytest.raises(error):
        cloud.pool(*cidrs, **values)


def test_prefixes_only_grow(cloud: Cloud) -> None:
    made = cloud.pool("10.128.0.0/15")
    same = cloud.pools.update(ALICE, made["id"], {"prefixes": ["10.128.0.0/15"]}, None)
    assert same["revision_number"] == 1
    more = cloud.pools.update(ALICE, made["id"], {"prefixes": ["10.128.0.0/14", "10.128.0.0/15"]}, None)
    assert more["prefixes"] == ["10.128.0.0/14"]
    for fewer in (["10.128.0.0/17"], []):
        with pytest.raises(errors.IllegalSubnetPoolPrefixUpdate):
            cloud.pools.update(ALICE, made["id"], {"prefixes": fewer}, None)
    with pytest.raises(errors.PrefixVersionMismatch):
        cloud.pools.update(ALICE, made["id"], {"prefixes": ["10.0.0.0/8", "2001:db8::/32"]}, None)
    with pytest.raises(errors.IllegalSubnetPoolPrefixBounds):
        cloud.pools.update(ALICE, made["id"], {"max_prefixlen": 7}, None)


def test_if_match_is_checked(cloud: Cloud) -> None:
    made = cloud.pool("10.0.0.0/8")
    assert cloud.pools.update(ALICE, made["id"], {"name": "x"}, 0)["revision_number"] == 1
    with pytest.raises(errors.RevisionNumberConstraintFailed):
        cloud.pools.update(ALICE, made["id"], {"name": "y"}, 0)


def test_one_default_pool_per_ip_version(cloud: Cloud) -> None:
    cloud.pool("10.0.0.0/8", context=ADMIN, is_default=True)
    cloud.pool("2001:db8::/32", context=ADMIN, is_default=True)
    with pytest.raises(errors.InvalidInput):
        cloud.pool("11.0.0.0/8", context=ADMIN, is_default=True)
    other = cloud.pool("11.0.0.0/8", context=ADMIN)
    with pytest.raises(errors.InvalidInput):
        cloud.pools.update(ADMIN, other["id"], {"is_default": True}, None)
    with cloud.db.read() as connection:
        found = subnet_pools.load_default(connection, 6, None, everyone=True)
        assert found is not None
        assert found["prefixes"] == ["2001:db8::/32"]
        assert subnet_pools.load_default(connection, 6, "a", everyone=False) is None  # it is not shared


def test_prefixes_can_be_added_and_removed(cloud: Cloud) -> None:
    pool = cloud.pool("10.0.0.0/16")
    cloud.subnet(pool, "10.0.0.0/24")
    assert cloud.pools.add_prefixes(ALICE, pool["id"], {"prefixes": ["10.1.0.0/16"]}) == {"prefixes": ["10.0.0.0/15"]}
    assert cloud.pools.remove_prefixes(ALICE, pool["id"], {"prefixes": ["10.1.0.0/16", "2001:db8::/32"]}) == {
        "prefixes": ["10.0.0.0/16"]
    }
    unchanged = cloud.pools.remove_prefixes(ALICE, pool["id"], {"prefixes": ["192.168.0.0/16"]})
    assert unchanged == {"prefixes": ["10.0.0.0/16"]}
    with pytest.raises(errors.IllegalSubnetPoolPrefixUpdate):
        cloud.pools.remove_prefixes(ALICE, pool["id"], {"prefixes": ["10.0.0.128/25"]})
    refused: list[Any] = [{}, {"prefixes": []}, {"prefixes": "x"}, {"prefixes": ["x"]}, []]
    for body in refused:
        with pytest.raises(errors.HTTPBadRequest):
            cloud.pools.add_prefixes(ALICE, pool["id"], body)


def test_a_pool_with_subnets_cannot_be_deleted(cloud: Cloud) -> None:
    pool = cloud.pool("10.0.0.0/16")
    subnet = cloud.subnet(pool, "10.0.0.0/24")
    with pytest.raises(errors.SubnetPoolDeleteError):
        cloud.pools.delete(ALICE, pool["id"], None)
    with cloud.db.transaction() as tx:
        tx.execute(sa.delete(t.subnets).where(t.subnets.c.id == subnet))
    cloud.pools.delete(ALICE, pool["id"], None)
    assert cloud.pools.show(ALICE, pool["id"], None, True) is None
    with pytest.raises(errors.SubnetPoolNotFound):
        cloud.pools.delete(ALICE, pool["id"], None)


def test_shared_pools_are_visible_to_all_others_to_their_owner(cloud: Cloud) -> None:
    cloud.pool("10.0.0.0/16")
    shared = cloud.pool("10.0.0.0/16", context=ADMIN, shared=True)
    seen = cloud.pools.index(BOB, Query(fields=("id", "shared")))
    assert seen == [{"id": shared["id"], "shared": True}]


def test_a_bulk_create_is_all_or_nothing(cloud: Cloud) -> None:
    scope = cloud.scope()
    values = {"name": "p", "project_id": "a", "is_default": False, "shared": False, "address_scope_id": scope}
    with pytest.raises(errors.AddressScopePrefixConflict):
        cloud.pools.create_several(
            ALICE, [{**values, "prefixes": ["10.0.0.0/16"]}, {**values, "prefixes": ["10.0.0.0/17"]}]
        )
    assert cloud.pools.index(ALICE, Query()) == []
    made = cloud.pools.create_several(
        ALICE, [{**values, "prefixes": ["10.0.0.0/16"]}, {**values, "prefixes": ["10.1.0.0/16"]}]
    )
    assert len(made) == 2


# --- address scopes ---------------------------------------------------------------------------------------------------


def test_prefixes_are_unique_in_an_address_scope(cloud: Cloud) -> None:
    scope = cloud.scope()
    cloud.pool("10.128.0.0/15", address_scope_id=scope)
    with pytest.raises(errors.AddressScopePrefixConflict):
        cloud.pool("10.128.0.0/17", address_scope_id=scope)
    other = cloud.pool("10.130.0.0/16", address_scope_id=scope)
    with pytest.raises(errors.AddressScopePrefixConflict):
        cloud.pools.add_prefixes(ALICE, other["id"], {"prefixes": ["10.129.0.0/16"]})


def test_a_pool_needs_a_scope_of_its_ip_version_and_project(cloud: Cloud) -> None:
    with pytest.raises(errors.IllegalSubnetPoolIpVersionAssociationToAddressScope):
        cloud.pool("10.0.0.0/8", address_scope_id=cloud.scope(ip_version=6))
    with pytest.raises(errors.AddressScopeNotFound):
        cloud.pool("10.0.0.0/8", address_scope_id=cloud.scope(BOB))
    shared = cloud.scope(ADMIN, shared=True)
    pool = cloud.pool("10.0.0.0/8", address_scope_id=shared)
    with pytest.raises(errors.IllegalSubnetPoolUpdate):  # the scope's owner decides what is in it
        cloud.pools.update(ALICE, pool["id"], {"name": "x"}, None)
    with pytest.raises(errors.InvalidInput):
        cloud.pool("11.0.0.0/8", context=ADMIN, shared=True, address_scope_id=cloud.scope(ADMIN))


def test_networks_follow_their_pool_into_another_scope(cloud: Cloud) -> None:
    pool = cloud.pool("10.0.0.0/8")
    network = cloud.network()
    cloud.subnet(pool, "10.0.0.0/24", network)
    cloud.subnet(pool, "10.0.1.0/24", network)
    unrelated = cloud.network()
    scope = cloud.scope()
    cloud.pools.update(ALICE, pool["id"], {"address_scope_id": scope}, None)
    c = t.networks.c
    with cloud.db.read() as connection:
        rows = connection.execute(sa.select(c.id, c.ipv4_address_scope, c.ipv6_address_scope, c.revision_number)).all()
        logged = (
            connection.execute(sa.select(t.changes.c.object_id).where(t.changes.c.kind == "network")).scalars().all()
        )
    assert set(rows) == {(network, scope, None, 2), (unrelated, None, None, 1)}
    assert logged == [network]
    cloud.pools.update(ALICE, pool["id"], {"address_scope_id": None}, None)
    with cloud.db.read() as connection:
        assert connection.execute(sa.select(c.ipv4_address_scope).where(c.id == network)).scalar() is None


def test_a_pool_that_shares_a_network_stays_in_its_scope(cloud: Cloud) -> None:
    pool, network = cloud.pool("10.0.0.0/8"), cloud.network()
    cloud.subnet(pool, "10.0.0.0/24", network)
    cloud.subnet(None, "192.168.0.0/24", network)
    with pytest.raises(errors.NetworkAddressScopeAffinityError):
        cloud.pools.update(ALICE, pool["id"], {"address_scope_id": cloud.scope()}, None)


# --- allocation -------------------------------------------------------------------------------------------------------


def test_prefix_chosen_for_a_subnet(cloud: Cloud) -> None:
    pool = cloud.pool("10.128.0.0/15", default_prefixlen=26, min_prefixlen=20, max_prefixlen=28)
    assert cloud.choose(pool) == "10.128.0.0/26"
    cloud.subnet(pool, "10.128.0.0/26")
    assert cloud.choose(pool, 24) == "10.128.1.0/24"
    assert cloud.choose(pool, cidr="10.129.4.0/24") == "10.129.4.0/24"
    cloud.subnet(pool, "10.129.4.0/24")
    refused: list[tuple[Object, type[errors.ApiError]]] = [
        ({"prefixlen": 29}, errors.MaxPrefixSubnetAllocationError),
        ({"prefixlen": 8}, errors.MinPrefixSubnetAllocationError),
        ({"cidr": "10.0.0.0/8"}, errors.MinPrefixSubnetAllocationError),
        ({"cidr": "10.129.4.0/25"}, errors.SubnetAllocationError),
        ({"cidr": "10.200.4.0/24"}, errors.SubnetAllocationError),
    ]
    for prefix, error in refused:
        with pytest.raises(error):
            cloud.choose(pool, **prefix)


def test_a_full_pool_is_an_allocation_error(cloud: Cloud) -> None:
    pool = cloud.pool("10.0.0.0/24")
    cloud.subnet(pool, "10.0.0.0/24")
    with pytest.raises(errors.SubnetAllocationError):
        cloud.choose(pool, 28)


def test_the_pools_quota_is_each_projects_own(cloud: Cloud) -> None:
    pool = cloud.pool("10.0.0.0/16", default_quota=300)
    cloud.subnet(pool, "10.0.0.0/24", project="a")
    with pytest.raises(errors.SubnetPoolQuotaExceeded):
        cloud.choose(pool, 24, project="a")
    assert cloud.choose(pool, 27, project="a") == "10.0.1.0/27"
    assert cloud.choose(pool, 24, project="b") == "10.0.1.0/24"


def test_a_choice_is_stale_after_another_claim(cloud: Cloud) -> None:
    pool = cloud.pool("10.0.0.0/16")
    with cloud.db.read() as connection:
        seen = subnet_pools.load(connection, pool["id"])
    assert seen is not None
    with cloud.db.transaction() as tx:
        claim(tx, seen)
    with pytest.raises(Stale), cloud.db.transaction() as tx:
        claim(tx, seen)


@pytest.mark.parametrize(
    "change",
    [
        lambda w, key: w.pools.remove_prefixes(ALICE, key, {"prefixes": ["10.0.128.0/17"]}),
        lambda w, key: w.pools.update(ALICE, key, {"address_scope_id": w.scope()}, None),
    ],
)
def test_a_choice_is_stale_after_prefixes_were_removed_or_the_pool_was_rescoped(
    cloud: Cloud, change: Callable[[Cloud, str], object]
) -> None:
    pool = cloud.pool("10.0.0.0/16")
    with cloud.db.read() as connection:
        seen = subnet_pools.load(connection, pool["id"])
    assert seen is not None
    change(cloud, pool["id"])
    with pytest.raises(Stale), cloud.db.transaction() as tx:
        claim(tx, seen)


def together(work: Callable[[int], Any], threads: int = 8) -> list[Any]:
    gate = threading.Barrier(threads)

    def start(number: int) -> Any:
        gate.wait(10)
        return work(number)

    with ThreadPoolExecutor(threads) as executor:
        return list(executor.map(start, range(threads)))


def test_eight_writers_never_get_overlapping_prefixes(cloud: Cloud) -> None:
    pool = cloud.pool("10.0.0.0/16")
    network = cloud.network()
    lengths = [24, 26, 25, 24, 27, 28, 26, 25]
    got = together(lambda number: [cloud.allocate(pool, lengths[(number + i) % 8], network) for i in range(6)])
    cidrs = [ipaddress.ip_network(cidr) for cidr in itertools.chain.from_iterable(got)]
    assert len(cidrs) == 48
    assert not any(a.overlaps(b) for a, b in itertools.combinations(cidrs, 2))


def test_eight_writers_never_pass_the_quota(cloud: Cloud) -> None:
    def make(number: int) -> int:
        done = 0
        for _ in range(5):
            try:
                cloud.pool("10.0.0.0/16")
                done += 1
            except errors.OverQuota:
                pass
        return done

    assert sum(together(make)) == 20
    assert len(cloud.pools.index(ALICE, Query())) == 20


def test_eight_writers_never_put_a_prefix_twice_in_a_scope(cloud: Cloud) -> None:
    scope = cloud.scope()

    def make(number: int) -> int:
        try:
            cloud.pool("10.0.0.0/16", address_scope_id=scope)
        except errors.AddressScopePrefixConflict:
            return 0
        return 1

    assert sum(together(make)) == 1
