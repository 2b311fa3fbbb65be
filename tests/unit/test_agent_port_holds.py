"""Waiting for a port to be wired, and holding one."""

from __future__ import annotations

import asyncio

from neutrino.agent.runtime.context import PortHolds


def test_a_port_is_waited_for_until_it_is_wired() -> None:
    async def test() -> None:
        port_holds = PortHolds()
        waiting = asyncio.create_task(port_holds.wait_wired("p1", 30))
        for ports in (["p2"], ["p2", "p3"]):
            await asyncio.sleep(0)
            port_holds.set_wired(ports)
        await asyncio.sleep(0)
        assert not waiting.done()
        port_holds.set_wired(["p1"])
        assert await waiting
        assert await port_holds.wait_wired("p1", 0.01)

    asyncio.run(test())


def test_one_that_is_not_wired_is_not_waited_for_for_ever() -> None:
    async def test() -> None:
        port_holds = PortHolds()
        port_holds.set_wired(["p1"])
        port_holds.set_wired([])  # it went
        assert not await port_holds.wait_wired("p1", 0.01)

    asyncio.run(test())


def test_a_port_is_held_as_long_as_anybody_holds_it() -> None:
    port_holds, seen = PortHolds(), []
    port_holds.on_change = lambda: seen.append(port_holds.held)
    port_holds.hold("one", "p1")
    port_holds.hold("two", "p1")
    port_holds.hold("two", "p1")
    port_holds.release("one")
    port_holds.release("one")
    port_holds.hold("two", "p2")
    port_holds.release("two")
    assert seen == [{"p1"}, {"p1"}, {"p1"}, {"p2"}, set()]
