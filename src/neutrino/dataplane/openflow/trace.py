"""Parses the output of `ofproto/trace` and `ofproto/trace-packet-out`: tables, matched flows, actions and copies.

The output has one part for the packet itself, and one for each copy that returns from conntrack (`recirc`). Only the first
part is taken: conntrack in a trace knows neither the connection's first packet nor its mark, so the caller continues each
copy by a trace of its own (`Fork`). Formats of Open vSwitch 2.17 to 3.5: unknown lines are notes of the flow before them.
"""

import dataclasses
import re
from collections.abc import Mapping

from neutrino.dataplane.openflow.datapath_actions import top_level

_NESTED = 4  # by how much more than the name of an inner bridge its lookups are indented
_BRIDGE = re.compile(r'bridge\("([^"]+)"\)$')
_LOOKUP = re.compile(r"(\d+)\. (?:(?P<match>.*), )?priority (?P<priority>\d+)(?:, cookie (?P<cookie>0x[0-9a-f]+))?$")
_NO_MATCH = re.compile(r"(\d+)\. No match")
_FORK = re.compile(r"resumed at table (\d+)")
_NAT = re.compile(r"\bnat(?:\(([^)]*)\))?")
_OUTPUT_PORT = re.compile(r"output port is (\d+)")
_NOTES = ("->", ">>")
# Between two lines of "=": the copy's number and state, and since 3.2 what NAT would rewrite.
_RECIRCULATION = re.compile(r"^=+\nrecirc\(.*?^=+\n", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Lookup:
    """A table that the packet passed, and the flow that it matched there."""

    bridge: str
    table: int
    match: str = ""
    priority: int = -1  # -1: no flow matched
    cookie: int = 0
    actions: tuple[str, ...] = ()  # as far as they were executed
    notes: tuple[str, ...] = ()

    @property
    def missed(self) -> bool:
        return self.priority < 0

    def text(self) -> str:
        if self.missed:
            return f"table={self.table} no match"
        head = f"cookie={self.cookie:#x},table={self.table},priority={self.priority}"
        return f"{head}{',' if self.match else ''}{self.match} actions={','.join(self.actions)}"


@dataclasses.dataclass(frozen=True)
class Fork:
    """A copy that has been sent to conntrack, and resumes in a table."""

    bridge: str
    table: int
    fields: Mapping[str, str]  # of the packet, with registers
    nat: str | None = None  # the argument of `nat`, which a trace does not carry out; None: no translation


@dataclasses.dataclass(frozen=True)
class SwitchTrace:
    lookups: tuple[Lookup, ...]
    actions: str  # of the datapath
    forks: tuple[Fork, ...] = ()
    bridges: tuple[str, ...] = ()  # in the order in which the packet entered them
    problem: str = ""  # why the switch did not complete it

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for lookup in self.lookups for note in lookup.notes)


def parse_trace(output: str) -> SwitchTrace:
    """The first part of a trace, with the copies that conntrack returns."""
    parts = _RECIRCULATION.split(output)
    lookups: list[Lookup] = []
    resumed: list[tuple[str, int, str | None]] = []
    bridges: list[str] = []
    bridge, actions, problem = "", "", ""
    outer: list[tuple[int, str]] = []  # bridges that the packet comes back to after an output, by their indentation
    for line in parts[0].splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        while outer and text.strip("-=") and indent < outer[-1][0] + _NESTED:
            bridge = outer.pop()[1]
        if found := _BRIDGE.match(text):
            if indent:
                outer.append((indent, bridge))
            bridge = found[1]
            bridges.append(bridge)
        elif text.startswith("Datapath actions: "):
            actions = text.partition(": ")[2]
        elif text.startswith(("Final flow:", "Megaflow:", "Flow:")) or not text.strip("-="):
            continue
        elif text.startswith("Translation failed") or "cannot be used" in text:
            problem = text
        elif found := _LOOKUP.match(text):
            cookie = int(found["cookie"] or "0", 16)
            lookups.append(Lookup(bridge, int(found[1]), found["match"] or "", int(found["priority"]), cookie))
        elif found := _NO_MATCH.match(text):
            lookups.append(Lookup(bridge, int(found[1])))
        elif text.startswith(_NOTES):
            if fork := _FORK.search(text):
                resumed.append((bridge, int(fork[1]), _translation(lookups)))
            _extend(lookups, note=text[2:].strip())
        else:
            _extend(lookups, action=text)
    flows = [_first_flow(part) for part in parts[1:]]
    forks = tuple(Fork(where, table, fields, nat) for (where, table, nat), fields in zip(resumed, flows, strict=False))
    return SwitchTrace(tuple(lookups), actions, forks, tuple(bridges), problem)


def _translation(lookups: list[Lookup]) -> str | None:
    """What the last `ct` of the last flow translates."""
    actions = [action for action in lookups[-1].actions if action.startswith("ct(")] if lookups else []
    found = _NAT.search(actions[-1]) if actions else None
    return (found[1] or "") if found else None


def _extend(lookups: list[Lookup], action: str = "", note: str = "") -> None:
    if not lookups:  # the action of a packet-out
        return
    last = lookups[-1]
    if action == "drop" and last.actions and last.actions[-1].startswith("ct("):
        return  # ct has a list of actions of its own, which is empty
    actions, notes = last.actions + ((action,) if action else ()), last.notes + ((note,) if note else ())
    if note and (port := _OUTPUT_PORT.search(note)) and actions:
        actions = (*actions[:-1], f"output:{port[1]}")
    lookups[-1] = dataclasses.replace(last, actions=actions, notes=notes)


def _first_flow(part: str) -> dict[str, str]:
    for line in part.splitlines():
        if line.startswith("Flow: "):
            return parse_fields(line.removeprefix("Flow: "))
    return {}


def parse_fields(text: str) -> dict[str, str]:
    """Fields of a flow; one without a value, such as a protocol, is empty."""
    return {name: value for name, _, value in (word.partition("=") for word in top_level(text)) if name}


@dataclasses.dataclass(frozen=True)
class SwitchPort:
    """A port of a bridge as the switch numbers it."""

    bridge: str
    name: str
    ofport: int
    datapath_port: int | None  # None: a patch port
    kind: str  # system, tap, internal, patch, vxlan, gre, geneve …
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether it is the bridge's own device."""
        return self.name == self.bridge


_DATAPATH = re.compile(r"^(\w+@\S+):")
_PORT = re.compile(r"^(\S+) (\d+)/(\d+|none): \(([\w-]+)(?:: (.*))?\)$")


def parse_ports(output: str, datapath: str = "") -> tuple[SwitchPort, ...]:
    """The output of `dpif/show`, of one datapath if it is named and the switch has it."""
    found: dict[str, list[SwitchPort]] = {}
    ports: list[SwitchPort] = []
    bridge = ""
    for line in output.splitlines():
        text = line.strip()
        if name := _DATAPATH.match(line):
            ports = found.setdefault(name[1], [])
        elif port := _PORT.match(text):
            options = {key: value for key, _, value in (word.partition("=") for word in (port[5] or "").split(", "))}
            number = None if port[3] == "none" else int(port[3])
            ports.append(SwitchPort(bridge, port[1], int(port[2]), number, port[4], options))
        elif text.endswith(":"):
            bridge = text[:-1]
    return tuple(found[datapath] if datapath in found else [each for several in found.values() for each in several])
