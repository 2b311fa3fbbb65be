"""Changes meters by messages on one connection to the switch.

`ovs-ofctl` changes one meter in each run, and a changed QoS policy changes a meter of every port that has it: 500 processes
in place of 500 messages. The messages are those of OpenFlow 1.4.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from neutrino.dataplane.openflow import api

_VERSION = 5  # of the protocol: OpenFlow 1.4
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY, _BARRIER_REQUEST, _BARRIER_REPLY, _METER_MOD = 0, 1, 2, 3, 20, 21, 29
_HEADER = struct.Struct("!BBHI")  # version, type, length, transaction
_METER = struct.Struct("!HHI")  # command, flags, id
_BAND = struct.Struct("!HHIIxxxx")  # type, length, rate, burst
_REASON = struct.Struct("!HH")  # type and code of an error
_FLAGS = {"kbps": 1, "pktps": 2}
_BURST = 4
_DROP = 1
_METER_MOD_FAILED = 12
_CODES = (
    *("UNKNOWN", "METER_EXISTS", "INVALID_METER", "UNKNOWN_METER", "BAD_COMMAND", "BAD_FLAGS"),
    *("BAD_RATE", "BAD_BURST", "BAD_BAND", "BAD_BAND_VALUE", "OUT_OF_METERS", "OUT_OF_BANDS"),
)
ADD, CHANGE, DELETE = 0, 1, 2


class MeterChange(NamedTuple):
    command: int  # ADD, CHANGE or DELETE
    number: int
    meter: api.Meter | None = None  # None: to delete it


def send_changes(address: str, changes: list[MeterChange], seconds: float) -> Mapping[int, str]:
    """Apply changes in order; the reasons of those that the switch rejects, by the meter's id.

    `address` is the socket of a bridge. OpenFlowError if the switch cannot be reached or ends the connection.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(address)
            connection.sendall(_message(_HELLO, 0))
            return _exchange(connection, changes)
    except OSError as error:
        raise api.OpenFlowError(f"meters at {address} cannot be changed: {error}") from error


def _exchange(connection: socket.socket, changes: list[MeterChange]) -> dict[int, str]:
    end = len(changes) + 1  # the transaction after those of the changes, which are numbered from 1
    messages = [_message(_METER_MOD, place, _body(change)) for place, change in enumerate(changes, 1)]
    # Small enough for the socket's buffers: the switch answers errors while it is being sent to.
    connection.sendall(b"".join([*messages, _message(_BARRIER_REQUEST, end)]))
    reasons = {}
    for kind, transaction, body in _received(connection):
        if kind == _BARRIER_REPLY and transaction == end:
            break
        if kind == _ECHO_REQUEST:
            connection.sendall(_message(_ECHO_REPLY, transaction, body))
        elif kind == _ERROR:
            reason = _reason(body)
            if not 1 <= transaction < end:
                raise OSError(reason)
            reasons[changes[transaction - 1].number] = reason
    return reasons


def _message(kind: int, transaction: int, body: bytes = b"") -> bytes:
    return _HEADER.pack(_VERSION, kind, _HEADER.size + len(body), transaction) + body


def _body(change: MeterChange) -> bytes:
    meter = change.meter
    if meter is None:
        return _METER.pack(change.command, 0, change.number)
    flags = _FLAGS[meter.unit] | (_BURST if meter.burst else 0)
    return _METER.pack(change.command, flags, change.number) + _BAND.pack(_DROP, _BAND.size, meter.rate, meter.burst)


def _received(connection: socket.socket) -> Iterator[tuple[int, int, bytes]]:
    """Messages of the switch: type, transaction and body."""
    while True:
        _, kind, length, transaction = _HEADER.unpack(_read(connection, _HEADER.size))
        yield kind, transaction, _read(connection, length - _HEADER.size)


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise OSError("the switch has ended the connection")
        found += part
    return found


def _reason(body: bytes) -> str:
    kind, code = _REASON.unpack_from(body)
    known = kind == _METER_MOD_FAILED and code < len(_CODES)
    return f"OFPMMFC_{_CODES[code]}" if known else f"error {code} of type {kind}"
