"""The L2 role before the first `synced`: whatever the cache lacks, nothing is deleted; after it, the same is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from neutrino.agent.l2.role import RECONCILE, L2Role
from neutrino.model import agents, state
from neutrino.model.kinds import KINDS
from tests.support.l2 import OPEN, group, network, port, rule
from tests.support.metadata import Feed
from tests.support.switch_host import PEER, SwitchHost
from tests.support.unsynced import Taken, eventually

NET, VLAN = network("net"), network("vlan", "vlan", 7, "physnet1")
WEB = group("web", rule(protocol=6, port_min=80, port_max=80), rule(remote_group_id="friends"))
FRIENDS = state.GroupMembers(id="friends", members=frozenset({state.Member("10.0.0.9", "fa:16:3e:00:00:09")}))
FAR = state.Forwarding(
    id="far", network_id="net", host="h2", mac_address="fa:16:3e:00:00:0c", ip_addresses=("10.0.0.12",)
)
P1, P2, P3 = port("p1", 1, groups=["open"]), port("p2", 2, groups=["web"]), port("p3", 3, "vlan", groups=["open"])
HYBRID = port("p4", 4, groups=["web"], hybrid_plug=True)
MADE = (NET, VLAN, OPEN, WEB, FRIENDS, PEER, FAR, P1, P2, P3, HYBRID)


def without(*gone: state.Object) -> tuple[state.Object, ...]:
    return tuple(each for each in MADE if each not in gone)


def changed(one: state.Object, **values: object) -> tuple[state.Object, ...]:
    return (*without(one), msgspec.structs.replace(one, **values))


@dataclass(frozen=True)
class Cause:
    name: str
    cached: tuple[state.Object, ...]
    before: Callable[[SwitchHost], None] = field(default=lambda host: None)


CAUSES = (
    Cause("everything gone from the cache", ()),
    Cause("port gone", without(P1)),
    Cause("port's admin state down", changed(P1, admin_state_up=False)),
    Cause("port bound to another host", changed(P1, active=False)),
    Cause("port on another segment", changed(P3, segment_id="elsewhere")),
    Cause("network gone", without(VLAN)),
    Cause("network's admin state down", changed(NET, admin_state_up=False)),
    Cause("security group gone from the port", changed(P2, security_groups=())),
    Cause("rule gone", changed(WEB, rules=WEB.rules[1:])),
    Cause("member gone", changed(FRIENDS, members=frozenset())),
    Cause("peer gone", without(PEER)),
    Cause("peer has another address", changed(PEER, tunneling_ip="192.0.2.99")),
    Cause("forwarding entry gone", without(FAR)),
    Cause("port security of a hybrid port off", changed(HYBRID, port_security_enabled=False)),
    Cause("hybrid port gone", without(HYBRID)),
    Cause("stale port", MADE, lambda host: host.plug("stale")),
    Cause("address of the port gone", changed(P1, fixed_ips=P1.fixed_ips[:1])),
)


class Watch:
    async def present(self, bridge: str) -> None:
        return None

    async def gone(self, bridge: str) -> None:
        await asyncio.Event().wait()


class Agent:
    def __init__(self, host: SwitchHost, objects: tuple[state.Object, ...], *, synced: bool) -> None:
        self.feed = Feed()
        for each in objects:
            kind = next(kind.name for kind in KINDS.values() if type(each) is kind.type)
            self.feed.put(kind, each.id, each)
        described = agents.AgentState(agents.OVS, "neutron-openvswitch-agent", "h1", "N/A")
        reconciler = host.new_reconciler()
        self.role = L2Role(self.feed, reconciler, Watch(), "br-int", described)  # type: ignore[arg-type]
        self.taken = Taken(self.role._queue)
        if synced:
            self.role.synced()

    async def __aenter__(self) -> Agent:
        self._task = asyncio.create_task(self.role.run())
        await self.round()
        return self

    async def round(self) -> None:
        """A whole round, with nothing left to do."""
        self.taken.clear()
        self.role._queue.put(RECONCILE)
        await self.taken.settled(RECONCILE)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def there(host: SwitchHost) -> set[str]:
    found = {f"{name} {flow}" for name in ("br-int", "br-tun", "br-phys") for flow in host.flows(name)}
    for name, bridge in host.switch.snapshot.bridges.items():
        found |= {f"{name} port {each.name} {each.tag} {each.interfaces[0].options}" for each in bridge.ports.values()}
    for family in (4, 6):
        for table, chains in host.iptables.read_rules(family).items():
            found |= {f"{family} {table} {chain} {each.text}" for chain, rules in chains.items() for each in rules}
    return found | {f"set {name} {each}" for name, each in host.iptables.read_sets().items()}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_nothing_is_deleted_before_the_first_sync(cause: Cause) -> None:
    host = SwitchHost()

    async def scenario() -> None:
        host.reconcile()
        for name in ("p1", "p2", "p3", "p4"):
            host.plug(name)
        async with Agent(host, MADE, synced=True) as agent:
            await agent.round()  # the tunnel has got its number
        cause.before(host)
        before = there(host)
        host.connections.flushed.clear()
        async with Agent(host, cause.cached, synced=False) as agent:
            await agent.round()
            assert before - there(host) == set()
            assert host.connections.flushed == []
            agent.role.synced()
            await eventually(lambda: before - there(host), "what the server does not want stays after the sync")

    asyncio.run(scenario())
