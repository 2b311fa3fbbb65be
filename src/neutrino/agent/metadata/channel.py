"""The control channel between agent and metadata proxy: whole messages with descriptors, in order.

A message is in a file in memory (memfd), and the socket passes its descriptor: a packet of the socket has room for a few
hundred ports, and a snapshot has all ports of the host.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from neutrino.feed.address import short_path

MAX_BYTES = 1 << 28
MAX_DESCRIPTORS = 16
T = TypeVar("T")
R = TypeVar("R")


class ChannelClosed(Exception):
    """The peer is gone, or sent an invalid message."""


class Channel(Generic[T]):
    """`decoder` is for incoming messages. The user has to close the channel."""

    def __init__(self, connection: socket.socket, decoder: msgspec.json.Decoder[T]) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._decoder = decoder

    async def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        loop, payload = asyncio.get_running_loop(), os.memfd_create("message")
        try:
            os.write(payload, msgspec.json.encode(message))
            send = lambda: socket.send_fds(self._socket, [b"m"], [payload, *descriptors])  # noqa: E731
            await self._call(send, loop.add_writer, loop.remove_writer)
        finally:
            os.close(payload)

    async def receive(self) -> tuple[T, list[int]]:
        """The next message; the caller has to close its descriptors."""
        loop, flags = asyncio.get_running_loop(), socket.MSG_CMSG_CLOEXEC
        receive = lambda: socket.recv_fds(self._socket, 1, MAX_DESCRIPTORS, flags)  # noqa: E731
        _, descriptors, _, _ = await self._call(receive, loop.add_reader, loop.remove_reader)
        if not descriptors:
            raise ChannelClosed("closed by the peer")
        try:
            return self._decoder.decode(_read(descriptors[0])), descriptors[1:]
        except (msgspec.MsgspecError, OSError) as error:
            for descriptor in descriptors[1:]:  # the caller never gets them
                os.close(descriptor)
            raise ChannelClosed(f"invalid message: {error}") from None
        finally:
            os.close(descriptors[0])

    async def _call(self, call: Callable[[], R], add: Callable[..., None], remove: Callable[[int], bool]) -> R:
        """Call a function of the socket, as soon as that does not block."""
        while True:
            try:
                return call()
            except BlockingIOError:
                await self._ready(add, remove)
            except OSError as error:
                raise ChannelClosed(str(error)) from error

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        number, ready = self._socket.fileno(), asyncio.Event()
        add(number, ready.set)
        try:
            await ready.wait()
        finally:
            if self._socket.fileno() == number:  # else `close` has removed it, and the number may be another file
                remove(number)

    def close(self) -> None:
        number = self._socket.fileno()
        if number >= 0:
            with contextlib.suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                loop.remove_reader(number)
                loop.remove_writer(number)
            self._socket.close()


def _read(payload: int) -> bytes:
    fcntl.fcntl(payload, fcntl.F_GET_SEALS)  # OSError unless it is in memory: reading any other file might block
    size = os.fstat(payload).st_size
    if size > MAX_BYTES:
        raise OSError(f"it has {size} bytes")
    return os.pread(payload, size, 0)


def listen(path: str) -> socket.socket:
    """The control socket, accessible only to our own user. The file of a killed process is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)  # the mode must be right from the start, not only after a chmod
    try:
        with short_path(path) as short:
            made.bind(short)
    finally:
        os.umask(before)
    made.listen(16)
    made.setblocking(False)
    return made


def connect(path: str, decoder: msgspec.json.Decoder[T]) -> Channel[T]:
    """OSError if no process listens there."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        with short_path(path) as short:
            made.connect(short)
    except BaseException:
        made.close()
        raise
    return Channel(made, decoder)
