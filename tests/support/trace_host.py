"""Answers of a lab host to questions of traces: a process on the host that is built as its agent is.

As a program: reads questions, one JSON document in a line, and prints answers likewise. The agent keeps running.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from neutrino.agent import main
from neutrino.agent.runtime.context import RoleContext
from neutrino.agent.trace.build import build
from neutrino.model.trace import HostAnswer, Packet, Point, PointKind, Question
from tests.support.lab_control import Lab

ROOT = Path(__file__).parents[2]
TCP, UDP, ICMP = 6, 17, 1


_running: dict[tuple[str, str], subprocess.Popen[str]] = {}  # by lab and host


def ask(lab: Lab, host: str, *questions: Question) -> list[HostAnswer]:
    """Answers of a process that is started with the first question; `stop_answering` ends it."""
    key = str(lab.paths.host(host)), host
    process = _running.get(key)
    if process is None or process.poll() is not None:
        files = [str(each) for each in lab.agent_config_files(host)]
        # -P: the script's own directory must not precede, and the tests' package is found by its path.
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.trace_host import answer; answer()"
        command = [sys.executable, "-P", "-c", code, *files]
        process = _running[key] = lab.popen(host, command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    found = []
    for each in questions:
        process.stdin.write(msgspec.json.encode(each).decode() + "\n")
        process.stdin.flush()
        found.append(msgspec.json.decode(process.stdout.readline(), type=HostAnswer))
    return found


def stop_answering(lab: Lab) -> None:
    """End the processes on the lab's hosts: the server sends queries to whoever connected last as a host."""
    for host in lab.hosts:
        process = _running.pop((str(lab.paths.host(host)), host), None)
        if process is not None:
            process.communicate()


def answer() -> None:
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_answer(sys.argv[1:]))


async def _answer(files: Sequence[str]) -> None:
    """Answer the questions of standard input until it ends."""
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
        while line := await asyncio.to_thread(sys.stdin.readline):
            found = await tracer.answer(msgspec.json.decode(line, type=Question))
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
            sys.stdout.flush()
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


def underlay_address(host: str) -> str:
    return f"10.255.0.{host.removeprefix('h')}"


def follow(lab: Lab, host: str, question: Question) -> list[tuple[str, HostAnswer]]:
    """Ask host after host, each about the packet as the one before it has sent it."""
    answers: list[tuple[str, HostAnswer]] = []
    waiting = [(host, question)]
    while waiting and len(answers) < 6:
        where, asked = waiting.pop(0)
        (found,) = ask(lab, where, asked)
        answers.append((where, found))
        for last in found.exits:
            if last.point is not None and last.point.kind is PointKind.TUNNEL:
                peer = f"h{last.point.peer.rpartition('.')[2]}"
                arriving = msgspec.structs.replace(last.point, peer=underlay_address(where))
                waiting.append((peer, Question(point=arriving, packet=last.packet, flows=asked.flows)))
    return answers


def text_of(answers: list[tuple[str, HostAnswer]]) -> str:
    return "\n".join(f"--- {host}\n{show(found)}" for host, found in answers)
