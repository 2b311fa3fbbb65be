"""Kinds of policy check that other packages offer, loaded when a rule first uses one.

oslo.policy loads all of them to read its first rule. Two come with it, which ask another server over HTTP: with them come
an HTTP client and its tables of character sets, five megabytes in every process, and nearly nobody has such a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_policy import _checks
from stevedore import NamedExtensionManager

GROUP = "oslo.policy.rule_checks"


def load_when_used() -> None:
    """To be called before the first rule is read; does nothing where oslo.policy has loaded them already."""
    if getattr(_checks, "extension_checks", ()) is not None:
        return
    offered = NamedExtensionManager(GROUP, names=[], warn_on_missing_entrypoint=False).list_entry_points()
    _checks.extension_checks = {entry_point.name: _late(entry_point) for entry_point in offered}


def _late(entry_point: Any) -> Callable[..., Any]:
    return lambda kind, match: entry_point.load()(kind, match)
