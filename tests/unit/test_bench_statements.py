"""The decoders of the proxy: statements are found however the client's bytes are cut."""

from __future__ import annotations

import struct

import pytest

from qa.bench.observed_connections import Decoder, MariaDecoder, PostgresDecoder
from qa.bench.statements import Cost, table


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


STARTUP = struct.pack("!ii", 8, 80877103) + struct.pack("!ii", 8, 196608)
POSTGRES = (
    STARTUP
    + message(b"P", b"one\0SELECT 1\0\0\0")
    + message(b"B", b"\0one\0\0\0\0\0\0\0")
    + message(b"E", b"\0\0\0\0\0")
    + message(b"B", b"\0one\0\0\0\0\0\0\0")
    + message(b"E", b"\0\0\0\0\0")
    + message(b"Q", b"COMMIT\0")
)


def packet(sequence: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "little") + bytes([sequence]) + content


MARIADB = packet(1, b"\3 the handshake") + packet(0, b"\3SELECT 1;COMMIT") + packet(0, b"\1")


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("decoder", "sent", "expected"),
    [
        (PostgresDecoder, POSTGRES, ["SELECT 1", "SELECT 1", "COMMIT"]),
        (MariaDecoder, MARIADB, ["SELECT 1;COMMIT"]),
    ],
)
def test_statements_are_found(decoder: type[Decoder], sent: bytes, expected: list[str], size: int) -> None:
    one = decoder()
    found = [text for i in range(0, len(sent), size) for text in one.feed(sent[i : i + size])]
    assert found == expected


def test_the_table_has_a_row_per_operation() -> None:
    rows = table([Cost("create_port", 2, 11, 5.4, 1.5, 0.75, 3.25)]).splitlines()
    assert rows[-1] == "| create port | 2 | 11 | 5.4 | 1.5 ms | 0.75 ms | 3.25 ms |"
