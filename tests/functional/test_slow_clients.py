"""Clients that send or read slowly, with real sockets: others are not delayed, and slow connections are closed."""

from __future__ import annotations

import contextlib
import fcntl
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from neutrino.cli.slow_clients.front import CONNECTIONS as CONNECTIONS_OF_A_WORKER
from tests.functional.test_api_tls import TlsNeutrino
from tests.support.certificates import Authority
from tests.support.keystone import Keystone
from tests.support.neutrino import Caller, Neutrino, with_keystone
from tests.support.process import wait_until

CONNECTIONS = 64
QUICKLY = 1.0  # seconds: of a normal request beside them
UNFINISHED = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
BODIES = {
    "public path": b"POST / HTTP/1.1\r\n" + UNFINISHED,
    "create": b"POST /v2.0/networks HTTP/1.1\r\n" + UNFINISHED,
    "unknown path": b"PUT /nothing HTTP/1.1\r\n" + UNFINISHED,
    "login": b"POST /ui/login HTTP/1.1\r\n" + UNFINISHED,
    "list with a body": b"GET /v2.0/networks HTTP/1.1\r\n" + UNFINISHED,
    "above the limit": b"POST /v2.0/networks HTTP/1.1\r\n" + UNFINISHED.replace(b"1000", b"500000"),
    "chunked": b"POST /v2.0/networks HTTP/1.1\r\n"
    + UNFINISHED.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked").replace(b"{", b"5\r\n{"),
    "after an answered request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nPOST / HTTP/1.1\r\n" + UNFINISHED,
}
UNFINISHED_HEAD = b"GET /v2.0/networks HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
LIST = b"GET /v2.0/networks HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
TIMEOUT = 3


@contextlib.contextmanager
def connections(port: int, sent: bytes, number: int = CONNECTIONS) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(number):
            made.append(stack.enter_context(small_window(port)))
            made[-1].sendall(sent)
        yield made


def small_window(port: int) -> socket.socket:
    """A connection whose client has little room for what it does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    return client


def is_closed(client: socket.socket) -> bool:
    """Read what there is; whether the server has ended the connection."""
    client.settimeout(0.05)
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def seconds_of(ask: Callable[[], requests.Response]) -> float:
    began = time.monotonic()
    assert ask().ok
    return time.monotonic() - began


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino({"quotas": {"quota_network": -1}}) as running:
        yield running


@pytest.fixture(scope="module")
def large(server: Neutrino) -> Neutrino:
    fill(server)
    return server


def fill(server: Neutrino) -> None:
    """A list of networks of more than a megabyte."""
    caller = Caller(server.url)
    for _ in range(8):
        many = [{"name": "n" * 255, "description": "d" * 255} for _ in range(150)]
        assert caller("POST", "/v2.0/networks", {"networks": many}).status_code == 201


@pytest.mark.parametrize("kind", BODIES)
def test_unfinished_bodies_do_not_delay_other_requests(server: Neutrino, kind: str) -> None:
    caller = Caller(server.url)
    with connections(server.port, BODIES[kind]):
        assert seconds_of(lambda: caller("GET", "/v2.0/security-groups")) < QUICKLY
        assert (
            seconds_of(lambda: caller("POST", "/v2.0/address-scopes", {"address_scope": {"ip_version": 4}})) < QUICKLY
        )


def test_unfinished_heads_do_not_delay_other_requests(server: Neutrino) -> None:
    with connections(server.port, UNFINISHED_HEAD):
        assert seconds_of(lambda: Caller(server.url)("GET", "/v2.0/security-groups")) < QUICKLY


def test_clients_that_do_not_read_a_large_list_do_not_delay_other_requests(large: Neutrino) -> None:
    with connections(large.port, LIST) as clients:
        for client in clients:
            assert client.recv(1)  # the answer has begun
        assert seconds_of(lambda: Caller(large.url)("GET", "/v2.0/security-groups")) < QUICKLY


@pytest.mark.keystone
@pytest.mark.parametrize("kind", ["public path", "create", "login"])
def test_unfinished_bodies_before_authentication(keystone: Keystone, kind: str) -> None:
    token = keystone.token("admin", keystone.admin_password, "admin")
    with Neutrino(with_keystone(keystone)) as server, connections(server.port, BODIES[kind]):
        caller = Caller(server.url, {"X-Auth-Token": token})
        assert caller("GET", "/v2.0/security-groups").ok  # validates the token, which is cached then
        assert seconds_of(lambda: caller("GET", "/v2.0/security-groups")) < QUICKLY


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNeutrino]:
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    file.write_text(Authority().issue("server"))
    with TlsNeutrino({"cert_file": str(file), "key_file": str(file)}) as running:
        yield running


def over_tls(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))


def test_unfinished_bodies_over_tls(encrypted: TlsNeutrino) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(over_tls(encrypted.port)).sendall(BODIES["create"])
        began = time.monotonic()
        client = stack.enter_context(over_tls(encrypted.port))
        client.sendall(b"GET /v2.0/security-groups HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - began < QUICKLY


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_unfinished_handshakes(encrypted: TlsNeutrino, sent: bytes) -> None:
    with connections(encrypted.port, sent, 200):
        began = time.monotonic()
        with over_tls(encrypted.port) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - began < QUICKLY


@pytest.fixture(scope="module")
def strict() -> Iterator[Neutrino]:
    settings = {"DEFAULT": {"request_body_timeout": TIMEOUT}, "quotas": {"quota_network": -1}}
    with Neutrino(settings) as running:
        yield running


def read_until_closed(client: socket.socket) -> bytes:
    client.settimeout(60)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            answer += part
    return answer


@pytest.mark.parametrize("kind", BODIES)
def test_the_connection_of_an_unfinished_body_is_closed(strict: Neutrino, kind: str) -> None:
    with connections(strict.port, BODIES[kind], 3) as clients:
        for client in clients:
            answer = read_until_closed(client)
            # granian reports the interruption of a chunked body as its end.
            assert b"HTTP/1.1 408 Request Timeout" in answer or (kind == "chunked" and b"HTTP/1.1 400 " in answer)


def test_ipv6_and_mapped_addresses() -> None:
    """The address of the request is compared with that of the connection, as the kernel has it."""
    every = {"bind_host": "::", "allow_noauth_beyond_loopback": True, "request_body_timeout": TIMEOUT}
    with Neutrino({"DEFAULT": every}) as server:
        for address in ("::1", "127.0.0.1"):
            with socket.create_connection((address, server.port), timeout=60) as client:
                client.sendall(BODIES["after an answered request"])
                assert b"HTTP/1.1 408 Request Timeout" in read_until_closed(client)


@pytest.mark.parametrize("sent", [BODIES["create"], UNFINISHED_HEAD])
def test_a_client_that_sends_a_byte_at_times_is_too_slow(strict: Neutrino, sent: bytes) -> None:
    """Also beside normal requests from the same address, as behind a load balancer, and these go on."""
    other = Caller(strict.url)
    with connections(strict.port, sent, 2) as clients:
        while not all(map(is_closed, clients)):
            for client in clients:
                with contextlib.suppress(OSError):
                    client.sendall(b" ")
            assert other("GET", "/v2.0/security-groups").ok


def test_a_client_that_does_not_read_is_closed(strict: Neutrino) -> None:
    fill(strict)
    with connections(strict.port, LIST, 2) as clients:
        for client in clients:
            assert client.recv(1)
        seen = strict.log.count("too slow: 127.0.0.1")
        wait_until(
            lambda: strict.log.count("too slow: 127.0.0.1") > seen,
            timeout=60,
            what="the log line",
            failed=lambda: None,
        )
        for client in clients:
            assert len(read_until_closed(client)) < 700_000


def test_a_slow_answer_and_an_idle_connection_are_no_slow_clients(strict: Neutrino) -> None:
    """The writer lock of SQLite is held for longer than any request may take to arrive."""
    idle = Caller(strict.url)
    assert idle("GET", "/v2.0/security-groups").ok
    waiting = small_window(strict.port)
    body = b'{"network": {"name": "late"}}'
    with waiting, open(f"{strict.directory}/neutrino.sqlite.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        head = "POST /v2.0/networks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
        waiting.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
        waiting.settimeout(2.5 * TIMEOUT)
        with pytest.raises(TimeoutError):
            waiting.recv(1)
        fcntl.flock(lock, fcntl.LOCK_UN)
        waiting.settimeout(60)
        assert waiting.recv(65536).startswith(b"HTTP/1.1 201")
    assert idle("GET", "/v2.0/security-groups").ok


@pytest.mark.parametrize("sent", [b"", UNFINISHED_HEAD, BODIES["create"]], ids=["idle", "head", "body"])
def test_idle_connections_make_room_for_others(server: Neutrino, sent: bytes) -> None:
    """More connections than a worker accepts; also with unfinished requests."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with connections(server.port, sent, CONNECTIONS_OF_A_WORKER + 50):
        assert seconds_of(lambda: Caller(server.url)("GET", "/v2.0/security-groups")) < 7
