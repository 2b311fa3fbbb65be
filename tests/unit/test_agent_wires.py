"""Waiting for a port to be wired, and holding one."""

from __future__ import annotations

import asyncio

from neutrino.agent.wires import Wires


def test_a_port_is_waited_for_until_it_is_wired() -> None:
    async def test() -> None:
        wires = Wires()
        waiting = asyncio.create_task(wires.wait("p1", 30))
        for ports in (["p2"], ["p2", "p3"]):
            await asyncio.sleep(0)
            wires.set(ports)
        await asyncio.sleep(0)
        assert not waiting.done()
        wires.set(["p1"])
        assert await waiting
        assert await wires.wait("p1", 0.01)

    asyncio.run(test())


def test_one_that_is_not_wired_is_not_waited_for_for_ever() -> None:
    async def test() -> None:
        wires = Wires()
        wires.set(["p1"])
        wires.set([])  # it went
        assert not await wires.wait("p1", 0.01)

    asyncio.run(test())


def test_a_port_is_held_as_long_as_anybody_holds_it() -> None:
    wires, seen = Wires(), []
    wires.holders_changed = lambda: seen.append(wires.held)
    wires.hold("one", "p1")
    wires.hold("two", "p1")
    wires.hold("two", "p1")
    wires.free("one")
    wires.free("one")
    wires.hold("two", "p2")
    wires.free("two")
    assert seen == [{"p1"}, {"p1"}, {"p1"}, {"p2"}, set()]
