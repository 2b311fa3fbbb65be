"""The control channel between agent and metadata proxy: whole messages with descriptors, in order. Blocking.

A message is in a file in memory (memfd), and the socket passes its descriptor: a packet of the socket has room for a few
hundred ports, and a snapshot has all ports of the host.
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from neutrino.feed.address import short_path

MAX_BYTES = 1 << 28  # of a message: a wrong size must not exhaust the proxy's memory
MAX_DESCRIPTORS = 16
T = TypeVar("T")


class ChannelClosed(Exception):
    """The peer is gone, does not read or write in time, or sent an invalid message."""


@dataclass(frozen=True)
class Channel(Generic[T]):
    """`decoder` is for incoming messages. The user has to close the socket."""

    socket: socket.socket
    decoder: msgspec.json.Decoder[T]

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        payload = os.memfd_create("message")
        try:
            os.write(payload, msgspec.json.encode(message))
            socket.send_fds(self.socket, [b"m"], [payload, *descriptors])  # an empty packet would look like the end
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        finally:
            os.close(payload)

    def receive(self) -> tuple[T, list[int]]:
        """The next message; the caller has to close its descriptors. BlockingIOError: there is none now."""
        try:
            _, received, _, _ = socket.recv_fds(self.socket, 1, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not received:
            raise ChannelClosed("closed by the peer")
        payload, *descriptors = received
        try:
            return self.decoder.decode(_read(payload)), descriptors
        except (msgspec.MsgspecError, OSError) as error:
            for descriptor in descriptors:  # the caller never gets them
                os.close(descriptor)
            raise ChannelClosed(f"invalid message: {error}") from None
        finally:
            os.close(payload)


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
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(0o177)  # the mode must be right from the start, not only after a chmod
    try:
        with short_path(path) as short:
            made.bind(short)
    finally:
        os.umask(before)
    made.listen(16)
    return made


def connect(path: str, decoder: msgspec.json.Decoder[T], seconds: float) -> Channel[T]:
    """OSError if no process listens there. `seconds`: for each message that is sent or received."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        made.settimeout(seconds)
        with short_path(path) as short:
            made.connect(short)
    except BaseException:
        made.close()
        raise
    return Channel(made, decoder)
