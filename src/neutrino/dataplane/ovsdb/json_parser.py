"""A quick reader of JSON for the `ovs` library, in the place that it keeps for one.

The library comes with a parser in C where its headers were there when it was built, else with one that takes every
character by itself: 0.2 s for the ports of a busy host. This one only looks for the end of a message and leaves the reading
to the standard library.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from types import ModuleType

_OUTSIDE = re.compile(r'["{}\[\]]')  # what matters outside of a string
_INSIDE = re.compile(r'\\.?|"', re.DOTALL)  # and inside of one


class Parser:
    """As the library uses it: fed until it is done, then asked for what it has read."""

    def __init__(self, check_trailer: bool = False) -> None:
        self._check_trailer = check_trailer
        self._parts: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last character was a backslash
        self._done = False

    def feed(self, text: str) -> int:
        """Take what belongs to this message; how many bytes that were."""
        if self._done:
            end = len(text) if self._check_trailer else 0
        else:
            end = self._find_end(text)
        self._parts.append(text[:end])
        return end if text.isascii() else len(text[:end].encode())

    def _find_end(self, text: str) -> int:
        if self._depth == 0 and text.lstrip()[:1] not in ("", "{", "["):
            self._done = True  # this is no message, and has no end to wait for
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
            elif len(sign) == 1:  # a backslash, and what it belongs to has not come yet
                self._escaped = True

    def is_done(self) -> bool:
        return self._done

    def finish(self) -> object:
        """What was read; a text that says what is wrong with it otherwise."""
        try:
            read = json.loads("".join(self._parts))
        except ValueError as error:
            return str(error)
        return read if isinstance(read, dict | list) else "syntax error at beginning of input"


def install() -> None:
    """Before the library is loaded, and not where it has its own."""
    import ovs

    if importlib.util.find_spec("ovs._json") is None:
        module = ModuleType("ovs._json", __doc__)
        module.Parser = Parser  # type: ignore[attr-defined]
        sys.modules["ovs._json"] = module
        ovs._json = module
