"""The sockets of all namespaces, by key, and who connects to them: its address, and the device that it came by."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import ipaddress
import logging
import os
import socket
from collections.abc import Sequence

import msgspec

from neutrino.agent.metadata.messages import METADATA_IPV6, WELL_KNOWN_PORT, Listening, Sources
from neutrino.agent.metadata.proxy.arrival import arrived_by
from neutrino.agent.metadata.proxy.door import Door
from neutrino.agent.metadata.proxy.kernel import read_device, read_mac
from neutrino.agent.metadata.proxy.serving import Serving, Visitor

LOG = logging.getLogger(__name__)
NOBODY = Sources({})
UNKNOWN_DEVICE = "?"  # deleted meanwhile: of no network, where the device matters


@dataclasses.dataclass
class _Open:
    listening: Listening
    doors: list[Door]
    kernel: socket.socket | None

    def close(self) -> None:
        """Nobody new is let in; who is inside finishes."""
        for door in self.doors:
            door.close()
        if self.kernel is not None:
            self.kernel.close()


class Listeners:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._open: dict[str, _Open] = {}

    def all(self) -> dict[str, Listening]:
        return {key: opened.listening for key, opened in self._open.items()}

    def open(self, key: str, listening: Listening, descriptors: Sequence[int]) -> None:
        """In place of what there is under the key; the new sockets serve before the old ones go."""
        if len(descriptors) != len(listening.sockets):
            for descriptor in descriptors:
                os.close(descriptor)
            raise ValueError(f"{key}: {len(descriptors)} descriptors for {len(listening.sockets)} sockets")
        made = _Open(listening, [], None)
        for kind, descriptor in zip(listening.sockets, descriptors, strict=True):
            opened = socket.socket(fileno=descriptor)
            if kind == "netlink":
                made.kernel = opened
            else:
                made.doors.append(Door(opened, functools.partial(self._visit, key)))
        before = self._open.pop(key, None)
        self._open[key] = made
        if before is not None:
            before.close()

    def set_sources(self, key: str, sources: Sources) -> None:
        opened = self._open.get(key)
        if opened is not None:
            opened.listening = msgspec.structs.replace(opened.listening, sources=sources)

    def close(self, key: str) -> None:
        opened = self._open.pop(key, None)
        if opened is not None:
            opened.close()

    async def _visit(self, key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitor = self._visitor(key, writer)
        if visitor is None:
            writer.close()
        else:
            await self._serving.serve(visitor, reader, writer)

    def _sources(self, key: str) -> Sources:
        opened = self._open.get(key)
        return opened.listening.sources if opened is not None else NOBODY

    def _visitor(self, key: str, writer: asyncio.StreamWriter) -> Visitor | None:
        peer = writer.get_extra_info("peername")
        if not peer:
            return None  # it is gone already
        if not _is_meant_for_us(writer.get_extra_info("sockname")):
            return None
        address = ipaddress.ip_address(peer[0].partition("%")[0])
        opened = self._open.get(key)
        kernel = opened.kernel if opened is not None else None
        index = arrived_by(writer.get_extra_info("socket"))
        if kernel is None or index is None:
            return None  # it is gone, or its namespace is no longer served
        device, mac = read_device(kernel, index), None
        if isinstance(address, ipaddress.IPv6Address) and address.is_link_local:
            mac = read_mac(kernel, index, str(address)) or ""
        LOG.debug("%s at %s: by device %s, MAC %s", address, key, device, mac)
        return Visitor(key, lambda: self._sources(key), str(address), device or UNKNOWN_DEVICE, mac)


def _is_meant_for_us(local: tuple[str, int]) -> bool:
    """A link-local address cannot be bound before its device is there; so all are, and only this one is answered at.

    Where a router has redirected the packets, its table has made sure of that, and the port is another.
    """
    return ":" not in local[0] or local[1] != WELL_KNOWN_PORT or local[0].partition("%")[0] == METADATA_IPV6
