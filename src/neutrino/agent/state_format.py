"""Version of the state directory's format: a release refuses a directory that a newer one has written."""

from __future__ import annotations

from pathlib import Path

from neutrino import private
from neutrino.agent.config import RefusedToStart

FORMAT = 1  # raise it when a release writes state that the one before would misread
FILE = "format"


def ensure(state: Path) -> None:
    """Write this release's format; RefusedToStart if a newer release has used the directory."""
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
    """The directory's format; None if it has none."""
    try:
        return int((state / FILE).read_text())
    except (OSError, ValueError):
        return None
