"""Certificates of `neutrino pki` that are renewed while the API, the feed and metrics serve connections."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509

from neutrino.cli.main import main
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.tls import ClientContext
from tests.functional.test_feed_process import command
from tests.support.feed import until
from tests.support.neutrino import Neutrino, configuration
from tests.support.ports import free_port
from tests.support.process import TemporaryServer, wait_until

SECONDS = 60.0


def pki(directory: Path, *words: str) -> None:
    assert main(["pki", "--directory", str(directory), *words]) == 0


class TlsServer(Neutrino):
    """API, feed and metrics with TLS and a certificate of `neutrino pki`, with two workers."""

    def __init__(self, directory: Path) -> None:
        self.ca = directory / "ca.crt"
        self.context = ssl.create_default_context(cafile=str(self.ca))
        cert, key = directory / "server.crt", directory / "server.key"
        self.feed_port, self.metrics_port = free_port(), free_port()
        super().__init__(
            {
                "DEFAULT": {"use_ssl": True},
                "ssl": {"cert_file": cert, "key_file": key},
                "feed": {
                    "run": True,
                    "bind": f"127.0.0.1:{self.feed_port}",
                    "tls_cert_file": cert,
                    "tls_key_file": key,
                },
                "metrics": {
                    "bind": f"127.0.0.1:{self.metrics_port}",
                    "tls_cert_file": cert,
                    "tls_key_file": key,
                },
            },
            workers=2,
        )
        self.url = f"https://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return all(self.serial(port) for port in (self.port, self.feed_port, self.metrics_port))
        return False

    def await_log(self, text: str) -> None:
        wait_until(lambda: text in self.log, timeout=SECONDS, what=f"{text!r} in the log", failed=lambda: None)

    def serial(self, port: int) -> str:
        """Of the certificate in a new handshake."""
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            self.context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            found = connection.getpeercert()
            return str(found["serialNumber"]) if found else ""

    def await_serial(self, port: int, expected: str) -> None:
        """In ten handshakes in a row, as each may reach another worker."""

        def is_new() -> bool:
            with contextlib.suppress(OSError):  # a worker ended during the handshake
                return all(self.serial(port) == expected for _ in range(10))
            return False

        wait_until(is_new, timeout=SECONDS, what="the new certificate", failed=lambda: None)


def on_disk(directory: Path) -> str:
    found = x509.load_pem_x509_certificate((directory / "server.crt").read_bytes())
    text = f"{found.serial_number:X}"
    return text.zfill(len(text) + len(text) % 2)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls") / "pki"
    pki(made, "init")
    pki(made, "issue", "server", "--address", "127.0.0.1", "--days", "20")
    return made


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[TlsServer]:
    with TlsServer(directory) as running:
        yield running


class Requests:
    """A client that sends requests over a kept connection until the end of the block."""

    def __init__(self, server: TlsServer) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server,))
        self.served = 0
        self.failures: list[str] = []

    def __enter__(self) -> Requests:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self, server: TlsServer) -> None:
        with requests.Session() as session:
            session.trust_env = False
            # As HTTP clients do: a request on a kept connection that the server closes at the same moment is sent again.
            session.mount("https://", requests.adapters.HTTPAdapter(max_retries=1))
            while not self._stop.wait(0.01):
                try:
                    answer = session.get(f"{server.url}/v2.0/networks", verify=str(server.ca), timeout=10)
                    assert answer.status_code == http.HTTPStatus.OK
                    self.served += 1
                except (requests.RequestException, AssertionError) as error:
                    self.failures.append(str(error))


def test_a_renewed_certificate_is_served_and_open_connections_stay(server: TlsServer, directory: Path) -> None:
    address = Address(host="127.0.0.1", port=server.feed_port, tls=True)
    client = FeedClient(ClientOptions(address, "h1", command(server, "add", "h1"), tls=ClientContext(str(server.ca))))
    before = on_disk(directory)
    server.await_serial(server.port, before)
    server.await_log("expires at")
    server.await_log("in 19 days: renew it")

    async def test() -> None:
        task = asyncio.create_task(client.run())
        await until(lambda: client.is_synced, "a connection over TLS", SECONDS)
        kept = client._attempt
        pki(directory, "renew", "server", "--days", "90")
        for port in (server.feed_port, server.port, server.metrics_port):
            await asyncio.to_thread(server.await_serial, port, on_disk(directory))
        assert client.connected
        assert client._attempt == kept, "the feed's connection was made again"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with Requests(server) as load:
        asyncio.run(test())
    assert load.served > 10
    assert load.failures == []
    assert on_disk(directory) != before


def test_an_agent_reads_a_changed_ca_file(server: TlsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It retries by itself, so a wrong file needs to be replaced only; names of certificates are verified."""
    caplog.set_level(logging.INFO, "neutrino.feed")
    pki(tmp_path / "other", "init")
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
    credential = command(server, "add", "h2")
    how: dict[str, Any] = {"tls": ClientContext(str(trusted)), "first_delay": 0.05, "longest_delay": 0.2}
    address = Address(host="127.0.0.1", port=server.feed_port, tls=True)
    client = FeedClient(ClientOptions(address, "h2", credential, **how))
    misnamed = FeedClient(ClientOptions(replace(address, host="localhost"), "h2", credential, **how))

    async def test() -> None:
        tasks = [asyncio.create_task(each.run()) for each in (client, misnamed)]
        await until(lambda: f"it is checked with [feed] ca_file={trusted}" in caplog.text, "the reason", SECONDS)
        assert "the server's certificate is not accepted: " in caplog.text
        trusted.unlink()
        missing = f"[feed] ca_file={trusted} cannot be read: No such file or directory"
        await until(lambda: missing in caplog.text, "the reason", SECONDS)
        trusted.write_bytes(server.ca.read_bytes())
        await until(lambda: client.is_synced, "a connection", SECONDS)
        await until(lambda: "Hostname mismatch" in caplog.text, "the reason", SECONDS)
        assert not misnamed.connected
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(test())


def test_a_separate_feed_reads_its_certificate_again_on_hangup(server: TlsServer, directory: Path) -> None:
    with SeparateFeed(server, directory) as feed:
        address = Address(host="127.0.0.1", port=feed.port, tls=True)
        key = command(server, "add", "h3")
        client = FeedClient(ClientOptions(address, "h3", key, tls=ClientContext(str(server.ca))))

        async def test() -> None:
            task = asyncio.create_task(client.run())
            await until(lambda: client.is_synced, "a connection over TLS", SECONDS)
            pki(directory, "renew", "server")
            os.kill(feed.pids[0], signal.SIGHUP)
            await asyncio.to_thread(server.await_serial, feed.port, on_disk(directory))
            assert client.connected
            assert client._attempt == 0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(test())


class SeparateFeed(TemporaryServer):
    """`neutrino feed` on the database of a server."""

    name = "feed"

    def __init__(self, server: TlsServer, directory: Path) -> None:
        super().__init__()
        self._server = server
        self.port = free_port()
        feed = {**server.settings["feed"], "bind": f"127.0.0.1:{self.port}"}
        settings = {**server.settings, "feed": feed, "metrics": {"bind": ""}}
        self._config = self.write("feed.conf", configuration(settings))

    def start(self) -> None:
        self.spawn([self._server.program, "feed", "--config-file", self._config], ready=self._answers)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self._server.serial(self.port))
        return False


def test_files_that_do_not_match_leave_the_old_certificate(server: TlsServer, directory: Path) -> None:
    before, key = on_disk(directory), (directory / "server.key").read_bytes()
    for port in (server.port, server.feed_port, server.metrics_port):
        server.await_serial(port, before)
    pki(directory, "renew", "server")
    (directory / "server.key").write_bytes(key)

    def logged() -> bool:
        return server.log.count("key values mismatch") >= 3  # by each listener

    wait_until(logged, timeout=SECONDS, what="the reason in the log", failed=lambda: None)
    server.await_log(f"[ssl] cert_file={directory}/server.crt (with [ssl] key_file) cannot be used")
    server.await_log(f"[feed] tls_cert_file={directory}/server.crt (with [feed] tls_key_file) cannot be used")
    # Also workers that are respawned meanwhile, and after SIGHUP.
    worker = int(Path(f"/proc/{server.pids[0]}/task/{server.pids[0]}/children").read_text().split()[-1])
    os.kill(worker, signal.SIGKILL)
    os.kill(server.pids[0], signal.SIGHUP)
    server.await_log("the feed is not restarted and continues with its previous options: [feed] tls_cert_file=")
    server.await_log("the TLS files of the API are not used, the previous ones stay in use: [ssl] cert_file=")
    for port in (server.port, server.feed_port, server.metrics_port):
        server.await_serial(port, before)
    pki(directory, "renew", "server")
    for port in (server.port, server.feed_port, server.metrics_port):
        server.await_serial(port, on_disk(directory))
