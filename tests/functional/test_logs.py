"""Logs of real processes by the options of oslo.log: JSON of workers and feed, formats, files, and a line per request."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.metadata import counts
from tests.support.certificates import Authority
from tests.support.launcher import PROGRAM
from tests.support.neutrino import Caller, Neutrino
from tests.support.ports import free_port
from tests.support.process import wait_until


def lines(path: Path) -> list[str]:
    """The complete lines: one may be written right now."""
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")] if path.exists() else []


def wait_for_line(path: Path, text: str) -> str:
    wait_until(
        lambda: any(text in line for line in lines(path)), timeout=30, what=f"a line with {text}", failed=lambda: None
    )
    return next(line for line in lines(path) if text in line)


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "server.log"


@pytest.fixture(scope="module")
def server(log_file: Path) -> Iterator[Neutrino]:
    settings = {
        "DEFAULT": {"use_json": True, "log_file": log_file},
        "feed": {"run": True},
        "metrics": {"bind": f"127.0.0.1:{free_port()}"},
    }
    with Neutrino(settings, workers=2) as running:
        yield running


def test_all_processes_write_json(server: Neutrino, log_file: Path) -> None:
    caller = Caller(server.url, {"X-Project-Id": "p1", "X-User-Id": "u1"})
    answer = caller("POST", "/v2.0/networks", {"network": {"name": "n"}})
    caller.close()
    assert answer.status_code == 201
    line: dict[str, Any] = json.loads(wait_for_line(log_file, "POST /v2.0/networks"))
    assert line["name"] == "neutrino.server.requests"
    assert line["context"] == {"request_id": answer.headers["x-openstack-request-id"], "user": "u1", "project": "p1"}
    assert '"POST /v2.0/networks HTTP/1.1" status: 201' in line["message"]
    wait_for_line(log_file, "the feed listens on")
    written = [json.loads(each) for each in lines(log_file)]  # every line is JSON
    # The supervisor, a worker and the feed
    assert len({each["process"] for each in written}) >= 3
    assert {"neutrino.metrics.listener", "neutrino.server.feed.server"} <= {each["name"] for each in written}


def test_reads_are_logged_if_they_fail(server: Neutrino, log_file: Path) -> None:
    caller = Caller(server.url)
    assert caller("GET", "/v2.0/networks?name=quiet").status_code == 200
    assert caller("GET", "/v2.0/networks/missing%0Aforged").status_code == 404
    caller.close()
    line = json.loads(wait_for_line(log_file, "missing"))
    assert "status: 404" in line["message"]
    assert "\n" not in line["message"]
    assert not any("name=quiet" in each for each in lines(log_file))


@pytest.mark.parametrize(("choice", "reads", "writes"), [("all", True, True), ("none", False, False)])
def test_which_requests_are_logged(tmp_path: Path, choice: str, reads: bool, writes: bool) -> None:
    form = "MARK %(request_id)s %(message)s"
    path = tmp_path / "neutrino.log"
    settings = {
        "DEFAULT": {"log_requests": choice, "log_file": path, "logging_context_format_string": form},
        "metrics": {"bind": ""},
    }
    with Neutrino(settings) as running:
        caller = Caller(running.url)
        read = caller("GET", "/v2.0/networks").headers["x-openstack-request-id"]
        write = caller("POST", "/v2.0/networks", {"network": {}}).headers["x-openstack-request-id"]
        caller.close()
        if writes:
            wait_for_line(path, f"MARK {write} ")  # in our format
    text = path.read_text()
    assert (read in text, write in text) == (reads, writes)
    assert not (Path(str(running.settings["DEFAULT"]["state_path"])) / "metrics").exists()


def test_the_metadata_proxy_writes_json(tmp_path: Path) -> None:
    """The agent passes --log-json and --debug where its own options say so (tests/unit/test_metadata_config.py)."""
    control, log = tmp_path / "control", tmp_path / "proxy.log"
    ids = ["--user", str(os.getuid()), "--group", str(os.getgid())]
    command = [str(PROGRAM), "metadata", "--socket", str(control), *ids, "--log-json", "--debug"]
    with log.open("w") as output, subprocess.Popen(command, stderr=output) as proxy:
        try:
            wait_until(lambda: _sent(control, b"nonsense"), timeout=60, what="the proxy", failed=lambda: None)
            line = json.loads(wait_for_line(log, "closed by the peer"))
            assert (line["levelname"], line["process"]) == ("DEBUG", proxy.pid)
            assert all(json.loads(each)["message"] for each in lines(log))
            assert counts.read(str(control)) == {}  # no request yet; the socket answers
            assert (tmp_path / "control.counts").stat().st_mode & 0o777 == 0o600
        finally:
            proxy.terminate()


def _sent(control: Path, message: bytes) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(str(control))
        except OSError:
            return False
        connection.recv(1 << 16)  # hello
        connection.send(message)
        return connection.recv(1) == b""  # it has been handled: the proxy disconnects


def test_metrics_with_tls(tmp_path: Path) -> None:
    """On an address that other machines may reach; the certificate is loaded again once its files have changed."""
    port, both = free_port(), tmp_path / "both.pem"
    first, second = Authority(), Authority()
    both.write_text(first.issue("metrics"))
    settings = {"metrics": {"bind": f"0.0.0.0:{port}", "tls_cert_file": both, "tls_key_file": both}}
    with Neutrino(settings):
        for authority in (first, second):
            if authority is second:
                both.write_text(second.issue("metrics"))
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}),
                urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=authority.certificate)),
            )

            def is_trusted(opener: urllib.request.OpenerDirector = opener) -> bool:
                try:
                    with opener.open(f"https://127.0.0.1:{port}/metrics", timeout=10) as answer:
                        return b"neutrino_build_info" in answer.read()
                except OSError:
                    return False

            wait_until(is_trusted, timeout=60, what="the certificate of this authority", failed=lambda: None)
