"""The database as hosts see it, kept up to date by the change log, with the indexes that say whom a change concerns.

`put_*` takes one object's new state, compares it with the old one, and touches what may now be another for some host:
hosts that are not concerned cost nothing. `lookup` says what a host has of a key right now. Both together are
`scope.py`'s definition, arrived at by steps. Pure: no database, socket or clock; it belongs to one thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from neutrino.model.state import AddressGroup, Host, Network
from neutrino.server.feed import dhcp_world, dvr_world, router_world
from neutrino.server.feed.dhcp_world import DhcpWorld
from neutrino.server.feed.dvr_world import DvrWorld
from neutrino.server.feed.encoding import Item, MemberSet, digest
from neutrino.server.feed.pending import Key, Pending
from neutrino.server.feed.records import GroupRecord, PortRecord, Records, is_tunnelled
from neutrino.server.feed.router_world import RouterWorld
from neutrino.server.feed.subscriptions import Follow


class Fanout:
    def __init__(self) -> None:
        self.position = 0
        self._items: defaultdict[str, dict[str, Item]] = defaultdict(dict)  # network, security_group, …, by id
        self._ports: dict[str, PortRecord] = {}
        self._bound: dict[tuple[str, str], Item] = {}  # by port and host
        self._groups: dict[str, GroupRecord] = {}
        self._agents: dict[str, Host] = {}
        self._tunnelled: set[str] = set()
        self._members: defaultdict[str, MemberSet] = defaultdict(MemberSet)
        self._entries: defaultdict[str, dict[str, Item]] = defaultdict(dict)  # forwarding, by network and port
        self._sums: defaultdict[tuple[str, str], int] = defaultdict(int)  # of their numbers, by network and host
        self._on_network = Follow()
        self._with_group = Follow()
        self._with_members = Follow()
        self._with_addresses = Follow()
        self._follows = {
            "network": self._on_network,
            "security_group": self._with_group,
            "address_group": self._with_addresses,
        }
        self._hosts_ports: defaultdict[str, set[str]] = defaultdict(set)
        self._watched: dict[str, list[Pending]] = {}
        self._dhcp = DhcpWorld(self._touch)
        self._routers = RouterWorld(self._touch, self._dhcp)
        self._dvr = DvrWorld(self._touch)

    # --- who listens ----------------------------------------------------------------------------------------------

    def watch(self, outgoing: Pending) -> None:
        self._watched.setdefault(outgoing.host, []).append(outgoing)

    def unwatch(self, outgoing: Pending) -> None:
        left = [o for o in self._watched.get(outgoing.host, ()) if o is not outgoing]
        if left:
            self._watched[outgoing.host] = left
        else:
            self._watched.pop(outgoing.host, None)

    def _watchers(self, hosts: Collection[str]) -> Iterator[Pending]:
        for host in hosts if len(hosts) < len(self._watched) else self._watched.keys() & set(hosts):
            yield from self._watched.get(host, ())

    def _touch(self, hosts: Collection[str], kind: str, key: str) -> None:
        for outgoing in self._watchers(hosts):
            outgoing.touch(kind, key)

    # --- what a host has ------------------------------------------------------------------------------------------

    def lookup(self, host: str, kind: str, key: str) -> Item | None:
        """An object as this host has it; None if it has it not. Members of groups are asked for by `members`."""
        if kind == "port":
            return self._bound.get((key, host)) or self._dhcp.copy(host, key)
        if kind == "forwarding":
            return self._entry(host, key)
        if kind in (dhcp_world.NETWORK, dhcp_world.PORT):
            return self._dhcp.lookup(host, kind, key)
        if kind == router_world.ROUTER:
            return self._routers.lookup(host, key)
        if kind == dvr_world.MAC:
            return self._dvr.lookup(host, key)
        if kind == "host" and not self._shares(host, key):
            return None
        follow = self._follows.get(kind)
        if follow is not None and not follow.has(host, key):
            return None
        return self._items[kind].get(key)

    def _entry(self, host: str, port_id: str) -> Item | None:
        port = self._ports.get(port_id)
        if port is None or port.forwarding is None or port.forwarding.host == host:
            return None
        if port.network_id not in self._tunnelled or not self._on_network.has(host, port.network_id):
            return None
        return self._entries[port.network_id].get(port_id)

    def _shares(self, host: str, other: str) -> bool:
        """Whether two hosts have a tunnelled network in common."""
        if host == other:
            return False
        common = self._on_network.ids(host) & self._on_network.ids(other)
        return not self._tunnelled.isdisjoint(common)

    def members(self, host: str, group_id: str) -> MemberSet | None:
        if not self._with_members.has(host, group_id):
            return None
        return self._members[group_id] if group_id in self._members else MemberSet()

    def entries(self, host: str, network_id: str) -> dict[str, Item]:
        """The forwarding entries of a network, for this host."""
        if network_id not in self._tunnelled or not self._on_network.has(host, network_id):
            return {}
        return {key: i for key, i in self._entries[network_id].items() if self._ports[key].forwarding.host != host}  # type: ignore[union-attr]

    def entries_digest(self, host: str, network_id: str) -> str:
        return digest(self._sums[network_id, ""] - self._sums[network_id, host])

    def keys(self, host: str) -> Iterator[Key]:
        """The keys of all that a host has, its forwarding entries and groups' members aside."""
        for port_id in self._hosts_ports.get(host, ()):
            yield "port", port_id
        peers: set[str] = set()
        for network_id in self._on_network.ids(host):
            yield "network", network_id
            if network_id in self._tunnelled:
                peers |= self._on_network.hosts(network_id)
        for other in peers - {host}:
            yield "host", other
        for group_id in self._with_group.ids(host):
            yield "security_group", group_id
        for group_id in self._with_addresses.ids(host):
            yield "address_group", group_id
        yield from self._dhcp.keys(host)
        yield from self._routers.keys(host)
        yield from self._dvr.keys(host)

    def items(self, host: str) -> Iterator[tuple[str, str, Item]]:
        """The same, each with its object. Peers are many, and that they are peers is what their keys were found by."""
        peers = self._items["host"]
        for kind, key in self.keys(host):
            item = peers.get(key) if kind == "host" else self.lookup(host, kind, key)
            if item is not None:
                yield kind, key, item

    def networks_of(self, port_ids: Collection[str]) -> frozenset[str]:
        """The networks of these ports, as far as they are known here: also of those that are deleted by now."""
        return frozenset(self._ports[key].network_id for key in port_ids if key in self._ports)

    def tunnelled_networks(self, host: str) -> set[str]:
        return {n for n in self._on_network.ids(host) if n in self._tunnelled}

    def remote_groups(self, host: str) -> Collection[str]:
        return self._with_members.ids(host)

    # --- changes --------------------------------------------------------------------------------------------------

    def apply(self, records: Records) -> None:
        for key, network in records.networks.items():
            self.put_network(key, network)
        for key, address_group in records.address_groups.items():
            self.put_address_group(key, address_group)
        for key, group in records.groups.items():
            self.put_group(key, group)
        for key, agent in records.agents.items():
            self.put_agent(key, agent)
        for key, dhcp_agent in records.dhcp_agents.items():
            self._dhcp.put_agent(key, dhcp_agent)
        for key, served in records.dhcp.items():
            self._dhcp.put_network(key, served)
        for key, router in records.routers.items():
            self._routers.put_router(key, router)
        for key, mac in records.dvr_macs.items():
            self._dvr.put_mac(key, mac)
        for key, port in records.ports.items():
            self.put_port(key, port)

    def _store(self, kind: str, key: str, value: Network | AddressGroup | Host | None) -> bool:
        """Keep an object's new state; whether it is another."""
        known = self._items[kind]
        if value is None:
            return known.pop(key, None) is not None
        if key in known and known[key].object == value:
            return False
        known[key] = Item(kind, value)
        return True

    def put_network(self, key: str, network: Network | None) -> None:
        if not self._store("network", key, network):
            return
        hosts = self._on_network.hosts(key)
        self._touch(hosts, "network", key)
        if is_tunnelled(network) != (key in self._tunnelled):
            (self._tunnelled.add if is_tunnelled(network) else self._tunnelled.discard)(key)
            for host in hosts:
                self._touch_peers(host, key)

    def put_address_group(self, key: str, group: AddressGroup | None) -> None:
        if self._store("address_group", key, group):
            self._touch(self._with_addresses.hosts(key), "address_group", key)

    def put_agent(self, key: str, agent: Host | None) -> None:
        """By the agent's id. A host that has no address for tunnels is none that others could reach."""
        before = self._agents.pop(key, None)
        if agent is not None:
            self._agents[key] = agent
        if before is not None and (agent is None or agent.id != before.id):
            self._put_host(before.id, None)
        if agent is not None:
            self._put_host(agent.id, agent if agent.tunneling_ip else None)

    def _put_host(self, name: str, host: Host | None) -> None:
        if self._store("host", name, host):
            sharing: set[str] = set()
            for network_id in self.tunnelled_networks(name):
                sharing |= self._on_network.hosts(network_id)
            self._touch(sharing, "host", name)

    def put_group(self, key: str, record: GroupRecord | None) -> None:
        before = self._groups.get(key)
        if before == record:
            return
        if record is None:
            self._groups.pop(key, None)
            self._items["security_group"].pop(key, None)
        else:
            self._groups[key] = record
            self._items["security_group"][key] = Item("security_group", record.group)
        for host in tuple(self._with_group.hosts(key)):
            self._follow_remotes(host, record, before)
        self._touch(self._with_group.hosts(key), "security_group", key)

    def put_port(self, key: str, port: PortRecord | None) -> None:
        before = self._ports.get(key)
        if before == port:
            return
        if port is None:
            del self._ports[key]
        else:
            self._ports[key] = port
        self._dhcp.put_port(key, port)
        self._change_members(before, port)
        self._change_entry(key, before, port)
        self._change_bound(key, before, port)

    # --- the parts of a port --------------------------------------------------------------------------------------

    def _change_members(self, before: PortRecord | None, after: PortRecord | None) -> None:
        had = before.groups if before is not None else frozenset()
        has = after.groups if after is not None else frozenset()
        old = before.members if before is not None else frozenset()
        new = after.members if after is not None else frozenset()
        if had == has and old == new:
            return
        for group_id in had | has:
            came, went = self._members[group_id].change(new if group_id in has else (), old if group_id in had else ())
            if not self._members[group_id]:
                del self._members[group_id]
            if came or went:
                for outgoing in self._watchers(self._with_members.hosts(group_id)):
                    outgoing.touch_members(group_id, came, went)

    def _change_entry(self, key: str, before: PortRecord | None, after: PortRecord | None) -> None:
        """A forwarding entry as the network's other hosts have it."""
        old = before.forwarding if before is not None else None
        new = after.forwarding if after is not None else None
        if old == new:
            return
        if old is not None:
            self._count(old.network_id, old.host, -self._entries[old.network_id].pop(key).number)
            if not self._entries[old.network_id]:
                del self._entries[old.network_id]
        if new is not None:
            item = Item("forwarding", new)
            self._entries[new.network_id][key] = item
            self._count(new.network_id, new.host, item.number)
        for network_id in {entry.network_id for entry in (old, new) if entry is not None}:
            for outgoing in self._watchers(self._on_network.hosts(network_id)):
                outgoing.touch_entry(network_id, key)

    def _count(self, network_id: str, host: str, number: int) -> None:
        for place in ((network_id, ""), (network_id, host)):
            self._sums[place] += number
            if not self._sums[place]:
                del self._sums[place]

    def _change_bound(self, key: str, before: PortRecord | None, after: PortRecord | None) -> None:
        """What its hosts follow for it. First what is new, then what is not: so nothing goes that comes again."""
        if after is not None:
            for host, port in after.bound.items():
                self._bound[key, host] = Item("port", port)
                self._hosts_ports[host].add(key)
                self._enter(host, after)
        if before is not None:
            for host in before.bound:
                self._leave(host, before)
                if after is None or host not in after.bound:
                    del self._bound[key, host]
                    self._hosts_ports[host].discard(key)
        for record in (before, after):
            if record is not None:
                self._touch(record.bound.keys(), "port", key)

    # --- what a host follows --------------------------------------------------------------------------------------

    def _enter(self, host: str, port: PortRecord) -> None:
        if self._on_network.add(host, port.network_id):
            self._touch([host], "network", port.network_id)
            if port.network_id in self._tunnelled:
                self._touch_peers(host, port.network_id)
        for group_id in port.groups:
            if self._with_group.add(host, group_id):
                self._touch([host], "security_group", group_id)
                self._follow_remotes(host, self._groups.get(group_id), None)

    def _leave(self, host: str, port: PortRecord) -> None:
        if self._on_network.remove(host, port.network_id):
            self._touch([host], "network", port.network_id)
            if port.network_id in self._tunnelled:
                self._touch_peers(host, port.network_id)
        for group_id in port.groups:
            if self._with_group.remove(host, group_id):
                self._touch([host], "security_group", group_id)
                self._follow_remotes(host, None, self._groups.get(group_id))

    def _touch_peers(self, host: str, network_id: str) -> None:
        """A host came to a network or left it: it and the others there have each other to hear of, or no longer."""
        others = self._on_network.hosts(network_id) - {host}
        for outgoing in self._watched.get(host, ()):
            outgoing.touch_entries(network_id)
            for other in others:
                outgoing.touch("host", other)
        self._touch(others, "host", host)

    def _follow_remotes(self, host: str, now: GroupRecord | None, before: GroupRecord | None) -> None:
        for group_id in now.remote_groups if now is not None else ():
            if self._with_members.add(host, group_id):
                self._touch_all_members(host, group_id)
        for group_id in now.address_groups if now is not None else ():
            if self._with_addresses.add(host, group_id):
                self._touch([host], "address_group", group_id)
        for group_id in before.remote_groups if before is not None else ():
            if self._with_members.remove(host, group_id):
                self._touch_all_members(host, group_id)
        for group_id in before.address_groups if before is not None else ():
            if self._with_addresses.remove(host, group_id):
                self._touch([host], "address_group", group_id)

    def _touch_all_members(self, host: str, group_id: str) -> None:
        for outgoing in self._watched.get(host, ()):
            outgoing.touch_all_members(group_id)
