"""A connection between agent and metadata process: whole messages, with descriptors, in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from neutrino.feed.address import short_path

MOST_BYTES = 1 << 18
MOST_DESCRIPTORS = 16
T = TypeVar("T")


class ChannelClosed(Exception):
    """The other side is gone, or does not speak as it should."""


class Channel(Generic[T]):
    """`hears` reads what comes in. Close it when done."""

    def __init__(self, connection: socket.socket, hears: msgspec.json.Decoder[T]) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._decoder = hears

    async def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        data = msgspec.json.encode(message)
        while True:
            try:
                socket.send_fds(self._socket, [data], list(descriptors))
                return
            except BlockingIOError:
                await self._ready(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer)
            except OSError as error:
                raise ChannelClosed(str(error)) from error

    async def receive(self) -> tuple[T, list[int]]:
        """A message, with descriptors that are the caller's from now on."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    self._socket, MOST_BYTES, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
                break
            except BlockingIOError:
                await self._ready(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
        if not data:
            raise ChannelClosed("the other side has closed it")
        try:
            return self._decoder.decode(data), descriptors
        except msgspec.MsgspecError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            raise ChannelClosed(f"what it says is not understood: {error}") from None

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        number, ready = self._socket.fileno(), asyncio.Event()
        add(number, ready.set)
        try:
            await ready.wait()
        finally:
            if self._socket.fileno() == number:
                remove(number)

    def close(self) -> None:
        number = self._socket.fileno()
        if number >= 0:
            with contextlib.suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                loop.remove_reader(number)
                loop.remove_writer(number)
            self._socket.close()


def listen(path: str) -> socket.socket:
    """Where agents connect; for root, or whoever we are, alone. What a process that was killed has left is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        with short_path(path) as short:
            made.bind(short)
    finally:
        os.umask(before)
    made.listen(16)
    made.setblocking(False)
    return made


def connect(path: str, hears: msgspec.json.Decoder[T]) -> Channel[T]:
    """OSError if nobody listens there."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        with short_path(path) as short:
            made.connect(short)
    except BaseException:
        made.close()
        raise
    return Channel(made, hears)
