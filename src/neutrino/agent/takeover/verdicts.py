"""What Neutron's flows do with packets of every port, compared with what its security groups say.

Each sample (`samples.py`) is traced through the flows that are on the integration bridge now, which changes nothing. While
these are Neutron's, a difference is a packet that the conversion would let through or stop.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import LocalPort
from neutrino.agent.l2.reconciler import ReconcilerView
from neutrino.agent.takeover.samples import Sample, samples_of
from neutrino.agent.trace.group_rules import allowing_any
from neutrino.agent.trace.packets import describe
from neutrino.agent.trace.switch import SwitchState, SwitchWalk
from neutrino.agent.trace.trail import AtSwitch, Trail
from neutrino.dataplane.inspection.api import Inspection

# Where a packet of an instance goes after its rules: Neutron's tables have these numbers too.
_PASSED: Final = frozenset({pipeline.ACCEPT_OR_INGRESS.number, pipeline.ACCEPTED_EGRESS_NORMAL.number})


@dataclasses.dataclass(frozen=True)
class Difference:
    port: str
    device: str
    sample: Sample
    passes: bool  # now

    def text(self) -> str:
        now, then = ("passes", "would be dropped") if self.passes else ("is dropped", "would pass")
        packet = describe(self.sample.packet)
        return f"{self.device} (port {self.port}), {self.sample.direction}: {packet} {now} now, and {then}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    ports: int  # whose packets were all compared
    packets: int
    differences: tuple[Difference, ...]
    left_out: int  # ports that are filtered by iptables, or not at all
    of_ports: int  # that are filtered by flows

    def text(self) -> str:
        return f"{self.packets} packets of {self.ports} ports compared, {len(self.differences)} differ" + (
            f"; {self.left_out} ports are not filtered by flows" if self.left_out else ""
        )


def _always() -> bool:
    return True


def compare(
    view: ReconcilerView,
    inspection: Inspection,
    say: Callable[[str], None],
    goes_on: Callable[[], bool] = _always,
    first: int = 0,
) -> Comparison:
    """Blocking: some milliseconds for each packet.

    `goes_on` is asked before each packet: it may wait, and end the comparison. `first`: the port to begin with, so that
    comparisons that end early get to all ports one after another.
    """
    state = SwitchState(view, inspection.ports())
    objects = view.desired.host_state.ports
    filtered = sorted((port for port in view.desired.ports if port.filtered), key=lambda port: port.id)
    left_out, start_at = len(view.desired.ports) - len(filtered), first % max(len(filtered), 1)
    differences: list[Difference] = []
    packets = 0
    for place, local in enumerate((*filtered[start_at:], *filtered[:start_at]), 1):
        port = objects[local.id]
        for sample in samples_of(view.desired, port):
            if (start := _start(state, local, sample)) is None:
                continue
            if not goes_on():
                return Comparison(place - 1, packets, tuple(differences), left_out, len(filtered))
            packets += 1
            passes = _passes(state, inspection, start, local, sample)
            if passes != any(True for _ in allowing_any(view.desired, port, sample.packet, sample.direction)):
                differences.append(Difference(local.id, local.device, sample, passes))
        if place % 50 == 0:
            say(f"{place} of {len(filtered)} ports compared")
    return Comparison(len(filtered), packets, tuple(differences), left_out, len(filtered))


def _start(state: SwitchState, local: LocalPort, sample: Sample) -> AtSwitch | None:
    """Where the packet enters the integration bridge: at the port, or from a bridge with the local VLAN's tag."""
    options = state.view.desired.options
    if sample.direction == "egress":
        return AtSwitch(options.integration_bridge, local.ofport, sample.packet)
    entry = next(_entries(state), None)
    return AtSwitch(options.integration_bridge, entry, sample.packet, (local.vlan,)) if entry is not None else None


def _entries(state: SwitchState) -> Iterator[int]:
    """The patch port of the tunnel bridge: packets that come from there have the tags of local VLANs."""
    options = state.view.desired.options
    for port in state.ports:
        if port.bridge == options.integration_bridge and port.name == options.int_peer_patch_port:
            yield port.ofport


def _passes(state: SwitchState, inspection: Inspection, start: AtSwitch, local: LocalPort, sample: Sample) -> bool:
    trail = Trail()
    walk = SwitchWalk(state, inspection, trail)
    walk.run(start)
    if sample.direction == "ingress":
        return any(delivery.port.name == local.device for delivery in walk.deliveries)
    bridge = start.bridge
    return any(seen.where == bridge and seen.table in _PASSED and seen.effect != "drop" for seen in trail.observations)
