"""BFD control packets (RFC 5880, section 4.1), without authentication. Pure."""

import dataclasses
import enum
import struct

VERSION = 1
LENGTH = 24  # without an authentication section
_FORMAT = struct.Struct("!BBBBIIIII")
_POLL, _FINAL, _AUTHENTICATED, _DEMAND, _MULTIPOINT = 0x20, 0x10, 0x04, 0x02, 0x01


class State(enum.IntEnum):
    ADMIN_DOWN = 0
    DOWN = 1
    INIT = 2
    UP = 3


class Diagnostic(enum.IntEnum):
    """Why a session has left the state Up: those that this speaker uses."""

    NONE = 0
    EXPIRED = 1  # no packet within the detection time
    SIGNALED_DOWN = 3  # by the peer
    ADMIN_DOWN = 7


class Invalid(Exception):
    """A packet that RFC 5880, section 6.8.6, has a receiver discard."""


@dataclasses.dataclass(frozen=True)
class ControlPacket:
    """Intervals are in microseconds."""

    state: State
    my_discriminator: int
    your_discriminator: int = 0
    multiplier: int = 3
    min_tx: int = 1_000_000
    min_rx: int = 1_000_000
    diagnostic: int = Diagnostic.NONE
    poll: bool = False
    final: bool = False
    demand: bool = False
    min_echo_rx: int = 0  # 0: echo packets are not looped back


def encode(packet: ControlPacket) -> bytes:
    flags = _POLL * packet.poll | _FINAL * packet.final | _DEMAND * packet.demand
    return _FORMAT.pack(
        VERSION << 5 | packet.diagnostic,
        packet.state << 6 | flags,
        packet.multiplier,
        LENGTH,
        packet.my_discriminator,
        packet.your_discriminator,
        packet.min_tx,
        packet.min_rx,
        packet.min_echo_rx,
    )


def decode(payload: bytes) -> ControlPacket:
    """The packet in a datagram; Invalid by the checks of section 6.8.6 that need no session."""
    if len(payload) < LENGTH:
        raise Invalid(f"it has {len(payload)} bytes")
    first, second, multiplier, length, mine, yours, min_tx, min_rx, min_echo_rx = _FORMAT.unpack_from(payload)
    if first >> 5 != VERSION:
        raise Invalid(f"version {first >> 5}")
    if not LENGTH <= length <= len(payload):
        raise Invalid(f"a length of {length}, in {len(payload)} bytes")
    if multiplier == 0:
        raise Invalid("the multiplier is 0")
    if second & _MULTIPOINT:
        raise Invalid("the multipoint bit is set")
    if mine == 0:
        raise Invalid("its discriminator is 0")
    state = State(second >> 6)
    if yours == 0 and state not in (State.DOWN, State.ADMIN_DOWN):
        raise Invalid(f"state {state.name} without our discriminator")
    if second & _AUTHENTICATED:
        raise Invalid("it is authenticated, which no session here is")
    return ControlPacket(
        *(state, mine, yours, multiplier, min_tx, min_rx, first & 0x1F),
        poll=bool(second & _POLL),
        final=bool(second & _FINAL),
        demand=bool(second & _DEMAND),
        min_echo_rx=min_echo_rx,
    )
