"""Certificates of `neutrino pki` that are renewed while the API and the feed serve connections."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from cryptography import x509

from neutrino.cli.main import main
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.tls import ClientContext
from tests.functional.test_feed_process import command
from tests.support.feed import until
from tests.support.neutrino import Neutrino
from tests.support.ports import free_port
from tests.support.process import wait_until

SECONDS = 40.0


def pki(directory: Path, *words: str) -> None:
    assert main(["pki", "--directory", str(directory), *words]) == 0


class TlsServer(Neutrino):
    """API and feed with TLS and a certificate of `neutrino pki`, with two workers."""

    def __init__(self, directory: Path) -> None:
        self.ca = directory / "ca.crt"
        self.context = ssl.create_default_context(cafile=str(self.ca))
        cert, key = directory / "server.crt", directory / "server.key"
        self.feed_port = free_port()
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
            },
            workers=2,
        )
        self.url = f"https://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.serial(self.port) and self.serial(self.feed_port))
        return False

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


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "pki"
    pki(made, "init")
    pki(made, "issue", "server", "--address", "127.0.0.1", "--days", "20")
    return made


@pytest.fixture
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
    assert "expires at" in server.log
    assert "in 19 days: renew it" in server.log

    async def test() -> None:
        task = asyncio.create_task(client.run())
        await until(lambda: client.is_synced, "a connection over TLS", SECONDS)
        kept = client._attempt
        pki(directory, "renew", "server", "--days", "90")
        for port in (server.feed_port, server.port):
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


def test_files_that_do_not_match_leave_the_old_certificate(server: TlsServer, directory: Path, tmp_path: Path) -> None:
    before, key = on_disk(directory), (directory / "server.key").read_bytes()
    pki(directory, "renew", "server")
    (directory / "server.key").write_bytes(key)

    def logged() -> bool:
        return server.log.count("key values mismatch") >= 2  # by the API and by the feed

    wait_until(logged, timeout=SECONDS, what="the reason in the log", failed=lambda: None)
    assert f"[ssl] cert_file={directory}/server.crt (with [ssl] key_file) cannot be used" in server.log
    assert f"[feed] tls_cert_file={directory}/server.crt (with [feed] tls_key_file) cannot be used" in server.log
    # Also workers that are respawned meanwhile, and after SIGHUP.
    worker = int(Path(f"/proc/{server.pids[0]}/task/{server.pids[0]}/children").read_text().split()[-1])
    os.kill(worker, signal.SIGKILL)
    os.kill(server.pids[0], signal.SIGHUP)
    reloaded = "the feed is not restarted and continues with its previous options: [feed] tls_cert_file="
    wait_until(lambda: reloaded in server.log, timeout=SECONDS, what="the reload", failed=lambda: None)
    assert "the TLS files of the API are not used, the previous ones stay in use: [ssl] cert_file=" in server.log
    for port in (server.port, server.feed_port):
        server.await_serial(port, before)
    pki(directory, "renew", "server")
    for port in (server.port, server.feed_port):
        server.await_serial(port, on_disk(directory))
