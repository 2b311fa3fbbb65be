"""The build of the packages, whose modules are below packaging/ and not installed."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
sys.path.insert(0, str(PACKAGING))

from debs import components, containerfile, control, environment, packages, release, tree  # noqa: E402

__all__ = ["PACKAGING", "ROOT", "components", "containerfile", "control", "environment", "packages", "release", "tree"]
