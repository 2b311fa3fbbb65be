"""The format of an agent's state directory: a release refuses what a newer one has written."""

from __future__ import annotations

from pathlib import Path

from neutrino import private
from neutrino.agent.config import RefusedToStart

FORMAT = 1  # raise it when a release writes state that the one before would misread
FILE = "format"


def ensure(state: Path) -> None:
    """Write this release's format, or RefusedToStart where a newer release was here before."""
    found = read(state)
    if found is not None and found > FORMAT:
        raise RefusedToStart(
            f"state_path={state} was written by a newer release (format {found}, this release knows {FORMAT}): "
            "run that release, or give this one an empty directory"
        )
    if found != FORMAT:
        private.own_directory(state, passable=True)
        (state / FILE).write_text(f"{FORMAT}\n")


def read(state: Path) -> int | None:
    """The format of the directory; none if it has none, as before there were formats."""
    try:
        return int((state / FILE).read_text())
    except (OSError, ValueError):
        return None
