"""Listening sockets of all namespaces, and the identity of the clients that connect: address, device and MAC.

The agent opened the sockets inside the namespaces, so the kernel answers for the namespace although the process is not in
it, and without privileges.
"""

import asyncio
import contextlib
import dataclasses
import errno
import fcntl
import functools
import ipaddress
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence

from neutrino.agent.metadata.messages import METADATA_IPV6, WELL_KNOWN_PORT, Listener, Sources
from neutrino.agent.metadata.proxy.connections import READ_BYTES
from neutrino.agent.metadata.proxy.http_proxy import Client, HttpProxy
from neutrino.dataplane.protocols import linux
from neutrino.dataplane.protocols.rtnetlink import attribute, read_attributes

LOG = logging.getLogger(__name__)
MAX_ACCEPTS = 64  # before other tasks get their turn
PAUSE_SECONDS = 0.2  # without free descriptors
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
UNKNOWN_DEVICE = "?"  # deleted meanwhile: on no network

Identify = Callable[[socket.socket], Client | None]  # None: the connection is closed
Serve = Callable[[Client, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Socket:
    """One listening socket.

    asyncio's own server drops a connection that arrives while it is being closed, and that client hangs; it also needs
    more memory than a host with a thousand sockets should spend.
    """

    def __init__(self, listening: socket.socket, identify: Identify, serve: Serve) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._identify = identify
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._resume()

    def _resume(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def close(self) -> None:
        self._accept()  # connections still in the backlog, which the kernel would reset
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTS):
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, ConnectionError, InterruptedError):  # none left, or its client has gone
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                # The socket stays readable: without a pause, the loop would spin on it.
                LOG.warning("no more connections can be accepted for now: %s", error.strerror)
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._socket)
                loop.call_later(PAUSE_SECONDS, self._resume)
                return
            client = self._identify(connection)  # at once: the namespace may be closed a moment later
            if client is None:
                connection.close()
                continue
            task = asyncio.create_task(self._serve_connection(client, connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve_connection(self, client: Client, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        connection.setblocking(False)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            connection.close()
            return
        await self._serve(client, reader, asyncio.StreamWriter(transport, protocol, reader, loop))


@dataclasses.dataclass
class _Namespace:
    listener: Listener
    sockets: list[_Socket]
    netlink: socket.socket

    def close(self) -> None:
        """Accepts no new connections; established ones are served to their end."""
        for each in self.sockets:
            each.close()
        self.netlink.close()


class Listeners:
    """The listeners by namespace."""

    def __init__(self, proxy: HttpProxy) -> None:
        self._proxy = proxy
        self._namespaces: dict[str, _Namespace] = {}

    def current(self) -> dict[str, Listener]:
        return {key: each.listener for key, each in self._namespaces.items()}

    def set(self, key: str, listener: Listener | None, descriptors: Sequence[int]) -> None:
        """Replace the listener of a namespace; None: close it. Without descriptors its sockets stay."""
        before = self._namespaces.get(key)
        if listener is None:
            self._namespaces.pop(key, None)
        elif descriptors:
            self._namespaces[key] = self._open(key, listener, descriptors)
        elif before is not None:
            before.listener = listener
            return
        if before is not None:
            before.close()  # after the new sockets accept: no connection is refused in between

    def _open(self, key: str, listener: Listener, descriptors: Sequence[int]) -> _Namespace:
        made = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        (netlink,) = (each for each in made if each.family == socket.AF_NETLINK)
        opened = _Namespace(listener, [], netlink)
        identify = functools.partial(self._identify, key, opened)
        opened.sockets += [_Socket(each, identify, self._proxy.serve) for each in made if each is not netlink]
        return opened

    def _sources(self, key: str, opened: _Namespace) -> Sources:
        """The current ones. Its last ones if the namespace is closed: connections made before are served."""
        return self._namespaces.get(key, opened).listener.sources

    def _identify(self, key: str, opened: _Namespace, connection: socket.socket) -> Client | None:
        """None if the client is gone, or if it addressed another service."""
        try:
            peer, local = connection.getpeername(), connection.getsockname()
        except OSError:
            return None
        index = arrival_device(connection)
        if index is None or not _is_metadata_address(local):
            return None
        address = ipaddress.ip_address(peer[0].partition("%")[0])
        device, mac = device_name(connection, index), None
        # An instance may choose any link-local address; its MAC is checked by port security.
        if isinstance(address, ipaddress.IPv6Address) and address.is_link_local:
            mac = read_mac(opened.netlink, index, str(address)) or ""
        LOG.debug("%s at %s: by device %s, MAC %s", address, key, device, mac)
        return Client(key, lambda: self._sources(key, opened), str(address), device or UNKNOWN_DEVICE, mac)


def _is_metadata_address(local: tuple[str, int]) -> bool:
    """A link-local address cannot be bound before its device exists, so the socket is bound to all, and filtered here.

    A router redirects to another port, only packets for this address.
    """
    return ":" not in local[0] or local[1] != WELL_KNOWN_PORT or local[0].partition("%")[0] == METADATA_IPV6


# --- the device that a connection arrived by, as the kernel noted it at the end of the handshake ---

_IP_PKTINFO, _IP_PKTOPTIONS = 8, 9  # linux/in.h
_IPV6_2292PKTOPTIONS = 6  # linux/in6.h
_CMSG = struct.Struct("@Nii")  # length, level, type
_IN_PKTINFO = struct.Struct("=i8x")  # index, two addresses
_IN6_PKTINFO = struct.Struct("=16xi")  # address, index


def arrival_device(connection: socket.socket) -> int | None:
    """The device's index; None if the connection is gone."""
    try:
        # Enabled first: the answer has only the kinds of information that are enabled.
        if connection.family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            answer = connection.getsockopt(socket.IPPROTO_IPV6, _IPV6_2292PKTOPTIONS, 256)
            expected, layout = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO), _IN6_PKTINFO
        else:
            connection.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
            answer = connection.getsockopt(socket.IPPROTO_IP, _IP_PKTOPTIONS, 256)
            expected, layout = (socket.IPPROTO_IP, _IP_PKTINFO), _IN_PKTINFO
    except OSError:
        return None
    if len(answer) < _CMSG.size + layout.size:
        return None
    _, level, kind = _CMSG.unpack_from(answer)
    (index,) = layout.unpack_from(answer, _CMSG.size)
    return index if (level, kind) == expected and index > 0 else None


# --- queries of the namespace's kernel tables ---

_SIOCGIFNAME = 0x8910  # linux/sockios.h
_IFREQ = struct.Struct("=16si20x")  # name, index
_NLMSG = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type
_ANSWER_BYTES = 1 << 15


def device_name(connection: socket.socket, index: int) -> str | None:
    """The current name of a device of the connection's namespace; None if no device has that index."""
    try:
        answer = fcntl.ioctl(connection, _SIOCGIFNAME, _IFREQ.pack(b"", index))
    except OSError:
        return None
    return answer[:16].rstrip(b"\0").decode(errors="replace")


def read_mac(netlink: socket.socket, device: int, address: str) -> str | None:
    """The MAC of an IPv6 neighbour; None if the kernel has no entry. The kernel answers at once, or refuses."""
    body = _NEIGHBOUR.pack(socket.AF_INET6, device, 0, 0, 0)
    body += attribute(linux.NDA_DST, socket.inet_pton(socket.AF_INET6, address))
    with contextlib.suppress(OSError):
        while True:
            netlink.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)  # drop answers of failed queries
    try:
        netlink.send(_NLMSG.pack(_NLMSG.size + len(body), linux.RTM_GETNEIGH, linux.NLM_F_REQUEST, 1, 0) + body)
        answer = netlink.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        return None
    length, kind, *_ = _NLMSG.unpack_from(answer)
    found = read_attributes(answer[_NLMSG.size : length], _NEIGHBOUR.size) if kind == linux.RTM_NEWNEIGH else {}
    mac = found.get(linux.NDA_LLADDR, b"")
    return mac.hex(":") if len(mac) == 6 else None
