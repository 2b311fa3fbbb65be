"""Trunks in the feed: the host of the parent receives all ports of the trunk, with their VLANs, and they move with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.model.state import Port
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, connected, until

HOSTS = ("h1", "h2")
VM = {"device_owner": "compute:nova", "device_id": "vm"}


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, request.param, tmp_path), {})
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number}")
    yield made
    made.close()


def trunks(end: HostEnd) -> dict[str, tuple[str, int]]:
    """The ports of trunks that a host has, each with its trunk and VLAN."""
    ports = [each for each in end.client.state.objects["port"].values() if isinstance(each, Port)]
    return {each.id: (each.trunk_id, each.trunk_vlan) for each in ports if each.trunk_id}


async def doing(call: Callable[..., Any], *args: Any, **values: Any) -> Any:
    return await asyncio.to_thread(lambda: call(*args, **values))


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_a_host_receives_the_ports_of_its_trunks(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    parent, red, green = (admin.port(admin.network()) for _ in range(3))
    subport = {"port_id": red["id"], "segmentation_type": "vlan", "segmentation_id": 10}
    key = admin.make("trunk", port_id=parent["id"], sub_ports=[subport])["id"]
    one = {parent["id"]: (key, 0), red["id"]: (key, 10)}
    two = {**one, green["id"]: (key, 20)}

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, h2):
            assert trunks(h1) == {}
            await doing(admin.change, "port", parent["id"], binding__host_id="h1", **VM)
            await until(lambda: trunks(h1) == one, "h1 has the parent and its subport")
            added = {"port_id": green["id"], "segmentation_type": "vlan", "segmentation_id": 20}
            (await doing(admin.put, f"/trunks/{key}/add_subports", {"sub_ports": [added]})).expect(200)
            await until(lambda: trunks(h1) == two, "h1 has the new subport")
            await doing(admin.change, "port", parent["id"], binding__host_id="h2")
            await until(lambda: trunks(h2) == two and not trunks(h1), "the trunk has moved")
            gone = {"sub_ports": [{"port_id": green["id"]}]}
            (await doing(admin.put, f"/trunks/{key}/remove_subports", gone)).expect(200)
            await until(lambda: trunks(h2) == one, "h2 has lost the subport")
            for end in (h1, h2):
                await end.equals_the_database(server)

    asyncio.run(run())


@pytest.mark.parametrize("server", DATABASES[:1], indirect=True)
def test_the_target_of_a_live_migration_has_subports_before_the_instance_arrives(
    server: Server, tmp_path: Path
) -> None:
    admin = Api(server.app).as_admin()
    parent, red = (admin.port(admin.network()) for _ in range(2))
    subport = {"port_id": red["id"], "segmentation_type": "vlan", "segmentation_id": 10}
    key = admin.make("trunk", port_id=parent["id"], sub_ports=[subport])["id"]
    both = {parent["id"]: (key, 0), red["id"]: (key, 10)}
    path, nova = f"/ports/{parent['id']}/bindings", admin.as_service()

    def activity(end: HostEnd) -> set[bool]:
        return {end.client.state.objects["port"][each].active for each in trunks(end)}

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, h2):
            await doing(admin.change, "port", parent["id"], binding__host_id="h1", **VM)
            await until(lambda: trunks(h1) == both, "h1 has the trunk")
            (await doing(nova.post, path, {"binding": {"host": "h2"}})).expect(201)
            await until(lambda: trunks(h2) == both and activity(h2) == {False}, "h2 can prepare the trunk")
            assert activity(h1) == {True}
            assert admin.show("port", red["id"])["binding:host_id"] == "h1"
            (await doing(nova.put, f"{path}/h2/activate", {})).expect(200)
            await until(lambda: activity(h2) == {True} and activity(h1) == {False}, "it has moved")
            for end in (h1, h2):
                await end.equals_the_database(server)
            (await doing(nova.delete, f"{path}/h1")).expect(204)
            await until(lambda: trunks(h1) == {}, "h1 has nothing left")
            (await doing(nova.post, path, {"binding": {"host": "h1"}})).expect(201)
            await until(lambda: trunks(h1) == both, "h1 can prepare it again")
            (await doing(nova.delete, f"{path}/h1")).expect(204)
            await until(lambda: trunks(h1) == {}, "the migration is given up")
            assert activity(h2) == {True}

    asyncio.run(run())
