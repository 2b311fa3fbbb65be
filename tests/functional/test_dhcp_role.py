"""The DHCP role on a real feed, switch and dnsmasq: from an API request to a lease; restarts and failures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino import daemon_files
from neutrino.agent.dhcp.role import DhcpRole
from neutrino.agent.runtime import loop
from neutrino.agent.runtime.loop import Reporter
from neutrino.agent.runtime.supervisor import EXIT, DaemonExited
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.model.agents import DHCP, DHCP_PORT_BY_SERVER, AgentState
from neutrino.model.dhcp import DhcpPort
from neutrino.model.objects import Object
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch as report_switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.dhcp import HOST
from tests.support.dhcp_lab import Lab, run
from tests.support.feed import serving, until
from tests.support.openvswitch import OpenVSwitch


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as made:
        yield made


@pytest.fixture
def lab(switch: OpenVSwitch) -> Iterator[Lab]:
    with Lab(switch) as made:
        yield made


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, "sqlite", tmp_path))
    report_switch(made, HOST)
    yield made
    made.close()


class Host:
    """Server, feed and agent."""

    def __init__(self, server: Server, lab: Lab, directory: Path) -> None:
        self.server = server
        self.lab = lab
        self.api = Api(server.app).as_admin()
        self.address = Address(path=str(directory / "feed.sock"))
        self.cache = directory / "feed.json"
        self._key = Credentials(server.db).add(HOST)
        self.life: asyncio.Task[None] | None = None  # the agent's

    @contextlib.asynccontextmanager
    async def agent(self, **more: Any) -> AsyncIterator[DhcpRole]:
        settings = ClientOptions(self.address, HOST, self._key, first_delay=0.01, longest_delay=0.1, save_interval=0.01)
        client = FeedClient(settings, cache=self.cache)
        configurations = {DHCP_PORT_BY_SERVER: True}
        state = AgentState(DHCP, "neutron-dhcp-agent", HOST, "dhcp_agent", "nova", configurations=configurations)
        role = DhcpRole(client, self.lab.reconciler, state, **more)
        reporter = Reporter(client, lambda: 30.0)
        stop = asyncio.Event()
        self.life = task = asyncio.create_task(loop.run(client, [role], reporter, stop, 5.0))
        try:
            yield role
        finally:
            stop.set()
            await task

    def feed(self) -> contextlib.AbstractAsyncContextManager[Any]:
        return serving(self.server, self.address)

    async def call(self, work: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """The API and clients block: they are called beside the loop."""
        return await asyncio.to_thread(work, *arguments, **more)

    async def network(self) -> tuple[Object, Object]:
        network = await self.call(self.api.network)
        subnet = await self.call(self.api.subnet, network, "10.0.0.0/24")
        return network, subnet

    async def vm(self, network: Object) -> Object:
        where = {"binding__host_id": HOST, "device_owner": "compute:nova"}
        made: Object = await self.call(self.api.port, network, **where)
        return made

    def pid(self, network: Object) -> int | None:
        return self.lab.pid(network["id"])

    async def lease(self, port: Object) -> dict[str, str]:
        client = await self.call(self.lab.client, port["mac_address"])
        lease: dict[str, str] = await self.call(client.udhcpc)
        return lease

    def status(self, port: Object) -> str:
        return str(self.api.get(f"/ports/{port['id']}").body["port"]["status"])


@pytest.fixture
def host(server: Server, lab: Lab, tmp_path: Path) -> Host:
    return Host(server, lab, tmp_path)


def within(seconds: float, test: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await test

    asyncio.run(bounded())


def address_of(port: Object) -> str:
    return str(port["fixed_ips"][0]["ip_address"])


def test_from_a_request_to_a_lease(host: Host) -> None:
    async def test() -> None:
        async with host.feed(), host.agent() as role:
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, _ = await host.network()
            port = await host.vm(network)
            await host.call(host.server.core.provisioning.complete, port["id"], "L2", HOST)
            await until(lambda: host.status(port) == "ACTIVE", "wired, and its lease can be given")
            lease = await host.lease(port)
            assert (lease["ip"], lease["router"]) == (address_of(port), "10.0.0.1")
            await until(lambda: role.applied() == role.feed.position, "the position is not reported")
            (state,) = role.describe()
            assert (state.configurations["networks"], state.configurations["subnets"]) == (1, 1)
            assert (state.configurations["ports"], state.configurations["problems"]) == (2, {})
            found = await role.find()
            assert (found.plan, found.problems) == ("", {})
            await host.call(host.api.delete, f"/ports/{port['id']}")
            await host.call(host.api.delete, f"/networks/{network['id']}")
            await until(lambda: host.lab.reconciler.known() == frozenset(), "nothing is left")

    within(60, test())


def test_a_port_waits_until_its_lease_can_be_given(host: Host) -> None:
    async def test() -> None:
        async with host.feed(), host.agent():
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, _ = await host.network()
            await until(lambda: host.pid(network) is not None, "served")
        port = await host.vm(network)  # while no agent runs
        async with host.feed():
            await host.call(host.server.core.provisioning.complete, port["id"], "L2", HOST)
            assert host.status(port) == "DOWN"
            async with host.agent():
                await until(lambda: host.status(port) == "ACTIVE", "the agent is back and serves it")

    within(60, test())


def test_a_killed_dnsmasq_is_back_at_once(host: Host) -> None:
    """A new process needs no longer than the first one needed, and a moment."""

    async def test() -> None:
        async with host.feed(), host.agent():
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            began = time.monotonic()
            network, _ = await host.network()
            port = await host.vm(network)
            await until(lambda: host.pid(network) is not None, "served")
            took = time.monotonic() - began
            await until(lambda: port["mac_address"] in (host.lab.dnsmasq.read(network["id"], "host") or ""), "known")
            first = host.pid(network)
            assert first is not None
            os.kill(first, signal.SIGKILL)
            died = time.monotonic()
            await until(lambda: host.pid(network) not in (None, first), "back")
            assert time.monotonic() - died < 2 + 3 * took
            assert (await host.lease(port))["ip"] == address_of(port)

    within(60, test())


def test_a_restart_by_the_agent_is_no_unexpected_exit(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with host.feed(), host.agent() as role:
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, _ = await host.network()
            await until(lambda: host.pid(network) is not None, "served")
            first = host.pid(network)
            await host.call(host.api.subnet, network, "10.0.1.0/24")
            await until(lambda: host.pid(network) not in (None, first), "started anew, with the subnet's range")
            await until(lambda: len(role._loop.queue) == 0, "nothing waits")
            assert "exited" not in caplog.text
            second = host.pid(network)
            assert second is not None
            os.kill(second, signal.SIGKILL)
            await until(
                lambda: f"dnsmasq {network['id']}: killed by SIGKILL" in caplog.text, "an unexpected exit is logged"
            )

    within(60, test())


def test_with_action_exit_the_agent_exits_with_a_dnsmasq(host: Host) -> None:
    """Not with one that it restarts itself."""
    survived: list[bool] = []

    async def test() -> None:
        async with host.feed(), host.agent(child_action=EXIT) as role:
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, _ = await host.network()
            await until(lambda: host.pid(network) is not None, "served")
            first = host.pid(network)
            await host.call(host.api.subnet, network, "10.0.1.0/24")
            await until(lambda: host.pid(network) not in (None, first) and len(role._loop.queue) == 0, "started anew")
            second = host.pid(network)
            assert second is not None
            assert host.life is not None
            survived.append(not host.life.done())
            os.kill(second, signal.SIGKILL)
            await until(host.life.done, "the agent has ended")

    with pytest.raises(ExceptionGroup) as ended:
        within(60, test())
    assert ended.group_contains(DaemonExited)
    assert survived == [True]


def test_an_agents_restart_restarts_nothing(host: Host) -> None:
    async def test() -> None:
        async with host.feed():
            async with host.agent():
                await until(lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "there")
                networks = [(await host.network())[0] for _ in range(3)]
                await until(lambda: all(host.pid(n) is not None for n in networks), "served")
            before = {n["id"]: host.pid(n) for n in networks}
            assert None not in before.values(), "it outlives the agent"
            async with host.agent() as role:
                await until(lambda: role.applied() is not None, "all is verified")
                assert {n["id"]: host.pid(n) for n in networks} == before
                # Networks that were deleted while no agent was running are removed now.
                await host.call(host.api.delete, f"/networks/{networks[0]['id']}")
            gone = networks[1]["id"]
            await host.call(host.api.delete, f"/networks/{gone}")
            async with host.agent() as role:
                await until(lambda: role.applied() is not None, "all is verified")
                await until(lambda: host.lab.reconciler.known() == {networks[2]["id"]}, "the others are gone")
                assert host.pid(networks[2]) == before[networks[2]["id"]]

    within(60, test())


def test_without_a_server_a_missing_dnsmasq_is_started_from_the_cache(host: Host) -> None:
    async def test() -> None:
        async with host.feed(), host.agent():
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, _ = await host.network()
            running, _ = await host.network()
            await until(lambda: None not in (host.pid(network), host.pid(running)), "served")
        first, other = host.pid(network), host.pid(running)
        # The machine was restarted: one is gone altogether. The other runs, and has a file that we do not remember.
        await host.call(host.lab.reconciler.remove, network["id"])
        path = Path(host.lab.settings.dhcp_confs) / running["id"] / "host"
        daemon_files.write(path, "fa:16:3e:77:77:77,10.0.0.77\n", mode=0o644)
        async with host.agent() as role:
            await until(lambda: host.pid(network) not in (None, first), "served again, with no server")
            await until(lambda: len(role._loop.queue) == 0, "nothing waits")
            assert host.pid(running) == other
            assert "77:77:77" in (host.lab.dnsmasq.read(running["id"], "host") or ""), "left alone"
            async with host.feed():
                await until(lambda: "77:77" not in (host.lab.dnsmasq.read(running["id"], "host") or ""), "put right")

    within(60, test())


def test_failures_are_reported_and_retried(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with host.feed(), host.agent() as role:
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            good = os.environ["PATH"]
            monkeypatch.setenv("PATH", "/nowhere")
            network, _ = await host.network()
            await until(lambda: network["id"] in role._loop.problems, "the reason is listed")
            (state,) = role.describe()
            assert "dnsmasq" in state.configurations["problems"][network["id"]]
            monkeypatch.setenv("PATH", good)
            await until(lambda: host.pid(network) is not None, "served after all")
            await until(lambda: not role._loop.problems, "nothing is wrong any more")

    within(60, test())


def test_a_removed_switch_port_is_plugged_again(host: Host) -> None:
    async def test() -> None:
        async with host.feed(), host.agent():
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, _ = await host.network()
            await until(lambda: host.pid(network) is not None, "served")
            ports = run("ovs-vsctl", f"--db={host.lab.switch.database}", "list-ports", host.lab.bridge).split()
            await host.call(host.lab.switch.vsctl, "del-port", host.lab.bridge, ports[0])
            await until(lambda: host.lab.switch.vsctl("list-ports", host.lab.bridge).split() == ports, "plugged again")

    within(60, test())


def test_objects_are_what_the_role_expects(host: Host) -> None:
    """The DHCP port of this host is among the ports of the feed."""

    async def test() -> None:
        async with host.feed(), host.agent() as role:
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, subnet = await host.network()
            await until(lambda: host.pid(network) is not None, "served")
            this = role._network(network["id"])
            assert isinstance(this.own, DhcpPort)
            assert [f.subnet_id for f in this.own.fixed_ips] == [subnet["id"]]
            assert this.own.host == HOST

    within(60, test())


def test_lines_that_are_left_out_are_reported(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the network is served, and nothing is tried again."""
    monkeypatch.setattr("neutrino.agent.dhcp.extension_api.MAX_LINE_BYTES", 200)

    async def test() -> None:
        async with host.feed(), host.agent() as role:
            await until(
                lambda: host.api.get("/agents", {"agent_type": DHCP}).body["agents"] != [], "the agent is there"
            )
            network, _ = await host.network()
            port = await host.vm(network)
            options = [{"opt_name": "252", "opt_value": "x" * 255}]
            await host.call(host.api.put, f"/ports/{port['id']}", {"port": {"extra_dhcp_opts": options}})
            await until(lambda: network["id"] in role._loop.problems, "the reason is listed")
            assert f"port {port['id']}: a line of opts is left out" in role._loop.problems[network["id"]]
            assert role._loop.problems[network["id"]] == (await role.find()).problems[network["id"]]
            assert (await host.lease(port))["ip"] == address_of(port)
            gone = [{"opt_name": "252", "opt_value": None}]
            await host.call(host.api.put, f"/ports/{port['id']}", {"port": {"extra_dhcp_opts": gone}})
            await until(lambda: not role._loop.problems, "nothing is wrong any more")

    within(60, test())
