"""A fast JSON parser for the `ovs` library, installed as its optional C parser.

The library is built with a parser in C only where Open vSwitch's headers are installed; otherwise it parses character by
character, 0.2 s for the ports of a busy host. This one only finds the end of a message and leaves the parsing to the
standard library.
"""

import importlib.util
import json
import re
import sys
from types import ModuleType

_OUTSIDE = re.compile(r'["{}\[\]]')  # significant characters outside of a string
_INSIDE = re.compile(r'\\.?|"', re.DOTALL)  # and inside of one


class Parser:
    """The interface that the library expects: `feed` until `is_done`, then `finish`."""

    def __init__(self, check_trailer: bool = False) -> None:
        self._check_trailer = check_trailer
        self._parts: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last character was a backslash
        self._done = False

    def feed(self, text: str) -> int:
        """Take the part of `text` that belongs to this message; its number of bytes."""
        if self._done:
            end = len(text) if self._check_trailer else 0
        else:
            end = self._find_end(text)
        self._parts.append(text[:end])
        return end if text.isascii() else len(text[:end].encode())

    def _find_end(self, text: str) -> int:
        if self._depth == 0 and text.lstrip()[:1] not in ("", "{", "["):
            self._done = True  # not a message: there is no end to wait for
            return len(text)
        at = 1 if self._escaped and text else 0
        self._escaped = False
        while True:
            found = (_INSIDE if self._in_string else _OUTSIDE).search(text, at)
            if found is None:
                return len(text)
            at, sign = found.end(), found[0]
            if sign == '"':
                self._in_string = not self._in_string
            elif sign in "{[":
                self._depth += 1
            elif sign in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    self._done = True
                    return at if not self._check_trailer else len(text)
            elif len(sign) == 1:  # a backslash at the end: the escaped character follows in the next text
                self._escaped = True

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
    """Must be called before the library is imported; does nothing if it has its C parser."""
    import ovs

    if importlib.util.find_spec("ovs._json") is None:
        module = ModuleType("ovs._json", __doc__)
        module.Parser = Parser  # type: ignore[attr-defined]
        sys.modules["ovs._json"] = module
        ovs._json = module
