"""Workers killed during requests: no object is left incomplete, and clients only have to retry."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from tests.api.conftest import configuration_text
from tests.drivers.installed import install
from tests.faults import integrity
from tests.faults.live import SECONDS, Client, LiveServer
from tests.support.databases import prepared_database
from tests.support.process import wait_until

KILLS = 3
WRITERS = 4
MOST = 400  # requests of one writer


@contextmanager
def opened(url: str) -> Iterator[Database]:
    db = Database(url)
    try:
        yield db
    finally:
        db.close()


def journal(url: str) -> int:
    with opened(url) as db, db.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(t.journal)).scalar_one())


def await_empty_journal(url: str) -> None:
    wait_until(lambda: journal(url) == 0, timeout=SECONDS, what="an empty journal", failed=lambda: None)


def settings(url: str, faults: Path, log: Path) -> str:
    quotas = {"quota_port": "-1", "quota_network": "-1", "quota_subnet": "-1"}
    return configuration_text(
        url,
        {
            "ml2": {"mechanism_drivers": "openvswitch,logger,faulty"},
            "ml2_logger": {"path": str(log)},
            "ml2_faulty": {"directory": str(faults)},
            "quotas": quotas,
        },
    )


@pytest.fixture
def url(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> str:
    return prepared_database(request, database, tmp_path)


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    directory = tmp_path / "faults"
    directory.mkdir()
    return directory


@pytest.fixture
def live(url: str, faults: Path, tmp_path: Path) -> Iterator[LiveServer]:
    path = ":".join(str(install(name, tmp_path)) for name in ("logger", "faulty"))
    with LiveServer(settings(url, faults, tmp_path / "log"), path) as server:
        yield server


def test_killed_under_load(live: LiveServer, url: str) -> None:
    stop = threading.Event()
    seen: Counter[int] = Counter()
    lock = threading.Lock()

    def write(number: int) -> None:
        client = Client(live.port, uuid.uuid4().hex)
        for i in range(MOST):
            if stop.is_set():
                return
            network = client.make("network", name=f"n{number}-{i}")
            subnet = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}
            answer = client.call("POST", "/v2.0/subnets", {"subnet": subnet})
            assert answer.status in (201, 400)  # 400: the first try had made it, and it overlaps with itself
            port = client.make("port", network_id=network["id"])
            answers = [
                client.call("PUT", f"/v2.0/ports/{port['id']}", {"port": {"fixed_ips": [{"ip_address": "10.0.0.9"}]}})
            ]
            if i % 2:
                answers.append(client.call("DELETE", f"/v2.0/ports/{port['id']}"))
            with lock:
                seen.update(answer.status for answer in answers)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    killed = []
    try:
        for _ in range(KILLS):
            done = sum(seen.values())
            wait_until(
                lambda done=done: sum(seen.values()) >= done + 5,  # type: ignore[misc]
                timeout=SECONDS,
                what="more work",
                failed=lambda: None,
            )
            killed.append(live.kill_worker())
    finally:
        stop.set()
        for writer in writers:
            writer.join(timeout=2 * SECONDS)
    assert not any(writer.is_alive() for writer in writers)
    assert len(set(killed)) == KILLS
    # A request that was carried out before its worker died is answered 404 when it is put again: a delete.
    assert set(seen) <= {200, 204, 404}
    assert seen[200] >= 5 * KILLS / 2
    live.kill_worker()  # the new one replays the journal of the others
    await_empty_journal(url)
    with opened(url) as db:
        integrity.check(db)


def blocked_worker(faults: Path) -> int:
    found: list[int] = []

    def look() -> bool:
        found[:] = [int(path.name.partition("-")[2]) for path in faults.glob("blocked-*")]
        return bool(found)

    wait_until(look, timeout=SECONDS, what="a worker in its postcommit", failed=lambda: None)
    return found[0]


@pytest.mark.parametrize("fails_again", [False, True])
def test_killed_between_commit_and_postcommit(live: LiveServer, url: str, faults: Path, fails_again: bool) -> None:
    client = Client(live.port, uuid.uuid4().hex)
    network = client.make("network")
    client.make("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    block = faults / "block-create_port_postcommit"
    block.touch()
    lost: list[Exception] = []

    def create() -> None:
        try:
            client.once("POST", "/v2.0/ports", {"port": {"network_id": network["id"], "name": "cut off"}})
        except Exception as error:
            lost.append(error)

    writer = threading.Thread(target=create)
    writer.start()
    worker = blocked_worker(faults)
    assert journal(url) == 1
    if fails_again:
        (faults / "fail-create_port_postcommit").touch()
    _kill_then_unblock(live, worker, block)
    writer.join(timeout=SECONDS)
    assert not writer.is_alive()
    await_empty_journal(url)
    found = client.call("GET", "/v2.0/ports?name=cut%20off").body["ports"]
    assert len(found) == (0 if fails_again else 1)
    calls = (faults / "calls").read_text().splitlines()
    assert sum(line.startswith("create_port_postcommit") for line in calls) == 2  # cut off once, then replayed
    with opened(url) as db:
        integrity.check(db)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("operation", ["create_network", "update_port", "delete_port"])
def test_updates_and_deletes_are_replayed_too(live: LiveServer, url: str, faults: Path, operation: str) -> None:
    client = Client(live.port, uuid.uuid4().hex)
    network = client.make("network")
    port = client.make("port", network_id=network["id"])
    (faults / f"block-{operation}_postcommit").touch()
    request = {
        "create_network": ("POST", "/v2.0/networks", {"network": {"name": "late"}}),
        "update_port": ("PUT", f"/v2.0/ports/{port['id']}", {"port": {"name": "late"}}),
        "delete_port": ("DELETE", f"/v2.0/ports/{port['id']}", None),
    }[operation]
    writer = threading.Thread(target=lambda: client.call(*request), daemon=True)
    writer.start()
    worker = blocked_worker(faults)
    (faults / "calls").unlink()
    _kill_then_unblock(live, worker, faults / f"block-{operation}_postcommit")
    writer.join(timeout=SECONDS)
    await_empty_journal(url)
    replayed = [line.split() for line in (faults / "calls").read_text().splitlines()]
    finished = [line for line in replayed if line[0] == f"{operation}_postcommit"]
    assert finished
    if operation == "create_network":
        assert finished[0][2] == "1"  # the segments are known after the crash, too
    with opened(url) as db:
        integrity.check(db)


def _kill_then_unblock(live: LiveServer, worker: int, block: Path) -> None:
    """The new worker blocks at the same point until the file is removed, and then serves."""
    count = live.started()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: worker not in live.workers(), timeout=SECONDS, what="its end", failed=lambda: None)
    block.unlink()
    wait_until(lambda: live.started() > count, timeout=SECONDS, what="a new worker", failed=lambda: None)
