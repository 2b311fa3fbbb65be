"""A fast JSON parser for the `ovs` library, installed in place of its own.

The library is built with a parser in C only where Open vSwitch's headers are installed; otherwise it parses character by
character, 0.2 s for the ports of a busy host. This one only finds the end of a message and leaves the parsing to the
standard library. Trying to parse after each part of a message would take time with the square of its length.
"""

import json
import re

# A bracket, or a string; an incomplete string extends to the end of the text.
_TOKEN = re.compile(r'[{}\[\]]|"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)', re.DOTALL)


class Parser:
    """The interface that the library expects: `feed` until `is_done`, then `finish`."""

    def __init__(self, check_trailer: bool = False) -> None:
        self._check_trailer = check_trailer
        self._parts: list[str] = []
        self._incomplete = ""  # a string that the last text began: it is scanned again with the next one
        self._depth = 0
        self._done = False

    def feed(self, text: str) -> int:
        """Take the part of `text` that belongs to this message; its number of bytes."""
        end = 0 if self._done else self._find_end(text)
        if self._check_trailer:
            end = len(text)
        self._parts.append(text[:end])
        return end if text.isascii() else len(text[:end].encode())

    def _find_end(self, text: str) -> int:
        if self._depth == 0 and text.lstrip()[:1] not in ("", "{", "["):
            self._done = True  # not a message: there is no end to wait for
            return len(text)
        before, self._incomplete = self._incomplete, ""
        for token in _TOKEN.finditer(before + text):
            if token[0] in "{[":
                self._depth += 1
            elif token[0] in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    self._done = True
                    return token.end() - len(before)
            elif token[1] != '"':
                self._incomplete = token[0]
        return len(text)

    def is_done(self) -> bool:
        return self._done

    def finish(self) -> object:
        """The parsed message, or an error as text, as the library expects it."""
        try:
            read = json.loads("".join(self._parts))
        except ValueError as error:
            return str(error)
        return read if isinstance(read, dict | list) else "syntax error at beginning of input"


def install() -> None:
    """Replace the library's parser, unless it has its C parser: `feed` returns a number of bytes, as that one's does."""
    import ovs.json

    if ovs.json.PARSER != ovs.json.PARSER_C:
        ovs.json.Parser, ovs.json.PARSER = Parser, ovs.json.PARSER_C
