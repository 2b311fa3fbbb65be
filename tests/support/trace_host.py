"""Answers of a lab host to questions of traces: a process on the host that is built as its agent is.

As a program: its first argument has questions, one JSON document in a line; it prints answers likewise. The agent keeps
running.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from neutrino.agent import main
from neutrino.agent.context import RoleContext
from neutrino.agent.trace.build import build
from neutrino.model.trace import HostAnswer, Packet, Point, PointKind, Question
from tests.support.lab_control import Lab

ROOT = Path(__file__).parents[2]
TCP, UDP, ICMP = 6, 17, 1


def ask(lab: Lab, host: str, *questions: Question) -> list[HostAnswer]:
    files = [str(each) for each in lab.agent_config_files(host)]
    # -P: the script's own directory must not precede, and the tests' package is found by its path.
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.trace_host import answer; answer()"
    text = b"\n".join(msgspec.json.encode(each) for each in questions).decode()
    done = lab.run(host, [sys.executable, "-P", "-c", code, text, *files])
    return [msgspec.json.decode(line, type=HostAnswer) for line in done.stdout.splitlines()]


def answer() -> None:
    logging.basicConfig(level=logging.WARNING)
    questions = [msgspec.json.decode(line, type=Question) for line in sys.argv[1].splitlines()]
    for found in asyncio.run(_answer(sys.argv[2:], questions)):
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")


async def _answer(files: Sequence[str], questions: Sequence[Question]) -> list[HostAnswer]:
    conf = main._configuration(files)
    client, switch = main._feed(conf, cache=None), main._switch(conf)
    context = RoleContext(conf, client, switch)
    roles = main._roles(context)
    feed = asyncio.create_task(client.run())
    try:
        async with asyncio.timeout(main.SYNC_SECONDS):
            await client.wait_synced()
        tracer = build(context, roles)
        assert tracer is not None
        return [await tracer.answer(each) for each in questions]
    finally:
        feed.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feed
        await asyncio.to_thread(switch.close)


def from_port(port_id: str, packet: Packet, *, flows: bool = True) -> Question:
    return Question(point=Point(kind=PointKind.PORT, port_id=port_id), packet=packet, flows=flows)


def tcp(eth: tuple[str, str], source: str, destination: str, port: int, **values: Any) -> Packet:
    ends = {"eth_src": eth[0], "eth_dst": eth[1], "source": source, "destination": destination}
    ports = {"source_port": 40000, "destination_port": port}
    return Packet(**{**ends, **ports, "protocol": TCP, **values})


def show(found: HostAnswer) -> str:
    """An answer as lines, for failed assertions."""
    lines = [
        f"{each.source} {each.where} {each.table if each.table is not None else ''} {each.effect} "
        f"[{each.owner_kind} {each.owner_id}] {each.note} {each.text}"
        for each in found.observations
    ]
    lines += [f"exit after {each.at}: {each.point} {each.cause} {each.note} {each.packet}" for each in found.exits]
    return "\n".join((*lines, *(f"drift: {each}" for each in found.drift), f"position {found.position}"))
