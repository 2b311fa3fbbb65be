"""Liveness of ovs-vswitchd: an OpenFlow connection to a bridge that is held open and ends with the process.

A restarted switch has no flows, and its OVSDB does not change. Polling would leave ports without flows for as long as the
interval; the end of a connection is noticed at once.
"""

import asyncio
import contextlib
import dataclasses
import struct

_HEADER = struct.Struct("!BBHI")  # version, type, length, transaction
_HELLO, _ECHO_REQUEST, _ECHO_REPLY = 0, 2, 3
_OPENFLOW_14 = 5
_RETRY_SECONDS = 0.05  # ports have no flows until it is back


@dataclasses.dataclass(frozen=True)
class OvsWatch:
    run_directory: str  # where ovs-vswitchd has its sockets

    async def present(self, bridge: str) -> None:
        """Return when the switch serves the bridge."""
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                _, writer = await self._connect(bridge)
                writer.close()
                return
            await asyncio.sleep(_RETRY_SECONDS)

    async def gone(self, bridge: str) -> None:
        """Return when the switch does not serve it any more."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await self._connect(bridge)
            try:
                while True:
                    version, kind, length, transaction = _HEADER.unpack(await reader.readexactly(_HEADER.size))
                    body = await reader.readexactly(max(length - _HEADER.size, 0))
                    # The switch probes an idle connection and closes one that does not answer: that would look like
                    # its own end.
                    if kind == _ECHO_REQUEST:
                        writer.write(_HEADER.pack(version, _ECHO_REPLY, length, transaction) + body)
                        await writer.drain()
            finally:
                writer.close()

    async def _connect(self, bridge: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection after the OpenFlow hello of both sides: the switch serves the bridge."""
        reader, writer = await asyncio.open_unix_connection(f"{self.run_directory}/{bridge}.mgmt")
        try:
            writer.write(_HEADER.pack(_OPENFLOW_14, _HELLO, _HEADER.size, 1))
            await writer.drain()
            _, _, length, _ = _HEADER.unpack(await reader.readexactly(_HEADER.size))
            await reader.readexactly(length - _HEADER.size)
        except BaseException:
            writer.close()
            raise
        return reader, writer
