"""Results of MariaDB as bytes of its protocol, read by `QuickConnection`: their metadata is kept and compared."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE

from neutrino.server.db import pymysql_internals
from neutrino.server.db.pymysql_internals import QuickConnection

NUMBER, TEXT, BINARY = (FIELD_TYPE.LONG, 63), (FIELD_TYPE.VAR_STRING, 45), (FIELD_TYPE.VAR_STRING, 63)
EOF = b"\xfe\x00\x00\x02\x00"
IN_TRANSACTION = b"\xfe\x00\x00\x03\x00"
MORE_RESULTS = b"\xfe\x00\x00\x0a\x00"


def text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def column(name: str, kind: tuple[int, int]) -> bytes:
    code, charset = kind
    names = b"".join(map(text, ("def", "neutrino", "ports", "ports", name, name)))
    return names + b"\x0c" + charset.to_bytes(2, "little") + (64).to_bytes(4, "little") + bytes([code, 0, 0, 0, 0, 0])


def packets(*contents: bytes, first: int = 1) -> bytes:
    return b"".join(
        len(content).to_bytes(3, "little") + bytes([(first + number) % 256]) + content
        for number, content in enumerate(contents)
    )


def result(columns: Sequence[bytes], *rows: Sequence[str], state: bytes = EOF) -> list[bytes]:
    found = [b"".join(map(text, row)) for row in rows]
    return [bytes([len(columns)]), *columns, state, *found, state]


class Chunks(io.RawIOBase):
    """A socket from which no more than some bytes arrive at a time."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content, self._size = content, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self._content[: min(len(buffer), self._size)]
        buffer[: len(some)] = some
        self._content = self._content[len(some) :]
        return len(some)


def connected(content: bytes, size: int = 8192) -> Any:
    connection: Any = QuickConnection(defer_connect=True, ssl_disabled=True)
    connection._rfile = io.BufferedReader(Chunks(content, size))
    connection._next_seq_id = 1
    connection._current_timeout = connection._read_timeout
    return connection


def read(connection: Any) -> tuple[tuple[Any, ...], list[str]]:
    connection._read_query_result()
    return connection._result.rows, [name for name, *_ in connection._result.description]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pymysql_internals, "_metadata", {})
    monkeypatch.setattr(pymysql_internals, "_described", {})


@pytest.mark.parametrize("size", [1, 7, 100, 8192])
def test_the_same_result_is_read_again_however_it_arrives(size: int) -> None:
    columns = [column("id", NUMBER), column("name", TEXT), column("raw", BINARY)]
    expected = ((7, "é", b"x"), (8, "", b"")), ["id", "name", "raw"]
    rows = [b"\x017\x02\xc3\xa9\x01x", b"\x018\x00\x00"]
    for _ in range(3):
        sent = packets(b"\x03", *columns, EOF, *rows, EOF)
        connection = connected(sent, size)
        assert read(connection) == expected
        assert connection._next_seq_id == 1 + 8
        assert connection._rfile.read() == b""


def test_kept_metadata_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = packets(*result([column("id", NUMBER), column("name", TEXT)], ["7", "a"]))
    assert read(connected(sent)) == (((7, "a"),), ["id", "name"])
    monkeypatch.delattr(pymysql_internals, "_read_metadata")
    assert read(connected(sent)) == (((7, "a"),), ["id", "name"])


def test_another_result_that_begins_in_the_same_way_has_its_own_columns() -> None:
    """As two statements of a view do, or one statement before and after the type of a column changed."""
    first = column("id", NUMBER)
    cases: list[tuple[bytes, Any, str]] = [
        (column("value", NUMBER), 5, "value"),
        (column("value", TEXT), "5", "value"),
        (column("value", BINARY), b"5", "value"),
        (column("other", NUMBER), 5, "other"),
    ]
    for second, value, name in (*cases, *reversed(cases)):
        sent = packets(*result([first, second], ["1", "5"]))
        assert read(connected(sent)) == (((1, value),), ["id", name])


def test_the_state_of_the_connection_is_not_kept() -> None:
    columns = [column("id", NUMBER)]
    for state, more in ((EOF, False), (MORE_RESULTS, True), (IN_TRANSACTION, False), (MORE_RESULTS, True)):
        connection = connected(packets(*result(columns, ["1"], state=state)))
        assert read(connection) == (((1,),), ["id"])
        assert bool(connection._result.has_next) is more
    assert len(pymysql_internals._metadata) == 1


def test_results_follow_each_other_and_their_numbers_start_again_after_255() -> None:
    columns = [column("id", NUMBER), column("name", TEXT)]
    rows = [[str(number), "x"] for number in range(90)]
    several = [*result(columns, *rows, state=MORE_RESULTS), *result(columns, *rows, state=MORE_RESULTS)]
    connection = connected(packets(*several, *result(columns, *rows)))
    for _ in range(3):
        found, names = read(connection)
        assert (len(found), names) == (90, ["id", "name"])
    assert connection._rfile.read() == b""


@pytest.mark.parametrize("is_kept", [False, True])
def test_metadata_without_an_end_is_an_error(is_kept: bool) -> None:
    columns = [column("id", NUMBER), column("name", TEXT)]
    if is_kept:
        read(connected(packets(*result(columns))))
    with pytest.raises(pymysql.err.InternalError, match="EOF"):
        read(connected(packets(b"\x02", *columns, b"\x011\x01a", EOF)))


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_connection_that_ends_within_a_result_is_lost(is_kept: bool) -> None:
    sent = packets(*result([column("id", NUMBER), column("name", TEXT)], ["1", "a"]))
    if is_kept:
        read(connected(sent))
    for end in range(5, len(sent), 3):
        with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
            read(connected(sent[:end]))


def test_the_kept_metadata_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pymysql_internals, "MAX_METADATA", 3)
    for number in range(10):
        sent = packets(*result([column(f"c{number}", TEXT)], ["a"]))
        assert read(connected(sent)) == ((("a",),), [f"c{number}"])
        assert len(pymysql_internals._metadata) <= 3
