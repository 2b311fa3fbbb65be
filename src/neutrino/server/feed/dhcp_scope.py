"""Scope rule of DHCP: which hosts serve a network, and what that makes them receive. Pure.

A host serves the networks scheduled to its DHCP agent. A host whose agent is distributed (`dhcp_distributed`) also serves
every scheduled network that it has ports on, from a copy of the network's DHCP port: the same MAC and addresses, marked
as a copy, which answers the ports of that host alone. The copy is of the DHCP port with the smallest id, on a routed
network of those on the segment of the host's ports; the agent picks the same one.

A host that serves a network receives it and all its ports. If it is a metadata network (169.254.0.0/16), the host also
answers metadata requests from the other networks of its routers, so it receives their ports too.

The rule depends on several records at once. `put` notes which networks a record may affect; `recompute` recomputes those,
once per batch of changes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

import msgspec

from neutrino.model.dhcp import ROUTERS, is_metadata_network
from neutrino.model.state import Port
from neutrino.server.feed.records import AgentRecord, NetworkRecord, PortRecord, Records
from neutrino.server.feed.subscriptions import NO_TOPICS, Subscriptions, Topic

PutPorts = Callable[[str, Mapping[str, Port]], None]  # sets the copies of a port: its id, and those by host


class DhcpScope:
    def __init__(self, records: Records, subscriptions: Subscriptions, put_ports: PutPorts) -> None:
        """`records`: as the fan-out holds them, changed before each `put`."""
        self._networks: Mapping[str, NetworkRecord] = records["network"]
        self._agents: Mapping[str, AgentRecord] = records["agent"]
        self._subscriptions = subscriptions
        self._put_ports = put_ports
        self._distributed: frozenset[str] = frozenset()  # hosts
        # network → host and segment → number of ports
        self._clients: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        self._dhcp_ports: defaultdict[str, dict[str, PortRecord]] = defaultdict(dict)  # by network
        self._router_ports: defaultdict[str, dict[str, str]] = defaultdict(dict)  # router → port → network
        self._affected: set[str] = set()
        self._serving: dict[str, frozenset[str]] = {}  # network → hosts, as last settled
        self._copied: dict[str, frozenset[str]] = {}  # network → the DHCP ports that have copies

    # --- records --------------------------------------------------------------------------------------------------

    def put_network(self, key: str, before: NetworkRecord | None, after: NetworkRecord | None) -> None:
        if any(record is not None and record.dhcp is not None for record in (before, after)):
            self._affected.add(key)

    def put_agent(self, key: str, before: AgentRecord | None, after: AgentRecord | None) -> None:
        old, new = (record.dhcp if record is not None else None for record in (before, after))
        if old == new:
            return
        agents = (record.dhcp for record in self._agents.values())
        distributed = frozenset(a.host for a in agents if a is not None and a.distributed and a.admin_state_up)
        changed, self._distributed = distributed ^ self._distributed, distributed
        self._affected.update(n for n, network in self._networks.items() if key in network.dhcp_agents)
        if changed:
            self._affected.update(n for n in self._clients if not changed.isdisjoint(self._client_hosts(n)))

    def put_port(self, key: str, before: PortRecord | None, after: PortRecord | None) -> None:
        for record, step in ((before, -1), (after, 1)):
            if record is None:
                continue
            if record.is_dhcp_server:
                if step > 0:
                    self._dhcp_ports[record.network_id][key] = record
                else:
                    self._dhcp_ports[record.network_id].pop(key, None)
            else:
                clients = self._clients[record.network_id]
                for place in ((host, port.segment_id) for host, port in record.bound.items()):
                    clients[place] += step
                    if not clients[place]:
                        del clients[place]
            if self._distributed:  # without distributed agents no port changes who serves a network
                self._affected.add(record.network_id)
            if record.dhcp is not None and record.dhcp.device_owner in ROUTERS:
                self._put_router_port(record.dhcp.device_id, key, record.network_id if step > 0 else None)

    def _put_router_port(self, router_id: str, port_id: str, network_id: str | None) -> None:
        ports = self._router_ports[router_id]
        self._affected.update(ports.values())
        if network_id is None:
            ports.pop(port_id, None)
        else:
            ports[port_id] = network_id
            self._affected.add(network_id)

    # --- the rule -------------------------------------------------------------------------------------------------

    def recompute(self) -> None:
        affected, self._affected = self._affected, set()
        for network_id in affected:
            self._recompute_one(network_id)

    def _recompute_one(self, network_id: str) -> None:
        record = self._networks.get(network_id)
        scheduled, copying = frozenset[str](), frozenset[str]()
        if record is not None and record.dhcp is not None:
            agents = (self._agents[key].dhcp for key in record.dhcp_agents if key in self._agents)
            # An agent with admin_state_up=False keeps its networks, but does not serve them.
            scheduled = frozenset(a.host for a in agents if a is not None and a.admin_state_up)
            copying = self._distributed.intersection(self._client_hosts(network_id)) - scheduled
        before, after = self._serving.pop(network_id, frozenset()), scheduled | copying
        if after:
            self._serving[network_id] = after
        topics = frozenset(self._topics(network_id, record)) if record is not None else NO_TOPICS
        for host in before | after:
            self._subscriptions.refer(host, ("dhcp agent", network_id), topics if host in after else NO_TOPICS)
        self._settle_copies(network_id, copying)

    def _client_hosts(self, network_id: str) -> Iterator[str]:
        return (host for host, _ in self._clients.get(network_id, ()))

    def _topics(self, network_id: str, record: NetworkRecord) -> Iterator[Topic]:
        yield "dhcp_network", network_id
        yield "dhcp_port", network_id
        if record.dhcp is not None and is_metadata_network(record.dhcp):
            for ports in self._router_ports.values():
                if network_id in ports.values():
                    yield from (("dhcp_port", other) for other in ports.values())

    def _settle_copies(self, network_id: str, hosts: frozenset[str]) -> None:
        copies = {port.id: _copies(port, several) for port, several in self._copied_to(network_id, hosts)}
        copies = {key: by_host for key, by_host in copies.items() if by_host}
        for key in self._copied.pop(network_id, frozenset()) - copies.keys():
            self._put_ports(key, {})
        for key, by_host in copies.items():
            self._put_ports(key, by_host)
        if copies:
            self._copied[network_id] = frozenset(copies)

    def _copied_to(self, network_id: str, hosts: frozenset[str]) -> Iterator[tuple[PortRecord, frozenset[str]]]:
        """The DHCP ports that these hosts get copies of."""
        ports = sorted(self._dhcp_ports.get(network_id, {}).values(), key=lambda port: port.id)
        record = self._networks.get(network_id)
        if not ports or not hosts or record is None or record.dhcp is None:
            return
        if not any(subnet.segment_id for subnet in record.dhcp.subnets):
            yield ports[0], hosts
            return
        left = hosts
        for port in ports:
            segments = {bound.segment_id for bound in port.bound.values() if bound.active}
            near = left.intersection(host for host, segment in self._clients[network_id] if segment in segments)
            if near:
                yield port, near
            left -= near


def _copies(port: PortRecord, hosts: frozenset[str]) -> dict[str, Port]:
    """The DHCP port as these hosts get it; none while it is bound nowhere."""
    active = next((bound for bound in port.bound.values() if bound.active), None)
    if active is None:
        return {}
    return {host: msgspec.structs.replace(active, host=host, copy=True) for host in hosts if host not in port.bound}
