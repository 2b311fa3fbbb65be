"""From a copy of a packet to lines of the network log: its headers, the logs that it is for, and the text. Pure.

Flows copy packets by port and event. Whether the rules of a log's own group allowed a packet is decided here, by the rules
themselves: flows of several groups that match the same packets are one flow.
"""

from collections.abc import Iterator, Mapping, Sequence

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, LocalPort
from neutrino.agent.l2.extension_api import cookie_of, port_owner
from neutrino.agent.l2.hybrid.render import port_device
from neutrino.agent.l2.packets import logs_by_port
from neutrino.agent.packet_lines import Frame, decode, lines
from neutrino.agent.trace.group_rules import allowing_any
from neutrino.dataplane.protocols.packet_in import PacketIn
from neutrino.model.packet_log import ACCEPT, DROP, PacketLog
from neutrino.model.state import Port

_IN, _OUT = "ingress", "egress"
# What a copy of a table means; of a dropped packet the in_port tells the direction.
_EVENTS = {
    pipeline.ACCEPT_OR_INGRESS.number: (ACCEPT, _OUT),
    pipeline.ACCEPTED_INGRESS.number: (ACCEPT, _IN),
    pipeline.DROPPED.number: (DROP, ""),
}


_Logged = tuple[LocalPort, tuple[PacketLog, ...]]


class LoggedPorts:
    """The ports with logs of one desired state, by the cookie of their flows, or the device of their own bridge."""

    def __init__(self, desired: Desired) -> None:
        self._desired = desired
        by_port = logs_by_port(desired.host_state)
        found = [(port, by_port[port.id]) for port in desired.ports if port.id in by_port]
        self._found: Mapping[int, _Logged] = {cookie_of(port_owner(port)): (port, logs) for port, logs in found}
        self._bridged: Mapping[str, _Logged] = {
            port_device("tap", port.id): (port, logs) for port, logs in found if port.hybrid and port.secured
        }

    def lines(self, copied: PacketIn) -> Iterator[str]:
        """A line for each project whose logs a packet of the switch is for."""
        if copied.cookie not in self._found or copied.table not in _EVENTS:
            return  # the log was deleted a moment ago
        port, logs = self._found[copied.cookie]
        event, direction = _EVENTS[copied.table]
        direction = direction or (_OUT if copied.in_port == port.ofport else _IN)
        yield from self._lines(port, logs, event, direction, copied.data)

    def bridged_lines(self, event: str, device_in: str, device_out: str, data: bytes) -> Iterator[str]:
        """The same for a packet that crosses the bridge of a hybrid port."""
        for direction, device in ((_OUT, device_in), (_IN, device_out)):
            if device in self._bridged:
                yield from self._lines(*self._bridged[device], event, direction, data)

    def _lines(
        self, port: LocalPort, logs: Sequence[PacketLog], event: str, direction: str, data: bytes
    ) -> Iterator[str]:
        frame = decode(data)
        if frame is None:
            return
        state = self._desired.host_state.ports[port.id]
        chosen = [log for log in logs if log.covers(event) and self._is_for(log, state, frame, event, direction)]
        yield from lines(event, direction, "vm_port", port.id, chosen, frame)

    def _is_for(self, log: PacketLog, port: Port, frame: Frame, event: str, direction: str) -> bool:
        """A dropped packet is for every group of the port, an accepted one for those that allow it."""
        if event == DROP or not log.resource_id or frame.packet is None:
            return True
        allowing = allowing_any(self._desired, port, frame.packet, direction)
        return any(group_id == log.resource_id for group_id, _ in allowing)
