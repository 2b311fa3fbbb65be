"""The part of the world that hosts with DHCP agents follow: networks scheduled to them, and all ports of these. Pure.

Hosts that answer their own ports themselves follow the networks of these too, with a copy of the DHCP port: `dhcp_copies`.
A host that serves a router follows the ports of the networks behind it too, as it answers for their metadata; and one that
serves a metadata network, the ports of what the network's router joins to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from neutrino.model.dhcp import DhcpPort, is_metadata_network
from neutrino.server.feed.dhcp_copies import copies, copy_hosts, distributed_hosts, is_server
from neutrino.server.feed.encoding import Item
from neutrino.server.feed.joined import Joined
from neutrino.server.feed.pending import Key
from neutrino.server.feed.records import DhcpAgent, DhcpRecord, PortRecord
from neutrino.server.feed.subscriptions import Follow

NETWORK, PORT = "dhcp_network", "dhcp_port"
Touch = Callable[[Collection[str], str, str], None]  # hosts, kind, id


class DhcpWorld:
    def __init__(self, touch: Touch) -> None:
        self._touch = touch
        self._networks: dict[str, DhcpRecord] = {}
        self._items: dict[str, Item] = {}  # of networks
        self._agents: dict[str, DhcpAgent | None] = {}
        self._scheduled: defaultdict[str, set[str]] = defaultdict(set)  # networks, by agent
        self._ports: dict[str, Item] = {}
        self._on: defaultdict[str, set[str]] = defaultdict(set)  # ports, by network
        self._served = Follow()
        self._with_ports = Follow()  # whose ports a host follows, for one or several reasons
        self._joined = Joined()
        self._asking: dict[str, frozenset[tuple[str, str]]] = {}  # metadata network, to (host, network) that asks there
        self._distributed: frozenset[str] = frozenset()  # hosts that answer their own ports
        self._having = Follow()  # networks on which hosts have ports
        self._servers: defaultdict[str, dict[str, PortRecord]] = defaultdict(dict)  # DHCP ports, by network and id
        self._records: dict[str, PortRecord] = {}
        self._copies: dict[str, dict[str, Item]] = {}  # of DHCP ports, by network and host
        self._copied: defaultdict[str, dict[str, Item]] = defaultdict(dict)  # the same, by host and port

    def lookup(self, host: str, kind: str, key: str) -> Item | None:
        if kind == NETWORK:
            return self._items.get(key) if self._served.has(host, key) else None
        item = self._ports.get(key)
        return item if item is not None and self._with_ports.has(host, _port(item).network_id) else None

    def copy(self, host: str, port_id: str) -> Item | None:
        """A DHCP port of another host, as this one has it."""
        return self._copied.get(host, {}).get(port_id)

    def keys(self, host: str) -> Iterator[Key]:
        for port_id in self._copied.get(host, ()):
            yield "port", port_id
        for network_id in self._served.ids(host):
            yield NETWORK, network_id
        for network_id in self._with_ports.ids(host):
            for port_id in self._on.get(network_id, ()):
                yield PORT, port_id

    def put_network(self, key: str, record: DhcpRecord | None) -> None:
        before = self._networks.get(key)
        if before == record:
            return
        for agent_id in before.agents if before is not None else ():
            self._scheduled[agent_id].discard(key)
        if record is None:
            del self._networks[key], self._items[key]
        else:
            self._networks[key] = record
            for agent_id in record.agents:
                self._scheduled[agent_id].add(key)
            if before is None or before.network != record.network:
                self._items[key] = Item(NETWORK, record.network)
                self._touch(self._served.hosts(key), NETWORK, key)
        self._follow(key)

    def put_agent(self, key: str, agent: DhcpAgent | None) -> None:
        if self._agents.get(key) == agent:
            return
        if agent is None:
            self._agents.pop(key)
        else:
            self._agents[key] = agent
        distributed = distributed_hosts(self._agents.values())
        changed = {network_id for host in distributed ^ self._distributed for network_id in self._having.ids(host)}
        self._distributed = distributed
        for network_id in changed.union(self._scheduled.get(key, ())):
            self._follow(network_id)

    def put_port(self, key: str, record: PortRecord | None) -> None:
        self._put_dhcp_port(key, record.dhcp if record is not None else None)
        before = self._records.pop(key, None)
        if record is not None:
            self._records[key] = record
            self._count(record, self._having.add)
        if before is not None:
            self._count(before, self._having.remove)
            if record is None or record.network_id != before.network_id or not is_server(record):
                self._servers[before.network_id].pop(key, None)
        if record is not None and is_server(record):
            self._servers[record.network_id][key] = record
        if self._distributed:
            for network_id in {each.network_id for each in (before, record) if each is not None}:
                self._follow(network_id)

    def _count(self, port: PortRecord, count: Callable[[str, str], bool]) -> None:
        for host in port.bound if not is_server(port) else ():
            count(host, port.network_id)

    def _put_dhcp_port(self, key: str, port: DhcpPort | None) -> None:
        before = self._ports.get(key)
        if before is not None and before.object == port:
            return
        if before is not None:
            network_id = _port(before).network_id
            self._on[network_id].discard(key)
            if not self._on[network_id]:
                del self._on[network_id]
            del self._ports[key]
            self._touch(self._with_ports.hosts(network_id), PORT, key)
        if port is not None:
            self._ports[key] = Item(PORT, port)
            self._on[port.network_id].add(key)
            self._touch(self._with_ports.hosts(port.network_id), PORT, key)
        for network_id in self._joined.put(key, port):
            self._join(network_id)

    def _follow(self, network_id: str) -> None:
        """Who serves the network now: those who are new to it, or left it, have all of it to hear of."""
        record = self._networks.get(network_id)
        after, copying = frozenset[str](), frozenset[str]()
        if record is not None:
            copying = copy_hosts(record, self._agents, self._distributed, self._having.hosts(network_id))
            after = record.hosts(self._agents) | copying
        before = set(self._served.hosts(network_id))
        for host in after - before:
            self._served.add(host, network_id)
            self.follow_ports(host, network_id)
        for host in before - after:
            self._served.remove(host, network_id)
            self.unfollow_ports(host, network_id)
        self._touch(after ^ before, NETWORK, network_id)
        self._join(network_id)
        self._copy(network_id, copying)

    def _join(self, network_id: str) -> None:
        """Whose ports may ask for metadata on this network, if it is one for that."""
        record = self._networks.get(network_id)
        before, after = self._asking.pop(network_id, frozenset()), frozenset[tuple[str, str]]()
        if record is not None and is_metadata_network(record.network):
            others = self._joined.to(network_id)
            after = frozenset((host, other) for host in self._served.hosts(network_id) for other in others)
        if after:
            self._asking[network_id] = after
        for host, other in after - before:
            self.follow_ports(host, other)
        for host, other in before - after:
            self.unfollow_ports(host, other)

    def _copy(self, network_id: str, hosts: Collection[str]) -> None:
        """The copies of the network's DHCP port that hosts should have."""
        wanted = copies(self._servers.get(network_id, {}).values(), hosts)
        there = self._copies.pop(network_id, {})
        if wanted:
            kept = {h: there[h] for h, port in wanted.items() if h in there and there[h].object == port}
            self._copies[network_id] = {h: kept.get(h) or Item("port", port) for h, port in wanted.items()}
        now = self._copies.get(network_id, {})
        for host in there.keys() | now.keys():
            old, new = there.get(host), now.get(host)
            if old is new:
                continue
            if old is not None:
                del self._copied[host][old.object.id]
                self._touch([host], "port", old.object.id)
            if new is not None:
                self._copied[host][new.object.id] = new
                self._touch([host], "port", new.object.id)

    def follow_ports(self, host: str, network_id: str) -> None:
        """One reason more for the host to hear of the network's ports."""
        if self._with_ports.add(host, network_id):
            self._touch_ports(host, network_id)

    def unfollow_ports(self, host: str, network_id: str) -> None:
        if self._with_ports.remove(host, network_id):
            self._touch_ports(host, network_id)

    def _touch_ports(self, host: str, network_id: str) -> None:
        for port_id in self._on.get(network_id, ()):
            self._touch([host], PORT, port_id)


def _port(item: Item) -> DhcpPort:
    assert isinstance(item.object, DhcpPort)
    return item.object
