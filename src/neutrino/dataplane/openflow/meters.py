"""Changes meters by messages on one connection to the switch.

`ovs-ofctl` changes one meter in each run, and a changed QoS policy changes a meter of every port that has it: 500 processes
in place of 500 messages. The messages are those of OpenFlow 1.4.
"""

import socket
import struct
from collections.abc import Mapping
from typing import NamedTuple

from neutrino.dataplane.openflow import api
from neutrino.dataplane.openflow.connection import (
    BARRIER_REPLY,
    BARRIER_REQUEST,
    ERROR,
    METER_MOD,
    connected,
    message,
    received,
)

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
        with connected(address, seconds) as connection:
            return _exchange(connection, changes)
    except OSError as error:
        raise api.OpenFlowError(f"meters at {address} cannot be changed: {error}") from error


def _exchange(connection: socket.socket, changes: list[MeterChange]) -> dict[int, str]:
    end = len(changes) + 1  # the transaction after those of the changes, which are numbered from 1
    messages = [message(METER_MOD, place, _body(change)) for place, change in enumerate(changes, 1)]
    # Small enough for the socket's buffers: the switch answers errors while it is being sent to.
    connection.sendall(b"".join([*messages, message(BARRIER_REQUEST, end)]))
    reasons = {}
    for kind, transaction, body in received(connection):
        if kind == BARRIER_REPLY and transaction == end:
            break
        if kind == ERROR:
            reason = _reason(body)
            if not 1 <= transaction < end:
                raise OSError(reason)
            reasons[changes[transaction - 1].number] = reason
    return reasons


def _body(change: MeterChange) -> bytes:
    meter = change.meter
    if meter is None:
        return _METER.pack(change.command, 0, change.number)
    flags = _FLAGS[meter.unit] | (_BURST if meter.burst else 0)
    return _METER.pack(change.command, flags, change.number) + _BAND.pack(_DROP, _BAND.size, meter.rate, meter.burst)


def _reason(body: bytes) -> str:
    kind, code = _REASON.unpack_from(body)
    known = kind == _METER_MOD_FAILED and code < len(_CODES)
    return f"OFPMMFC_{_CODES[code]}" if known else f"error {code} of type {kind}"
