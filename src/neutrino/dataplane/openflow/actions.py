"""What a flow does: canonical text, and the same taken apart for those who carry it out."""

from __future__ import annotations

import re
from functools import lru_cache

from neutrino.dataplane.openflow.fields import field_name, format_number, parse_number

_LONG = 200  # a text that names every port of a network is another after each change: not worth remembering
_BOUNDARY = re.compile(r"[(),]")
_LEARN_SETTINGS = ("table", "idle_timeout", "hard_timeout", "priority", "cookie", "limit")
_LEARN_FLAGS = ("delete_learned",)


def split_actions(text: str) -> tuple[str, ...]:
    """The parts of a list, at the commas that stand in no parentheses."""
    parts: list[str] = []
    depth = start = 0
    for boundary in _BOUNDARY.finditer(text):
        character = boundary[0]
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : boundary.start()].strip())
            start = boundary.end()
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)


def arguments(action: str) -> str:
    """What stands between the parentheses of an action."""
    return action[action.index("(") + 1 : action.rindex(")")]


def parse_set_field(action: str) -> tuple[str, int]:
    """The field and the number of `set_field:value->field`; `vlan_vid` keeps its name."""
    value, _, name = action.removeprefix("set_field:").partition("->")
    if name == "vlan_vid":
        return name, int(value, 0)
    field = field_name(name)
    return field, parse_number(field, value)


def _canonical_ct(action: str) -> str:
    parts = split_actions(arguments(action))
    inner = [f"exec({canonical_actions(arguments(part))})" for part in parts if part.startswith("exec(")]
    plain = sorted(part for part in parts if not part.startswith("exec("))
    return f"ct({','.join(plain + inner)})"


def _canonical_learn(action: str) -> str:
    settings: dict[str, int] = {}
    rest: list[str] = []
    for part in split_actions(arguments(action)):
        name, _, value = part.partition("=")
        if name in _LEARN_SETTINGS:
            settings[name] = int(value, 0)
        else:
            rest.append(part)
    given = [f"{name}={settings[name]}" for name in _LEARN_SETTINGS if settings.get(name)]
    flags = [part for part in rest if part in _LEARN_FLAGS]
    return f"learn({','.join(given + flags + [part for part in rest if part not in flags])})"


def _canonical_action(action: str) -> str:
    return _worked_out(action) if len(action) > _LONG else _remembered(action)


def _worked_out(action: str) -> str:
    if action.startswith("set_field:"):
        field, number = parse_set_field(action)
        name = action.rpartition("->")[2]
        return f"set_field:{number if field == 'vlan_vid' else format_number(field, number)}->{name}"
    if action.startswith("ct("):
        return _canonical_ct(action)
    if action.startswith("clone("):
        return f"clone({canonical_actions(arguments(action))})"
    if action.startswith("learn("):
        return _canonical_learn(action)
    if action == "strip_vlan":
        return "pop_vlan"
    if action.startswith("goto_table:"):
        return f"resubmit(,{action.removeprefix('goto_table:')})"
    return action


_remembered = lru_cache(maxsize=16384)(_worked_out)


def canonical_actions(text: str) -> str:
    return _all_worked_out(text) if len(text) > _LONG else _all_remembered(text)


def _all_worked_out(text: str) -> str:
    if text in ("", "drop"):
        return "drop"
    parts = [_canonical_action(action) for action in split_actions(text)]
    if all(part.startswith("conjunction(") for part in parts):
        parts.sort()
    return ",".join(parts)


_all_remembered = lru_cache(maxsize=16384)(_all_worked_out)
