"""Checks of lists compare each item a fixed number of times: counted, because timing is unreliable here."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.router.routers.rules import routes_added, routes_removed
from neutrino.server.api.resources.network import parse_segments
from neutrino.server.api.resources.port import parse_address_pairs
from neutrino.server.api.types import Anything, Invalid, ListOf, first_duplicate
from neutrino.server.db import tables as t
from neutrino.server.db.view import MAX_PREPARED, View
from neutrino.server.errors import (
    DuplicateAddressPairInRequest,
    OverlappingAllocationPools,
    SegmentsContainDuplicateEntry,
)
from neutrino.server.ipam.subnet_rules import check_pools
from neutrino.server.ml2.ports.values import address_pairs
from neutrino.server.query import Query, Sort

MANY = 1000


class Counted(str):
    """A text that counts how often it is compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)

    def strip(self, chars: str | None = None, /) -> str:
        return self


def comparisons(check: Callable[[], Any]) -> int:
    Counted.compared = 0
    check()
    return Counted.compared


def address(i: int) -> Counted:
    return Counted(ipaddress.IPv4Address("10.0.0.0") + i)


ROUTES = [{"destination": address(i), "nexthop": address(0)} for i in range(MANY)]
PAIRS = [{"ip_address": address(i), "mac_address": "fa:16:3e:00:00:01"} for i in range(MANY)]
NETWORK = ipaddress.ip_network("10.0.0.0/8")


@pytest.mark.parametrize(
    "check",
    [
        lambda: ListOf(Anything()).parse([address(i) for i in range(MANY)]),
        lambda: ListOf(Anything()).parse(ROUTES),
        lambda: parse_address_pairs(PAIRS),
        lambda: address_pairs(PAIRS, "fa:16:3e:00:00:01", -1),
        lambda: routes_added(ROUTES, ROUTES),
        lambda: routes_removed(ROUTES, ROUTES[: MANY // 2]),
        lambda: first_duplicate(ROUTES),
    ],
    ids=["texts", "records", "address pairs", "full address pairs", "routes added", "routes removed", "duplicate"],
)
def test_items_are_not_compared_with_all_others(check: Callable[[], Any]) -> None:
    assert comparisons(check) < 10 * MANY


def test_pools_are_not_compared_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    plain = ipaddress.IPv4Address.__lt__

    def counted(self: Any, other: Any) -> bool:
        nonlocal compared
        compared += 1
        return plain(self, other)

    monkeypatch.setattr(ipaddress.IPv4Address, "__lt__", counted, raising=False)
    pools = [{"start": str(address(4 * i + 4)), "end": str(address(4 * i + 5))} for i in range(MANY)]
    check_pools(pools, NETWORK)
    assert MANY < compared < 10 * MANY


@pytest.mark.parametrize(
    "pools",
    [
        [("10.0.0.10", "10.0.0.20"), ("10.0.0.20", "10.0.0.30")],
        [("10.0.0.20", "10.0.0.30"), ("10.0.0.40", "10.0.0.50"), ("10.0.0.10", "10.0.0.20")],
        [("10.0.0.10", "10.0.0.90"), ("10.0.0.95", "10.0.0.99"), ("10.0.0.40", "10.0.0.50")],
        [("10.0.0.10", "10.0.0.20"), ("10.0.0.10", "10.0.0.20")],
    ],
)
def test_pools_that_overlap_are_found_in_any_order(pools: list[tuple[str, str]]) -> None:
    with pytest.raises(OverlappingAllocationPools):
        check_pools([{"start": start, "end": end} for start, end in pools], NETWORK)


def test_duplicates_are_still_found() -> None:
    with pytest.raises(Invalid, match="duplicate items in the list: 'b'"):
        ListOf(Anything()).parse(["a", "b", "c", "b"])
    with pytest.raises(Invalid, match="duplicate"):
        ListOf(Anything()).parse([{"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}])
    assert ListOf(Anything()).parse([{"a": 1}, {"a": 2}, {"b": 1}]) == [{"a": 1}, {"a": 2}, {"b": 1}]
    with pytest.raises(DuplicateAddressPairInRequest):
        parse_address_pairs([{"ip_address": "10.0.0.1"}, {"ip_address": "10.0.0.1", "mac_address": None}])
    with pytest.raises(DuplicateAddressPairInRequest):
        address_pairs([{"ip_address": "a", "mac_address": "m"}, {"ip_address": "a"}], "m", -1)
    with pytest.raises(SegmentsContainDuplicateEntry):
        parse_segments([{"provider:network_type": "vlan"}] * 2)
    one, two = {"destination": "a", "nexthop": "b"}, {"nexthop": "b", "destination": "c"}
    assert routes_added([one], [two, one, two]) == [one, two]
    assert routes_removed([one, two], [dict(reversed(two.items()))]) == [one]


@pytest.mark.parametrize("keys", [1, 4, 16])
def test_a_marker_costs_a_fixed_number_of_conditions_for_each_sort_key(keys: int) -> None:
    """As one condition for each number of equal keys, 200 keys made 20,000 of them."""
    columns = [column.name for column in t.ports.c if column.name != "id"][:keys]
    view = View(t.ports, columns=["id", *columns])
    engine = sa.create_engine("sqlite://")
    statements: list[tuple[str, int]] = []
    sa.event.listen(
        engine, "before_cursor_execute", lambda c, cursor, text, bound, *_: statements.append((text, len(bound)))
    )
    t.ports.create(engine)
    with engine.connect() as connection:
        row = {c.name: "x" if isinstance(c.type, sa.String | sa.Text) else 1 for c in t.ports.c}
        connection.execute(sa.insert(t.ports), row)
        statements.clear()
        query = Query(fields=("id",), sorts=tuple(Sort(name) for name in columns), marker="x", limit=1, everyone=True)
        assert view.many(connection, query, None) == []
    text, bound = statements[-1]
    assert bound <= 2 * (keys + 1) + 2  # two of each key, the range of the first, the limit
    assert text.count(" AND ") + text.count(" OR ") <= 4 * (keys + 1)


def test_fields_in_any_order_do_not_fill_the_memory() -> None:
    """A statement is kept for each combination of fields that clients ask for, but for a bounded number of them."""
    view = View(t.ports, columns=("id", "name", "status", "device_id", "device_owner", "description"))
    engine = sa.create_engine("sqlite://")
    t.ports.create(engine)
    with engine.connect() as connection:
        for fields in itertools.islice(itertools.permutations(view.names), 3 * MAX_PREPARED):
            assert view.show(connection, "x", project=None, everyone=True, fields=fields) is None
    assert len(view._shows) <= MAX_PREPARED
