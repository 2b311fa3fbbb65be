"""Prefix delegation: configuration of DHCPv6 clients, their notifications, and which of them run."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.services.api import Serving
from neutrino.agent.l3.services.dibbler.render import NOTIFY, asked_here, parse_prefix, render_client, source_address
from neutrino.agent.l3.services.dibbler.service import Delegations
from neutrino.agent.l3.services.radvd.render import render_radvd
from neutrino.agent.runtime.context import PortHolds
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.model.routing import Delegation, Router
from tests.fakes.process import FakeProcesses
from tests.support import routing
from tests.support.routing import GATEWAY, QG, address, interface, membership, rendered, router

FIRST, SECOND = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
PREFIX, OTHER = "2001:db8:1::/64", "2001:db8:2::/64"


def asking(*delegations: Delegation, **values: object) -> Router:
    return router(delegations=delegations or (Delegation(FIRST),), **values)


# --- configuration of clients -----------------------------------------------------------------------------------------


def test_each_client_has_an_address_and_a_name_of_its_own() -> None:
    here = {source_address(key) for key in (FIRST, SECOND)}
    assert len(here) == 2
    assert all(ipaddress.ip_address(each).is_link_local for each in here)
    texts = [render_client(asking(), key, 8888, "/somewhere/notify") for key in (FIRST, SECOND)]
    assert f"duid-type duid-en 8888 0x{uuid.UUID(FIRST).hex}" in texts[0].splitlines()
    assert f"    bind-to-address {source_address(SECOND)}" in texts[1].splitlines()
    assert all(f'iface "{QG}" {{' in text for text in texts)


def test_which_routers_request_prefixes() -> None:
    assert asked_here(asking())
    assert not asked_here(router())
    assert not asked_here(asking(gateway=None))
    assert not asked_here(asking(gateway=msgspec.structs.replace(GATEWAY, admin_state_up=False)))
    assert asked_here(asking(distributed=True, centralized=True))
    assert not asked_here(asking(distributed=True, centralized=False))


def test_the_gateways_device_has_the_clients_addresses_where_the_router_is_active() -> None:
    wanted = {f"{source_address(key)}/64" for key in (FIRST, SECOND)}
    several = (Delegation(FIRST), Delegation(SECOND, PREFIX))
    there = rendered(asking(*several), L3Options(veth=True)).namespace.addresses
    assert wanted <= {each.address for each in there if each.device == QG}
    ready = asking(*several, ha=membership())
    assert not wanted & {each.address for each in rendered(ready, L3Options(veth=True)).namespace.addresses}
    failover = routing.failover(ready, L3Options())
    assert failover is not None
    assert wanted <= {each.address for each in failover.addresses}


def test_a_delegated_prefix_is_preferred_for_a_short_time_only() -> None:
    inner = interface(1, address("2001:db8:1::1", PREFIX, "2001:db8:1::1", ra_mode="slaac"))
    subnet = inner.addresses[0].subnet_id
    options = L3Options(max_rtr_adv_interval=100)
    assert "AdvPreferredLifetime" not in render_radvd(router(inner), options)
    assert "AdvPreferredLifetime 300;" in render_radvd(
        router(inner, delegations=(Delegation(subnet, PREFIX),)), options
    )


# --- notifications of clients -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "age", "prefix"),
    [
        (f"{PREFIX} 600\n", 10.0, PREFIX),
        (f"{PREFIX} 600\n", 601.0, ""),
        (f"{PREFIX} 4294967295\n", 1e8, PREFIX),
        (f"{PREFIX} \n", 1e8, PREFIX),
        ("2001:db8:1:100::/56 600\n", 0.0, "2001:db8:1:100::/64"),
        ("2001:db8:1::5/64 600\n", 0.0, PREFIX),
        ("::/64\n", 0.0, ""),
    ],
)
def test_a_prefix_and_its_lifetime(text: str, age: float, prefix: str) -> None:
    assert parse_prefix(text, age) == prefix


@pytest.mark.parametrize("text", ["", "nonsense 600", "2001:db8:1::/72 600", "10.0.0.0/24 600"])
def test_invalid_prefixes(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_prefix(text, 0.0)


def notify(directory: Path, what: str, **environment: str) -> None:
    script = directory / "notify"
    script.write_text(NOTIFY)
    script.chmod(0o700)
    path = {"PATH": os.environ["PATH"]}
    subprocess.run([str(script), what], env={**path, **environment}, check=True, timeout=10, cwd="/")


def test_the_script_writes_the_prefix_and_notifies_without_blocking(tmp_path: Path) -> None:
    directory = tmp_path / "pd with a space" / "r1" / FIRST
    directory.mkdir(parents=True)
    found = {"PREFIX1": "2001:db8:1::", "PREFIX1LEN": "64", "PREFIX1VALID": "600"}
    notify(directory, "add", **found)  # there is no fifo
    assert (directory / "prefix").read_text() == f"{PREFIX} 600\n"
    fifo = directory.parent.parent / "news"
    os.mkfifo(fifo)
    notify(directory, "update", **found)  # and now nobody who reads it
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        notify(directory, "update")  # of something else than a prefix
        notify(directory, "delete")
        assert os.read(reader, 4096).decode() == f"{directory}\n"
    finally:
        os.close(reader)
    assert (directory / "prefix").read_text() == "::/64\n"


# --- which of them run ------------------------------------------------------------------------------------------------


class Host:
    def __init__(self, state: Path) -> None:
        self.base = state / "pd"
        self.processes = FakeProcesses()
        self.reported: list[tuple[str, str]] = []
        self.start_agent(state)

    def start_agent(self, state: Path) -> None:
        options = L3Options(state_path=str(state))
        self.port_holds = PortHolds()
        watch = Supervisor(self.processes)
        self.delegations = Delegations(watch, options, self._report, self.port_holds)

    def _report(self, subnet_id: str, prefix: str) -> None:
        self.reported.append((subnet_id, prefix))

    def has(self, subnet_id: str, text: str, age: float = 0.0) -> None:
        """A prefix file of a client, `age` seconds old."""
        path = self.base / "r1" / subnet_id / "prefix"
        path.write_text(text)
        at = path.stat().st_mtime - age
        os.utime(path, (at, at))

    @property
    def running(self) -> set[str]:
        return {name.split()[2] for name in self.processes.running()}

    @property
    def ended_by(self) -> list[int]:
        return [number for _, number in self.processes.signals]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 30))


def test_each_subnet_has_a_client_and_new_prefixes_are_reported(host: Host) -> None:
    async def work() -> None:
        two = asking(Delegation(FIRST), Delegation(SECOND, OTHER))
        assert host.delegations.find(two, Serving()) == [f"start dibbler-client r1 {key}" for key in (FIRST, SECOND)]
        assert await host.delegations.ensure(two, Serving()) == []
        assert host.running == {FIRST, SECOND}
        assert {daemon.namespace for daemon in host.processes.started} == {"qrouter-r1"}
        assert host.delegations.find(two, Serving()) == []
        assert host.reported == []  # nothing is known yet, and what the server knows may be right
        host.has(FIRST, f"{PREFIX} 600\n")
        host.has(SECOND, f"{OTHER} 600\n")
        await host.delegations.ensure(two, Serving())
        assert host.reported == [(FIRST, PREFIX), (SECOND, OTHER)]
        await host.delegations.ensure(two, Serving())  # the server does not know the first yet
        assert host.reported[2:] == [(FIRST, PREFIX)]
        known = asking(Delegation(FIRST, PREFIX), Delegation(SECOND, OTHER))
        await host.delegations.ensure(known, Serving())
        assert len(host.reported) == 3
        host.has(FIRST, f"{PREFIX} 600\n", age=5)  # renewed
        host.has(SECOND, f"{OTHER} 600\n", age=601)  # and not
        await host.delegations.ensure(known, Serving())
        assert host.reported[3:] == [(FIRST, PREFIX), (SECOND, "::/64")]
        assert len(host.processes.started) == 2

    run(work)


def test_a_removed_subnet_releases_its_prefix_and_a_moved_router_does_not(host: Host) -> None:
    async def work() -> None:
        two = asking(Delegation(FIRST, PREFIX), Delegation(SECOND, OTHER))
        await host.delegations.ensure(two, Serving())
        one = asking(Delegation(FIRST, PREFIX))
        assert host.delegations.find(one, Serving()) == [f"stop dibbler-client r1 {SECOND}"]
        await host.delegations.release(one, Serving())
        assert (host.running, host.ended_by) == ({FIRST}, [signal.SIGTERM])
        await host.delegations.ensure(one, Serving(active=False))  # another host is active now
        assert (host.running, host.ended_by[1:]) == (set(), [signal.SIGKILL])
        assert not (host.base / "r1").exists()
        await host.delegations.ensure(one, Serving())
        await host.delegations.stop("r1", moved=True)  # the router is another host's
        assert host.ended_by[2:] == [signal.SIGKILL]
        await host.delegations.ensure(one, Serving())
        await host.delegations.release(router(gateway=None), Serving())
        assert host.ended_by[3:] == [signal.SIGTERM]
        assert not (host.base / "r1").exists()

    run(work)


def test_the_gateways_port_stays_until_its_last_prefix_is_released(host: Host) -> None:
    async def work() -> None:
        await host.delegations.ensure(asking(Delegation(FIRST), Delegation(SECOND)), Serving())
        running: list[set[str]] = []
        host.port_holds.on_change = lambda: running.append(host.running)
        await host.delegations.release(asking(Delegation(FIRST)), Serving())
        assert host.port_holds.held == {GATEWAY.id}
        await host.delegations.release(router(gateway=None), Serving())
        assert host.port_holds.held == frozenset()
        assert running == [{FIRST}, set()]  # each had ended before

    run(work)


def test_another_agent_finds_its_clients_and_another_gateway_needs_others(host: Host, tmp_path: Path) -> None:
    known = asking(Delegation(FIRST, PREFIX))

    async def first() -> None:
        await host.delegations.ensure(known, Serving())
        host.has(FIRST, f"{PREFIX} 600\n")

    async def second() -> None:
        await host.delegations.ensure(known, Serving())
        assert (len(host.processes.started), host.reported, host.ended_by) == (1, [(FIRST, PREFIX)], [])
        assert host.port_holds.held == {GATEWAY.id}
        elsewhere = asking(Delegation(FIRST), gateway=msgspec.structs.replace(GATEWAY, id="f" * 36))
        (difference,) = host.delegations.find(elsewhere, Serving())
        assert difference.startswith("restart ")
        await host.delegations.release(elsewhere, Serving())  # while the former gateway is there
        assert (host.running, host.ended_by, host.port_holds.held) == (set(), [signal.SIGTERM], frozenset())
        await host.delegations.ensure(elsewhere, Serving())
        assert (len(host.processes.started), host.ended_by) == (2, [signal.SIGTERM])
        assert host.port_holds.held == {"f" * 36}
        assert len(host.reported) == 1  # what the other one had is forgotten

    run(first)
    host.start_agent(tmp_path)
    run(second)


def test_a_distributed_routers_clients_are_where_its_gateway_is(host: Host) -> None:
    async def work() -> None:
        await host.delegations.ensure(asking(distributed=True, centralized=True), Serving())
        assert [daemon.namespace for daemon in host.processes.started] == ["snat-r1"]
        await host.delegations.ensure(asking(distributed=True, centralized=False), Serving())
        assert host.running == set()

    run(work)


def test_an_invalid_prefix_is_a_problem_and_does_not_stop_other_clients(host: Host) -> None:
    async def work() -> None:
        two = asking(Delegation(FIRST), Delegation(SECOND))
        host.processes.broken.add("dibbler-client")
        problems = await host.delegations.ensure(two, Serving())
        assert len(problems) == 2
        assert FIRST in problems[0]
        assert "dibbler-client" in problems[0]
        host.processes.broken.clear()
        assert await host.delegations.ensure(two, Serving()) == []
        host.has(FIRST, "2001:db8::/72 600\n")
        host.has(SECOND, f"{OTHER} 600\n")
        (problem,) = await host.delegations.ensure(two, Serving())
        assert "2001:db8::/72" in problem
        assert host.reported == [(SECOND, OTHER)]

    run(work)


def test_a_router_is_notified_of_a_prefix_at_once(host: Host) -> None:
    async def work() -> None:
        notified: asyncio.Queue[str] = asyncio.Queue()
        await host.delegations.start(lambda router_id, priority=0: notified.put_nowait(router_id))
        try:
            await host.delegations.ensure(asking(), Serving())
            directory = host.base / "r1" / FIRST
            found = {"PREFIX1": "2001:db8:1::", "PREFIX1LEN": "64", "PREFIX1VALID": "600"}
            await asyncio.to_thread(notify, directory, "add", **found)
            assert await notified.get() == "r1"
        finally:
            await host.delegations.close()

    run(work)
