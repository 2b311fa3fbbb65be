"""A restored backup: hosts that were connected converge to it, keep what it has, and remove what was created after it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from neutrino.feed.address import Address
from neutrino.server.db.session import Database
from neutrino.server.feed.change_log import ChangeLog
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start, url_of
from tests.support.databases import new_database
from tests.support.dumps import dump, restore
from tests.support.feed import HostEnd, serving


def renew(url: str) -> None:
    """`neutrino db restored`: without it, hosts with a later state than the backup are refused."""
    db = Database(url)
    try:
        ChangeLog(db).renew()
    finally:
        db.close()


def test_hosts_converge_to_a_restored_backup(
    request: pytest.FixtureRequest, server: Server, admin: Api, database: str, tmp_path: Path
) -> None:
    switch(server, "h1", tunneling_ip="192.0.2.1")
    key = Credentials(server.db).add("h1")
    network = admin.network()
    admin.subnet(network)
    values = {"binding__host_id": "h1", "device_owner": "compute:nova"}
    kept, deleted_later = (admin.port(network, name=name, **values)["id"] for name in ("kept", "deleted later"))
    backup = tmp_path / "neutrino.sql"
    dump(url_of(server), backup)
    after = admin.port(network, name="after the backup", **values)["id"]
    admin.change("port", kept, name="renamed", security_groups=[])
    admin.delete(f"/ports/{deleted_later}").expect(204)
    address = Address(path=str(tmp_path / "feed.sock"))

    async def test() -> None:
        async with HostEnd(address, "h1", key) as host:
            async with serving(server, address):
                await host.equals_the_database(server)
            assert set(host.client.state.objects["port"]) == {kept, after}
            restored = new_database(request, database, tmp_path)
            await asyncio.to_thread(restore, backup, restored)
            await asyncio.to_thread(renew, restored)
            host.changes.clear()
            again = await asyncio.to_thread(start, tmp_path, restored)
            try:
                # The credential of the host is in the backup too: nothing has to be done on hosts.
                async with serving(again, address):
                    await host.equals_the_database(again)
                assert set(host.client.state.objects["port"]) == {kept, deleted_later}
                removed = {change.id for change in host.changes if change.new is None and change.kind == "port"}
                assert removed == {after}
                assert host.client.state.objects["port"][kept].security_groups
                # Changes after the restoration have positions that the old database had used.
                new = await asyncio.to_thread(lambda: Api(again.app).as_admin().port(network, **values)["id"])
                async with serving(again, address):
                    await host.equals_the_database(again)
                assert new in host.client.state.objects["port"]
            finally:
                again.close()

    asyncio.run(asyncio.wait_for(test(), 90))


def test_the_guides_command_for_sqlite(tmp_path: Path) -> None:
    """While the server writes, `.backup` copies a consistent database; copying the file would not."""
    path = tmp_path / "neutrino.sqlite"
    server = start(tmp_path, f"sqlite:///{path}")
    admin = Api(server.app).as_admin()
    network = admin.network(name="blue")
    subprocess.run(["sqlite3", path, f".backup '{tmp_path}/backup.sqlite'"], check=True, timeout=60)
    admin.network(name="after the backup")
    server.close()
    again = start(tmp_path, f"sqlite:///{tmp_path}/backup.sqlite")
    try:
        assert [each["id"] for each in Api(again.app, project=admin.project).all("/networks")] == [network["id"]]
    finally:
        again.close()
