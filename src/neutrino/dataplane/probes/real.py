"""Sends probes by packet-outs on a connection to the integration bridge, and reads the answers at the instances' devices.

    packet-out (in_port: the instance's) ── table 0 … of the switch ──▶ neighbour
    instance's device ◀── the switch ── answer      read by a packet socket, which sees what leaves the host's end

First the neighbour's MAC is asked for, by ARP or a neighbour solicitation; from then on echo requests are sent in the
interval. A neighbour that answers no echo, as its security groups may have it, goes on being asked for its MAC.

Ways take turns, so that packets are spread evenly: a packet-out is handled by the one thread of the switch that also
changes its flows, and bursts of them would cause the loss that they are to find.
"""

import contextlib
import ctypes
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from neutrino.dataplane.probes.api import Loss, Probe, ProbeError, Sent, loss_of
from neutrino.dataplane.probes.frames import EchoReply, NeighbourReply, echo_request, neighbour_request, parse_answer

INTERVAL: Final = 0.05  # seconds between two packets of one probe, if there are few
SPACING: Final = 0.004  # seconds between two packets of all: 100 ways are probed each 0.4 seconds
LEARNING: Final = 1.0  # seconds to learn MACs, and then whether echo requests are answered
PATIENCE: Final = 1.0  # seconds after which a packet counts as lost
_KEPT: Final = 12_000  # packets of a probe: ten minutes
_OPENFLOW: Final = struct.Struct("!BBHI")
_VERSION, _HELLO, _ECHO_REQUEST, _ECHO_REPLY, _PACKET_OUT = 5, 0, 2, 3, 13
_NO_BUFFER: Final = 0xFFFFFFFF
_TABLE: Final = 0xFFFFFFF9  # output to this port: through the flow tables
_OUTGOING: Final = 4  # of a packet socket's address: the host sends it to the device
_ALL_FRAMES: Final = 3
_SO_ATTACH_FILTER: Final = 26
_FILTER: Final = (  # ARP, ICMP in IPv4, or ICMPv6 that follows the IPv6 header at once
    *((0x28, 0, 0, 12), (0x15, 6, 0, 0x0806), (0x15, 0, 2, 0x0800), (0x30, 0, 0, 23), (0x15, 3, 4, 1)),
    *((0x15, 0, 3, 0x86DD), (0x30, 0, 0, 20), (0x15, 0, 1, 58), (0x06, 0, 0, 128), (0x06, 0, 0, 0)),
)


class _Way:
    """The packets of one probe."""

    def __init__(self, probe: Probe, identifier: int) -> None:
        self.probe, self.identifier = probe, identifier
        self.peer_mac = ""
        self.echoed = False  # the peer answers echo requests
        self.sequence = 0
        self.sent: dict[int, Sent] = {}
        self.heard = 0.0  # when the last answer came

    def frame(self, *, echo: bool) -> bytes:
        probe = self.probe
        self.sequence = (self.sequence + 1) & 0xFFFF
        self.sent[self.sequence] = Sent(time.monotonic())
        if len(self.sent) > _KEPT:
            del self.sent[next(iter(self.sent))]
        if echo:
            return echo_request(probe.mac, probe.address, self.peer_mac, probe.peer, self.identifier, self.sequence)
        return neighbour_request(probe.mac, probe.address, probe.peer)

    def answered(self, sequence: int) -> None:
        one = self.sent.get(sequence)
        if one is not None and one.answered is None:
            self.heard = time.monotonic()
            self.sent[sequence] = Sent(one.at, self.heard)

    def take(self, answer: NeighbourReply | EchoReply) -> None:
        if isinstance(answer, EchoReply):
            if answer.identifier == self.identifier:
                self.echoed = True
                self.answered(answer.sequence)
        elif answer.address == self.probe.peer and answer.to == self.probe.mac:
            self.peer_mac = answer.mac
            if not self.echoed:
                for sequence, one in self.sent.items():  # an answer stands for all requests before it that wait
                    if one.answered is None:
                        self.answered(sequence)


class SwitchProber:
    """Implements `Prober`. `address` is the socket of the integration bridge."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ways: list[_Way] = []
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._stack = contextlib.ExitStack()
        self._failure = ""

    def start(self, probes: Iterable[Probe]) -> None:
        self._ways = [_Way(probe, int.from_bytes(os.urandom(2))) for probe in probes]
        if not self._ways:
            return
        try:
            switch = self._stack.enter_context(_connected(self._address))
            devices = {
                name: self._stack.enter_context(_listening(name)) for name in {w.probe.device for w in self._ways}
            }
        except OSError as error:
            self._stack.close()
            raise ProbeError(f"probes cannot be sent: {error}") from error
        self._thread = threading.Thread(target=self._run, args=(switch, devices), name="probes", daemon=True)
        self._thread.start()
        self._learn()

    def losses(self) -> list[Loss]:
        now = time.monotonic()
        with self._lock:
            return [loss_of(way.probe, list(way.sent.values()), now, PATIENCE) for way in self._ways]

    def silent(self, seconds: float) -> list[Probe]:
        before = time.monotonic() - seconds
        with self._lock:
            return [way.probe for way in self._ways if way.heard < before]

    def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self._stack.close()

    def _learn(self) -> None:
        """Leave out what is not answered, so that all later loss is new."""
        self._ending.wait(2 * LEARNING)
        with self._lock:
            self._ways = [way for way in self._ways if any(one.answered for one in way.sent.values())]
            for way in self._ways:
                way.sent.clear()
                way.heard = time.monotonic()

    def _run(self, switch: socket.socket, devices: Mapping[str, socket.socket]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(switch, selectors.EVENT_READ, None)
            for name, device in devices.items():
                selector.register(device, selectors.EVENT_READ, name)
            started = due = time.monotonic()
            turn = 0
            while not self._ending.is_set():
                now = time.monotonic()
                if now >= due:
                    turn = self._send(switch, turn, learning=now - started < LEARNING)
                    due = now + self._spacing()  # what a delay of this thread has left out is not made up for
                for key, _ in selector.select(max(0.0, due - time.monotonic())):
                    if key.data is None:
                        self._answer(switch, selector)
                    else:
                        self._take(str(key.data), devices[str(key.data)])

    def _spacing(self) -> float:
        return max(INTERVAL / max(1, len(self._ways)), SPACING)

    def _send(self, switch: socket.socket, turn: int, *, learning: bool) -> int:
        """Send on the way whose turn it is; returns the next turn."""
        with self._lock:
            if not self._ways:
                return 0
            way = self._ways[turn % len(self._ways)]
            messages = [packet_out(way.probe.ofport, way.frame(echo=way.echoed))]
            if not way.echoed and way.peer_mac and not learning:
                messages.append(packet_out(way.probe.ofport, way.frame(echo=True)))
        with contextlib.suppress(OSError):  # what is not sent is not answered
            switch.sendall(b"".join(messages))
        return turn + 1

    def _answer(self, switch: socket.socket, selector: selectors.BaseSelector) -> None:
        """The switch probes an idle connection, and closes one that does not answer."""
        try:
            head = switch.recv(_OPENFLOW.size, socket.MSG_WAITALL)
            if len(head) < _OPENFLOW.size:
                raise OSError("the switch has ended the connection")
            version, kind, length, transaction = _OPENFLOW.unpack(head)
            body = switch.recv(length - _OPENFLOW.size, socket.MSG_WAITALL) if length > _OPENFLOW.size else b""
            if kind == _ECHO_REQUEST:
                switch.sendall(_OPENFLOW.pack(version, _ECHO_REPLY, length, transaction) + body)
        except OSError:
            selector.unregister(switch)

    def _take(self, name: str, device: socket.socket) -> None:
        for answer in _answers(device):
            with self._lock:
                for way in self._ways:
                    if way.probe.device == name:
                        way.take(answer)


def packet_out(ofport: int, frame: bytes) -> bytes:
    """The message of OpenFlow 1.4 by which a frame enters the switch at a port."""
    action = struct.pack("!HHIH6x", 0, 16, _TABLE, 0)
    body = struct.pack("!IIH6x", _NO_BUFFER, ofport, len(action)) + action + frame
    return _OPENFLOW.pack(_VERSION, _PACKET_OUT, _OPENFLOW.size + len(body), 1) + body


def _connected(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(5.0)
        connection.connect(address)
        connection.sendall(_OPENFLOW.pack(_VERSION, _HELLO, _OPENFLOW.size, 1))
    except OSError:
        connection.close()
        raise
    return connection


def _listening(device: str) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        code = b"".join(struct.pack("HBBI", *instruction) for instruction in _FILTER)
        memory = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("HL", len(_FILTER), ctypes.addressof(memory))
        found.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        found.bind((device, _ALL_FRAMES))
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def _answers(device: socket.socket) -> Iterator[NeighbourReply | EchoReply]:
    while True:
        try:
            frame, address = device.recvfrom(256)
        except OSError:  # nothing more, or the device is gone
            return
        if address[2] == _OUTGOING and (answer := parse_answer(frame)) is not None:
            yield answer
