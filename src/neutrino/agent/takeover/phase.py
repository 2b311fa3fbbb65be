"""How far the conversion of this host is, in a file that outlives the agent."""

import enum
from pathlib import Path

from neutrino import daemon_files, private

DIRECTORY = "takeover"  # below `state_path`
_FILE = "phase"


class Phase(enum.StrEnum):
    NONE = ""  # never converted, or Neutron's again
    CONVERTING = "converting"  # the roles may replace what is Neutron's
    CONVERTED = "converted"
    RETURNING = "returning"  # the snapshot is being restored: roles change nothing


def directory(state_path: str | Path) -> Path:
    return Path(state_path) / DIRECTORY


def read_phase(state_path: str | Path) -> Phase:
    """NONE for a file that cannot be understood: then nothing of Neutron's is replaced."""
    text = (daemon_files.read(directory(state_path) / _FILE, 64) or "").strip()
    return Phase(text) if text in {one.value for one in Phase} else Phase.NONE


def write_phase(state_path: str | Path, phase: Phase) -> None:
    private.own_directory(directory(state_path))
    if phase is Phase.NONE:
        daemon_files.remove(directory(state_path) / _FILE)
    else:
        daemon_files.write(directory(state_path) / _FILE, f"{phase}\n")
