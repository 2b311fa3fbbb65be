"""Plugins and drivers by the names that the configuration gives them."""

from __future__ import annotations

from typing import Any

from stevedore import driver, exception


def load(group: str, name: str) -> Any:
    """What the entry point `name` of `group` is; a name that no package offers is refused with the group's name."""
    try:
        return driver.DriverManager(group, name, invoke_on_load=False).driver
    except exception.NoMatches:
        raise ValueError(f"no package offers {name!r} as {group}") from None
