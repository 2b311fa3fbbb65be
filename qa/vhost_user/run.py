"""`make vhost-user`: tests of vhost-user ports, with Open vSwitch and DPDK, and QEMU guests.

Arguments are pytest's: `make vhost-user PYTEST_ARGS="qa/vhost_user/restarts.py -k qemu"`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from neutrino.lab import timing

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 3600.0
PATIENCE = (
    "3"  # time-outs of the lab, unless given: emulated guests and a thread that polls take most of two processors
)
PYTEST = (
    *(sys.executable, "-m", "pytest", "--verbose", "--noconftest", "-p", "no:cacheprovider", "--durations=5"),
    *("-p", "qa.vhost_user.cloud"),
)
FILES = ("qa/vhost_user/ports.py", "qa/vhost_user/restarts.py")


def command(arguments: Sequence[str]) -> list[str]:
    """Files of tests among the arguments replace all of them."""
    named = any(argument.partition("::")[0].endswith(".py") for argument in arguments)
    return [*PYTEST, *arguments, *(() if named else FILES)]


def main(arguments: Sequence[str]) -> int:
    if os.geteuid() != 0:
        print("make vhost-user: namespaces need root: run this as root", file=sys.stderr)
        return 1
    environment = {
        timing.VARIABLE: PATIENCE,
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    try:
        return subprocess.run(command(arguments), cwd=ROOT, env=environment, timeout=SECONDS).returncode
    except subprocess.TimeoutExpired:
        print(f"make vhost-user: it did not end within {SECONDS / 60:.0f} minutes", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
