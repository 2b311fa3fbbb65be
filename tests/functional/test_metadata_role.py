"""Metadata from an instance's question to Nova's answer: the role, the process and namespaces are real, Nova checks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.agent.metadata.messages import RateLimit, Settings
from neutrino.lab.metadata import NovaMetadata
from neutrino.model.dhcp import DhcpPort
from tests.support.metadata import (
    SECRET,
    TIMES,
    Host,
    dhcp_port,
    network,
    nova,
    port,
    router_of,
    settings_for,
    until,
)
from tests.support.ports import free_port

ADDRESSES = ("10.0.0.2/24", "169.254.169.254/32")


@pytest.fixture
def server() -> Iterator[NovaMetadata]:
    with nova() as made:
        yield made


@pytest.fixture
def host(server: NovaMetadata, tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, settings_for(server))
    yield made
    made.close()


def served(host: Host, network_id: str, number: int, *, more: tuple[str, ...] = (), **values: object) -> DhcpPort:
    """An isolated network with an instance at 10.0.0.5, called by the network's name."""
    host.namespace(f"qdhcp-{network_id}", *ADDRESSES, *more)
    this = port(network_id, number, "10.0.0.5", **values)
    host.instance(network_id, f"qdhcp-{network_id}", this)
    host.feed.put("dhcp_network", network_id, network(network_id))
    own = dhcp_port(network_id)
    host.feed.put("dhcp_port", own.id, own)
    host.feed.put("dhcp_port", this.id, this)
    return this


def answers(host: Host, instance: str, this: DhcpPort) -> bool:
    try:
        return host.ask(instance) == (200, this.device_id)
    except OSError:
        return False


def status(host: Host, instance: str) -> int:
    try:
        return host.ask(instance)[0]
    except OSError:
        return 0


def test_overlapping_networks_each_answer_with_their_own_instance(host: Host, server: NovaMetadata) -> None:
    blue, red = served(host, "blue", 5, project_id="p-blue"), served(host, "red", 6, project_id="p-red")

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue) and answers(host, "red", red))
            status, text = await host.asks("red", "/openstack/latest/meta_data.json")
            assert status == 200
            assert json.loads(text)["uuid"] == red.device_id
            assert json.loads(text)["project_id"] == "p-red"
            pid = host.pid
            assert pid is not None
            assert f"\nUid:\t{65534}\t" in Path(f"/proc/{pid}/status").read_text()
            assert SECRET not in Path(f"/proc/{pid}/cmdline").read_text()

    asyncio.run(scenario())


def test_headers_of_an_instance_are_not_believed(host: Host) -> None:
    blue = served(host, "blue", 5)
    forged = {
        "X-Instance-ID": "somebody",
        "X-Instance-ID-Signature": "00",
        "X-Tenant-ID": "another",
        "X-Forwarded-For": "192.0.2.1",
        "X_Instance_ID": "somebody",
        "X-Metadata-Provider": "me",
        "Forwarded": "for=192.0.2.1",
        "User-Agent": "cloud-init",
    }

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            status, text = await host.asks("blue", "/lab/headers", headers=forged)
            assert status == 200
            seen = [(name.lower(), value) for name, value in json.loads(text)]
            values = dict(seen)
            assert len(values) == len(seen), "a header came twice"
            assert values["x-instance-id"] == blue.device_id
            assert values["x-tenant-id"] == "project-1"
            assert values["x-forwarded-for"] == "10.0.0.5"
            assert values["user-agent"] == "cloud-init"
            assert not {"x_instance_id", "x-metadata-provider", "forwarded"} & values.keys()

    asyncio.run(scenario())


def test_an_unknown_source_and_one_that_two_have_get_404(host: Host) -> None:
    blue = served(host, "blue", 5)
    host.instance("stranger", "qdhcp-blue", port("blue", 9, "10.0.0.9"))

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            status, text = await host.asks("stranger")
            assert status == 404
            assert "10.0.0.9" in text
            twin = port("blue", 7, "10.0.0.5")
            host.feed.put("dhcp_port", twin.id, twin)
            await until(lambda: host.ask("blue")[0] == 404)
            host.feed.put("dhcp_port", twin.id, None)
            await until(lambda: answers(host, "blue", blue))

    asyncio.run(scenario())


def test_behind_a_router_the_networks_of_the_router_count(host: Host) -> None:
    """Two networks behind one router, and one elsewhere with the same addresses."""
    host.namespace("qrouter-r1", "10.0.0.1/24", "10.0.1.1/24")
    here, elsewhere = port("green", 5, "10.0.0.5"), port("other", 6, "10.0.0.5")
    host.instance("vm", "qrouter-r1", here, "default via 10.0.0.1")
    for each in (here, elsewhere):
        host.feed.put("dhcp_port", each.id, each)
    host.feed.put("router", "r1", router_of("green", "yellow"))

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():

            def status() -> tuple[int, str]:
                try:
                    return host.ask("vm", where="10.0.0.1", number=9697)
                except OSError:
                    return 0, ""

            await until(lambda: status() == (200, here.device_id))
            pid = host.pid
            host.feed.put("router", "r1", router_of("yellow"))
            await until(lambda: status()[0] == 404)
            host.feed.put("router", "r1", router_of("yellow", "green"))
            await until(lambda: status() == (200, here.device_id))
            host.feed.put("router", "r1", None)
            await until(lambda: status()[0] == 0)
            assert host.pid == pid

    asyncio.run(scenario())


def test_a_link_local_source_is_known_by_the_mac_on_the_wire(host: Host) -> None:
    """The address that it calls itself by says nothing: it may be anybody's."""
    host.namespace("qdhcp-six", *ADDRESSES, "fe80::a9fe:a9fe/64", "fd00::2/64")
    this, other = port("six", 5, "fd00::5"), port("six", 6, "fd00::6")
    host.instance("vm", "qdhcp-six", this, "169.254.169.254/32 dev eth0")
    host.run("vm", "ip", "-6", "address", "flush", "dev", "eth0", "scope", "link")
    # The address that the other's MAC would make.
    host.run("vm", "ip", "-6", "address", "add", "fe80::f816:3eff:fe00:6/64", "dev", "eth0", "nodad")
    host.feed.put("dhcp_network", "six", network("six", "10.0.0.0/24", "fd00::/64"))
    for each in (dhcp_port("six"), this, other):
        host.feed.put("dhcp_port", each.id, each)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():

            def ask() -> tuple[int, str]:
                try:
                    return host.ask("vm", where="fe80::a9fe:a9fe")
                except OSError:
                    return 0, ""

            await until(lambda: ask() == (200, this.device_id))
            status, text = await host.asks("vm", "/lab/headers", where="fe80::a9fe:a9fe")
            assert status == 200
            assert dict(json.loads(text))["x-forwarded-for"] == "fe80::f816:3eff:fe00:6"
            with pytest.raises((OSError, ConnectionError)):  # the port is open at the metadata address alone
                await host.asks("vm", where="fd00::2")

    asyncio.run(scenario())


def test_the_agent_goes_and_comes_and_nobody_waits(host: Host) -> None:
    blue = served(host, "blue", 5)
    failures: list[object] = []

    async def keep_asking(stop: asyncio.Event) -> int:
        count = 0
        while not stop.is_set():
            answer = await host.asks("blue")
            count += 1
            if answer != (200, blue.device_id):
                failures.append(answer)
        return count

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            pid = host.pid
        stop = asyncio.Event()
        asking = asyncio.create_task(keep_asking(stop))
        await asyncio.sleep(0)
        async with host.agent() as role:
            await until(lambda: not next(iter(role.describe())).configurations["problems"])
            # Before the server has spoken, an agent with an empty memory takes nothing away.
            assert host.pid == pid
        host.feed.is_synced = False
        host.feed.state.objects["dhcp_network"].clear()
        host.feed.state.objects["dhcp_port"].clear()
        async with host.agent() as role:
            await until(lambda: not next(iter(role.describe())).configurations["problems"])
            await asyncio.sleep(0.3)  # a few rounds of the role
            assert answers(host, "blue", blue)
            host.feed.put("dhcp_network", "blue", network("blue"))
            for each in (dhcp_port("blue"), blue):
                host.feed.put("dhcp_port", each.id, each)
            host.feed.synced()
            assert answers(host, "blue", blue)
            assert (await role.find()).plan == ""
        stop.set()
        assert await asking > 3
        assert failures == []
        assert host.pid == pid

    asyncio.run(scenario())


def test_a_killed_process_is_back_within_two_seconds(host: Host) -> None:
    blue = served(host, "blue", 5)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            pid = host.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            started = time.monotonic()
            await until(lambda: answers(host, "blue", blue))
            assert time.monotonic() - started < 2
            assert host.pid not in (None, pid)

    asyncio.run(scenario())


def test_a_process_whose_socket_is_gone_is_started_anew(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    blue = served(host, "blue", 5)
    monkeypatch.setattr("neutrino.agent.metadata.role.START_SECONDS", 1.0)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            pid = host.pid
        os.unlink(host.options.socket)
        async with host.agent() as role:
            await until(lambda: host.pid not in (None, pid) and answers(host, "blue", blue), 10)
            assert (await role.find()).plan == ""

    asyncio.run(scenario())


def test_a_namespace_made_anew_is_served_anew(host: Host) -> None:
    blue = served(host, "blue", 5)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent() as role:
            await until(lambda: answers(host, "blue", blue))
            for name in ("qdhcp-blue", "blue"):
                host.netlink.delete_namespace(name)
            assert "qdhcp-blue is missing" in (await role.find()).plan
            host.namespace("qdhcp-blue", *ADDRESSES)
            host.instance("blue", "qdhcp-blue", blue)
            await until(lambda: answers(host, "blue", blue))
            assert (await role.find()).plan == ""

    asyncio.run(scenario())


def test_a_routed_network_is_not_isolated(host: Host) -> None:
    blue = served(host, "blue", 5)
    gateway = port("blue", 3, "10.0.0.1", device_owner="network:router_interface", device_id="r1")
    subnet = network("blue", gateway_ip="10.0.0.1")
    routed = DhcpPort(
        id=gateway.id,
        network_id="blue",
        mac_address=gateway.mac_address,
        device_owner=gateway.device_owner,
        device_id="r1",
        fixed_ips=(type(gateway.fixed_ips[0])(subnet.subnets[0].id, "10.0.0.1"),),
    )
    host.feed.put("dhcp_network", "blue", subnet)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            host.feed.put("dhcp_port", routed.id, routed)

            def refused() -> bool:
                try:
                    host.ask("blue")
                except OSError:
                    return True
                return False

            await until(refused)
            host.feed.put("dhcp_port", routed.id, None)
            await until(lambda: answers(host, "blue", blue))

    asyncio.run(scenario())


def test_a_slow_nova_is_slow_for_one(host: Host) -> None:
    blue, red = served(host, "blue", 5), served(host, "red", 6)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue) and answers(host, "red", red))
            slow = asyncio.create_task(host.asks("blue", "/lab/slow/4"))
            started = time.monotonic()
            for _ in range(20):
                assert await host.asks("red") == (200, red.device_id)
            assert time.monotonic() - started < 2
            assert (await slow)[0] == 504
            assert await host.asks("blue") == (200, blue.device_id)

    asyncio.run(scenario())


def test_without_nova_there_is_a_502_and_with_it_an_answer_again(tmp_path: Path) -> None:
    """It is killed, with the connections to it that are kept for the next request."""
    number, secret = free_port(), tmp_path / "secret"
    secret.write_text(SECRET)
    argv = [sys.executable, "-m", "neutrino.lab.metadata", "--port", str(number), "--secret-file", str(secret)]
    host = Host(tmp_path, Settings(nova_port=number, secret=SECRET, timeouts=TIMES))
    blue = served(host, "blue", 5)

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
    blue = served(host, "blue", 5)

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


def test_nonsense_is_refused_and_hurts_nobody(host: Host) -> None:
    blue = served(host, "blue", 5)

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
            assert b" 400 " in await asyncio.to_thread(raw, b"CONNECT nova:8775 HTTP/1.1\r\nHost: x\r\n\r\n")
            absolute = b"GET http://169.254.169.254/latest/meta-data/instance-id HTTP/1.1\r\nHost: x\r\n\r\n"
            assert blue.device_id.encode() in await asyncio.to_thread(raw, absolute)
            assert answers(host, "blue", blue)
            assert host.pid == pid

    asyncio.run(scenario())


def test_who_asks_too_often_is_told_so(server: NovaMetadata, tmp_path: Path) -> None:
    limit = RateLimit((4,), (5, 60), (50, 60))
    host = Host(tmp_path, settings_for(server, limit=limit))
    try:
        blue = served(host, "blue", 5)
        other = port("blue", 8, "10.0.0.8")
        host.instance("other", "qdhcp-blue", other)
        host.feed.put("dhcp_port", other.id, other)

        async def scenario() -> None:
            host.feed.synced()
            async with host.agent():
                await until(lambda: answers(host, "other", other))
                answered = [(await host.asks("blue"))[0] for _ in range(8)]
                assert answered == [200] * 5 + [429] * 3
                assert await host.asks("other") == (200, other.device_id)
                assert blue.device_id in server.asked

        asyncio.run(scenario())
    finally:
        host.close()


def test_the_serving_loop_writes_the_time(host: Host) -> None:
    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: host.monitor.exists() and host.monitor.read_text() != "")
            first = host.monitor.read_text()
            assert time.strptime(first[:19], "%Y-%m-%dT%H:%M:%S")
            await until(lambda: host.monitor.read_text() != first)
            pid = host.pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)  # it hangs
            try:
                stopped = host.monitor.read_text()
                await asyncio.sleep(1.5)
                assert host.monitor.read_text() == stopped
            finally:
                os.kill(pid, signal.SIGCONT)
            await until(lambda: host.monitor.read_text() != stopped)

    asyncio.run(scenario())


def sockets(host: Host) -> set[str]:
    """What the process has open, by inode; one that is just being closed may not be in it."""
    found = set()
    for number in os.listdir(f"/proc/{host.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{host.pid}/fd/{number}"))
    return found


def test_many_networks_are_one_process(host: Host) -> None:
    """More than go into one message; after a restart of the agent, none of them is opened anew."""
    count = 220
    for number in range(count):
        host.netlink.create_namespace(f"qrouter-r{number}")
        host.feed.put("router", f"r{number}", router_of(f"n{number}", router_id=f"r{number}"))

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent() as role:
            await until(lambda: next(iter(role.describe())).configurations["listening"] == count, 20)
            assert (await role.find()).plan == ""
        before = sockets(host)
        async with host.agent() as role:
            await until(lambda: next(iter(role.describe())).configurations["listening"] == count, 20)
            await until(lambda: not next(iter(role.describe())).configurations["problems"])
        assert len(before & sockets(host)) >= count, "the same sockets as before"

    asyncio.run(scenario())
