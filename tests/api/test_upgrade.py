"""Upgrade from the previous release: its databases are read and written, its agents connect, and its server serves ours.

The data in tests/data/schema-0004 was recorded with that release by `tests/support/record_release.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, unix_serve

from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.messages import Ack, Gone, Problem, Synced, read_from_server
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.main import Server
from tests.api.client import PLURALS, Api
from tests.api.conftest import start
from tests.support.databases import new_database
from tests.support.dumps import restore
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_raw import Raw
from tests.support.record_release import HOST, PROJECT, ROLES, read_all, states

RECORDED = Path(__file__).parents[1] / "data" / "schema-0004"
# Depends on the time since the recording.
VOLATILE = {"alive"}
NAMED = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "subnetpool": "subnetpools",
    **{kind: PLURALS[kind] for kind in ("address_scope", "security_group", "address_group", "policy")},
    **{kind: PLURALS[kind] for kind in ("firewall_group", "firewall_policy", "firewall_rule")},
}
Objects = dict[str, list[dict[str, Any]]]


def frames() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / "frames.jsonl").read_text().splitlines()]


def credential() -> str:
    return (RECORDED / "credential").read_text().strip()


@pytest.fixture
def url(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> str:
    """A restored database of the previous release."""
    made = new_database(request, database, tmp_path)
    restore(RECORDED / f"{database}.sql", made)
    db = Database(made)
    assert schema.version(db) == "0004" != schema.HEAD
    db.close()
    return made


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, url)
    yield made
    made.close()


@pytest.fixture
def admin(server: Server) -> Api:
    return Api(server.app, project=PROJECT).as_admin()


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def comparable(found: Objects) -> dict[str, dict[str, dict[str, Any]]]:
    """By collection and id, with lists in an order of their own."""
    return {
        path: {
            each.get("id", each.get("project_id", "")): {
                name: sorted(value, key=partial(json.dumps, sort_keys=True)) if isinstance(value, list) else value
                for name, value in each.items()
                if name not in VOLATILE
            }
            for each in several
        }
        for path, several in found.items()
    }


def test_every_object_is_read_as_the_previous_release_read_it(admin: Api, database: str) -> None:
    recorded: Objects = json.loads((RECORDED / f"{database}.json").read_text())
    before, now = comparable(recorded), comparable(read_all(admin))
    assert sum(map(len, before.values())) > 50
    assert {path: set(several) for path, several in before.items()} == {
        path: set(several) for path, several in now.items() if path in before
    }
    for path, several in before.items():
        for key, values in several.items():
            found = {name: now[path][key].get(name) for name in values}
            assert found == values, f"{path} {key}"


def test_every_object_can_be_changed_and_deleted(admin: Api) -> None:
    for kind, path in NAMED.items():
        for each in admin.all(f"/{path}"):
            if each["name"] == "default" or (kind.startswith("firewall") and each["name"].startswith("default")):
                continue
            assert admin.change(kind, each["id"], name=f"new {each['name']}"[:40].strip())["name"].startswith("new"), (
                kind
            )
    blue = next(each for each in admin.all("/networks") if each["name"] == "new blue")
    admin.port(blue, name="after the upgrade")
    for group in admin.all("/fwaas/firewall_groups"):
        if group["name"] != "default":
            admin.change("firewall_group", group["id"], ports=[])
            admin.delete(f"/fwaas/firewall_groups/{group['id']}").expect(204)
    for each in admin.all("/floatingips"):
        for forwarding in admin.get(f"/floatingips/{each['id']}/port_forwardings").body["port_forwardings"]:
            admin.delete(f"/floatingips/{each['id']}/port_forwardings/{forwarding['id']}").expect(204)
        admin.delete(f"/floatingips/{each['id']}").expect(204)
    for router in admin.all("/routers"):
        admin.change("router", router["id"], routes=[], external_gateway_info=None)
        for port in admin.all("/ports", {"device_id": router["id"]}):
            if port["device_owner"] in ("network:router_interface", "network:ha_router_replicated_interface"):
                body = {"port_id": port["id"]}
                admin.put(f"/routers/{router['id']}/remove_router_interface", body).expect(200)
        admin.delete(f"/routers/{router['id']}").expect(204)
    for port in admin.all("/ports"):
        admin.delete(f"/ports/{port['id']}").expect(204)
    for policy in admin.all("/rbac-policies"):
        admin.delete(f"/rbac-policies/{policy['id']}")
    for network in admin.all("/networks"):
        admin.delete(f"/networks/{network['id']}").expect(204)
    for group in admin.all("/security-groups"):
        if group["name"] != "default":
            admin.delete(f"/security-groups/{group['id']}").expect(204)
    for path in ("qos/policies", "address-groups", "subnetpools", "address-scopes", "flavors", "service_profiles"):
        for each in admin.all(f"/{path}"):
            if path == "flavors":
                for profile in each["service_profiles"]:
                    admin.delete(f"/flavors/{each['id']}/service_profiles/{profile}").expect(204)
            admin.delete(f"/{path}/{each['id']}").expect(204)
    left = {path: several for path, several in read_all(admin).items() if several}
    assert set(left) <= {"agents", "quotas", "security-groups", "security-group-rules", "availability_zones"} | {
        path for path in left if path.startswith("fwaas/")
    }


# --- the feed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_agent_of_the_previous_release_connects_and_reports(server: Server, address: Address) -> None:
    async def test() -> None:
        async with serving(server, address):
            connections: list[list[dict[str, Any]]] = []
            for each in frames():
                if each["from"] == "host":
                    if each["frame"][0]["type"] == "hello":
                        connections.append([])
                    connections[-1].append(each)
            assert len(connections) == 2
            for sent in connections:
                async with Raw(address, HOST, credential()) as raw:
                    await raw.send_data(json.dumps(sent[0]["frame"]).encode())
                    received = await raw.receive_until_synced()
                    # The host had everything at the time of the dump: nothing may be taken from it.
                    has_everything = len(sent[0]["frame"][0].get("have", {})) > 1
                    assert not has_everything or not [each for each in received if isinstance(each, Gone)]
                    serials = set()
                    for each in sent[1:]:
                        await raw.send_data(json.dumps(each["frame"]).encode())
                        serials |= {message["serial"] for message in each["frame"]}
                    while serials:
                        for message in await raw.receive():
                            assert not isinstance(message, Problem), message
                            if isinstance(message, Ack):
                                serials.discard(message.serial)

    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_cache_of_an_agent_of_the_previous_release(
    server: Server, address: Address, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An upgraded agent starts from it without a server, and then loses nothing when it connects."""
    caplog.set_level(logging.WARNING, "neutrino.feed")
    cache = tmp_path / "feed.json"
    shutil.copy(RECORDED / "feed.json", cache)

    async def test() -> None:
        async with HostEnd(address, HOST, credential(), cache) as host:
            recorded = {kind: {each["id"] for each in several} for kind, several in cached().items() if several}
            assert {kind: set(found) for kind, found in host.client.state.objects.items() if found} == recorded
            assert host.client.state.problems == {}
            host.changes.clear()
            async with serving(server, address):
                await host.equals_the_database(server)
            assert [change for change in host.changes if change.new is None] == []

    asyncio.run(asyncio.wait_for(test(), 60))
    assert "invalid" not in caplog.text


def cached() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((RECORDED / "feed.json").read_text())["objects"]
    return found


def test_an_upgraded_agent_connects_to_a_server_of_the_previous_release(address: Address) -> None:
    """Agents may be upgraded before a server, or connect to one that is not upgraded yet."""
    sent = [each["frame"] for each in frames() if each["from"] == "server"]
    first = sent[: next(number for number in range(1, len(sent)) if sent[number][0]["type"] == "welcome")]

    async def serve(connection: ServerConnection) -> None:
        await connection.recv()
        for frame in first:
            if frame[0]["type"] != "ack":
                await connection.send(json.dumps(frame).encode(), text=True)
        async for data in connection:
            acks = [{"type": "ack", "serial": each["serial"]} for each in json.loads(data)]
            await connection.send(json.dumps(acks).encode(), text=True)

    async def test() -> None:
        options = ClientOptions(address, HOST, credential(), roles=ROLES, first_delay=0.01)
        client = FeedClient(options)
        async with unix_serve(serve, address.path, compression=None):
            task = asyncio.create_task(client.run())
            await until(lambda: client.is_synced and "dhcp_network" in client.state.have(), "the host is synced")
            expected = {kind: {each["id"] for each in several} for kind, several in cached().items() if several}
            assert {kind: set(found) for kind, found in client.state.objects.items() if found} == expected
            client.report(states())
            await until(lambda: client.unacknowledged == 0, "the report is acknowledged")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(test(), 60))
    assert any(
        isinstance(message, Synced) for frame in sent for message in read_from_server(json.dumps(frame).encode())
    )
