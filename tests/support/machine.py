"""Another machine as far as networks are concerned: separate network namespace, named namespaces and /sys."""

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
    """`with Machine() as machine: machine.run("ip", "link")`; devices inside are removed with it, processes are not."""

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
            raise RuntimeError("cannot create namespaces for a test")

    @property
    def pid(self) -> int:
        """Of a process in its namespaces."""
        return self._holder.pid

    def inside(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` on this machine. nsenter execs it, so the pid is the command's own."""
        return ["nsenter", "--target", str(self._holder.pid), "--net", "--mount", "--", *argv]

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(self.inside(argv), capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, url: str, method: str = "GET", body: object = None) -> dict[str, Any]:
        """An HTTP request from this machine, and its decoded response."""
        data = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
        answer: dict[str, Any] = json.loads(self.run("curl", "-sS", "--noproxy", "*", "-X", method, *data, url))
        return answer

    def devices(self) -> set[str]:
        """Its network devices except loopback."""
        return {link["ifname"] for link in json.loads(self.run("ip", "-json", "link"))} - {"lo"}

    def named_namespaces(self) -> set[str]:
        return {line.split()[0] for line in self.run("ip", "netns").splitlines()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()
