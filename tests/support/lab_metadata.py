"""Metadata requests of instances in a lab."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from neutrino.lab.timing import scaled
from tests.support.lab import wait_until
from tests.support.lab_control import Lab

ADDRESS = "169.254.169.254"
SIX = "[fe80::a9fe:a9fe%25eth0]"
IDENTITY = "/latest/meta-data/instance-id"


def curl(lab: Lab, vm: str, path: str = IDENTITY, *options: str, where: str = ADDRESS) -> tuple[int, str]:
    """Status and body; status 0 without a response."""
    argv = ["curl", "-s", "-m", str(scaled(8)), "-w", "\n%{http_code}", *options, f"http://{where}{path}"]
    text, _, status = lab.run(vm, argv, check=False).stdout.rpartition("\n")
    return int(status or 0), text


def wait_for_metadata(lab: Lab, vm: str, seconds: float = 30, *, where: str = ADDRESS) -> None:
    """Wait until the metadata service returns the VM's own id."""
    own = (200, lab.vms.get(vm).device_id)
    wait_until(lambda: curl(lab, vm, where=where) == own, seconds, f"{vm} has no metadata at {where}")


@contextlib.contextmanager
def asking(lab: Lab, vm: str) -> Iterator[list[str]]:
    """Send requests continuously, each on a new connection; then the list has all responses, `failed` for a failure."""
    answers: list[str] = []
    once = f"curl -s -f -m 8 http://{ADDRESS}{IDENTITY} && echo || echo failed"
    process = lab.popen(vm, ["sh", "-c", f"while sleep 0.05; do {once}; done"], stderr=subprocess.DEVNULL)
    try:
        yield answers
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=20)
        answers += out.splitlines()


def metadata_route(lab: Lab, vm: str) -> str:
    """The next hop of the VM's metadata route; empty if there is none."""
    words = lab.run(vm, ["ip", "route", "show", f"{ADDRESS}/32"]).stdout.split()
    return words[words.index("via") + 1] if "via" in words else ""
