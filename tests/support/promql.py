"""A strict reader of the PromQL that our dashboard and rules use: which metrics and labels an expression names.

Not a whole parser: it tokenizes, checks brackets, functions and selectors, and refuses what it does not know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FUNCTIONS = {"rate", "increase", "histogram_quantile", "absent", "vector"}
AGGREGATIONS = {"sum", "max", "min", "count", "topk", "avg"}
KEYWORDS = {"by", "without", "or", "and", "unless", "on", "ignoring", "bool"}
TOKEN = re.compile(
    r"""\s*(?:(?P<string>"[^"]*")|(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])|(?P<number>\d+(?:\.\d+)?)"""
    r"""|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<operator>==|!=|>=|<=|=~|!~|[-+*/(){},=<>]))"""
)


class NotUnderstood(ValueError):
    """Not an expression that this reader knows."""


@dataclass(frozen=True)
class Use:
    """A metric, with the labels that the expression selects it by."""

    metric: str
    labels: frozenset[str]


def tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise NotUnderstood(f"{text!r} at {text[at:]!r}")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


def read(text: str) -> tuple[list[Use], set[str]]:
    """The metrics of an expression, and the labels that it groups by."""
    all_tokens = tokens(text)
    _check_brackets(text, [token for _, token in all_tokens])
    uses: list[Use] = []
    grouped: set[str] = set()
    at = 0
    while at < len(all_tokens):
        kind, token = all_tokens[at]
        following = all_tokens[at + 1][1] if at + 1 < len(all_tokens) else ""
        if kind != "name":
            at += 1
        elif token in ("by", "without", "on", "ignoring"):
            end = all_tokens.index(("operator", ")"), at)
            grouped |= {name for kind, name in all_tokens[at + 2 : end] if kind == "name"}
            at = end + 1
        elif token in KEYWORDS:
            at += 1
        elif following == "(" or (token in AGGREGATIONS and following in ("by", "without")):
            if token not in FUNCTIONS | AGGREGATIONS:
                raise NotUnderstood(f"{text!r}: there is no function {token}")
            at += 1
        else:
            labels: set[str] = set()
            at += 1
            if following == "{":
                end = all_tokens.index(("operator", "}"), at)
                labels = _labels(text, all_tokens[at + 1 : end])
                at = end + 1
            uses.append(Use(token, frozenset(labels)))
    if not uses:
        raise NotUnderstood(f"{text!r} names no metric")
    return uses, grouped


def _labels(text: str, selector: list[tuple[str, str]]) -> set[str]:
    found = set()
    for start in range(0, len(selector), 4):
        part = selector[start : start + 4]
        kinds = [kind for kind, _ in part[:3]]
        if kinds != ["name", "operator", "string"] or part[1][1] not in ("=", "!=", "=~", "!~"):
            raise NotUnderstood(f'{text!r}: {part} is not label="value"')
        found.add(part[0][1])
    return found


def _check_brackets(text: str, words: list[str]) -> None:
    opened = []
    for word in words:
        if word in "({":
            opened.append(word)
        elif word in ")}" and (not opened or opened.pop() != {")": "(", "}": "{"}[word]):
            raise NotUnderstood(f"{text!r}: brackets")
    if opened:
        raise NotUnderstood(f"{text!r}: brackets")
