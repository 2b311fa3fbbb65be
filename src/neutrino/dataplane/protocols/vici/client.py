"""A connection to charon's VICI socket: commands, and events that charon sends on its own."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Self

from neutrino.dataplane.protocols.vici.protocol import (
    MAX_PACKET,
    Message,
    Refused,
    Type,
    ViciError,
    ViciPacket,
    decode,
    encode,
)

CONNECT_SECONDS = 20.0  # charon opens its socket a moment after its start
POLL_SECONDS = 0.05
ANSWER_SECONDS = 30.0


class Vici:
    """One command at a time. `notify` is called with the name of each event that was registered."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, notify: Callable[[str], None]
    ) -> None:
        self._reader, self._writer, self._notify = reader, writer, notify
        self._answers: asyncio.Queue[ViciPacket] = asyncio.Queue()
        self._streamed: tuple[str, list[Message]] = ("", [])
        self._lock = asyncio.Lock()
        self._reading = asyncio.create_task(self._read(), name="read vici")

    @classmethod
    async def open(cls, path: Path, notify: Callable[[str], None]) -> Self:
        """Waits until charon listens; ViciError if it does not."""
        deadline = asyncio.get_running_loop().time() + CONNECT_SECONDS
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(path), limit=MAX_PACKET)
                return cls(reader, writer, notify)
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise ViciError(f"charon does not listen at {path}: {error}") from None
            await asyncio.sleep(POLL_SECONDS)

    @property
    def is_closed(self) -> bool:
        return self._reading.done()

    async def wait_closed(self) -> None:
        """Until charon has closed the connection, as when it exits."""
        await asyncio.wait([self._reading])

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # --- commands -------------------------------------------------------------------------------------------------

    async def register(self, *events: str) -> None:
        for event in events:
            async with self._lock:
                await self._ask(ViciPacket(Type.REGISTER, event))

    async def command(self, name: str, message: Message | None = None) -> Message:
        """The answer; ViciError if charon refuses it."""
        async with self._lock:
            answer = (await self._ask(ViciPacket(Type.REQUEST, name, message or {}))).message
        if answer.get("success", "yes") != "yes":
            raise Refused(f"charon refuses {name}: {answer.get('errmsg', 'without a reason')}")
        return answer

    async def stream(self, name: str, event: str, message: Message | None = None) -> list[Message]:
        """The events that charon sends in answer to a command."""
        async with self._lock:
            await self._ask(ViciPacket(Type.REGISTER, event))
            found: list[Message] = []
            self._streamed = (event, found)
            try:
                await self._ask(ViciPacket(Type.REQUEST, name, message or {}))
            finally:
                self._streamed = ("", [])
            await self._ask(ViciPacket(Type.UNREGISTER, event))
        return found

    async def _ask(self, packet: ViciPacket) -> ViciPacket:
        if self.is_closed:
            raise ViciError("charon has closed the connection")
        self._writer.write(encode(packet))
        answering = asyncio.create_task(self._answers.get())
        try:
            await asyncio.wait([answering, self._reading], timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not answering.done():  # no answer in time, or the caller is cancelled
                answering.cancel()
                # What charon answers later would be taken for the answer to another command.
                self._reading.cancel()
        if not answering.done() or answering.cancelled():
            raise ViciError(f"charon does not answer {packet.name}")
        answer = answering.result()
        if answer.type in (Type.UNKNOWN_REQUEST, Type.UNKNOWN_EVENT):
            raise ViciError(f"charon does not know {packet.name}")
        return answer

    async def _read(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ViciError):
            while True:
                (size,) = struct.unpack("!I", await self._reader.readexactly(4))
                if size > MAX_PACKET:
                    return
                packet = decode(await self._reader.readexactly(size))
                if packet.type is not Type.EVENT:
                    self._answers.put_nowait(packet)
                elif packet.name == self._streamed[0]:
                    self._streamed[1].append(packet.message)
                else:
                    self._notify(packet.name)
