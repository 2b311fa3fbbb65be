"""Firewall groups (FWaaS v2) of instance ports: stateful filtering in addition to security groups. A packet must pass both.

Packets from a port pass the extension's egress table, before its security groups; packets to it the ingress table, after
them. Each table sees a packet of IPv4 or IPv6 twice. The first time it is untracked: the port's conntrack zone and the
number of its group go into registers, and the packet through conntrack. Neighbour discovery and DHCP, without which no
instance has an address, pass before that. The second time:

    invalid                                       dropped
    of a connection that these very rules allow   passes: its mark is the group's `generation`, a checksum of the rules
    any other                                     by the rules in order. `allow` commits the connection with that mark

Rules match the packet that opened the connection (`ct_nw_src`, `ct_tp_dst`, …). So a reply is matched by the same flows as
the packet that it replies to: in the egress table by the ingress policy, and the other way round. After a change the
generation differs, and the next packet of each connection, in whichever direction, is judged anew: what is forbidden ends
there, what is allowed goes on. Nothing has to be flushed.

A port has a zone of its own, so neither the security groups, whose zone is the network's, nor the group of the other port
on the same host are affected by what this one commits.

Rules of a group are flows once for all its ports on the host. Consecutive rules of one verdict share a priority.

`reject` drops, and copies packets in the opening direction to the agent, which answers them (`refusals.py`). A meter for
each group limits the copies: what exceeds it is dropped without an answer, and does not keep other groups from theirs.
"""

import itertools
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_network

import msgspec

from neutrino.agent.l2.desired import Desired, HostState, L2Options
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner, stable_numbers
from neutrino.agent.l2.extensions.firewall import cover_ports
from neutrino.agent.l2.packets import (
    CONTROLLER_ID,
    COPIED_BYTES,
    DHCP_REPLIES,
    DHCP_REQUESTS,
    FIREWALL_GROUPS,
    NEIGHBOUR_IN,
    NEIGHBOUR_OUT,
)
from neutrino.agent.l2.pipeline import REG_PORT, Table
from neutrino.agent.runtime.role import ObjectStatus
from neutrino.dataplane.conntrack.api import SCTP, TCP, UDP
from neutrino.dataplane.openflow.api import Flow, Meter
from neutrino.model.firewall import FirewallGroup, FirewallRule

GROUP = "firewall_group"  # the feed's kind
REG_ZONE, REG_GROUP = "reg10", "reg11"
# Above local VLANs, and above the hybrid firewall's zones, which are allocated from 4097 up.
ZONES = range(0x8000, 0x10000)
_ZONE = "zone=NXM_NX_REG10[0..15]"
_SIGNALLING, _STATE, _RULES, _DEFAULT = 40000, 39000, 30000, 2  # priorities; rules go down from theirs
_FAMILIES = {4: ("ip", "ct_nw"), 6: ("ipv6", "ct_ipv6")}
ALLOW, REJECT = "allow", "reject"
REJECTED = Meter(100, "pktps", 50)  # packets a second of a group that are answered, and at once
_WITH_PORTS = (TCP, UDP, SCTP)  # whose ports conntrack knows


class FirewallGroups(L2Extension):
    name = FIREWALL_GROUPS
    neutron_name = "fwaas_v2"
    kinds = frozenset({GROUP})
    has_table = True
    has_ingress_table = True

    def egress_ports(self, desired: Desired) -> list[str]:
        return [*group_ids(desired.host_state)]

    def ingress_ports(self, desired: Desired) -> list[str]:
        return [*group_ids(desired.host_state)]

    def deciding_owners(self, desired: Desired) -> Iterator[str]:
        return map(group_owner, {*group_ids(desired.host_state).values()})

    def units(self, desired: Desired) -> Iterator[Unit]:
        groups = group_ids(desired.host_state)
        if not groups:
            return
        options, known = desired.options, desired.objects.get(GROUP, {})
        zones, numbers = stable_numbers(groups, ZONES), stable_numbers(groups.values(), range(1, 1 << 32))
        yield Unit(self.name, (options,), _base)
        for group_id, number in numbers.items():
            # A group that this host does not have (an invalid object, a lost one) drops everything, as one that is down.
            group = known.get(group_id) or FirewallGroup(id=group_id, admin_state_up=False)
            yield Unit(group_owner(group_id), (options, group, number), _group)
        for port in desired.ports:
            if port.id in groups:
                yield Unit(port_owner(port), (options, port.ofport, zones[port.id], numbers[groups[port.id]]), _port)

    def statuses(
        self, host_state: HostState, wired: Collection[str], failed: Mapping[str, str]
    ) -> Iterator[ObjectStatus]:
        groups, known = group_ids(host_state), host_state.extension_objects.get(GROUP, {})
        broken = {
            group_id: failed[name]
            for port_id, group_id in groups.items()
            for name in (port_id, group_owner(group_id))
            if name in failed
        }
        for group_id in {groups[port_id] for port_id in wired if port_id in groups} | broken.keys():
            if group_id in known:
                status = "ERROR" if group_id in broken else "ACTIVE"
                yield ObjectStatus(GROUP, group_id, status, known[group_id].revision, broken.get(group_id, ""))


def group_ids(host_state: HostState) -> dict[str, str]:
    """The groups of the host's ports, by the port's id. Ports of routers are filtered in the router (the L3 role)."""
    return {
        port_id: port.firewall_group_id
        for port_id, port in host_state.ports.items()
        if port.firewall_group_id and not port.device_owner.startswith("network:")
    }


def group_owner(group_id: str) -> str:
    return f"firewall group {group_id}"


def _tables(options: L2Options) -> tuple[tuple[Table, Table], tuple[Table, Table]]:
    """Return, for packets from ports and for packets to ports, the extension's own table and the next one."""
    egress, ingress = options.extension_table(FirewallGroups.name), options.ingress_table(FirewallGroups.name)
    return (egress, options.after_extension(egress)), (ingress, options.after_ingress(ingress))


def _base(options: L2Options) -> Contribution:
    """Flows that all ports with a group share. Packets of other ports pass these tables too, and go on in any case."""
    (egress, after_egress), (ingress, after_ingress) = _tables(options)
    sent = (*(f"icmp6,icmp_type={kind}" for kind in NEIGHBOUR_OUT), *DHCP_REQUESTS)
    received = (*(f"icmp6,icmp_type={kind}" for kind in NEIGHBOUR_IN), *DHCP_REPLIES)
    flows = [
        *(egress.flow(_SIGNALLING, f"{match},ct_state=-trk", then=after_egress) for match in sent),
        *(ingress.flow(_SIGNALLING, f"{match},ct_state=-trk", then=after_ingress) for match in received),
        *(table.flow(_SIGNALLING, "ct_state=+inv+trk", "drop") for table in (egress, ingress)),
        # Without its group's flows, which the switch may have rejected, a packet would go on.
        *(table.flow(_DEFAULT - 1, "ct_state=+trk", "drop") for table in (egress, ingress)),
    ]
    return Contribution({options.integration_bridge: flows})


def _port(options: L2Options, ofport: int, zone: int, number: int) -> Contribution:
    (egress, _), (ingress, _) = _tables(options)
    registers = f"set_field:{zone}->{REG_ZONE}", f"set_field:{number}->{REG_GROUP}"
    flows = [
        table.flow(_RULES, f"{here},{family},ct_state=-trk", *registers, f"ct(table={table.number},{_ZONE})")
        for table, here in ((egress, f"in_port={ofport}"), (ingress, f"{REG_PORT}={ofport}"))
        for family, _ in _FAMILIES.values()
    ]
    return Contribution({options.integration_bridge: flows})


def _group(options: L2Options, group: FirewallGroup, number: int) -> Contribution:
    """The rules of both policies in both tables: in one for packets of the opening side, in the other for replies."""
    from_ports, to_ports = _tables(options)
    flows: list[Flow] = []
    meter = f"reject {group.id}"
    answered = f"controller(max_len={COPIED_BYTES},id={CONTROLLER_ID},meter_id=@{meter})"
    for (table, onward), opening, answering in (
        (from_ports, group.egress, group.ingress),
        (to_ports, group.ingress, group.egress),
    ):
        here, mark = f"{REG_GROUP}={number}", generation(group)
        passed = "ct_clear", table.goto(onward)
        flows.append(table.flow(_STATE, f"{here},ct_state=-inv+trk,ct_mark={mark:#x}", *passed))
        remembered = f"ct(commit,{_ZONE},exec(set_field:{mark:#x}->ct_mark))", *passed
        for rules, side in ((opening, "-rpl"), (answering, "+rpl")):
            refused = {REJECT: (answered,)} if side == "-rpl" else {}
            for priority, verdict, match in _ordered(rules if group.admin_state_up else ()):
                actions = remembered if verdict == ALLOW else refused.get(verdict, ("drop",))
                flows.append(table.flow(priority, f"{here},ct_state={side}-inv+trk,{match}", *actions))
        flows.append(table.flow(_DEFAULT, f"{here},ct_state=+trk", "drop"))
    rejects = group.admin_state_up and any(rule.action == REJECT for rule in (*group.ingress, *group.egress))
    meters = {options.integration_bridge: {meter: REJECTED}} if rejects else {}
    return Contribution({options.integration_bridge: flows}, meters=meters)


def generation(group: FirewallGroup) -> int:
    """A checksum of everything that decides; the mark of the connections that it allows. Never 0, which is no mark."""
    return zlib.crc32(msgspec.json.encode((group.admin_state_up, group.ingress, group.egress))) or 1


def _ordered(rules: Iterable[FirewallRule]) -> Iterator[tuple[int, str, str]]:
    """Priority, verdict, and match. A match that is there already decides nothing."""
    known: set[str] = set()
    for place, (verdict, run) in enumerate(itertools.groupby(rules, key=lambda rule: rule.action)):
        for match in (match for rule in run for match in _matches(rule)):
            if match not in known:
                known.add(match)
                yield max(_RULES - place, _DEFAULT + 1), verdict, match


def _matches(rule: FirewallRule) -> list[str]:
    """None if no packet can match, or the switch cannot match what the rule asks for."""
    family, fields = _FAMILIES[rule.ip_version]
    words = [family]
    for side, prefix in (("src", rule.source_ip_address), ("dst", rule.destination_ip_address)):
        network = ip_network(prefix, strict=False) if prefix else None
        if network is not None and network.version != rule.ip_version:
            return []
        words += [f"{fields}_{side}={network}"] if network is not None and network.prefixlen else []
    words += [f"ct_nw_proto={rule.ip_protocol}"] if rule.ip_protocol is not None else []
    sources = _ports("src", rule.source_port_first, rule.source_port_last)
    destinations = _ports("dst", rule.destination_port_first, rule.destination_port_last)
    if (sources, destinations) != ([""], [""]) and rule.ip_protocol not in _WITH_PORTS:
        return []
    return [",".join(filter(None, (*words, one, other))) for one in sources for other in destinations]


def _ports(side: str, first: int | None, last: int | None) -> list[str]:
    """Matches of a range of ports; one empty match where there is none."""
    if first is None and last is None:
        return [""]
    low = first or 0
    high = low if last is None else last
    return [f"ct_tp_{side}={value:#x}/{mask:#x}" for value, mask in cover_ports(low, high)]
