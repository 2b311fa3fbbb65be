"""Availability zones, as the agents make them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from neutrino.features.availability_zone.feature import AvailabilityZones
from neutrino.model import agents as words
from neutrino.model.agents import AgentState
from neutrino.server import errors
from neutrino.server.context import admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.hosts.zones import check_hints
from neutrino.server.query import Query
from tests.support.databases import prepared_sqlite

ADMIN = admin_context()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database(prepared_sqlite(tmp_path / "test.sqlite"), sqlite_durable=False)
    registry = Registry(database)
    for kind, host, zone in [
        (words.DHCP, "h1", "az1"),
        (words.DHCP, "h2", "az1"),
        (words.DHCP, "h3", "az2"),
        (words.L3, "h1", "az1"),
        (words.OVS, "h1", "az3"),
        (words.DHCP, "h4", None),
    ]:
        registry.report(AgentState(kind, "b", host, "t", zone))
    with database.transaction() as tx:
        tx.execute(sa.update(t.agents).where(t.agents.c.host.in_(["h1", "h3"])).values(admin_state_up=False))
    yield database
    database.close()


@pytest.mark.parametrize(
    "filters, expected",
    [
        ({}, ["az1 network available", "az1 router unavailable", "az2 network unavailable"]),
        ({"name": ("az1",)}, ["az1 network available", "az1 router unavailable"]),
        ({"resource": ("network",), "state": ("unavailable",)}, ["az2 network unavailable"]),
        ({"name": ("az1", "az2"), "resource": ("router",)}, ["az1 router unavailable"]),
        ({"name": ("az3",)}, []),
    ],
)
def test_zones_of_agents(db: Database, filters: dict[str, tuple[str, ...]], expected: list[str]) -> None:
    zones = AvailabilityZones(db).index(ADMIN, Query(filters=filters))
    assert [f"{z['name']} {z['resource']} {z['state']}" for z in zones] == expected


def test_there_is_one_page(db: Database) -> None:
    zones = AvailabilityZones(db)
    assert len(zones.index(ADMIN, Query(limit=1))) == 3
    assert zones.index(ADMIN, Query(limit=1, marker="az2")) == []


def test_hints_must_name_zones_with_agents(db: Database) -> None:
    with db.read() as connection:
        check_hints(connection, [])
        check_hints(connection, ["az2", "az1", "az1"])
        check_hints(connection, ["az1"], words.L3)
        with pytest.raises(errors.AvailabilityZoneNotFound, match="az3"):
            check_hints(connection, ["az1", "az3"])
        with pytest.raises(errors.AvailabilityZoneNotFound, match="az2"):
            check_hints(connection, ["az2"], words.L3)


def test_without_agents_there_are_no_zones(tmp_path: Path) -> None:
    empty = Database(prepared_sqlite(tmp_path / "empty.sqlite"), sqlite_durable=False)
    assert AvailabilityZones(empty).index(ADMIN, Query()) == []
    with empty.read() as connection, pytest.raises(errors.AvailabilityZoneNotFound):
        check_hints(connection, ["nova"])
    empty.close()
