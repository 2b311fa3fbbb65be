"""The flows and meters of a real bridge, through ovs-ofctl, and what is read often by messages of our own.

One bundle is one transaction of the switch: a packet sees all of a change or none of it, and a rejected flow undoes the
rest. Flows are passed on standard input, so their number has no limit. The switch names all flows whose actions the
datapath does not support; of other rejections, such as a full table, only the first. Meters cannot be part of a bundle.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from neutrino.dataplane.openflow import api, meters, statistics
from neutrino.dataplane.program import ProgramError, run_program
from neutrino.dataplane.protocols.unixctl import ControlError, control_connection
from neutrino.model.rates import Counted

# The first version with bundles. One version for all commands: dumps of another version spell flows differently.
_VERSION = "OpenFlow14"
_CONTROL_SECONDS = 60.0
_OVS_VERSION = re.compile(r"\(Open vSwitch\) (\d+)\.(\d+)")
# cookie=0x6e74…, duration=12.345s, table=71, n_packets=2, n_bytes=684, idle_age=3, priority=80,udp,reg5=0x5 actions=…
_PACKETS = re.compile(
    r"duration=(?P<seconds>[\d.]+)s, table=(?P<table>\d+), n_packets=(?P<packets>\d+), n_bytes=\d+, "
    r"(?:\w+_age=\d+, )*(?P<match>.*) actions="
)
# nd_ext (IPv6 ND Extension) : [run time]:false, [boot time]:true
_ND_EXTENSION = re.compile(r"^nd_ext .*\[run time\]:true", re.MULTILINE)
# Error OFPBAC_BAD_SET_ARGUMENT for: OFPT_FLOW_MOD (OF1.4) (xid=0x3): ADD table:21 priority=1,arp cookie:0x7 actions=…
_REJECTED = re.compile(r"^Error (\w+) for: OFPT_FLOW_MOD .*?: ADD (.*?) ?actions=", re.MULTILINE)
_TABLE = re.compile(r"table:(\d+)")
_UNREADABLE = re.compile(r"^ovs-ofctl: -:(\d+): (.*)", re.MULTILINE)  # a line of standard input
# meter=40000 pktps burst bands=
# type=drop rate=100 burst_size=10
_METER = re.compile(r"meter=(\d+) (pktps|kbps)\b[^\n]*bands=\s*\ntype=drop rate=(\d+)(?: burst_size=(\d+))?")
_RUN_DIRECTORY = "/var/run/openvswitch"  # where ovs-ofctl looks for bridges
_METERS = 100  # that are changed by one connection


@dataclasses.dataclass(frozen=True)
class OvsOfctl:
    """Implements `OpenFlow`."""

    run_directory: str = ""  # where ovs-vswitchd has its sockets
    userspace: bool = False  # its datapath is netdev

    def read_flows(self, bridge: str, cookie: int, mask: int) -> frozenset[api.Flow]:
        selection = f"cookie={cookie:#x}/{mask:#x}"
        output = self._run(["--no-stats", "dump-flows", self._address(bridge), selection])
        return frozenset(api.parse_flow(line) for line in output.splitlines() if " actions=" in line)

    def count_flows(self, bridge: str, cookie: int, mask: int) -> int:
        return statistics.count_flows(self._socket(bridge), cookie, mask, _CONTROL_SECONDS)

    def count_packets(self, bridge: str, match: str, tables: Collection[int]) -> dict[str, api.PacketCount]:
        output = self._run(["dump-flows", self._address(bridge), match])
        return {
            f"{one['table']} {one['match']}": api.PacketCount(int(one["packets"]), float(one["seconds"]))
            for line in output.splitlines()
            if (one := _PACKETS.search(line)) is not None and int(one["table"]) in tables
        }

    def read_port_counters(self, bridge: str) -> dict[int, Counted]:
        return statistics.read_port_counters(self._socket(bridge), _CONTROL_SECONDS)

    def apply_flows(self, bridge: str, *, add: Iterable[api.Flow], delete: Iterable[api.Flow]) -> None:
        # Deletions first: delete_strict ignores cookies, so it would delete a flow that was just added under the same key.
        stale, new = [*delete], [*add]
        lines = [*(_delete_line(flow) for flow in stale), *(f"add {flow.text()}" for flow in new)]
        if not lines:
            return
        try:
            self._run(["--bundle", "add-flows", self._address(bridge), "-"], "\n".join(lines) + "\n")
        except api.OpenFlowError as error:
            reasons = _parse_rejections(str(error), new, first_line=len(stale) + 1)
            # An OpenFlow error: the switch has judged the flows, so it can be reached.
            if reasons or "OFP" in str(error):
                raise api.FlowsRejected(str(error), reasons) from error
            raise

    def read_features(self, bridge: str) -> api.DatapathFeatures:
        """The features in force. `dpif/show-dp-features` would show the datapath's own, without restrictions."""
        try:
            with control_connection(self.run_directory, _CONTROL_SECONDS) as control:
                output = control.call("dpif/set-dp-features", bridge, "nd_ext")  # without a value: no change
        except ControlError as error:
            raise api.OpenFlowError(f"the features of the datapath under {bridge} cannot be read: {error}") from error
        return api.DatapathFeatures(nd_extension=_ND_EXTENSION.search(output) is not None)

    def flush_megaflows(self) -> None:
        if not self.userspace:
            return
        try:
            with control_connection(self.run_directory, _CONTROL_SECONDS) as control:
                if not revalidates_correctly(control.call("version")):
                    control.call("revalidator/purge")
        except ControlError as error:
            raise api.OpenFlowError(f"the megaflow cache cannot be flushed: {error}") from error

    def read_meters(self, bridge: str) -> dict[int, api.Meter]:
        output = self._run(["dump-meters", self._address(bridge)])
        return {
            int(number): api.Meter(int(rate), "pktps" if unit == "pktps" else "kbps", int(burst or 0))
            for number, unit, rate, burst in _METER.findall(output)
        }

    def apply_meters(
        self, bridge: str, *, add: Mapping[int, api.Meter], change: Mapping[int, api.Meter], delete: Iterable[int]
    ) -> None:
        changes = [meters.MeterChange(meters.DELETE, number) for number in delete]
        changes += [meters.MeterChange(meters.CHANGE, number, meter) for number, meter in change.items()]
        changes += [meters.MeterChange(meters.ADD, number, meter) for number, meter in add.items()]
        address = self._socket(bridge)
        # In parts, so that neither end waits for the other with full buffers.
        parts = (changes[start : start + _METERS] for start in range(0, len(changes), _METERS))
        reasons = {
            key: why for part in parts for key, why in meters.send_changes(address, part, _CONTROL_SECONDS).items()
        }
        if reasons:
            raise api.MetersRejected(reasons)  # after all: one bad meter must not keep the others out

    def _socket(self, bridge: str) -> str:
        return f"{self.run_directory or _RUN_DIRECTORY}/{bridge}.mgmt"

    def _address(self, bridge: str) -> str:
        return f"unix:{self.run_directory}/{bridge}.mgmt" if self.run_directory else bridge

    def _run(self, arguments: list[str], text: str = "") -> str:
        # Without --no-names ovs-ofctl first reads the names of all ports and tables: a megabyte, for one flow.
        command = ["ovs-ofctl", "-O", _VERSION, "--no-names", *arguments]
        try:
            return run_program(command, text)
        except ProgramError as error:
            raise api.OpenFlowError(str(error)) from error


def revalidates_correctly(version: str) -> bool:
    """Whether a switch of this version needs no flush of megaflows; an unknown version may need it."""
    found = _OVS_VERSION.search(version)
    return found is not None and (int(found[1]), int(found[2])) >= (3, 2)


def _delete_line(flow: api.Flow) -> str:
    parts = [f"table={flow.table}", f"priority={flow.priority}", *filter(None, [flow.match])]
    return f"delete_strict {','.join(parts)}"


def _parse_rejections(text: str, added: Sequence[api.Flow], first_line: int) -> dict[api.FlowKey, str]:
    """The flows in an error message of ovs-ofctl, with the reason. The switch quotes a flow, ovs-ofctl itself a line."""
    reasons = {_rejected_key(head): name for name, head in _REJECTED.findall(text)}
    for number, reason in _UNREADABLE.findall(text):
        place = int(number) - first_line
        if 0 <= place < len(added):
            reasons[added[place].key] = reason
    return reasons


def _rejected_key(head: str) -> api.FlowKey:
    """The key of a flow that is quoted as a flow modification: words for its table, match and cookie."""
    table = _TABLE.search(head)
    match = next((word for word in head.split() if not re.match(r"\w+:", word)), "")
    return api.parse_flow(f"table={table[1] if table else 0},{match} actions=drop").key
