"""BFD control packets: their bytes, and those that are discarded (RFC 5880, sections 4.1 and 6.8.6)."""

from __future__ import annotations

import pytest

from neutrino.agent.l3.services.bfd.packet import ControlPacket, Invalid, State, decode, encode

PACKET = ControlPacket(State.UP, 0x01020304, 0x0A0B0C0D, 5, 300_000, 200_000, 3, poll=True)
BYTES = bytes.fromhex("23 e0 05 18 01020304 0a0b0c0d 000493e0 00030d40 00000000")


def test_bytes() -> None:
    assert encode(PACKET) == BYTES
    assert decode(BYTES) == PACKET
    assert decode(BYTES + b"padding") == PACKET


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("flag", ["poll", "final", "demand"])
def test_every_state_and_flag(state: State, flag: str) -> None:
    packet = ControlPacket(state, 1, 2, min_echo_rx=7, **{flag: True})  # type: ignore[arg-type]
    assert decode(encode(packet)) == packet


@pytest.mark.parametrize("state", [State.DOWN, State.ADMIN_DOWN])
def test_a_first_packet_does_not_know_our_discriminator(state: State) -> None:
    assert decode(encode(ControlPacket(state, 1))).your_discriminator == 0


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0x43, "version 2"),
        (0, 0x03, "version 0"),
        (3, 23, "a length of 23"),
        (3, 25, "a length of 25, in 24 bytes"),
        (2, 0, "multiplier"),
        (1, 0xE1, "multipoint"),
        (1, 0xE4, "authenticated"),
    ],
)
def test_discarded(at: int, value: int, reason: str) -> None:
    wrong = BYTES[:at] + bytes([value]) + BYTES[at + 1 :]
    with pytest.raises(Invalid, match=reason):
        decode(wrong)


def test_discarded_by_their_discriminators() -> None:
    with pytest.raises(Invalid, match="discriminator is 0"):
        decode(encode(ControlPacket(State.DOWN, 0)))
    for state in (State.INIT, State.UP):
        with pytest.raises(Invalid, match=f"{state.name} without our discriminator"):
            decode(encode(ControlPacket(state, 1)))


@pytest.mark.parametrize("length", range(24))
def test_cut_short(length: int) -> None:
    with pytest.raises(Invalid, match=f"it has {length} bytes"):
        decode(BYTES[:length])
