"""Logs of security groups: copies of packets that the native firewall accepts or drops go to the agent.

A copy is a packet-in for our controller id: only the connection of `dataplane/protocols/packet_in.py` gets it; while the
agent is down, it is dropped. The agent finds the port by the flow's cookie, and what happened by its table:

    ACCEPT_OR_INGRESS   accepted from a port: the first packets of a connection, before the receiver's firewall
    ACCEPTED_INGRESS    accepted to a port: the same
    DROPPED             dropped from or to a port

The two tables of accepted packets are passed a second time, after the copy, with a bit in REG_LOGGED: so the flows that
deliver need not know about logs. All copies of a host pass one meter, in a clone: what exceeds it is not logged, and the
packet itself goes on.

What is accepted without a connection is not logged: packets of stateless groups, and ARP, DHCP and neighbour discovery.
Hybrid ports are not filtered by flows: iptables copies their packets (`hybrid/render.py`).
"""

from collections.abc import Iterator

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner
from neutrino.agent.l2.packets import CONTROLLER_ID, COPIED_BYTES, logs_by_port
from neutrino.agent.l2.pipeline import REG_LOGGED, REG_PORT
from neutrino.dataplane.openflow.api import Flow, Meter
from neutrino.model.packet_log import ACCEPT, DROP, KIND

METER = "network log"
_NEW = "ct_state=+new-rel-rpl+trk"
# The bit of REG_LOGGED that a table sets.
_ACCEPTED = ((pipeline.ACCEPT_OR_INGRESS, 1), (pipeline.ACCEPTED_INGRESS, 2))
_BEFORE_OTHERS = 200  # priority


class PacketLogs(L2Extension):
    name = "packet log"
    neutron_name = "log"
    kinds = frozenset({KIND})

    def units(self, desired: Desired) -> Iterator[Unit]:
        by_port = logs_by_port(desired.host_state)
        logged = [port for port in desired.ports if port.filtered and port.id in by_port]
        if logged:
            yield Unit(self.name, (desired.options,), _base)
        for port in logged:
            events = tuple(any(log.covers(event) for log in by_port[port.id]) for event in (ACCEPT, DROP))
            yield Unit(port_owner(port), (desired.options.integration_bridge, port.ofport, *events), _port)


def _base(options: L2Options) -> Contribution:
    return Contribution(
        meters={options.integration_bridge: {METER: Meter(options.log_rate, "pktps", options.log_burst)}}
    )


def _port(bridge: str, ofport: int, accepted: bool, dropped: bool) -> Contribution:
    copy = f"controller(max_len={COPIED_BYTES},id={CONTROLLER_ID},meter_id=@{METER})"
    here = f"{REG_PORT}={ofport}"
    # The sender's own copy of a broadcast: the switch never outputs it, so it must not be logged as received or dropped.
    flows: list[Flow] = [pipeline.BASE_INGRESS.flow(_BEFORE_OTHERS, f"in_port={ofport},{here}", "drop")]
    for table, bit in _ACCEPTED if accepted else ():
        for family in ("ip", "ipv6"):
            match = f"{family},{here},{_NEW},{REG_LOGGED}=0/{bit:#x}"
            flows.append(table.flow(_BEFORE_OTHERS, match, f"set_field:{bit}->{REG_LOGGED}", copy, then=table))
    if dropped:
        flows.append(pipeline.DROPPED.flow(10, here, copy))
    return Contribution({bridge: flows})
