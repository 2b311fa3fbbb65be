"""The virtual environment of the further services: their dependencies are neither ours nor those of Nova."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from qa.openstack.cloud import WORK, Cloud

MORE_VENV = WORK / "services_more"
MORE_PACKAGES = ("openstack-heat", "octavia", "ironic", "horizon", "tempest", "neutron-tempest-plugin")
PORTS = {"heat": 8004, "octavia": 9876, "ironic": 6385, "horizon": 8080}


@contextmanager
def more(cloud: Cloud) -> Iterator[Cloud]:
    """Within the block, the cloud's programs are those of this environment."""
    before, cloud.venv = cloud.venv, MORE_VENV
    try:
        yield cloud
    finally:
        cloud.venv = before


def more_versions(packages: Sequence[str]) -> dict[str, str]:
    """Of packages of this environment; empty if it is not installed."""
    code = "import sys, importlib.metadata as m; print(*(m.version(name) for name in sys.argv[1:]))"
    try:
        done = subprocess.run(
            [MORE_VENV / "bin" / "python", "-c", code, *packages], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return {}
    return dict(zip(packages, done.stdout.split(), strict=False))
