"""Links by which packets leave the host, and flows of others: what the L2 role reports of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable

from neutrino.agent.guard.gate import Bridges, GuardOptions
from neutrino.agent.l2 import links
from neutrino.agent.l2.links import link_devices, state_of
from neutrino.agent.l2.role import L2Role
from neutrino.agent.runtime.context import Intervals
from neutrino.dataplane.netlink.api import SetDevice
from neutrino.dataplane.netlink.values import HOST, Device
from neutrino.dataplane.openflow.api import Flow
from neutrino.dataplane.ovsdb.api import MARK, SetBridge, SetPort
from neutrino.feed.messages import Report
from neutrino.metrics import catalog
from neutrino.model import agents
from neutrino.model.state import Host
from neutrino.server.feed.reports.rules import refusal
from tests.fakes.netlink import FakeNetlink
from tests.support.metadata import Feed, until
from tests.support.switch_host import OPTIONS, SwitchHost
from tests.unit.test_l2_role import Watch

DESCRIPTION = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
ON_BRIDGE = dataclasses.replace(OPTIONS, underlay_bridge="br-underlay")


def test_links_are_the_uplinks_of_the_bridges_with_the_tunnel_address_and_of_physical_networks() -> None:
    ovsdb = SwitchHost(ON_BRIDGE).switch.ovsdb
    ovsdb.apply(
        [
            SetBridge("br-underlay"),
            SetPort("br-underlay", "br-underlay", "internal"),
            SetPort("br-underlay", "bond0a"),
            SetPort("br-phys", "phy-br-phys", "patch", external_ids={MARK: "patch"}),
            SetPort("br-phys", "tap1", external_ids={"iface-id": "p1"}),
            SetPort("br-phys", "veth-ours", external_ids={MARK: "extension"}),
            SetPort("br-phys", "dpdk0", "dpdk"),
            SetPort("br-phys", "eth2", "system"),
        ]
    )
    physical = "physical network physnet1"
    wanted = {"bond0a": links.UNDERLAY, "eth1": physical, "eth2": physical}
    assert link_devices(ON_BRIDGE, ovsdb.read()) == wanted
    of_device = dataclasses.replace(OPTIONS, underlay_bridge="eth0")
    assert link_devices(of_device, ovsdb.read()) == {"eth0": links.UNDERLAY, "eth1": physical, "eth2": physical}
    assert link_devices(dataclasses.replace(OPTIONS, bridge_mappings=(("x", "none"),)), ovsdb.read()) == {}


def test_states() -> None:
    assert state_of(None) == "missing"
    assert state_of(Device("eth0", up=False, carrier=False)) == "disabled"
    assert state_of(Device("eth0", up=True, carrier=False)) == "no carrier"
    assert state_of(Device("eth0", up=True, carrier=True)) == "up"


def make_role(host: SwitchHost, feed: Feed, **values: object) -> L2Role:
    role = L2Role(
        feed,
        host.reconciler,
        Watch(),  # type: ignore[arg-type]
        "br-int",
        DESCRIPTION,
        intervals=Intervals(check=0.01, repair=0.01),
        **values,  # type: ignore[arg-type]
    )
    role.synced()
    return role


def reported(role: L2Role) -> dict[str, object]:
    (state,) = role.describe()
    report = Report(states=(state,), serial=1)
    assert refusal(report, "h1", ("l2",), {}) == "", "the server takes it"
    return state.configurations


def test_a_link_that_goes_down_is_reported_as_a_problem_and_a_metric() -> None:
    host, feed, netlink = SwitchHost(), Feed(), FakeNetlink()
    netlink.add_device(HOST, "eth1", "")
    netlink.apply(HOST, [SetDevice("eth1", up=True)])
    read = links.reader(OPTIONS, lambda: host.switch.ovsdb, netlink)
    soon: list[None] = []

    async def scenario() -> None:
        role = make_role(host, feed, read_links=read, dataplane_changed=lambda: soon.append(None))
        running = asyncio.create_task(role.run())

        def shows(state: str) -> bool:
            return reported(role).get(agents.LINKS) == {"eth1": {"use": "physical network physnet1", "state": state}}

        def metric() -> dict[tuple[str, ...], float]:
            return {labels: value for one, labels, value in role.measures() if one is catalog.LINK_UP}

        await until(lambda: shows("up"))
        assert metric() == {("eth1", "physical network physnet1"): 1.0}
        soon.clear()
        netlink.apply(HOST, [SetDevice("eth1", up=False)])
        await until(lambda: shows("disabled"))
        assert metric() == {("eth1", "physical network physnet1"): 0.0}
        assert soon, "it does not wait for the next report"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_flows_of_others_are_reported_left_alone_and_a_difference_for_verify() -> None:
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    guarded = Bridges(
        lambda: host.switch.ovsdb, host.switch.openflow, GuardOptions(), "br-int", ("br-tun",), ("br-phys",)
    )
    foreign = Flow(table=0, priority=40000, match="tcp", actions="drop", cookie=0x666)

    async def scenario() -> None:
        role = make_role(host, feed, read_foreign=lambda: guarded.read().foreign)
        running = asyncio.create_task(role.run())
        await until(lambda: reported(role).get(agents.DATAPLANE) == "up")
        assert "foreign" not in str(reported(role)[agents.PROBLEMS])
        host.switch.openflow.apply_flows("br-int", add=[foreign], delete=[])
        await until(lambda: "foreign flows on br-int" in str(reported(role)[agents.PROBLEMS]))
        text = str(reported(role)[agents.PROBLEMS])
        assert "1 that are not this agent's, such as cookie=0x666" in text
        feed.is_synced = True
        found = await role.find()
        assert found.plan.splitlines()[-1].startswith("foreign flow on br-int: cookie=0x666,table=0,priority=40000")
        assert foreign in host.switch.openflow.read_flows("br-int", 0x666, 2**64 - 1), "it is not the agent's"
        host.switch.openflow.apply_flows("br-int", add=[], delete=[foreign])
        await until(lambda: "foreign" not in str(reported(role)[agents.PROBLEMS]))
        assert "foreign" not in (await role.find()).plan
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_rules_of_the_host_that_drop_tunnels_are_reported_and_a_difference_for_verify() -> None:
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    dropped, asked = ["chain INPUT of this host drops UDP port 4789 (vxlan) from 192.0.2.2"], []

    def rules(kinds: Iterable[str], local: str, peer: str) -> list[str]:
        asked.append((local, peer))
        return dropped

    async def scenario() -> None:
        role = make_role(host, feed, tunnel_rules=rules)
        for number in (1, 2, 3):
            feed.state.objects["host"][f"h{number}"] = Host(id=f"h{number}", tunneling_ip=f"192.0.2.{number}")
        running = asyncio.create_task(role.run())
        key = "foreign rules of this host"
        await until(lambda: key in str(reported(role)[agents.PROBLEMS]))
        assert dropped[0] in str(reported(role)[agents.PROBLEMS])
        assert set(asked) == {(host.reconciler.options.local_ip, "192.0.2.2")}, "one peer, which is another host"
        feed.is_synced = True
        assert (await role.find()).plan.splitlines()[-1] == f"foreign rule: {dropped[0]}"
        dropped.clear()
        await until(lambda: key not in str(reported(role)[agents.PROBLEMS]))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_where_it_is_permitted_flows_of_others_are_removed_whenever_they_come() -> None:
    """As on a host that was taken over, or with the option for it."""
    host, feed = SwitchHost(), Feed()
    options = GuardOptions(despite=frozenset({"foreign_flows"}))
    guarded = Bridges(lambda: host.switch.ovsdb, host.switch.openflow, options, "br-int", ("br-tun",), ("br-phys",))
    host.reconciler.tables.foreign = guarded.removable
    host.reconcile()
    foreign = Flow(table=0, priority=40000, match="tcp", actions="drop", cookie=0x666)

    async def scenario() -> None:
        role = make_role(host, feed)
        running = asyncio.create_task(role.run())
        await until(lambda: reported(role).get(agents.DATAPLANE) == "up")
        host.switch.openflow.apply_flows("br-int", add=[foreign], delete=[])
        await until(lambda: not host.switch.openflow.read_flows("br-int", 0x666, 2**64 - 1))
        await until(lambda: agents.LAST_REPAIR in reported(role))
        repair = reported(role)[agents.LAST_REPAIR]
        assert isinstance(repair, dict)
        assert repair["br-int"] == "0 missing or changed, 1 too many"
        assert len(str(repair["at"])) == len("2026-01-01T00:00:00Z"), "the status shows when"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
