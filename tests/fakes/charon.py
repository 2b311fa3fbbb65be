"""A charon that speaks VICI on a socket: connections, keys and tunnels as values, without packets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neutrino.dataplane.protocols.vici.protocol import Type, ViciPacket, decode, encode


class FakeCharon:
    """`up`: the names of connections with a tunnel; `refuses`: a text in what it does not take; `unanswered`: the
    beginning of names of connections whose peer does not answer.
    """

    def __init__(self) -> None:
        self.connections: dict[str, Mapping[str, Any]] = {}
        self.keys: dict[str, Mapping[str, Any]] = {}
        self.up: set[str] = set()
        self.initiated: list[tuple[str, str]] = []
        self.terminated: list[str] = []
        self.refuses = ""
        self.unanswered = ""
        self._writers: list[asyncio.StreamWriter] = []
        self._registered: set[str] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(path))

    async def exit(self) -> None:
        """It forgets what it had, as a process does."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        self.connections.clear()
        self.keys.clear()
        self.up.clear()

    def tunnel(self, name: str, *, up: bool) -> None:
        """A tunnel comes up or goes down, which charon tells."""
        (self.up.add if up else self.up.discard)(name)
        for writer in self._writers:
            writer.write(encode(ViciPacket(Type.EVENT, "child-updown", {"up": "yes" if up else "no"})))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack("!I", await reader.readexactly(4))
                for answer in self._answers(decode(await reader.readexactly(size))):
                    writer.write(encode(answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answers(self, packet: ViciPacket) -> list[ViciPacket]:
        if packet.type in (Type.REGISTER, Type.UNREGISTER):
            return [ViciPacket(Type.CONFIRM)]
        if packet.name == "list-sas":
            return [
                *(ViciPacket(Type.EVENT, "list-sa", self._association(name)) for name in self.up),
                *(ViciPacket(Type.EVENT, "list-sa", {name: {"state": "CONNECTING"}}) for name in self._calling()),
                ViciPacket(Type.RESPONSE),
            ]
        return [ViciPacket(Type.RESPONSE, "", self._command(packet.name, packet.message))]

    def _calling(self) -> list[str]:
        return [name for name in self.connections if self.unanswered and name.startswith(self.unanswered)]

    def _association(self, name: str) -> Mapping[str, Any]:
        return {name: {"state": "ESTABLISHED", "child-sas": {"net-0-1": {"name": "net-0", "state": "INSTALLED"}}}}

    def _command(self, name: str, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "load-conn" and self.refuses and self.refuses in str(message):
            return {"success": "no", "errmsg": "invalid value"}
        match name:
            case "get-conns":
                return {"conns": list(self.connections)}
            case "get-shared":
                return {"keys": list(self.keys)}
            case "load-conn":
                self.connections |= message
            case "load-shared":
                self.keys[message["id"]] = message
            case "unload-conn":
                del self.connections[message["name"]]
            case "unload-shared":
                del self.keys[message["id"]]
            case "initiate":
                if message["ike"] not in self.connections:
                    return {"success": "no", "errmsg": f"CHILD_SA config '{message['child']}' not found"}
                self.initiated.append((message["ike"], message["child"]))
            case "terminate":
                self.terminated.append(message["ike"])
                if message["ike"] not in self.up:
                    return {"success": "no", "errmsg": "no matching SAs to terminate found"}
                self.up.discard(message["ike"])
            case _:
                raise AssertionError(f"charon has no command {name}")
        return {"success": "yes"}
