"""Requests through the metadata proxy: bodies, invalid requests, limits, a slow or missing Nova."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.metadata import (
    SECRET,
    TIMES,
    Host,
    answers,
    isolated,
    nova,
    port,
    rate_limit,
    settings_for,
    settings_for_port,
    status,
    until,
)
from tests.support.nova_metadata import NovaMetadata
from tests.support.ports import free_port


@pytest.fixture
def server() -> Iterator[NovaMetadata]:
    with nova() as made:
        yield made


@pytest.fixture
def host(server: NovaMetadata, tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, settings_for(server))
    yield made
    made.close()


def test_a_slow_nova_is_slow_for_one(host: Host, server: NovaMetadata) -> None:
    blue, red = isolated(host, "blue", 5), isolated(host, "red", 6)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue) and answers(host, "red", red))
            requests = server.requested_by.count(blue.device_id)
            slow = asyncio.create_task(host.fetch_async("blue", "/lab/slow/4"))
            await until(lambda: server.requested_by.count(blue.device_id) > requests)
            assert await host.fetch_async("red") == (200, red.device_id)
            assert not slow.done()
            assert (await slow)[0] == 504
            assert await host.fetch_async("blue") == (200, blue.device_id)

    asyncio.run(scenario())


def test_without_nova_there_is_a_502_and_with_it_an_answer_again(tmp_path: Path) -> None:
    """It is killed, with the connections to it that are kept for the next request."""
    number, secret = free_port(), tmp_path / "secret"
    secret.write_text(SECRET)
    argv = [sys.executable, "-m", "tests.support.nova_metadata", "--port", str(number), "--secret-file", str(secret)]
    host = Host(tmp_path, settings_for_port(number))
    blue = isolated(host, "blue", 5)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: status(host, "blue") == 502)
            for _ in range(2):
                with subprocess.Popen(argv) as program:
                    try:
                        await until(lambda: answers(host, "blue", blue), 15)
                    finally:
                        program.kill()
                await until(lambda: status(host, "blue") == 502)

    try:
        asyncio.run(scenario())
    finally:
        host.close()


def test_bodies_pass_in_pieces_and_the_connection_is_kept(host: Host, server: NovaMetadata) -> None:
    blue = isolated(host, "blue", 5)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            pid = host.pid
            before = _memory(pid)
            await asyncio.to_thread(several)
            assert _memory(pid) - before < 8 << 20, "64 MB have gone through, not into, the process"

    def several() -> None:
        connection = host.connect("blue")
        try:
            connection.request("GET", "/lab/bytes/67108864")
            answer = connection.getresponse()
            size = 0
            while part := answer.read(1 << 16):
                size += len(part)
            assert size == 67108864
            own = connection.sock
            connection.request("POST", "/openstack/latest/password", body=iter([b"sealed ", b"password"]))
            assert connection.getresponse().read() == b""
            assert server.passwords == {blue.device_id: b"sealed password"}
            connection.request("HEAD", "/latest/meta-data/instance-id")
            head = connection.getresponse()
            assert (head.status, head.headers["Content-Length"]) == (200, str(len(blue.device_id)))
            head.read()
            connection.request("GET", "/openstack/latest/nothing")
            missing = connection.getresponse()
            missing.read()
            assert missing.status == 404
            assert connection.sock is own, "one connection for all of it"
        finally:
            connection.close()

    asyncio.run(scenario())


def _memory(pid: int | None) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024


def test_invalid_requests_are_refused_and_affect_no_other(host: Host) -> None:
    blue = isolated(host, "blue", 5)

    def raw(data: bytes) -> bytes:
        connection = host.connect("blue")
        with connection.sock as sock:
            sock.sendall(data)
            return sock.recv(65536)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            pid = host.pid
            assert b" 400 " in await asyncio.to_thread(raw, b"what?\r\n\r\n")
            assert b" 431 " in await asyncio.to_thread(raw, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20000)
            both = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: nonsense\r\n\r\nabc"
            assert b" 501 " in await asyncio.to_thread(raw, both)
            for method in (b"CONNECT nova:8775", b"CONNECT /latest", b"TRACE /latest"):
                assert b" 405 " in await asyncio.to_thread(raw, method + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            absolute = b"GET http://169.254.169.254/latest/meta-data/instance-id HTTP/1.1\r\nHost: x\r\n\r\n"
            assert blue.device_id.encode() in await asyncio.to_thread(raw, absolute)
            assert answers(host, "blue", blue)
            assert host.pid == pid

    asyncio.run(scenario())


def test_a_source_above_the_rate_limit_gets_429(server: NovaMetadata, tmp_path: Path) -> None:
    limit = rate_limit((4,), (5, 60), (50, 60))
    host = Host(tmp_path, settings_for(server, limit=limit))
    try:
        blue = isolated(host, "blue", 5)
        other = port("blue", 8, "10.0.0.8")
        host.instance("other", "qdhcp-blue", other)
        host.feed.put("dhcp_port", other.id, other)

        async def scenario() -> None:
            host.feed.synced()
            async with host.agent():
                await until(lambda: answers(host, "other", other))
                answered = [(await host.fetch_async("blue"))[0] for _ in range(8)]
                assert answered == [200] * 5 + [429] * 3
                assert await host.fetch_async("other") == (200, other.device_id)
                assert blue.device_id in server.requested_by

        asyncio.run(scenario())
    finally:
        host.close()


CHUNKED, LENGTH = b"Transfer-Encoding: chunked\r\n", b"Content-Length: %d\r\n"
INSIDE = b"POST /openstack/latest/password HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nforged"
DOUBTFUL = {
    "both": b"HTTP/1.1\r\nHost: x\r\n" + LENGTH % (5 + len(INSIDE)) + CHUNKED + b"\r\n0\r\n\r\n" + INSIDE,
    "both, the other first": b"HTTP/1.1\r\nHost: x\r\n" + CHUNKED + LENGTH % 5 + b"\r\n0\r\n\r\n" + INSIDE,
    "chunks of 1.0": b"HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + INSIDE,
    "two lengths": b"HTTP/1.1\r\nHost: x\r\n" + LENGTH % 0 + LENGTH % len(INSIDE) + b"\r\n" + INSIDE,
    "two codings": b"HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + INSIDE,
    "coding twice": b"HTTP/1.1\r\nHost: x\r\n" + CHUNKED * 2 + b"\r\n0\r\n\r\n" + INSIDE,
    "blank before the colon": b"HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + INSIDE,
    "bare CR": b"HTTP/1.1\r\nHost: x\r\nA: b\rTransfer-Encoding: chunked\r\n\r\n" + INSIDE,
    "chunk that ends elsewhere": b"HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n1\r\nabc\r\n0\r\n\r\n" + INSIDE,
}


def test_a_request_whose_end_is_in_doubt_is_the_last_of_its_connection(host: Host, server: NovaMetadata) -> None:
    """Data after it is not taken for a request, here or by Nova."""
    blue = isolated(host, "blue", 5)

    def raw(data: bytes) -> bytes:
        with host.connect("blue").sock as sock:
            sock.sendall(data)
            response = b""
            while part := sock.recv(65536):
                response += part
            return response

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            for name, rest in DOUBTFUL.items():
                response = await asyncio.to_thread(raw, b"POST /openstack/latest/user_data " + rest)
                assert response.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")), (name, response)
                assert response.count(b"HTTP/1.1 ") == 1, (name, response)
                assert server.passwords == {}, name
            assert answers(host, "blue", blue)

    asyncio.run(scenario())


def test_data_after_novas_response_is_dropped(tmp_path: Path) -> None:
    """Each connection gets one right response, followed by an unrequested one."""

    async def scenario() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # the proxy closes it
                while await reader.readuntil(b"\r\n\r\n"):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright")
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        number = server.sockets[0].getsockname()[1]
        host = Host(tmp_path, settings_for_port(number))
        try:
            isolated(host, "blue", 5)
            host.feed.synced()
            async with server, host.agent():
                await until(lambda: status(host, "blue") == 200)
                assert {await host.fetch_async("blue") for _ in range(5)} == {(200, "right")}
        finally:
            host.close()

    asyncio.run(scenario())


def test_one_network_does_not_take_the_process_from_the_others(server: NovaMetadata, tmp_path: Path) -> None:
    """Its connections are counted together, whatever sources they have."""
    host = Host(tmp_path, settings_for(server, metadata_connections=6))
    held = []
    try:
        blue, red = isolated(host, "blue", 5), isolated(host, "red", 6)
        other = port("blue", 8, "10.0.0.8")
        host.instance("other", "qdhcp-blue", other)
        host.feed.put("dhcp_port", other.id, other)

        async def scenario() -> None:
            host.feed.synced()
            async with host.agent():
                await until(lambda: answers(host, "blue", blue) and answers(host, "red", red))
                await until(lambda: answers(host, "other", other))
                for _ in range(3):
                    for name in ("blue", "other"):
                        held.append(await asyncio.to_thread(host.connect, name))
                await until(lambda: status(host, "blue") == 0)
                assert status(host, "other") == 0
                assert answers(host, "red", red)
                assert "qdhcp-blue has 6 connections" in Path(host.daemon.log_file).read_text()
                held.pop().close()
                await until(lambda: answers(host, "blue", blue))

        asyncio.run(scenario())
    finally:
        for each in held:
            each.close()
        host.close()


def test_a_head_that_trickles_is_late(server: NovaMetadata, tmp_path: Path) -> None:
    times = dataclasses.replace(TIMES, timeout_http_request=1)
    host = Host(tmp_path, dataclasses.replace(settings_for(server), timeouts=times))

    def trickle() -> bytes:
        with host.connect("blue").sock as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
            sock.settimeout(0.2)
            for _ in range(40):
                with contextlib.suppress(TimeoutError):
                    return sock.recv(65536)
                sock.sendall(b"a")
        return b""

    try:
        blue = isolated(host, "blue", 5)

        async def scenario() -> None:
            host.feed.synced()
            async with host.agent():
                await until(lambda: answers(host, "blue", blue))
                assert b" 408 " in await asyncio.to_thread(trickle)

        asyncio.run(scenario())
    finally:
        host.close()
