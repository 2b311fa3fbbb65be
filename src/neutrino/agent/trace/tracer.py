"""Answers questions of the server: what this host would do with a packet now, and where copies of it leave.

A packet goes from place to place until every copy has an exit: into a bridge, out of it into a namespace, out of that by
another device, into a bridge again. Nothing is changed; each question has a time limit, and each answer a limited size.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from neutrino.agent.l2.desired import TUNNEL_TYPES
from neutrino.agent.l2.reconciler import ReconcilerView
from neutrino.agent.runtime.role import Role
from neutrino.agent.runtime.thread_lock import ThreadLock
from neutrino.agent.trace.drift import ObjectDrift
from neutrino.agent.trace.local import LocalPorts
from neutrino.agent.trace.namespaces import NamespaceWalk
from neutrino.agent.trace.switch import SwitchState, SwitchWalk
from neutrino.agent.trace.trail import AtDevice, AtSwitch, Place, Trail
from neutrino.dataplane.inspection.api import Inspection, InspectionError
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.openflow.api import OpenFlowError
from neutrino.dataplane.ovsdb.api import OvsdbError
from neutrino.model import fields
from neutrino.model.agents import PROBLEMS
from neutrino.model.trace import Cause, HostAnswer, PointKind, Question

LOG = logging.getLogger(__name__)
SECONDS: Final = 20.0  # for one question
DRIFT_SECONDS: Final = 5.0  # of these, for the comparison of objects on the way
MAX_PLACES: Final = 32  # a routing loop ends by TTL or here
FAILURES: Final = (InspectionError, NetlinkError, OpenFlowError, OvsdbError, OSError)


class BadQuestion(ValueError):
    """The question is not valid; the text names the field."""


class Switching(Protocol):
    """The L2 role, as far as traces need it."""

    async def view(self) -> ReconcilerView: ...


@dataclasses.dataclass(eq=False)
class HostTracer:
    switching: Switching
    inspection: Inspection
    local: LocalPorts
    namespaces: NamespaceWalk
    drift: ObjectDrift
    roles: Sequence[Role] = ()

    def __post_init__(self) -> None:
        self._busy = ThreadLock()  # one question at a time: they share the host's programs and remembered connections

    async def answer(self, question: Question) -> HostAnswer:
        """Follow a packet. A dataplane that does not answer is an exit of its own, not an error."""
        if fault := _fault(question):
            raise BadQuestion(fault)
        trail = Trail(with_texts=question.flows)
        try:
            async with asyncio.timeout(SECONDS), self._busy:
                view = await self.switching.view()
                state = await self._busy.run(self._follow, question, view, trail)
        except TimeoutError:
            trail.drop(question.packet, Cause.HOST_TIMEOUT, f"no answer of the dataplane within {SECONDS:.0f} s")
        except FAILURES as error:
            LOG.warning("trace: the dataplane does not answer: %s", error)
            trail.drop(question.packet, Cause.DATAPLANE_DOWN, str(error))
        else:
            await self._compare(trail, state)
        return HostAnswer(
            observations=tuple(trail.observations),
            exits=tuple(trail.exits),
            position=self._position(),
            drift=tuple(trail.drift),
            problems=self._problems(trail),
        )

    # --- the way of the packet ----------------------------------------------------------------------------------------

    def _follow(self, question: Question, view: ReconcilerView, trail: Trail) -> SwitchState:
        state = SwitchState(view, self.inspection.ports())
        places: list[Place] = []
        if (entry := self._enter(question, state, trail)) is not None:
            places.append(entry)
        for _ in range(MAX_PLACES):
            if not places:
                break
            places += self._pass(places.pop(0), state, trail)
        for place in places:
            trail.drop(place.packet, Cause.TTL_EXPIRED, f"the packet has not left this host after {MAX_PLACES} steps")
        if not trail.exits:  # every device that got a copy has ignored it
            trail.drop(question.packet, Cause.NO_SUCH_ADDRESS, f"no device here has MAC {question.packet.eth_dst}")
        return state

    def _enter(self, question: Question, state: SwitchState, trail: Trail) -> Place | None:
        point, packet, options = question.point, question.packet, state.view.desired.options
        match point.kind:
            case PointKind.PORT:
                trail.objects.add(point.port_id)
                return self.local.enter(point.port_id, packet, state, trail)
            case PointKind.TUNNEL:
                for port in state.ports:
                    if (
                        port.bridge == options.tunnel_bridge
                        and port.kind == point.network_type
                        and port.options.get("remote_ip") == point.peer
                    ):
                        tunnel = point.segmentation_id or 0, point.peer, options.local_ip
                        if fault := self.local.links.underlay_fault(point.peer, state.ports):
                            trail.drop(packet, Cause.LINK_DOWN, f"tunnel from {point.peer}: {fault}")
                            return None
                        by_rules = self.local.links.dropped_by_rules
                        if fault := by_rules(port.kind, options.local_ip, point.peer, sent=False):
                            trail.drop(packet, Cause.DRIFT, f"tunnel from {point.peer}: {fault}")
                            return None
                        return AtSwitch(port.bridge, port.ofport, packet, tunnel=tunnel)
                trail.drop(packet, Cause.NO_TUNNEL, f"this host has no {point.network_type} tunnel to {point.peer}")
            case PointKind.PHYSICAL:
                bridge = dict(options.bridge_mappings).get(point.physical_network)
                uplinks = state.uplinks(bridge or "")
                if uplinks:
                    if all(faults := [self.local.links.fault(uplink) for uplink in uplinks]):
                        where = f"physical network {point.physical_network}: {faults[0]}"
                        trail.drop(packet, Cause.LINK_DOWN, where)
                        return None
                    tags = (point.segmentation_id,) if point.segmentation_id is not None else ()
                    return AtSwitch(uplinks[0].bridge, uplinks[0].ofport, packet, tags)
                why = f"bridge {bridge} has no uplink" if bridge else "no bridge is mapped to it"
                trail.drop(packet, Cause.NO_PHYSICAL_NETWORK, f"physical network {point.physical_network}: {why}")
        return None

    def _pass(self, place: Place, state: SwitchState, trail: Trail) -> list[Place]:
        if isinstance(place, AtDevice):
            return self.namespaces.run(place, state, trail)
        local, connections = self.local, self.namespaces.connections
        walk = SwitchWalk(state, self.inspection, trail, local.tunnel_mtu, connections, local.links)
        walk.run(place)
        return [onward for delivery in walk.deliveries for onward in self.local.deliver(delivery, state, trail)]

    # --- the rest of the answer ---------------------------------------------------------------------------------------

    async def _compare(self, trail: Trail, state: SwitchState) -> None:
        try:
            async with asyncio.timeout(DRIFT_SECONDS):
                trail.drifted(await asyncio.to_thread(self.drift, trail, state))
            self.drift.explain(trail)
        except TimeoutError:
            LOG.warning("trace: the objects on the way are not compared within %.0f s", DRIFT_SECONDS)
        except FAILURES as error:
            LOG.warning("trace: the objects on the way are not compared: %s", error)

    def _position(self) -> int:
        """The position that every role that tracks it has applied, as reports have it."""
        return min((position for role in self.roles if (position := role.applied()) is not None), default=0)

    def _problems(self, trail: Trail) -> dict[str, str]:
        found: dict[str, str] = {}
        for role in self.roles:
            for agent in role.describe():
                problems = agent.configurations.get(PROBLEMS, {})
                found |= {
                    key: str(text) for key, text in problems.items() if any(each in key for each in trail.objects)
                }
        return found


def _fault(question: Question) -> str:
    if found := fields.fault(question):
        return found
    point, packet = question.point, question.packet
    if (":" in packet.source) != (":" in packet.destination):
        return "packet: source and destination are of different IP versions"
    if point.kind is PointKind.PORT and not fields.is_word(point.port_id):
        return "point.port_id: is required"
    if point.kind is PointKind.TUNNEL and (not fields.is_address(point.peer) or point.network_type not in TUNNEL_TYPES):
        return "point.peer and point.network_type: an address and one of gre, vxlan, geneve are required"
    if point.kind is PointKind.PHYSICAL and not fields.is_word(point.physical_network):
        return "point.physical_network: is required"
    most = 4094 if point.kind is PointKind.PHYSICAL else 2**32 - 1
    if point.segmentation_id is not None and not 0 <= point.segmentation_id <= most:
        return f"point.segmentation_id: {point.segmentation_id} is not valid"
    return ""
