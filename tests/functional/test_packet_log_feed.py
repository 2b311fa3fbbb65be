"""Logs and local IPs in the feed: hosts receive the logs of their ports' networks, groups and projects, and port by port
the local IPs that these are associated with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.local_ip.tables import associations
from neutrino.model.packet_log import PacketLog
from neutrino.model.state import LocalIp, Port
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.addresses import pool
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, connected, until

HOSTS = ("h1", "h2")


@pytest.fixture(params=DATABASES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, request.param, tmp_path), {})
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number}")
    yield made
    made.close()


async def doing(call: Callable[..., Any], *args: Any, **values: Any) -> Any:
    return await asyncio.to_thread(lambda: call(*args, **values))


def logs(end: HostEnd) -> set[str]:
    return {*end.client.state.objects["log"]}


def test_a_host_receives_the_logs_of_its_ports(server: Server, tmp_path: Path) -> None:
    api = Api(server.app)
    admin, network = api.as_admin(), api.network()
    api.subnet(network)
    group = api.make("security_group", name="g")["id"]
    port = admin.port(network, binding__host_id="h1", security_groups=[group], project_id=api.project)
    admin.port(api.network(), binding__host_id="h2", project_id="another")

    async def made(**values: Any) -> str:
        body = {"resource_type": "security_group", "project_id": api.project, **values}
        return str((await doing(admin.make, "log", **body))["id"])

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, h2):
            of_port, of_group = await made(target_id=port["id"], name="p"), await made(resource_id=group, event="DROP")
            of_project, elsewhere = await made(), await made(project_id="another")
            await until(lambda: logs(h1) == {of_port, of_group, of_project}, "h1 has the logs of its port")
            await until(lambda: logs(h2) == {elsewhere}, "h2 has the log of its port's project")
            assert h1.client.state.get("log", of_port) == PacketLog(
                id=of_port, name="p", project_id=api.project, target_id=port["id"], network_id=network["id"]
            )
            await doing(admin.change, "log", of_group, enabled=False)
            await until(lambda: logs(h1) == {of_port, of_project}, "h1 has lost the disabled log")
            await doing(admin.change, "log", of_group, enabled=True)
            await until(lambda: of_group in logs(h1), "h1 has it again")
            await doing(api.delete, f"/ports/{port['id']}")
            await until(lambda: logs(h1) == set(), "h1 has no port any more")
            await doing(api.delete, f"/security-groups/{group}")
            for end in (h1, h2):
                await end.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_port_has_the_local_ips_that_it_is_associated_with(server: Server, tmp_path: Path) -> None:
    api = Api(server.app)
    admin, network = api.as_admin(), api.network()
    api.subnet(network, **pool("10.0.0.0/24"))
    port = admin.port(network, binding__host_id="h1", project_id=api.project)
    local_ip = api.make("local_ip", network_id=network["id"], local_ip_address="10.0.0.200")
    path = f"/local_ips/{local_ip['id']}/port_associations"
    wanted = LocalIp("10.0.0.200", port["fixed_ips"][0]["ip_address"], network_id=network["id"])

    def found(end: HostEnd) -> tuple[LocalIp, ...]:
        held = end.client.state.get("port", port["id"])
        assert isinstance(held, Port)
        return held.local_ips

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, _):
            assert found(h1) == ()
            await doing(api.post, path, {"port_association": {"fixed_port_id": port["id"]}})
            await until(lambda: found(h1) == (wanted,), "h1 has the local IP")
            await doing(api.delete, f"{path}/{port['id']}")
            await until(lambda: found(h1) == (), "h1 has lost the local IP")
            await h1.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_hosts_do_not_get_associations_that_are_not_in_effect(server: Server, tmp_path: Path) -> None:
    """Rows that today's checks refuse: of another network, of an address that its port has lost, of a gateway."""
    api = Api(server.app)
    admin, network, other = api.as_admin(), api.network(), api.network()
    subnet = api.subnet(network, **pool("10.0.0.0/24"))
    api.subnet(other, **pool("10.0.0.0/24"))
    port = admin.port(network, binding__host_id="h1", project_id=api.project)
    own = port["fixed_ips"][0]["ip_address"]
    elsewhere = api.make("local_ip", network_id=other["id"], local_ip_address="10.0.0.201")
    good, lost, gateway = (
        api.make("local_ip", network_id=network["id"], local_ip_address=f"10.0.0.{n}") for n in (202, 203, 204)
    )
    rows = [{"local_ip_id": one["id"], "fixed_port_id": port["id"], "fixed_ip": own} for one in (elsewhere, good, lost)]
    rows.append({"local_ip_id": gateway["id"], "fixed_port_id": port["id"], "fixed_ip": "10.0.0.250"})
    with server.db.transaction() as tx:
        tx.insert(associations, rows)
        tx.write(sa.delete(t.ip_allocations).where(t.ip_allocations.c.port_id == lost["local_port_id"]))

    def held(end: HostEnd) -> tuple[LocalIp, ...]:
        found = end.client.state.get("port", port["id"])
        assert isinstance(found, Port)
        return found.local_ips

    wanted = (LocalIp("10.0.0.202", own, network_id=network["id"]),)
    move = sa.update(t.subnets).where(t.subnets.c.id == subnet["id"]).values(gateway_ip="10.0.0.202")

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, _):
            assert held(h1) == wanted
            with server.db.transaction() as tx:
                tx.write(move)
                tx.record("port", port["id"])
            await until(lambda: held(h1) == (), "the gateway's address leads nowhere else")

    asyncio.run(asyncio.wait_for(run(), 60))
