"""A server whose SQLite database is on a full disk: a tmpfs of some megabytes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

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


def test_a_full_disk_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = prepared_sqlite(disk / "neutrino.sqlite")
        with Neutrino({"database": {"connection": url}}) as server:
            caller = Caller(server.url)
            network = caller.create("network", name="before")
            fill(disk / "filler")
            for method, path, body in (
                ("POST", "/v2.0/networks", {"network": {"description": "d" * 255}}),
                ("PUT", f"/v2.0/networks/{network['id']}", {"network": {"name": "after"}}),
                ("DELETE", f"/v2.0/networks/{network['id']}", None),
            ):
                for _ in range(20):  # the log of SQLite may have room for some more
                    answer = caller(method, path, body)
                    if answer.status_code >= 500:
                        break
                assert answer.status_code == 503, answer.text
                assert answer.json()["NeutronError"]["type"] == "DatabaseNotWritable"
                assert "disk" in answer.json()["NeutronError"]["message"]
                assert answer.headers["Retry-After"]
            assert caller("GET", f"/v2.0/networks/{network['id']}").json()["network"]["name"] == "before"
            assert "Traceback" not in server.log
            assert str(disk) in server.log
            assert main(["status", "--endpoint", server.url]) == 1
            said = " ".join(capsys.readouterr().out.split())
            assert f"ERROR the disk of {disk}/neutrino.sqlite has 0.0 MiB left" in said
            assert "503" in said
            (disk / "filler").unlink()
            assert caller("PUT", f"/v2.0/networks/{network['id']}", {"network": {"name": "after"}}).ok
            main(["status", "--endpoint", server.url])
            assert "ERROR the disk of" not in capsys.readouterr().out
