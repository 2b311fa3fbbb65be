"""Loads the extensions of an agent role from entry points; the roles' contracts are in their `extension_api.py`."""

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from neutrino.agent.config import RefusedToStart


def load_extensions(group: str, names: Sequence[str], *args: object) -> list[Any]:
    """Instances of the named entry points of `group`, in the order of `names`; each is called with `args`."""
    installed = {point.name: point for point in entry_points(group=group)}
    extensions = []
    for name in names:
        if name not in installed:
            known = ", ".join(sorted(installed)) or "none"
            raise RefusedToStart(f"extension {name!r} is not installed as entry point of {group} (installed: {known})")
        try:
            extensions.append(installed[name].load()(*args))
        except Exception as error:  # third-party code: whatever it raises, the operator gets one line that names it
            raise RefusedToStart(f"extension {name!r} of {group} cannot be loaded: {error!r}") from error
    return extensions
