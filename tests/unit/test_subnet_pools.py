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

ALICE, BOB, ADMIN = Context("a"), Context("b"), admin_context("admin")
Object = dict[str, Any]


class World:
    def __init__(self, path: Path) -> None:
        self.db = Database(f"sqlite:///{path}/n.db", sqlite_durable=False)
        t.metadata.create_all(self.db.engine())
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
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.db.close()


# --- making and changing them -----------------------------------------------------------------------------------------


def test_a_new_pool_shows_its_compacted_prefixes_and_bounds(world: World) -> None:
    scope = world.scope()
    made = world.pool(
        "10.128.0.0/16",
        "10.129.0.0/16",
        default_prefixlen="26",
        min_prefixlen=20,
        max_prefixlen=28,
        address_scope_id=scope,
    )
    shown = world.pools.show(ALICE, made["id"], None, False)
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
def test_bounds_that_are_not_given_follow_the_ip_version(world: World, cidr: str, bounds: tuple[str, str, str]) -> None:
    made = world.pool(cidr)
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
def test_what_a_pool_cannot_be(
    world: World, cidrs: tuple[str, ...], values: Object, error: type[errors.ApiError]
) -> None:
    with pytest.raises(error):
        world.pool(*cidrs, **values)


def test_prefixes_only_grow(world: World) -> None:
    made = world.pool("10.128.0.0/15")
    same = world.pools.update(ALICE, made["id"], {"prefixes": ["10.128.0.0/15"]}, None)
    assert same["revision_number"] == 1
    more = world.pools.update(ALICE, made["id"], {"prefixes": ["10.128.0.0/14", "10.128.0.0/15"]}, None)
    assert more["prefixes"] == ["10.128.0.0/14"]
    for fewer in (["10.128.0.0/17"], []):
        with pytest.raises(errors.IllegalSubnetPoolPrefixUpdate):
            world.pools.update(ALICE, made["id"], {"prefixes": fewer}, None)
    with pytest.raises(errors.PrefixVersionMismatch):
        world.pools.update(ALICE, made["id"], {"prefixes": ["10.0.0.0/8", "2001:db8::/32"]}, None)
    with pytest.raises(errors.IllegalSubnetPoolPrefixBounds):
        world.pools.update(ALICE, made["id"], {"max_prefixlen": 7}, None)


def test_an_update_that_insists_on_a_revision_gets_it_or_nothing(world: World) -> None:
    made = world.pool("10.0.0.0/8")
    assert world.pools.update(ALICE, made["id"], {"name": "x"}, 0)["revision_number"] == 1
    with pytest.raises(errors.RevisionNumberConstraintFailed):
        world.pools.update(ALICE, made["id"], {"name": "y"}, 0)


def test_one_default_pool_per_ip_version(world: World) -> None:
    world.pool("10.0.0.0/8", context=ADMIN, is_default=True)
    world.pool("2001:db8::/32", context=ADMIN, is_default=True)
    with pytest.raises(errors.InvalidInput):
        world.pool("11.0.0.0/8", context=ADMIN, is_default=True)
    other = world.pool("11.0.0.0/8", context=ADMIN)
    with pytest.raises(errors.InvalidInput):
        world.pools.update(ADMIN, other["id"], {"is_default": True}, None)
    with world.db.read() as connection:
        found = subnet_pools.load_default(connection, 6, None, everyone=True)
        assert found is not None
        assert found["prefixes"] == ["2001:db8::/32"]
        assert subnet_pools.load_default(connection, 6, "a", everyone=False) is None  # it is not shared


def test_prefixes_can_be_added_and_removed(world: World) -> None:
    pool = world.pool("10.0.0.0/16")
    world.subnet(pool, "10.0.0.0/24")
    assert world.pools.add_prefixes(ALICE, pool["id"], {"prefixes": ["10.1.0.0/16"]}) == {"prefixes": ["10.0.0.0/15"]}
    assert world.pools.remove_prefixes(ALICE, pool["id"], {"prefixes": ["10.1.0.0/16", "2001:db8::/32"]}) == {
        "prefixes": ["10.0.0.0/16"]
    }
    unchanged = world.pools.remove_prefixes(ALICE, pool["id"], {"prefixes": ["192.168.0.0/16"]})
    assert unchanged == {"prefixes": ["10.0.0.0/16"]}
    with pytest.raises(errors.IllegalSubnetPoolPrefixUpdate):
        world.pools.remove_prefixes(ALICE, pool["id"], {"prefixes": ["10.0.0.128/25"]})
    refused: list[Any] = [{}, {"prefixes": []}, {"prefixes": "x"}, {"prefixes": ["x"]}, []]
    for body in refused:
        with pytest.raises(errors.HTTPBadRequest):
            world.pools.add_prefixes(ALICE, pool["id"], body)


def test_a_pool_with_subnets_stays(world: World) -> None:
    pool = world.pool("10.0.0.0/16")
    subnet = world.subnet(pool, "10.0.0.0/24")
    with pytest.raises(errors.SubnetPoolDeleteError):
        world.pools.delete(ALICE, pool["id"], None)
    with world.db.transaction() as tx:
        tx.execute(sa.delete(t.subnets).where(t.subnets.c.id == subnet))
    world.pools.delete(ALICE, pool["id"], None)
    assert world.pools.show(ALICE, pool["id"], None, True) is None
    with pytest.raises(errors.SubnetPoolNotFound):
        world.pools.delete(ALICE, pool["id"], None)


def test_a_shared_pool_is_seen_by_all_and_others_by_their_owner(world: World) -> None:
    world.pool("10.0.0.0/16")
    shared = world.pool("10.0.0.0/16", context=ADMIN, shared=True)
    seen = world.pools.index(BOB, Query(fields=("id", "shared")))
    assert seen == [{"id": shared["id"], "shared": True}]


def test_a_bulk_create_is_all_or_nothing(world: World) -> None:
    scope = world.scope()
    values = {"name": "p", "project_id": "a", "is_default": False, "shared": False, "address_scope_id": scope}
    with pytest.raises(errors.AddressScopePrefixConflict):
        world.pools.create_several(
            ALICE, [{**values, "prefixes": ["10.0.0.0/16"]}, {**values, "prefixes": ["10.0.0.0/17"]}]
        )
    assert world.pools.index(ALICE, Query()) == []
    made = world.pools.create_several(
        ALICE, [{**values, "prefixes": ["10.0.0.0/16"]}, {**values, "prefixes": ["10.1.0.0/16"]}]
    )
    assert len(made) == 2


# --- address scopes ---------------------------------------------------------------------------------------------------


def test_no_prefix_twice_in_an_address_scope(world: World) -> None:
    scope = world.scope()
    world.pool("10.128.0.0/15", address_scope_id=scope)
    with pytest.raises(errors.AddressScopePrefixConflict):
        world.pool("10.128.0.0/17", address_scope_id=scope)
    other = world.pool("10.130.0.0/16", address_scope_id=scope)
    with pytest.raises(errors.AddressScopePrefixConflict):
        world.pools.add_prefixes(ALICE, other["id"], {"prefixes": ["10.129.0.0/16"]})


def test_an_address_scope_has_one_ip_version_and_is_its_owners(world: World) -> None:
    with pytest.raises(errors.IllegalSubnetPoolIpVersionAssociationToAddressScope):
        world.pool("10.0.0.0/8", address_scope_id=world.scope(ip_version=6))
    with pytest.raises(errors.AddressScopeNotFound):
        world.pool("10.0.0.0/8", address_scope_id=world.scope(BOB))
    shared = world.scope(ADMIN, shared=True)
    pool = world.pool("10.0.0.0/8", address_scope_id=shared)
    with pytest.raises(errors.IllegalSubnetPoolUpdate):  # the scope's owner decides what is in it
        world.pools.update(ALICE, pool["id"], {"name": "x"}, None)
    with pytest.raises(errors.InvalidInput):
        world.pool("11.0.0.0/8", context=ADMIN, shared=True, address_scope_id=world.scope(ADMIN))


def test_networks_follow_their_pool_into_another_scope(world: World) -> None:
    pool = world.pool("10.0.0.0/8")
    network = world.network()
    world.subnet(pool, "10.0.0.0/24", network)
    world.subnet(pool, "10.0.1.0/24", network)
    unrelated = world.network()
    scope = world.scope()
    world.pools.update(ALICE, pool["id"], {"address_scope_id": scope}, None)
    c = t.networks.c
    with world.db.read() as connection:
        rows = connection.execute(sa.select(c.id, c.ipv4_address_scope, c.ipv6_address_scope, c.revision_number)).all()
        logged = (
            connection.execute(sa.select(t.changes.c.object_id).where(t.changes.c.kind == "network")).scalars().all()
        )
    assert set(rows) == {(network, scope, None, 2), (unrelated, None, None, 1)}
    assert logged == [network]
    world.pools.update(ALICE, pool["id"], {"address_scope_id": None}, None)
    with world.db.read() as connection:
        assert connection.execute(sa.select(c.ipv4_address_scope).where(c.id == network)).scalar() is None


def test_a_pool_that_shares_a_network_stays_in_its_scope(world: World) -> None:
    pool, network = world.pool("10.0.0.0/8"), world.network()
    world.subnet(pool, "10.0.0.0/24", network)
    world.subnet(None, "192.168.0.0/24", network)
    with pytest.raises(errors.NetworkAddressScopeAffinityError):
        world.pools.update(ALICE, pool["id"], {"address_scope_id": world.scope()}, None)


# --- allocation -------------------------------------------------------------------------------------------------------


def test_what_a_subnet_gets_from_a_pool(world: World) -> None:
    pool = world.pool("10.128.0.0/15", default_prefixlen=26, min_prefixlen=20, max_prefixlen=28)
    assert world.choose(pool) == "10.128.0.0/26"
    world.subnet(pool, "10.128.0.0/26")
    assert world.choose(pool, 24) == "10.128.1.0/24"
    assert world.choose(pool, cidr="10.129.4.0/24") == "10.129.4.0/24"
    world.subnet(pool, "10.129.4.0/24")
    refused: list[tuple[Object, type[errors.ApiError]]] = [
        ({"prefixlen": 29}, errors.MaxPrefixSubnetAllocationError),
        ({"prefixlen": 8}, errors.MinPrefixSubnetAllocationError),
        ({"cidr": "10.0.0.0/8"}, errors.MinPrefixSubnetAllocationError),
        ({"cidr": "10.129.4.0/25"}, errors.SubnetAllocationError),
        ({"cidr": "10.200.4.0/24"}, errors.SubnetAllocationError),
    ]
    for wish, error in refused:
        with pytest.raises(error):
            world.choose(pool, **wish)


def test_a_pool_without_room_says_so(world: World) -> None:
    pool = world.pool("10.0.0.0/24")
    world.subnet(pool, "10.0.0.0/24")
    with pytest.raises(errors.SubnetAllocationError):
        world.choose(pool, 28)


def test_the_pools_quota_is_each_projects_own(world: World) -> None:
    pool = world.pool("10.0.0.0/16", default_quota=300)
    world.subnet(pool, "10.0.0.0/24", project="a")
    with pytest.raises(errors.SubnetPoolQuotaExceeded):
        world.choose(pool, 24, project="a")
    assert world.choose(pool, 27, project="a") == "10.0.1.0/27"
    assert world.choose(pool, 24, project="b") == "10.0.1.0/24"


def test_a_choice_is_void_once_another_has_claimed(world: World) -> None:
    pool = world.pool("10.0.0.0/16")
    with world.db.read() as connection:
        seen = subnet_pools.load(connection, pool["id"])
    assert seen is not None
    with world.db.transaction() as tx:
        claim(tx, seen)
    with pytest.raises(Stale), world.db.transaction() as tx:
        claim(tx, seen)


@pytest.mark.parametrize(
    "change",
    [
        lambda w, key: w.pools.remove_prefixes(ALICE, key, {"prefixes": ["10.0.128.0/17"]}),
        lambda w, key: w.pools.update(ALICE, key, {"address_scope_id": w.scope()}, None),
    ],
)
def test_a_choice_is_void_once_the_pool_lost_prefixes_or_moved(
    world: World, change: Callable[[World, str], object]
) -> None:
    pool = world.pool("10.0.0.0/16")
    with world.db.read() as connection:
        seen = subnet_pools.load(connection, pool["id"])
    assert seen is not None
    change(world, pool["id"])
    with pytest.raises(Stale), world.db.transaction() as tx:
        claim(tx, seen)


def together(work: Callable[[int], Any], threads: int = 8) -> list[Any]:
    gate = threading.Barrier(threads)

    def start(number: int) -> Any:
        gate.wait(10)
        return work(number)

    with ThreadPoolExecutor(threads) as executor:
        return list(executor.map(start, range(threads)))


def test_eight_writers_never_get_overlapping_prefixes(world: World) -> None:
    pool = world.pool("10.0.0.0/16")
    network = world.network()
    lengths = [24, 26, 25, 24, 27, 28, 26, 25]
    got = together(lambda number: [world.allocate(pool, lengths[(number + i) % 8], network) for i in range(6)])
    cidrs = [ipaddress.ip_network(cidr) for cidr in itertools.chain.from_iterable(got)]
    assert len(cidrs) == 48
    assert not any(a.overlaps(b) for a, b in itertools.combinations(cidrs, 2))


def test_eight_writers_never_pass_the_quota(world: World) -> None:
    def make(number: int) -> int:
        done = 0
        for _ in range(5):
            try:
                world.pool("10.0.0.0/16")
                done += 1
            except errors.OverQuota:
                pass
        return done

    assert sum(together(make)) == 20
    assert len(world.pools.index(ALICE, Query())) == 20


def test_eight_writers_never_put_a_prefix_twice_in_a_scope(world: World) -> None:
    scope = world.scope()

    def make(number: int) -> int:
        try:
            world.pool("10.0.0.0/16", address_scope_id=scope)
        except errors.AddressScopePrefixConflict:
            return 0
        return 1

    assert sum(together(make)) == 1
