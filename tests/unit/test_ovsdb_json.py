"""The reader of JSON that the `ovs` library is given: the same answers as its own, however the text arrives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neutrino.dataplane.ovsdb.json_parser import Parser

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT | st.sampled_from(['"', "\\", '\\"', "{[", "]}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
MESSAGES = st.dictionaries(TEXT, VALUES, max_size=4) | st.lists(VALUES, max_size=4)


def read(stream: str, size: int) -> list[object]:
    """All messages of a stream that is received in parts of this size, as the library reads it."""
    found: list[object] = []
    parser, waiting = Parser(), ""
    for start in range(0, len(stream), size):
        waiting += stream[start : start + size]
        while waiting:
            waiting = waiting.encode()[parser.feed(waiting) :].decode()
            if parser.is_done():
                found.append(parser.finish())
                parser = Parser()
    return found


@given(st.lists(MESSAGES, max_size=4), st.integers(1, 40), st.booleans())
def test_messages_are_read_as_they_were_written(messages: list[object], size: int, ascii_only: bool) -> None:
    stream = " ".join(json.dumps(message, ensure_ascii=ascii_only) for message in messages)
    assert read(stream, size) == messages


@pytest.mark.parametrize("text", ["nonsense", '{"a": }', "[1 2]", "}"])
def test_a_syntax_error_is_returned_as_text(text: str) -> None:
    parser = Parser()
    parser.feed(text)
    assert parser.is_done()
    assert isinstance(parser.finish(), str)


def test_text_after_a_message_is_an_error_with_check_trailer() -> None:
    parser = Parser(check_trailer=True)
    parser.feed('{"a": 1}')
    parser.feed(" x")
    assert isinstance(parser.finish(), str)


def test_the_library_uses_it() -> None:
    from neutrino.dataplane.ovsdb import real  # noqa: F401

    import ovs.json  # isort: skip

    assert ovs.json.PARSER == ovs.json.PARSER_C
    assert ovs.json.from_string('{"a": [1, "\\u00e9"]}') == {"a": [1, "é"]}
