"""A new object kind is one declaration on each side and one reader: a host receives, updates and loses such objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.feed.address import Address
from neutrino.model.kinds import KINDS, Kind
from neutrino.model.roles import L2
from neutrino.model.state import Object
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.declarations import Feed, Reference, assemble
from neutrino.server.feed.fanout import ServedKind, SharedObjects
from neutrino.server.feed.kinds import CORE
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving, until


class RatePolicy(Object, frozen=True, kw_only=True, omit_defaults=True):
    max_kbps: int = 0


POLICIES = sa.Table(
    "test_policies", sa.MetaData(), sa.Column("id", sa.String(36), primary_key=True), sa.Column("max_kbps", sa.Integer)
)


def read_policies(connection: Connection, ids: Any) -> Iterator[tuple[str, RatePolicy]]:
    rows = connection.execute(sa.select(POLICIES).where(sa.true() if ids is None else POLICIES.c.id.in_(ids)))
    for row in rows:
        yield row.id, RatePolicy(id=row.id, max_kbps=row.max_kbps)


# The whole of what a new kind needs. A port names its policy in its device id here, for want of a column of its own.
POLICY = Kind("rate_policy", RatePolicy, frozenset({L2}), "rate_policies")
SERVED_POLICY = ServedKind(
    POLICY,
    SharedObjects,
    "rate_policy",
    read=read_policies,
)
RATES = Feed(
    kinds=(SERVED_POLICY,),
    references=(Reference("rate_policy", "port", lambda port: (port.device_id,) if port.device_id else ()),),
)


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, "sqlite", tmp_path))
    for i, host in enumerate(("h1", "h2")):
        switch(made, host, tunneling_ip=f"192.0.2.{i}")
    with made.db.transaction() as tx:
        POLICIES.create(tx.connection)
    yield made
    made.close()


def write(server: Server, key: str, max_kbps: int | None) -> None:
    with server.db.transaction() as tx:
        tx.execute(sa.delete(POLICIES).where(POLICIES.c.id == key))
        if max_kbps is not None:
            tx.insert(POLICIES, [{"id": key, "max_kbps": max_kbps}])
        tx.record("rate_policy", key, deleted=max_kbps is None)


def test_a_host_receives_updates_and_loses_objects_of_a_new_kind(server: Server, tmp_path: Path) -> None:
    api = Api(server.app).as_admin()
    network = api.network()
    write(server, "gold", 1000)
    write(server, "silver", 100)
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}
    address = Address(path=str(tmp_path / "feed.sock"))
    kinds = {**KINDS, POLICY.name: POLICY}

    def bind(host: str, policy: str) -> str:
        values = {"binding__host_id": host, "device_owner": "compute:nova", "device_id": policy}
        return str(api.port(network, **values)["id"])

    async def test() -> None:
        h1, h2 = (HostEnd(address, host, keys[host], kinds=kinds) for host in ("h1", "h2"))

        def has(end: HostEnd) -> dict[str, int]:
            return {key: policy.max_kbps for key, policy in end.client.state.objects["rate_policy"].items()}  # type: ignore[attr-defined]

        async with serving(server, address, sources=assemble([CORE, RATES])), h1, h2:
            first = await asyncio.to_thread(bind, "h1", "gold")
            second = await asyncio.to_thread(bind, "h1", "gold")
            await asyncio.to_thread(bind, "h2", "silver")
            await until(lambda: has(h1) == {"gold": 1000} and has(h2) == {"silver": 100}, "each to have its policy")
            await asyncio.to_thread(write, server, "gold", 2000)
            await until(lambda: has(h1) == {"gold": 2000}, "the update")
            await asyncio.to_thread(api.delete, f"/ports/{first}")
            await asyncio.to_thread(api.change, "port", second, device_id="silver")
            await until(lambda: has(h1) == {"silver": 100}, "the other policy, and not the one of no port")
            await asyncio.to_thread(write, server, "silver", None)
            await until(lambda: has(h1) == {} and has(h2) == {}, "the deletion")

    asyncio.run(test())


def test_a_role_that_does_not_consume_the_kind_does_not_receive_it(server: Server, tmp_path: Path) -> None:
    api = Api(server.app).as_admin()
    network = api.network()
    write(server, "gold", 1000)
    key = Credentials(server.db).add("h1", ("dhcp",))
    address = Address(path=str(tmp_path / "feed.sock"))
    api.port(network, binding__host_id="h1", device_owner="compute:nova", device_id="gold")
    kinds = {**KINDS, POLICY.name: POLICY}

    async def test() -> None:
        async with (
            serving(server, address, sources=assemble([CORE, RATES])),
            HostEnd(address, "h1", key, kinds=kinds) as h1,
        ):
            await h1.client.wait_synced()
            assert h1.objects() == {}

    asyncio.run(test())
