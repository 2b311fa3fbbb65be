"""Another machine, as far as networks go: network namespace, named namespaces and /sys of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.support.process import ENDS_WITH_US

_SCRIPT = """
mount -t sysfs sysfs /sys
for directory in /run/netns /run/openvswitch; do
    mkdir -p $directory
    mount -t tmpfs tmpfs $directory
done
ip link set lo up
echo ready
exec sleep infinity
"""


class Machine:
    """`with Machine() as machine: machine.run("ip", "link")`; what is left inside goes with it, but for processes."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            [*ENDS_WITH_US, "unshare", "--net", "--mount", "bash", "-euc", _SCRIPT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            self.close()
            raise RuntimeError("no namespaces of its own for a test")

    def inside(self, argv: Sequence[str]) -> list[str]:
        """The command, to be run on this machine. nsenter becomes the command: the pid is its own."""
        return ["nsenter", "--target", str(self._holder.pid), "--net", "--mount", "--", *argv]

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(self.inside(argv), capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, url: str, method: str = "GET", body: object = None) -> dict[str, Any]:
        """A request from this machine, and the answer."""
        data = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
        answer: dict[str, Any] = json.loads(self.run("curl", "-sS", "--noproxy", "*", "-X", method, *data, url))
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()
