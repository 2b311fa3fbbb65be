"""The flows of a real bridge, through ovs-ofctl.

One bundle is one transaction of the switch: a packet sees all of a change or none of it, and a flow that is refused
undoes the rest. Flows go in on standard input, so their number has no limit.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence

from neutrino.dataplane.openflow.api import Flow, OpenFlowError, parse_flow

# The first version with bundles; flows read in one version and written in another would be spelled differently.
_VERSION = "OpenFlow14"
_COUNT = re.compile(r"flow_count=(\d+)")


class OvsOfctl:
    """`run_directory` is where ovs-vswitchd keeps its sockets; empty for where it does so by default."""

    def __init__(
        self, run_directory: str = "", *, program: Sequence[str] = ("ovs-ofctl",), timeout: float = 60
    ) -> None:
        self._run_directory = run_directory
        self._program = list(program)
        self._timeout = timeout

    def read_flows(self, bridge: str, cookie: int, mask: int) -> frozenset[Flow]:
        selection = f"cookie={cookie:#x}/{mask:#x}"
        output = self._run(["--no-stats", "dump-flows", self._address(bridge), selection])
        return frozenset(parse_flow(line) for line in output.splitlines() if " actions=" in line)

    def count_flows(self, bridge: str, cookie: int, mask: int) -> int:
        output = self._run(["dump-aggregate", self._address(bridge), f"cookie={cookie:#x}/{mask:#x}"])
        found = _COUNT.search(output)
        if found is None:
            raise OpenFlowError(f"ovs-ofctl dump-aggregate said {output.strip()!r}")
        return int(found[1])

    def apply_flows(self, bridge: str, *, add: Iterable[Flow], delete: Iterable[Flow]) -> None:
        lines = [_delete_line(flow) for flow in delete]
        lines += [f"add {flow.text()}" for flow in add]
        if lines:
            self._run(["--bundle", "add-flows", self._address(bridge), "-"], "\n".join(lines) + "\n")

    def _address(self, bridge: str) -> str:
        return f"unix:{self._run_directory}/{bridge}.mgmt" if self._run_directory else bridge

    def _run(self, arguments: list[str], text: str = "") -> str:
        # Without --no-names it first asks the switch for the names of all ports and tables: a megabyte, for one flow.
        command = [*self._program, "-O", _VERSION, "--no-names", *arguments]
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=self._timeout, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OpenFlowError(f"ovs-ofctl: {error}") from error
        if done.returncode != 0:
            raise OpenFlowError(done.stderr.strip() or f"ovs-ofctl ended with {done.returncode}")
        return done.stdout


def _delete_line(flow: Flow) -> str:
    parts = [f"table={flow.table}", f"priority={flow.priority}", *filter(None, [flow.match])]
    return f"delete_strict {','.join(parts)}"
