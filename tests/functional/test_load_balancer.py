"""Two servers on one database behind HAProxy, with TLS: one is killed under load, one is taken out for an upgrade."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.tls import ClientContext
from tests.functional.test_certificate_reload import pki
from tests.functional.test_feed_process import STATE, command
from tests.support.feed import until
from tests.support.haproxy import HAProxy
from tests.support.neutrino import Caller, Neutrino
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import wait_until

pytestmark = pytest.mark.postgres
SECONDS = 60.0


class Site:
    """Two servers, the load balancer in front of them, and clients of it."""

    def __init__(self, postgres: Postgres, directory: Path) -> None:
        pki(directory, "init")
        names = ("127.0.0.1", "server1.example.org", "server2.example.org")
        pki(directory, "issue", "server", *(word for name in names for word in ("--address", name)))
        self.ca = directory / "ca.crt"
        cert, key = directory / "server.crt", directory / "server.key"
        (directory / "haproxy.pem").write_text(cert.read_text() + key.read_text())
        url = postgres.create_database(f"balanced_{uuid.uuid4().hex}")
        self.disabled = directory / "disabled"
        self.servers = []
        self.feed_ports = [free_port(), free_port()]
        for number, feed_port in enumerate(self.feed_ports, 1):
            settings: dict[str, dict[str, object]] = {
                "DEFAULT": {"use_ssl": True, "host": f"server{number}"},
                "database": {"connection": url},
                "ssl": {"cert_file": cert, "key_file": key},
                "feed": {"run": True, "bind": f"127.0.0.1:{feed_port}", "tls_cert_file": cert, "tls_key_file": key},
                "quotas": {"quota_network": -1},
                "oslo_middleware": {"enable_proxy_headers_parsing": True},
                "healthcheck": {
                    "backends": "disable_by_file",
                    "disable_by_file_path": directory / f"disabled{number}",
                },
            }
            self.servers.append(_Tls(settings))
        self.port, self.feed_port = free_port(), free_port()
        one, two = self.servers
        self.haproxy = HAProxy(
            {
                "192.0.2.10:9696": f"127.0.0.1:{self.port}",
                "192.0.2.10:9697": f"127.0.0.1:{self.feed_port}",
                "192.0.2.11:9696": f"127.0.0.1:{one.port}",
                "192.0.2.12:9696": f"127.0.0.1:{two.port}",
                "192.0.2.11:9697": f"127.0.0.1:{self.feed_ports[0]}",
                "192.0.2.12:9697": f"127.0.0.1:{self.feed_ports[1]}",
                "/etc/haproxy/neutrino.pem": str(directory / "haproxy.pem"),
                "/etc/neutrino/ca.crt": str(self.ca),
                # A busy machine answers a health check late: with the other server down as well, requests would fail.
                "check inter 2s fall 2": "check inter 5s fall 2",
                "timeout connect 5s": "timeout connect 5s\n    timeout check 20s",
            },
            self.port,
        )
        self.url = f"https://127.0.0.1:{self.port}"

    def session(self) -> requests.Session:
        made = requests.Session()
        made.trust_env, made.verify = False, str(self.ca)
        return made

    def serves(self) -> bool:
        with contextlib.suppress(requests.RequestException), self.session() as session:
            return session.get(f"{self.url}/v2.0/networks", timeout=5).status_code == 200
        return False


class _Tls(Neutrino):
    def _answers(self) -> bool:
        with contextlib.suppress(requests.RequestException):
            url = f"https://127.0.0.1:{self.port}/"
            return requests.get(
                url, verify=str(self.settings["ssl"]["cert_file"]).replace("server.", "ca."), timeout=5
            ).ok
        return False


@pytest.fixture(scope="module")
def site(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(postgres, tmp_path_factory.mktemp("site"))
    with contextlib.ExitStack() as stack:
        for server in made.servers:
            stack.enter_context(server)
        stack.enter_context(made.haproxy)
        wait_until(made.serves, timeout=SECONDS, what="the load balancer", failed=lambda: None)
        yield made


class Load:
    """Clients that list and create networks until the end of the block."""

    def __init__(self, site: Site, clients: int = 3) -> None:
        self._site = site
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number: int) -> None:
        with self._site.session() as session:
            while not self._stop.wait(0.1):
                self._do("GET", lambda: session.get(f"{self._site.url}/v2.0/networks?limit=1", timeout=30))
                body = {"network": {"name": f"n{number}"}}
                self._do(
                    "POST", lambda body=body: session.post(f"{self._site.url}/v2.0/networks", json=body, timeout=30)
                )

    def _do(self, what: str, call: Callable[[], requests.Response]) -> None:
        try:
            answer = call()
            succeeded = answer.status_code < 400
            reason = f"{what} {answer.status_code} {answer.text[:200]}"
        except requests.RequestException as error:
            succeeded, reason = False, f"{what} {error}"
        self.outcomes[what if succeeded else f"{what} failed"] += 1
        if not succeeded:
            self.failures.append(reason)

    def await_more(self, number: int = 20) -> None:
        """Wait for this number of further successful requests of each kind."""
        target = {what: self.outcomes[what] + number for what in ("GET", "POST")}
        wait_until(
            lambda: all(self.outcomes[what] >= count for what, count in target.items()),
            timeout=SECONDS,
            what="requests",
            failed=lambda: self.failures[-1] if len(self.failures) > 10 else None,
        )


def test_a_server_is_taken_out_without_a_failed_request(site: Site) -> None:
    """Before an upgrade or a reboot: its health check fails, requests go to the other one, then it is stopped."""
    out = site.servers[0]
    disabled = Path(str(out.settings["healthcheck"]["disable_by_file_path"]))
    with Load(site) as load:
        load.await_more()
        disabled.touch()
        wait_until(lambda: is_down(site, "server1"), timeout=SECONDS, what="server1 is down", failed=lambda: None)
        load.await_more(5)
        process, _ = out._processes.pop()
        process.terminate()
        process.wait(30)
        load.await_more()
        out.start()
        disabled.unlink()
        load.await_more()
        wait_until(lambda: not is_down(site, "server1"), timeout=SECONDS, what="server1 is up", failed=lambda: None)
    assert load.failures == []


def is_down(site: Site, name: str) -> bool:
    """As HAProxy logged it last."""
    log = "".join(path.read_text(errors="replace") for path in site.haproxy.directory.glob("*.log"))
    return re.findall(rf"Server api/{name} is (UP|DOWN)", log)[-1:] == ["DOWN"]


def test_one_server_is_killed_under_load(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "neutrino.feed")
    credential = command(site.servers[0], "add", "h1")
    address = Address(host="127.0.0.1", port=site.feed_port, tls=True)
    options = ClientOptions(address, "h1", credential, tls=ClientContext(str(site.ca)), longest_delay=1.0)
    client = FeedClient(options)
    with site.session() as session:
        links = session.get(f"{site.url}/v2.0/", timeout=10).json()["resources"][0]["links"]
        assert links[0]["href"].startswith(site.url), "links have the address of the load balancer"

    async def test() -> None:
        task = asyncio.create_task(client.run())
        await until(lambda: client.is_synced, "the agent is connected", SECONDS)
        client.report([STATE])
        await until(lambda: client.unacknowledged == 0, "the agent is known", SECONDS)
        attempts = client._attempt
        with Load(site) as load:
            await asyncio.to_thread(load.await_more)
            name = re.findall(r"connected to (server\d)", caplog.text)[-1]
            connected = next(server for server in site.servers if server.settings["DEFAULT"]["host"] == name)
            os.kill(connected.pids[0], signal.SIGKILL)
            connected._processes.pop()[0].wait()
            await until(
                lambda: client._attempt > attempts and client.is_synced, "the agent is connected again", SECONDS
            )
            await asyncio.to_thread(load.await_more)
        # Each client has at most one request in progress on the killed server: a POST is not sent twice.
        assert load.outcomes["GET failed"] == 0, load.failures
        assert load.outcomes["POST failed"] <= 3, load.failures
        call = Caller(site.url, {"X-Roles": "admin,member", "X-Project-Id": "p"})
        call._session.verify = str(site.ca)
        network = await asyncio.to_thread(call.create, "network", name="last")
        bound = {"binding:host_id": "h1", "device_owner": "compute:x", "network_id": network["id"]}
        port = await asyncio.to_thread(lambda: call.create("port", **bound))
        call.close()
        await until(lambda: client.state.get("port", port["id"]) is not None, "the agent receives a port", SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())
