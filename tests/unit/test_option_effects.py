"""Options of agents, each from the configuration file to what it changes on the host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from oslo_config import cfg

from neutrino.agent.bgp.build import describe as describe_bgp
from neutrino.agent.config import configuration
from neutrino.agent.dhcp.build import describe as describe_dhcp
from neutrino.agent.l2.bridges import plan_bridges, read_plugged
from neutrino.agent.l2.build import describe as describe_l2
from neutrino.agent.l2.build import l2_options
from neutrino.agent.l2.tunnels import plan_tunnels
from neutrino.agent.l3.build import build as build_l3
from neutrino.agent.l3.config import describe as describe_l3
from neutrino.agent.l3.config import l3_options, refusal
from neutrino.agent.l3.services.keepalived.render import render_keepalived
from neutrino.agent.metadata.build import describe as describe_metadata
from neutrino.agent.runtime import loop
from neutrino.agent.runtime.context import RoleContext
from neutrino.agent.runtime.switch import Switch
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.model.agents import AgentState
from neutrino.model.routing import Router
from neutrino.model.state import Host as TunnelHost
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from tests.fakes.openvswitch import FakeOpenVSwitch
from tests.support.databases import prepared_sqlite
from tests.support.l3_host import NAMESPACE, Feed, Host, run
from tests.support.routing import GATEWAY, interface, membership, rendered, router

Configured = Callable[[str], cfg.ConfigOpts]
GATEWAY_TAP, INTERNAL_TAP = "tapeeeeeeee-aa", "tap00000001-aa"


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    def read(text: str) -> cfg.ConfigOpts:
        path = tmp_path / "agent.conf"
        path.write_text(f"[DEFAULT]\nhost = h1\nstate_path = {tmp_path}\n{text}")
        return configuration([str(path)])

    return read


# --- routers ----------------------------------------------------------------------------------------------------------


def plugged(host: Host) -> dict[str, str]:
    """The bridge of each router port."""
    bridges = host.ovsdb.read().bridges
    return {name: bridge for bridge, row in bridges.items() for name in row.ports if name.startswith("tap")}


def test_external_network_bridge_gets_the_gateways_port(configured: Configured, tmp_path: Path) -> None:
    bridge = l3_options(configured("external_network_bridge = br-out\n")).external_network_bridge
    host = Host(tmp_path, external_network_bridge=bridge)

    async def applied(where: dict[str, str]) -> None:
        await host.until(lambda: plugged(host) == where, "not plugged")
        await host.until(lambda: "r1" in host.role._applied and not host.problems, "not applied")
        await host.role.finish()
        assert await host.verified()

    async def first() -> None:
        host.send(router(interface(1)))
        await host.until(lambda: "br-out" in host.problems.get("r1", ""), "a bridge that is missing is no problem")
        host.ovsdb.apply([SetBridge("br-out")])
        host.send(router(interface(1), name="again"))
        await applied({GATEWAY_TAP: "br-out", INTERNAL_TAP: "br-int"})

    async def without() -> None:
        await applied({GATEWAY_TAP: "br-int", INTERNAL_TAP: "br-int"})

    async def again() -> None:
        await applied({GATEWAY_TAP: "br-out", INTERNAL_TAP: "br-int"})
        host.send(None)
        await host.until(lambda: not plugged(host), "ports of a deleted router are left")

    run(host, first)
    host.settings = {}
    host.restart()
    run(host, without)
    host.settings = {"external_network_bridge": bridge}
    host.restart()
    run(host, again)


def test_send_arp_interval_is_the_time_between_announcements(configured: Configured, tmp_path: Path) -> None:
    conf = configured("send_arp_interval = 7\n")
    role = build_l3(RoleContext(conf, Feed(), Switch(f"unix:{tmp_path}/db.sock", 1.0)))
    assert role.announce_interval == 7

    def announcements(interval: float, wanted: int) -> int:
        """How often the address was announced, when it is `wanted` times, or after the time of the fixed repetitions."""
        host = Host(tmp_path / str(interval), announce=interval)

        def found() -> int:
            return host.netlink.announced.count((NAMESPACE, "qr-00000001-aa", "10.0.1.1"))

        async def test() -> None:
            host.send(router(interface(1)))
            await host.until(lambda: found() >= wanted, "it is not announced")

        run(host, test)
        return found()

    assert announcements(0.02, wanted=20) >= 20
    assert announcements(3600.0, wanted=1) == 1


@pytest.mark.parametrize("kind", ["PASS", "AH"])
def test_ha_vrrp_auth_is_in_keepalived_s_configuration(configured: Configured, kind: str) -> None:
    def keepalived(text: str) -> list[str]:
        options = l3_options(configured(text))
        failover = rendered(router(interface(1), ha=membership()), options).failover
        assert failover is not None
        lines = [line.strip() for line in render_keepalived(failover, options, "/fifo").splitlines()]
        return [line for line in lines if line.startswith("auth")]

    assert keepalived(f"ha_vrrp_auth_type = {kind}\nha_vrrp_auth_password = secret\n") == [
        "authentication {",
        f"auth_type {kind}",
        "auth_pass secret",
    ]
    assert keepalived(f"ha_vrrp_auth_type = {kind}\n") == [], "without a password there is nothing to check"


UNFIT: dict[str, tuple[str, Router, Router, str]] = {
    "without a gateway": (
        "handle_internal_only_routers = false\n",
        router(),
        router(gateway=None),
        "it has no gateway, and handle_internal_only_routers is off",
    ),
    "distributed": (
        "agent_mode = legacy\n",
        router(),
        router(distributed=True),
        "it is distributed, and agent_mode is legacy",
    ),
    "another external network": (
        "gateway_external_network_id = outside\n",
        router(),
        router(gateway=msgspec.structs.replace(GATEWAY, network_id="elsewhere")),
        "its gateway is not on gateway_external_network_id=outside",
    ),
}


@pytest.mark.parametrize(("text", "fits", "unfit", "reason"), UNFIT.values(), ids=UNFIT)
def test_a_router_that_does_not_fit_is_refused_and_removed(
    configured: Configured, tmp_path: Path, text: str, fits: Router, unfit: Router, reason: str
) -> None:
    options = l3_options(configured(text))
    assert (refusal(fits, options), refusal(unfit, options)) == (None, reason)
    name = text.partition(" ")[0]
    host = Host(tmp_path, **{name: getattr(options, name)})

    async def test() -> None:
        host.send(unfit)
        await host.until(lambda: host.problems == {"r1": reason}, "no problem is reported")
        assert not host.is_there
        host.send(fits)
        await host.until(lambda: host.is_there and not host.problems, "one that fits is not served")
        host.send(unfit)
        await host.until(lambda: not host.is_there and host.problems == {"r1": reason}, "it is served")
        assert not plugged(host)
        host.send(None)
        await host.until(lambda: not host.problems, "the problem of a deleted router stays")

    run(host, test)


# --- tunnels and patches ----------------------------------------------------------------------------------------------

TUNNELS = "[ovs]\nlocal_ip = 192.0.2.1\n{ovs}[agent]\ntunnel_types = vxlan,gre\nl2_population = true\n{agent}"
PEER = TunnelHost(id="h2", tunneling_ip="192.0.2.2", tunnel_types=("vxlan", "gre"))


@pytest.fixture
def switch() -> FakeOpenVSwitch:
    return FakeOpenVSwitch()


def test_dont_fragment_and_tunnel_csum_are_settings_of_tunnels(configured: Configured, switch: FakeOpenVSwitch) -> None:
    def applied(agent: str) -> set[tuple[str, str]]:
        options = l2_options(configured(TUNNELS.format(ovs="", agent=agent)))
        switch.ovsdb.apply(plan_bridges(options, switch.ovsdb.read()).changes)
        switch.ovsdb.apply(plan_tunnels(options, [PEER], switch.ovsdb.read()).changes)
        assert not plan_tunnels(options, [PEER], switch.ovsdb.read()).changes
        ports = switch.ovsdb.read().bridges["br-tun"].ports
        tunnels = [ports[name].interfaces[0].options for name in ("vxlan-c0000202", "gre-c0000202")]
        return {(each["df_default"], each["csum"]) for each in tunnels}

    assert applied("") == {("true", "false")}
    assert applied("dont_fragment = false\n") == {("false", "false")}, "of tunnels that exist, too"
    assert applied("tunnel_csum = true\n") == {("true", "true")}


def test_vxlan_udp_port_is_that_of_tunnels_also_when_it_is_the_default_again(
    configured: Configured, switch: FakeOpenVSwitch
) -> None:
    def applied(agent: str) -> str:
        options = l2_options(configured(TUNNELS.format(ovs="", agent=agent)))
        switch.ovsdb.apply(plan_bridges(options, switch.ovsdb.read()).changes)
        switch.ovsdb.apply(plan_tunnels(options, [PEER], switch.ovsdb.read()).changes)
        assert not plan_tunnels(options, [PEER], switch.ovsdb.read()).changes
        ports = switch.ovsdb.read().bridges["br-tun"].ports
        assert "dst_port" not in ports["gre-c0000202"].interfaces[0].options
        return ports["vxlan-c0000202"].interfaces[0].options.get("dst_port", "4789")

    assert [applied(text) for text in ("", "vxlan_udp_port = 8472\n", "")] == ["4789", "8472", "4789"]


def test_peer_patch_ports_have_the_configured_names(configured: Configured, switch: FakeOpenVSwitch) -> None:
    names = "int_peer_patch_port = to-tunnels\ntun_peer_patch_port = to-instances\n"
    options = l2_options(configured(TUNNELS.format(ovs=names, agent="")))
    switch.ovsdb.apply(plan_bridges(options, switch.ovsdb.read()).changes)
    bridges = switch.ovsdb.read().bridges
    ends = bridges["br-int"].ports["to-tunnels"], bridges["br-tun"].ports["to-instances"]
    assert [end.interfaces[0].options["peer"] for end in ends] == ["to-instances", "to-tunnels"]
    assert not {"patch-tun", "patch-int"} & {*bridges["br-int"].ports, *bridges["br-tun"].ports}
    found = read_plugged(options, [], switch.ovsdb.read())
    assert (found.patch_tun, found.patch_int) == tuple(end.interfaces[0].ofport for end in ends), "flows use them"


# --- reports and the agent's end --------------------------------------------------------------------------------------

DESCRIBED = {
    "l2": describe_l2,
    "l3": describe_l3,
    "dhcp": describe_dhcp,
    "metadata": describe_metadata,
    "bgp": describe_bgp,
}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    database = Database(prepared_sqlite(tmp_path / "test.sqlite"), sqlite_durable=False)
    yield Registry(database)
    database.close()


@pytest.mark.parametrize("role", DESCRIBED)
def test_log_agent_heartbeats_makes_the_server_log_each_report(
    configured: Configured, registry: Registry, caplog: pytest.LogCaptureFixture, role: str
) -> None:
    def logged(text: str) -> int:
        state: AgentState = DESCRIBED[role](configured(text))
        registry.report(state)
        caplog.clear()
        with caplog.at_level(logging.INFO, "neutrino.server.hosts.registry"):
            registry.report(state)
            registry.report(state)
        return sum(f"{state.agent_type} on h1 reported" in each.getMessage() for each in caplog.records)

    needed = "[bgp]\nbgp_router_id = 192.0.2.1\n"  # of the role bgp
    assert logged(f"{needed}[agent]\nlog_agent_heartbeats = true\n") == 2
    assert logged(needed) == 0


class Idle:
    """A feed without any message, and a role that completes its work when `done` is set."""

    name, state = "idle", None

    def __init__(self) -> None:
        self.done, self.settled = asyncio.Event(), False

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def changes(self) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    def on_synced(self, call: object) -> None: ...

    def report(self, states: object, applied: int) -> None: ...

    def describe(self) -> tuple[()]:
        return ()

    def applied(self) -> None:
        return None

    async def finish(self) -> None:
        await self.done.wait()
        self.settled = True


def test_quitting_rpc_timeout_is_the_time_to_complete_running_work() -> None:
    async def ended(quitting: float, after: float) -> bool:
        """Whether the work that is done `after` some seconds was completed before the agent's end."""
        idle, stop = Idle(), asyncio.Event()
        stop.set()
        asyncio.get_running_loop().call_later(after, idle.done.set)
        await loop.run(idle, [idle], loop.Reporter(idle, lambda: 30.0), stop, quitting)  # type: ignore[arg-type, list-item]
        return idle.settled

    assert asyncio.run(ended(30.0, 0.1))
    assert not asyncio.run(ended(0.1, 5.0))
