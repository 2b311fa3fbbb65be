"""The L2 role: a round that cannot be is told and tried again; what is there goes on; what is held stays."""

from __future__ import annotations

import asyncio

from neutrino.agent.l2.ownership import cookie_of
from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.agent.l2.plan import ConflictingFlows
from neutrino.agent.l2.role import L2Role
from neutrino.agent.l2.wire import Outcome, Wirer
from neutrino.agent.wires import Wires
from neutrino.model import agents
from tests.support.l2 import network, port
from tests.support.metadata import Feed, until
from tests.support.switch_host import SwitchHost


class Conflicting(Wirer):
    """Whose flows contradict each other until they do not."""

    conflict = True

    def wire(self, *args: object, **options: object) -> Outcome:
        if self.conflict:
            raise ConflictingFlows("one against another")
        return super().wire(*args, **options)  # type: ignore[arg-type]

    def find(self, *args: object, **options: object) -> object:  # type: ignore[override]
        raise ConflictingFlows("one against another")


class Watch:
    """A switch that is always there."""

    async def present(self, bridge: str) -> None:
        return None

    async def gone(self, bridge: str) -> None:
        await asyncio.Event().wait()


def test_conflicting_flows_do_not_end_the_agent() -> None:
    host, feed = SwitchHost(), Feed()
    host.wire()  # the bridges are there from before
    wirer = Conflicting(host.switch.ovsdb, host.switch.openflow, host.connections, host.wiring, host.options)
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(feed, lambda: (host.switch.ovsdb, wirer), Watch(), "br-int", describe)  # type: ignore[arg-type]

    def dataplane() -> str:
        (state,) = role.describe()
        return str(state.configurations[agents.DATAPLANE])

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        await until(lambda: dataplane() == "down: one against another")
        assert (await role.find()).problems == {"br-int": "one against another"}
        wirer.conflict = False
        host.plug("p1")
        feed.put("network", "net1", network("net1", number=1))
        feed.put("port", "p1", port("p1", 1, "net1"))
        role.synced()
        await until(lambda: dataplane() == "up")
        await until(lambda: host.tag("p1") == 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_held_port_stays_as_it_was_after_it_is_gone() -> None:
    host, feed, wires = SwitchHost(), Feed(), Wires()
    host.wire()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(
        feed,
        lambda: (host.switch.ovsdb, host.wirer),
        Watch(),  # type: ignore[arg-type]
        "br-int",
        describe,
        wires=wires,
    )

    def flows() -> object:
        return host.switch.openflow.read_flows("br-int", cookie_of("port p1"), 0xFFFFFFFFFFFFFFFF)

    def forget(*keys: tuple[str, str]) -> None:
        for kind, key in keys:
            feed.put(kind, key, None)
        role.synced()

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        for key in ("p1", "p2"):
            host.plug(key)
            feed.put("port", key, port(key, 1, "net1"))
        feed.put("network", "net1", network("net1", number=1))
        wires.hold("somebody", "p1")
        role.synced()
        await until(lambda: host.tag("p1") == host.tag("p2") == 1)
        before = flows()
        assert before
        forget(("port", "p1"), ("port", "p2"), ("network", "net1"))
        await until(lambda: host.tag("p2") == DEAD_VLAN)
        assert host.tag("p1") == 1
        assert flows() == before
        wires.free("somebody")
        await until(lambda: host.tag("p1") == DEAD_VLAN)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
