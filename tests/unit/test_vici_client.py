"""The connection to charon: an answer belongs to its own command, also if that command was cancelled meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from pathlib import Path

import pytest

from neutrino.dataplane.protocols.vici.client import Vici
from neutrino.dataplane.protocols.vici.protocol import Type, ViciError, ViciPacket, decode, encode


def test_the_answer_to_a_cancelled_command_is_not_taken_for_that_of_the_next(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: list[str] = []
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                (size,) = struct.unpack("!I", await reader.readexactly(4))
                waiting.append(decode(await reader.readexactly(size)).name)
                asked.set()
                if len(waiting) > 1:
                    for name in waiting:
                        writer.write(encode(ViciPacket(Type.RESPONSE, message={"to": name})))
        writer.close()

    async def run() -> None:
        path = tmp_path / "vici"
        server = await asyncio.start_unix_server(answer_late, path)
        vici = await Vici.open(path, lambda event: None)
        first = asyncio.create_task(vici.command("first"))
        await asked.wait()
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        with pytest.raises(ViciError, match="closed"):
            assert (await vici.command("second"))["to"] == "second"
        await vici.close()
        server.close()

    asyncio.run(run())
