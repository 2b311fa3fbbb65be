"""When an answer is alike: the rules by which a server's answer is held against the recorded one.

- The status is the same. Where Neutron broke (5xx) any clear refusal (4xx) will do.
- An error has the same type and some message; the words are the server's own.
- A success has every field recorded, with the same value. Further fields are the server's own business.
- Fields that differ by chance only have to be null, or not null, alike: `VOLATILE` anywhere, `loose` paths in one step.
- Lists are sets of items here: both sides are put in one canonical order first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.conformance.recording.exchange import Exchange

VOLATILE = frozenset(
    {
        "id",
        "created_at",
        "updated_at",
        "mac_address",
        "tenant_id",
        "project_id",
        "provider:segmentation_id",
        "dns_assignment",
    }
)

Place = tuple[str, ...]


def judge(exchange: Exchange, status: int, answer: Any) -> list[str]:
    """How a masked answer differs from the recorded one, one line each; nothing where it is alike."""
    found = list(_status_differences(exchange.status, status))
    error = _error_of(exchange.body)
    if error is not None:
        found.extend(_error_differences(error, answer))
    elif exchange.status < 400 and not found:
        patterns = [tuple(path.split(".")) for path in exchange.step.loose]
        found.extend(_value_differences(exchange.body, answer, patterns, ()))
    return found


def _status_differences(want: int, got: int) -> Iterator[str]:
    if want >= 500:
        if not 400 <= got < 500:
            yield f"status: want a 4xx, got {got}"
    elif got != want:
        yield f"status: want {want}, got {got}"


def _error_of(body: Any) -> dict[str, Any] | None:
    error = body.get("NeutronError") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else None


def _error_differences(want: dict[str, Any], answer: Any) -> Iterator[str]:
    error = _error_of(answer)
    if error is None or error.get("type") != want.get("type"):
        yield f"error: want {want}, got {str(answer)[:200]}"
    elif not error.get("message"):
        yield "error: no message"


def _value_differences(want: Any, got: Any, loose: Sequence[Place], place: Place) -> Iterator[str]:
    if any(_covers(pattern, place) for pattern in loose):
        yield from _nullness(want, got, place)
    elif isinstance(want, dict) and isinstance(got, dict):
        yield from _object_differences(want, got, loose, place)
    elif isinstance(want, list) and isinstance(got, list):
        yield from _list_differences(want, got, loose, place)
    elif want != got:
        yield f"{_written(place)}: want {want!r}, got {got!r}"


def _object_differences(
    want: dict[str, Any], got: dict[str, Any], loose: Sequence[Place], place: Place
) -> Iterator[str]:
    for key, value in want.items():
        inner = (*place, key)
        if key not in got:
            yield f"{_written(inner)}: missing"
        elif key in VOLATILE:
            yield from _nullness(value, got[key], inner)
        else:
            yield from _value_differences(value, got[key], loose, inner)


def _list_differences(want: list[Any], got: list[Any], loose: Sequence[Place], place: Place) -> Iterator[str]:
    if len(want) != len(got):
        yield f"{_written(place)}: want {len(want)} items, got {len(got)}"
        return
    inner = [pattern[len(place) + 1 :] for pattern in loose if _covers(pattern[: len(place) + 1], (*place, "0"))]
    ordered = [sorted(items, key=lambda item: _canonical(item, inner)) for items in (want, got)]
    for index, (left, right) in enumerate(zip(*ordered, strict=True)):
        yield from _value_differences(left, right, loose, (*place, str(index)))


def _nullness(want: Any, got: Any, place: Place) -> Iterator[str]:
    if (want is None) != (got is None):
        yield f"{_written(place)}: want {want!r}, got {got!r}"


def _covers(pattern: Place, place: Place) -> bool:
    if len(pattern) != len(place):
        return False
    return all(key.isdecimal() if part == "*" else part == key for part, key in zip(pattern, place, strict=True))


def _canonical(item: Any, loose: Sequence[Place]) -> str:
    return json.dumps(_steady(item, loose, ()), sort_keys=True)


def _steady(value: Any, loose: Sequence[Place], place: Place) -> Any:
    """The value without what differs by chance, which would put the two sides in different orders."""
    if any(_covers(pattern, place) for pattern in loose):
        return value is None
    if isinstance(value, dict):
        return {k: _steady(item, loose, (*place, k)) for k, item in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [_steady(item, loose, (*place, str(i))) for i, item in enumerate(value)]
    return value


def _written(place: Place) -> str:
    return ".".join(place) or "answer"
