"""A server whose SQLite database is on a full disk: a tmpfs of some megabytes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from requests import Response

from neutrino.cli.main import main
from tests.support.databases import prepared_sqlite
from tests.support.neutrino import Caller, Neutrino


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):  # no space left
        while True:
            file.write(bytes(4096))


def refused(ask: Callable[[], Response], before: Callable[[], object] = lambda: None) -> Response:
    """The first answer that is an error: SQLite has room in its log, and has it again after a checkpoint."""
    for _ in range(3000):
        before()
        answer = ask()
        if not answer.ok:
            return answer
    raise AssertionError("the disk does not become full")


def write(caller: Caller) -> Response:
    return refused(lambda: caller("POST", "/v2.0/networks", {"network": {}}))


def check(answer: Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.json()["NeutronError"]["type"] == "DatabaseNotWritable"
    assert "disk" in answer.json()["NeutronError"]["message"]
    assert answer.headers["Retry-After"]


def test_a_full_disk_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = prepared_sqlite(disk / "neutrino.sqlite")
        with Neutrino({"database": {"connection": url}, "quotas": {"quota_network": -1}}) as server:
            caller = Caller(server.url)
            networks = [caller.create("network", name="before")["id"] for _ in range(20)]
            fill(disk / "filler")
            for method, path, body in (
                ("POST", "/v2.0/networks", {"network": {}}),
                ("PUT", f"/v2.0/networks/{networks[0]}", {"network": {"name": "after"}}),
            ):
                check(refused(lambda method=method, path=path, body=body: caller(method, path, body)))
            deleted = iter(networks[1:])
            check(refused(lambda: caller("DELETE", f"/v2.0/networks/{next(deleted)}"), before=lambda: write(caller)))
            assert caller("GET", f"/v2.0/networks/{networks[0]}").ok
            assert "failed (req-" not in server.log
            assert str(disk) in server.log
            assert main(["status", "--endpoint", server.url]) == 1
            said = "".join(capsys.readouterr().out.split())  # lines end within a long path
            assert f"ERRORthediskof{disk}/neutrino.sqlitehas0.0MiBleft" in said
            assert "503" in said
            (disk / "filler").unlink()
            assert caller("PUT", f"/v2.0/networks/{networks[0]}", {"network": {"name": "later"}}).ok
            main(["status", "--endpoint", server.url])
            assert "ERROR the disk of" not in capsys.readouterr().out
