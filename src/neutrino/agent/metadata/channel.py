"""The control channel between agent and metadata proxy: whole messages with descriptors, in order."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from neutrino.feed.address import short_path

MAX_BYTES = 1 << 18
MAX_DESCRIPTORS = 16
T = TypeVar("T")


class ChannelClosed(Exception):
    """The peer is gone, or sent an invalid message."""


class Channel(Generic[T]):
    """`decoder` is for incoming messages. The user has to close the channel."""

    def __init__(self, connection: socket.socket, decoder: msgspec.json.Decoder[T]) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._decoder = decoder

    async def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        data = msgspec.json.encode(message)
        while True:
            try:
                socket.send_fds(self._socket, [data], list(descriptors))
                return
            except BlockingIOError:  # the peer reads slowly
                await self._ready(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer)
            except OSError as error:
                raise ChannelClosed(str(error)) from error

    async def receive(self) -> tuple[T, list[int]]:
        """The next message; the caller has to close its descriptors."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    self._socket, MAX_BYTES, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
                break
            except BlockingIOError:
                await self._ready(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
        if not data:
            raise ChannelClosed("closed by the peer")
        try:
            return self._decoder.decode(data), descriptors
        except msgspec.MsgspecError as error:
            for descriptor in descriptors:  # the caller never gets them
                os.close(descriptor)
            raise ChannelClosed(f"invalid message: {error}") from None

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
