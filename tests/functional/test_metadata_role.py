"""Metadata from an instance's question to Nova's answer: the role, the process and namespaces are real, Nova checks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from neutrino.model.dhcp import DhcpPort, device_id
from tests.support.metadata import (
    ADDRESSES,
    SECRET,
    Host,
    answers,
    dhcp_port,
    isolated,
    network,
    nova,
    port,
    router_of,
    settings_for,
    until,
)
from tests.support.nova_metadata import NovaMetadata


@pytest.fixture
def server() -> Iterator[NovaMetadata]:
    with nova() as made:
        yield made


@pytest.fixture
def host(server: NovaMetadata, tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, settings_for(server))
    yield made
    made.close()


def test_overlapping_networks_each_answer_with_their_own_instance(host: Host, server: NovaMetadata) -> None:
    blue, red = isolated(host, "blue", 5, project_id="p-blue"), isolated(host, "red", 6, project_id="p-red")

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue) and answers(host, "red", red))
            status, text = await host.fetch_async("red", "/openstack/latest/meta_data.json")
            assert status == 200
            assert json.loads(text)["uuid"] == red.device_id
            assert json.loads(text)["project_id"] == "p-red"
            pid = host.pid
            assert pid is not None
            assert f"\nUid:\t{65534}\t" in Path(f"/proc/{pid}/status").read_text()
            assert SECRET not in Path(f"/proc/{pid}/cmdline").read_text()

    asyncio.run(scenario())


def test_headers_of_an_instance_are_not_believed(host: Host) -> None:
    blue = isolated(host, "blue", 5)
    forged = {
        "X-Instance-ID": "forged",
        "X-Instance-ID-Signature": "00",
        "X-Tenant-ID": "another",
        "X-Forwarded-For": "192.0.2.1",
        "X_Instance_ID": "forged",
        "X-Metadata-Provider": "me",
        "Forwarded": "for=192.0.2.1",
        "User-Agent": "cloud-init",
    }

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            status, text = await host.fetch_async("blue", "/lab/headers", headers=forged)
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
    blue = isolated(host, "blue", 5)
    host.instance("stranger", "qdhcp-blue", port("blue", 9, "10.0.0.9"))

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            status, text = await host.fetch_async("stranger")
            assert status == 404
            assert "10.0.0.9" in text
            twin = port("blue", 7, "10.0.0.5")
            host.feed.put("dhcp_port", twin.id, twin)
            await until(lambda: host.fetch("blue")[0] == 404)
            host.feed.put("dhcp_port", twin.id, None)
            await until(lambda: answers(host, "blue", blue))

    asyncio.run(scenario())


def behind(host: Host, *ports: DhcpPort) -> None:
    """A router r1 with networks green (10.0.0.0/24) and yellow (10.0.1.0/24), both with IPv6."""
    host.namespace("qrouter-r1")
    host.link("qrouter-r1", "qr-r1-green", "10.0.0.1/24", "fd00::1/64", "fe80::a9fe:a9fe/64")
    host.link("qrouter-r1", "qr-r1-yellow", "10.0.1.1/24", "fd01::1/64", "fe80::a9fe:a9fe/64")
    for each in ports:
        host.feed.put("dhcp_port", each.id, each)
    host.feed.put("router", "r1", router_of("green", "yellow", ipv6=True))


def fetch_at(host: Host, instance: str, where: str) -> tuple[int, str]:
    """At the router's port, to which its table would redirect."""
    try:
        return host.fetch(instance, where=where, number=9697)
    except OSError:
        return 0, ""


def test_behind_a_router_the_networks_of_the_router_count(host: Host) -> None:
    """Two networks behind one router, and one elsewhere with the same addresses."""
    here, elsewhere = port("green", 5, "10.0.0.5"), port("other", 6, "10.0.0.5")
    behind(host, here, elsewhere)
    host.instance("vm", "qrouter-r1", here, "default via 10.0.0.1", bridge="qr-r1-green")

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():

            def status() -> tuple[int, str]:
                return fetch_at(host, "vm", "10.0.0.1")

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


def test_in_a_router_an_instance_is_identified_by_its_device(host: Host) -> None:
    """An attacker on green has the addresses and the MAC of a victim on yellow, and the answers are routed to it."""
    victim = port("yellow", 6, "10.0.1.5", "fd01::5")
    forged = port("green", 6, "10.0.1.5", "fd01::5")  # what the attacker's device has; the feed knows no such port
    mine = port("green", 7, "10.0.0.7", "fd00::7")
    behind(host, victim, mine)
    host.instance("attacker", "qrouter-r1", forged, "10.0.0.1/32 dev eth0", bridge="qr-r1-green")
    host.instance("mine", "qrouter-r1", mine, "default via 10.0.0.1", bridge="qr-r1-green")
    host.instance("victim", "qrouter-r1", victim, "default via 10.0.1.1", bridge="qr-r1-yellow")
    host.run("attacker", "ip", "-6", "route", "add", "fd00::1/128", "dev", "eth0")

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            for where in ("10.0.1.1", "fd01::1", "fe80::a9fe:a9fe"):
                await until(lambda where=where: fetch_at(host, "victim", where) == (200, victim.device_id))
            for where in ("10.0.0.1", "fd00::1", "fe80::a9fe:a9fe"):
                await until(lambda where=where: fetch_at(host, "mine", where) == (200, mine.device_id))
            # The extra routes.
            host.run("qrouter-r1", "ip", "route", "add", "10.0.1.5/32", "dev", "qr-r1-green")
            host.run("qrouter-r1", "ip", "-6", "route", "add", "fd01::5/128", "dev", "qr-r1-green")
            for where in ("10.0.0.1", "fd00::1", "fe80::a9fe:a9fe"):
                await until(lambda where=where: fetch_at(host, "attacker", where)[0] == 404)

    asyncio.run(scenario())


def test_a_link_local_source_is_known_by_the_mac(host: Host) -> None:
    """Its link-local address proves nothing: an instance can choose any."""
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

            def fetch() -> tuple[int, str]:
                try:
                    return host.fetch("vm", where="fe80::a9fe:a9fe")
                except OSError:
                    return 0, ""

            await until(lambda: fetch() == (200, this.device_id))
            status, text = await host.fetch_async("vm", "/lab/headers", where="fe80::a9fe:a9fe")
            assert status == 200
            assert dict(json.loads(text))["x-forwarded-for"] == "fe80::f816:3eff:fe00:6"
            with pytest.raises((OSError, ConnectionError)):  # the port is open at the metadata address alone
                await host.fetch_async("vm", where="fd00::2")

    asyncio.run(scenario())


def test_a_restart_of_the_agent_interrupts_no_request(host: Host) -> None:
    blue = isolated(host, "blue", 5)
    failures: list[object] = []

    async def keep_fetching(stop: asyncio.Event) -> int:
        count = 0
        while not stop.is_set():
            answer = await host.fetch_async("blue")
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
        requests = asyncio.create_task(keep_fetching(stop))
        await asyncio.sleep(0)
        async with host.agent() as role:
            await until(lambda: not next(iter(role.describe())).configurations["problems"])
            # Before the first `synced`, an agent without state removes nothing.
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
        assert await requests > 3
        assert failures == []
        assert host.pid == pid

    asyncio.run(scenario())


def test_a_killed_process_is_back_at_once(host: Host) -> None:
    """A new process needs no longer than the first one needed, and a moment."""
    blue = isolated(host, "blue", 5)

    async def scenario() -> None:
        host.feed.synced()
        began = time.monotonic()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            first = time.monotonic() - began
            pid = host.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            started = time.monotonic()
            await until(lambda: answers(host, "blue", blue))
            assert time.monotonic() - started < 2 + 3 * first
            assert host.pid not in (None, pid)

    asyncio.run(scenario())


def test_a_proxy_whose_socket_is_deleted_is_restarted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    blue = isolated(host, "blue", 5)
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


def test_a_proxy_that_starts_slowly_is_waited_for(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine it takes longer than the first wait: restarts at the same interval would never end."""
    blue = isolated(host, "blue", 5)
    monkeypatch.setattr("neutrino.agent.metadata.role.START_SECONDS", 0.05)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue), 30)

    asyncio.run(scenario())


def test_a_re_created_namespace_is_served(host: Host) -> None:
    blue = isolated(host, "blue", 5)

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


def routed(host: Host) -> DhcpPort:
    """The port of a router on the network `blue`, which is isolated no longer once the host knows the port."""
    gateway = port("blue", 3, "10.0.0.1", device_owner="network:router_interface", device_id="r1")
    subnet = network("blue", gateway_ip="10.0.0.1")
    host.feed.put("dhcp_network", "blue", subnet)
    return DhcpPort(
        id=gateway.id,
        network_id="blue",
        mac_address=gateway.mac_address,
        device_owner=gateway.device_owner,
        device_id="r1",
        fixed_ips=(type(gateway.fixed_ips[0])(subnet.subnets[0].id, "10.0.0.1"),),
    )


def is_refused(host: Host) -> bool:
    try:
        host.fetch("blue")
    except OSError:
        return True
    return False


def test_a_routed_network_is_not_isolated(host: Host) -> None:
    blue = isolated(host, "blue", 5)
    router_port = routed(host)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            host.feed.put("dhcp_port", router_port.id, router_port)
            await until(lambda: is_refused(host))
            host.feed.put("dhcp_port", router_port.id, None)
            await until(lambda: answers(host, "blue", blue))

    asyncio.run(scenario())


def test_a_connection_made_before_its_namespace_is_closed_is_served(host: Host) -> None:
    blue = isolated(host, "blue", 5)
    router_port = routed(host)

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: answers(host, "blue", blue))
            connection = host.connect("blue")
            with contextlib.closing(connection):
                host.feed.put("dhcp_port", router_port.id, router_port)
                await until(lambda: is_refused(host))
                connection.request("GET", "/latest/meta-data/instance-id")
                answer = await asyncio.to_thread(connection.getresponse)
                assert (answer.status, answer.read().decode()) == (200, blue.device_id)

    asyncio.run(scenario())


def test_where_dhcp_is_distributed_a_copy_answers_too(server: NovaMetadata, tmp_path: Path) -> None:
    """The network is scheduled to another host; this one serves its own ports from that one's DHCP port."""
    host = Host(tmp_path, settings_for(server), dhcp_distributed=True)
    try:
        blue = isolated(host, "blue", 5)
        elsewhere = msgspec.structs.replace(dhcp_port("blue"), device_id=device_id("h9", "blue"))
        host.feed.put("dhcp_port", elsewhere.id, elsewhere)

        async def scenario() -> None:
            host.feed.synced()
            async with host.agent() as role:
                await until(lambda: answers(host, "blue", blue))
                assert (await role.find()).plan == ""

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
                await until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
                stopped = host.monitor.read_text()
                await asyncio.sleep(1.5)
                assert host.monitor.read_text() == stopped
            finally:
                os.kill(pid, signal.SIGCONT)
            await until(lambda: host.monitor.read_text() != stopped)

    asyncio.run(scenario())


def sockets(host: Host) -> set[str]:
    """The process's open sockets, by inode; one that is being closed may be missing."""
    found = set()
    for number in os.listdir(f"/proc/{host.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{host.pid}/fd/{number}"))
    return found


def test_many_networks_are_one_process(host: Host) -> None:
    """More than fit into one message; a restart of the agent re-opens none of them."""
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
