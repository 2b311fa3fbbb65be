"""Attributes that a change has changed, as the change log stores them: old and new values, bounded, without secrets.

JSON: `{"name": ["web", "db"]}`. The API shows them as `changed` of a row of `/v2.0/changes`.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from neutrino.model.objects import Object, Values

MAX_VALUE: Final = 1000  # characters of a value as JSON; of a longer one the log has the beginning, as text
MAX_NAME: Final = 64
MAX_NAMES: Final = 40  # attributes of a change: no resource has more, but a driver may add some
MASKED: Final = "***"
# Known from the row itself.
_STAMPS: Final = frozenset({"id", "project_id", "tenant_id", "created_at", "updated_at", "revision_number"})
Changed = Mapping[str, tuple[object, object]]  # old and new values by attribute
NOTHING: Final[Changed] = {}


def changed_values(before: Values, values: Values, secrets: Collection[str] = ()) -> Changed:
    """The values that differ from those before. An attribute that was not read before the change is left out.

    A secret is masked, and not left out: the API does not show some.
    """
    found: dict[str, tuple[object, object]] = {}
    for name, new in values.items():
        if name in secrets and (name not in before or before[name] != new):
            found[name] = (MASKED, MASKED)
        if name in _STAMPS or name in secrets or name not in before:
            continue
        old = _decoded(before[name], new)
        if old != new:
            found[name] = (old, new)
    return found


def together(first: Changed, second: Changed) -> Changed:
    """Two changes of an object in one transaction, as one."""
    if not first or not second:
        return first or second
    merged = dict(first)
    for name, (old, new) in second.items():
        merged[name] = (merged[name][0] if name in merged else old, new)
    return {name: (old, new) for name, (old, new) in merged.items() if old != new or old == MASKED}


def encode_changed(changed: Changed) -> str | None:
    """The column's text; None: nothing has changed."""
    shown = {name[:MAX_NAME]: (_bounded(old), _bounded(new)) for name, (old, new) in list(changed.items())[:MAX_NAMES]}
    return msgspec.json.encode(shown, enc_hook=str).decode() if shown else None


def decode_changed(text: str | None) -> list[Object]:
    if text is None:
        return []
    pairs: dict[str, tuple[object, object]] = msgspec.json.decode(text)
    return [{"name": name, "old": old, "new": new} for name, (old, new) in pairs.items()]


def _decoded(stored: object, like: object) -> object:
    """A value that may be the text of a JSON column, if the new one is none."""
    if isinstance(stored, msgspec.Raw) or (isinstance(stored, str) and isinstance(like, (list, dict))):
        return msgspec.json.decode(stored)
    return stored


def _bounded(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return value if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
