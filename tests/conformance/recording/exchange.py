"""What one recorded exchange is, and how the names in it stand for values that only a run knows.

Ids, projects, times and addresses differ between any two runs. The recording therefore has `{name}` where an earlier
answer gave the value and `<uuid>`, `<time>` and so on where nothing refers to it. `Names` turns names into real values
on the way out; on the way in, `Names.masked` writes an answer as the recording would have.

A step of the recording:
  part, actor           the chapter it belongs to, and the caller
  method, path, body    the request; `{name}` in path, body and headers is filled in
  headers               further request headers
  raw, ctype            a body sent as it stands (broken JSON, say) and its content type
  save                  name -> dotted path into the answer
  loose                 dotted paths (`*` for any list index) where only null or not null is compared
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).with_name("recorded.jsonl")

_REFERENCE = re.compile(r"\{([a-z][a-z0-9_]*)\}")

# Applied in this order: a request id is a word before a UUID, and a UUID would otherwise be found inside longer texts.
_MASKS = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<hex>"),
    (re.compile(r"fa:16:3e(?::[0-9a-f]{2}){3}"), "<mac>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"req-<uuid>"), "<req>"),
    (re.compile(r"https?://[^/\s\"]+"), "<url>"),
)

# Shorter values ("ACTIVE", "4") would be found by accident inside unrelated texts.
_SHORTEST_NAMED = 8

# Internal row numbers that an answer may carry; never part of the comparison.
_DROPPED = frozenset({"standard_attr_id"})


@dataclass(frozen=True)
class Step:
    """One request, as it was recorded."""

    part: str
    actor: str
    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: str | None = None
    ctype: str = "application/json"
    save: Mapping[str, str] = field(default_factory=dict)
    loose: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Step:
        values = dict(data)
        values["loose"] = tuple(values.get("loose", ()))
        return cls(**values)


@dataclass(frozen=True)
class Exchange:
    """A step and what Neutron answered to it, masked."""

    number: int
    step: Step
    status: int
    body: Any


def read_recording(path: Path = RECORDING) -> list[Exchange]:
    """The exchanges of a recording, in the order in which they were made."""
    return list(_parsed(path.read_text(encoding="utf-8").splitlines()))


def _parsed(lines: Iterable[str]) -> Iterator[Exchange]:
    for line in lines:
        if line.strip():
            data = json.loads(line)
            yield Exchange(data["n"], Step.from_json(data["step"]), data["status"], data["body"])


def pick(value: Any, path: str) -> Any:
    """The value at a dotted path, list items by index; None where there is no such place."""
    for key in path.split("."):
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


class Names:
    """The values that names stand for in this run."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._values: dict[str, Any] = dict(known)

    def fill(self, text: str) -> str:
        """The text with real values; a name without a value stays, and the server gets to refuse it."""
        return _REFERENCE.sub(lambda match: str(self._values.get(match[1], match[0])), text)

    def learn(self, step: Step, answer: Any) -> None:
        """Keep the values that the step saves. An answer that lacks it leaves the name as it was."""
        for name, path in step.save.items():
            value = pick(answer, path)
            if value is not None:
                self._values[name] = value

    def masked(self, value: Any) -> Any:
        """An answer as the recording would have it."""
        return self._walk(value, self._replacements())

    def _replacements(self) -> list[tuple[str, str]]:
        """Real value and name, longest value first; of two names for one value the alphabetically first counts."""
        named: dict[str, str] = {}
        for name in sorted(self._values):
            value = self._values[name]
            if isinstance(value, str) and len(value) >= _SHORTEST_NAMED:
                named.setdefault(value, "{" + name + "}")
        return sorted(named.items(), key=lambda item: len(item[0]), reverse=True)

    def _walk(self, value: Any, replacements: list[tuple[str, str]]) -> Any:
        if isinstance(value, dict):
            return {key: self._walk(item, replacements) for key, item in value.items() if key not in _DROPPED}
        if isinstance(value, list):
            return [self._walk(item, replacements) for item in value]
        if isinstance(value, str):
            for real, name in replacements:
                value = value.replace(real, name)
            for pattern, mask in _MASKS:
                value = pattern.sub(mask, value)
        return value
