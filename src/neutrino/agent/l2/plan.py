"""From desired state to planned changes of bridges: the contributions of all extensions, against the actual state.

`Renderer` caches each unit's contribution with the inputs that it was rendered from; a unit with the same inputs is not
rendered again. So a change costs what it touches, and the result still depends on the current state alone. `plan` compares
the whole with the flows of a bridge. There is no other way to change a flow.
"""

import dataclasses
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.extension_api import METER_IDS, Contribution, L2Extension, Unit, cookie_of, stable_numbers
from neutrino.agent.runtime.delta import Delta, diff
from neutrino.dataplane.openflow.api import Flow, FlowKey, Meter
from neutrino.dataplane.ovsdb.api import PortSettings, SetBridge, SetPort
from neutrino.dataplane.tc.api import Item

LOG = logging.getLogger(__name__)
FLOWS, METERS, ROWS, SETTINGS, FILTERS = "flow", "meter", "OVSDB row", "port setting", "filter"
QOS = "QoS"  # the key of a port's QoS among its settings, beside the names of columns
_METER = re.compile(r"(meter:|meter_id=)@([^,()]+)")

UnitKey = tuple[str, str, str]
"""The name of an extension, the owner, and the part."""
Place = tuple[str, str]
"""What is contributed (FLOWS, METERS, …), and the bridge or port that it is contributed to."""


class _Entry(NamedTuple):
    """A unit's contribution in the cache, taken apart so that all its parts are merged alike."""

    inputs: object
    parts: dict[Place, dict[Any, Any]]
    metered: tuple[tuple[str, FlowKey], ...]  # bridges and keys of flows that name a meter


@dataclasses.dataclass(frozen=True)
class Rendered:
    """The desired state of the dataplane: the contributions of all units together."""

    flows: Mapping[str, dict[FlowKey, Flow]]  # by bridge
    meters: Mapping[str, dict[int, Meter]]  # by bridge and id
    rows: Mapping[str, SetBridge | SetPort]  # by name
    ports: Mapping[str, PortSettings]  # by name
    filters: Mapping[str, frozenset[Item]]  # by device
    problems: Mapping[str, str]  # by owner: a unit could not be rendered, so all of the owner's stay as they were


class Renderer:
    """Renders flows, for one thread at a time. Of contributions that conflict, the one of the first extension counts."""

    def __init__(self, extensions: Iterable[L2Extension]) -> None:
        self._extensions = tuple(extensions)
        self._cache: dict[UnitKey, _Entry] = {}
        self._led: dict[tuple[str, str], Collection[str]] = {}  # ports by extension and direction

    def render(self, desired: Desired) -> Rendered:
        problems: dict[str, str] = {}
        desired = self._lead(desired, problems)
        fresh: dict[UnitKey, _Entry | None] = {}
        for extension in self._extensions:
            try:
                for unit in extension.units(desired):
                    fresh[extension.name, unit.owner, unit.part] = self._render_unit(extension.name, unit, problems)
            except Exception as error:  # whatever an extension raises costs what it contributes, not the host
                problems[f"extension {extension.name}"] = _failure(extension.name, error)
                # It keeps what it contributed last, as a single owner that cannot be rendered does.
                fresh |= {key: entry for key, entry in self._cache.items() if key[0] == extension.name}
        # All units of an owner are applied together or stay as they were: a port with only some of its flows might send
        # what the missing ones drop.
        chosen = {key: self._cache.get(key) if key[1] in problems else entry for key, entry in fresh.items()}
        entries = {key: entry for key, entry in chosen.items() if entry is not None}
        self._cache = entries
        merged: defaultdict[Place, dict[Any, Any]] = defaultdict(dict)
        metered: list[tuple[str, str, FlowKey]] = []
        for key, entry in entries.items():
            conflict = self._conflict(merged, key, entry)
            if conflict is not None:  # a unit is merged as a whole or not at all
                problems[key[1]] = conflict
                continue
            for place, values in entry.parts.items():
                merged[place].update(values)
            metered += [(key[1], bridge, flow) for bridge, flow in entry.metered]
        return _assemble(merged, metered, problems)

    def _lead(self, desired: Desired, problems: dict[str, str]) -> Desired:
        """The desired state with packets of the ports that extensions name led through the extensions' tables."""
        led: dict[str, set[str]] = {"egress": set(), "ingress": set()}
        for extension in self._extensions:
            for direction, has_table, ports in (
                ("egress", extension.has_table, extension.egress_ports),
                ("ingress", extension.has_ingress_table, extension.ingress_ports),
            ):
                if has_table:
                    key = extension.name, direction
                    try:
                        self._led[key] = ports(desired)
                    except Exception as error:  # the ports of the last time: it keeps what it contributed then, as well
                        problems[f"extension {extension.name}"] = _failure(extension.name, error)
                    led[direction] |= {*self._led.get(key, ())}
        egress, ingress = led["egress"], led["ingress"]
        if not egress and not ingress:
            return desired
        through = tuple(port.through(egress=port.id in egress, ingress=port.id in ingress) for port in desired.ports)
        return dataclasses.replace(desired, ports=through)

    def owners(self, bridge: str) -> dict[int, str]:
        """The owners that have flows on a bridge, by their cookie."""
        return {
            cookie_of(owner): owner for (_, owner, _), entry in self._cache.items() if (FLOWS, bridge) in entry.parts
        }

    def _render_unit(self, extension: str, unit: Unit, problems: dict[str, str]) -> _Entry | None:
        known = self._cache.get((extension, unit.owner, unit.part))
        # Inputs are mostly tuples of values that are the same objects as before: comparing them costs next to nothing.
        if known is not None and known.inputs == unit.inputs:
            return known
        try:
            before = known.parts if known is not None else {}
            parts = _parts(unit.render(*unit.inputs), cookie_of(unit.owner), before)
        except Exception as error:  # of this owner alone
            problems[unit.owner] = _failure(extension, error)
            return None
        flows = [(name, flow) for (kind, name), values in parts.items() if kind == FLOWS for flow in values.values()]
        metered = tuple((bridge, flow.key) for bridge, flow in flows if _METER.search(flow.actions))
        return _Entry(unit.inputs, parts, metered)

    def _conflict(self, merged: Mapping[Place, dict[Any, Any]], key: UnitKey, entry: _Entry) -> str | None:
        """The two contributions under one key, of which one would silently replace the other; None if there are none."""
        for place, values in entry.parts.items():
            if not merged[place].keys().isdisjoint(values):
                taken = next(value for value in values if value in merged[place])
                first = next(other for other, each in self._cache.items() if taken in each.parts.get(place, ()))
                both = f"{key[0]} of {key[1]} conflicts with {first[0]} of {first[1]}"
                return f"{place[0]} {taken} of {place[1]}: {both}"
        return None


def _failure(extension: str, error: Exception) -> str:
    LOG.debug("extension %s failed", extension, exc_info=error)
    return f"{extension}: {type(error).__name__}: {error}"


def _parts(
    contribution: Contribution, cookie: int, before: Mapping[Place, Mapping[Any, Any]]
) -> dict[Place, dict[Any, Any]]:
    """`before`: of the same owner. Flows that are equal stay the same objects, which are compared by identity later."""
    parts: dict[Place, dict[Any, Any]] = {}
    for bridge, flows in contribution.flows.items():
        found: dict[FlowKey, Flow] = {}
        there = before.get((FLOWS, bridge), {})
        for flow in flows:
            owned = there.get(flow.key)
            if owned is None or owned[3:] != (flow.actions, cookie, flow.idle_timeout, flow.hard_timeout):
                owned = flow._replace(cookie=cookie)  # the owner's, whatever the extension gave
            other = found.setdefault(owned.key, owned)
            if other != owned:
                raise ValueError(f"{bridge}: {owned.text()} conflicts with {other.text()}")
        parts[FLOWS, bridge] = found
    for bridge, meters in contribution.meters.items():
        parts[METERS, bridge] = dict(meters)
    if contribution.rows:
        parts[ROWS, ""] = {row.name: row for row in contribution.rows}
    for device, filters in contribution.filters.items():
        parts[FILTERS, device] = dict.fromkeys(filters)
    for port, settings in contribution.ports.items():
        parts[SETTINGS, port] = {**settings.columns, **({QOS: settings.qos} if settings.qos is not None else {})}
    return parts


def _assemble(
    merged: Mapping[Place, dict[Any, Any]], metered: list[tuple[str, str, FlowKey]], problems: dict[str, str]
) -> Rendered:
    """The contributions by kind, with the ids of meters in place of their names."""
    flows = {name: values for (kind, name), values in merged.items() if kind == FLOWS}
    named = {name: values for (kind, name), values in merged.items() if kind == METERS}
    ids = {bridge: stable_numbers(named.get(bridge, ()), METER_IDS) for bridge in {*flows, *named}}
    for owner, bridge, key in metered:
        flow = flows[bridge].pop(key)  # stays out if its meter is missing: unmetered, it would allow more
        try:
            actions = _METER.sub(lambda found, here=ids[bridge]: f"{found[1]}{here[found[2]]}", flow.actions)  # type: ignore[misc]
            flows[bridge][key] = flow._replace(actions=actions)
        except KeyError as error:
            problems[owner] = f"no extension contributes a meter {error} to {bridge}: {flow.text()}"
    ports = {name: values for (kind, name), values in merged.items() if kind == SETTINGS}
    return Rendered(
        flows=flows,
        meters={bridge: {ids[bridge][name]: each for name, each in meters.items()} for bridge, meters in named.items()},
        rows=merged.get((ROWS, ""), {}),
        filters={name: frozenset(values) for (kind, name), values in merged.items() if kind == FILTERS},
        ports={name: PortSettings(qos=values.pop(QOS, None), columns=values) for name, values in ports.items()},
        problems=problems,
    )


@dataclasses.dataclass(frozen=True)
class BridgePlan:
    """The changes of a bridge: flows in one bundle, deletions first; meters before the flows that use them."""

    bridge: str
    flows: Delta[FlowKey, Flow] = dataclasses.field(default_factory=Delta)
    meters: Delta[int, Meter] = dataclasses.field(default_factory=Delta)

    def __len__(self) -> int:
        return len(self.flows) + len(self.meters)

    @property
    def set(self) -> list[Flow]:
        """The flows to add or to replace."""
        return [*sorted(self.flows.add.values()), *(flow for _, flow in sorted(self.flows.change.values()))]

    @property
    def delete(self) -> list[Flow]:
        return sorted(self.flows.remove.values())

    def text(self) -> str:
        meters = self.meters
        lines = [f"+ meter {number} {meter.text()}" for number, meter in sorted(meters.add.items())]
        lines += [
            f"~ meter {key} {new.text()}  # was {old.text()}" for key, (old, new) in sorted(meters.change.items())
        ]
        lines += [f"- {flow.text()}" for flow in self.delete]
        lines += [f"~ {flow.text()}  # was {old.actions}" for old, flow in sorted(self.flows.change.values())]
        lines += [f"+ {flow.text()}" for flow in sorted(self.flows.add.values())]
        lines += [f"- meter {number}" for number in sorted(meters.remove)]
        return "\n".join(f"{self.bridge} {line}" for line in lines)


def plan(
    bridge: str,
    desired: Mapping[FlowKey, Flow],
    actual: Iterable[Flow],
    meters: Mapping[int, Meter] | None = None,
    actual_meters: Mapping[int, Meter] | None = None,
) -> BridgePlan:
    """The changes from the actual state of a bridge to the desired one; `actual` are the flows with our cookie."""
    flows = diff(desired, {flow.key: flow for flow in actual})
    return BridgePlan(bridge, flows, diff(meters or {}, actual_meters or {}))
