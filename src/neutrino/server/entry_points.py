"""Loads plugins and drivers by entry point."""

from typing import Any

from stevedore import driver, exception


def load(group: str, name: str) -> Any:
    """The object of entry point `name` in `group`; an error names both if no installed package offers it."""
    try:
        return driver.DriverManager(group, name, invoke_on_load=False).driver
    except exception.NoMatches:
        raise ValueError(f"no package offers {name!r} as {group}") from None
