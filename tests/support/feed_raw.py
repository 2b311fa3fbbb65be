"""A host that sends any message, also those that a correct client would not."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import InvalidStatus

from neutrino.feed.address import Address
from neutrino.feed.messages import HOST_HEADER, Message, Synced, encode, read_from_server


class Raw:
    def __init__(self, address: Address, host: str, credential: str) -> None:
        self._address = address
        self._headers = {HOST_HEADER: host, "Authorization": f"Bearer {credential}"}
        self._connection: ClientConnection | None = None
        self.binary = 0  # number of binary messages received

    async def __aenter__(self) -> Self:
        how: dict[str, Any] = {"compression": None, "max_queue": 1, "close_timeout": 0.2, "proxy": None}
        if self._address.path:
            self._connection = await unix_connect(self._address.path, additional_headers=self._headers, **how)
        else:
            self._connection = await connect(str(self._address), additional_headers=self._headers, **how)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def refused(self) -> int:
        """The HTTP status of the refusal."""
        try:
            async with self:
                return 0
        except InvalidStatus as error:
            return error.response.status_code

    async def send(self, *messages: Message) -> None:
        await self.send_data(encode(messages))

    async def send_data(self, data: bytes) -> None:
        assert self._connection is not None
        await self._connection.send(data, text=True)

    async def receive(self) -> list[Any]:
        assert self._connection is not None
        async with asyncio.timeout(10):
            data = await self._connection.recv()
        self.binary += isinstance(data, bytes)
        return read_from_server(data)

    async def receive_until_synced(self) -> list[Any]:
        out: list[Any] = []
        while not (out and isinstance(out[-1], Synced)):
            out += await self.receive()
        return out
