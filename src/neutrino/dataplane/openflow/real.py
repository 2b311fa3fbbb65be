"""The flows of a real bridge, through ovs-ofctl.

One bundle is one transaction of the switch: a packet sees all of a change or none of it, and a flow that is refused
undoes the rest. Flows go in on standard input, so their number has no limit. Flows with actions that the datapath cannot
carry out are all named in the answer; of others, such as one too many for a table, the first alone.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence

from neutrino.dataplane.openflow.api import (
    DatapathFeatures,
    Flow,
    FlowKey,
    FlowsRejected,
    OpenFlowError,
    parse_flow,
)
from neutrino.dataplane.openflow.unixctl import ControlConnection, ControlError, control_socket

# The first version with bundles; flows read in one version and written in another would be spelled differently.
_VERSION = "OpenFlow14"
_COUNT = re.compile(r"flow_count=(\d+)")
_DEFAULT_RUN_DIRECTORY = "/var/run/openvswitch"
# nd_ext (IPv6 ND Extension) : [run time]:false, [boot time]:true
_ND_EXTENSION = re.compile(r"^nd_ext .*\[run time\]:true", re.MULTILINE)
# Error OFPBAC_BAD_SET_ARGUMENT for: OFPT_FLOW_MOD (OF1.4) (xid=0x3): ADD table:21 priority=1,arp cookie:0x7 actions=…
_REJECTED = re.compile(r"^Error (\w+) for: OFPT_FLOW_MOD .*?: ADD (.*?) ?actions=", re.MULTILINE)
_TABLE = re.compile(r"table:(\d+)")
_UNREADABLE = re.compile(r"^ovs-ofctl: -:(\d+): (.*)", re.MULTILINE)  # a line of what ovs-ofctl was given


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
        gone, new = [*delete], [*add]
        lines = [*(_delete_line(flow) for flow in gone), *(f"add {flow.text()}" for flow in new)]
        if not lines:
            return
        try:
            self._run(["--bundle", "add-flows", self._address(bridge), "-"], "\n".join(lines) + "\n")
        except OpenFlowError as error:
            reasons = _parse_rejections(str(error), new, first_line=len(gone) + 1)
            if reasons or "OFP" in str(error):
                raise FlowsRejected(str(error), reasons) from error
            raise

    def read_features(self, bridge: str) -> DatapathFeatures:
        """Those in force, by which the switch judges flows; `dpif/show-dp-features` shows them without restrictions."""
        try:
            path = control_socket(self._run_directory or _DEFAULT_RUN_DIRECTORY)
            with ControlConnection(path, self._timeout) as control:
                said = control.call("dpif/set-dp-features", bridge, "nd_ext")  # without a value it sets nothing
        except ControlError as error:
            raise OpenFlowError(f"the features of the datapath under {bridge} cannot be read: {error}") from error
        return DatapathFeatures(nd_extension=_ND_EXTENSION.search(said) is not None)

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


def _parse_rejections(text: str, added: Sequence[Flow], first_line: int) -> dict[FlowKey, str]:
    """The flows that an error message of ovs-ofctl names, with the reason: the switch's by their text, its own by line."""
    reasons = {_rejected_key(head): name for name, head in _REJECTED.findall(text)}
    for number, reason in _UNREADABLE.findall(text):
        place = int(number) - first_line
        if 0 <= place < len(added):
            reasons[added[place].key] = reason
    return reasons


def _rejected_key(head: str) -> FlowKey:
    """The key of a flow in the form of a flow modification: words for its table, match and cookie."""
    table = _TABLE.search(head)
    match = next((word for word in head.split() if not re.match(r"\w+:", word)), "")
    return parse_flow(f"table={table[1] if table else 0},{match} actions=drop").key
