"""What a flow does: canonical text, and the same taken apart for those who carry it out."""

from __future__ import annotations

from functools import lru_cache

from neutrino.dataplane.openflow.fields import field_name, format_number, parse_number

_LEARN_SETTINGS = ("table", "idle_timeout", "hard_timeout", "priority", "cookie")


@lru_cache(maxsize=65536)
def split_actions(text: str) -> tuple[str, ...]:
    """The parts of a list, at the commas that stand in no parentheses."""
    parts: list[str] = []
    depth = start = 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
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
    return f"learn({','.join(given + rest)})"


def _canonical_action(action: str) -> str:
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


@lru_cache(maxsize=65536)
def canonical_actions(text: str) -> str:
    if text in ("", "drop"):
        return "drop"
    parts = [_canonical_action(action) for action in split_actions(text)]
    if all(part.startswith("conjunction(") for part in parts):
        parts.sort()
    return ",".join(parts)
