"""The world: by whatever steps it came about, every host has exactly what the definition says it needs."""

from __future__ import annotations

import ipaddress
import random
from dataclasses import dataclass, field

import pytest

from neutrino.feed.messages import FROM_SERVER, Cursor, Reader, Welcome
from neutrino.feed.state import State
from neutrino.model.dhcp import OWNER, DhcpNetwork, DhcpPort
from neutrino.model.routing import Router, RouterInterface
from neutrino.model.state import (
    AddressGroup,
    DvrMac,
    FixedIp,
    Forwarding,
    GroupMembers,
    Host,
    Member,
    Network,
    Object,
    Port,
    Rule,
    SecurityGroup,
    Segment,
    Subnet,
)
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.pending import Pending
from neutrino.server.feed.records import DhcpAgent, DhcpRecord, GroupRecord, PortRecord, Records, RouterRecord
from neutrino.server.feed.scope import scope
from neutrino.server.feed.telling import compare, next_frame, synced

HOSTS = [f"h{i}" for i in range(4)]
MAC = "fa:16:3e:00:00:01"
NETWORKS = [f"n{i}" for i in range(4)]
GROUPS = [f"g{i}" for i in range(4)]
ADDRESS_GROUPS = ["a0", "a1"]
ROUTERS = ["r0", "r1", "r2"]
PORTS = [f"p{i}" for i in range(14)]


class HostEnd:
    """A host as the server has it and as it has itself, with no socket between."""

    def __init__(self, world: Fanout, host: str) -> None:
        self.host = host
        self.state = State()
        self._reader = Reader(FROM_SERVER)
        self._connect(world)

    def _connect(self, world: Fanout) -> None:
        self.outgoing = Pending(self.host)
        world.watch(self.outgoing)
        self.state.apply(Welcome(cursor=Cursor("db", world.position)))
        compare(world, self.outgoing, self.state.have())

    def reconnect(self, world: Fanout, into: Fanout | None = None) -> int:
        """How much the server finds to be different."""
        world.unwatch(self.outgoing)
        self._connect(into or world)
        return len(self.outgoing)

    def hear(self, world: Fanout, frames: int | None = None) -> None:
        """Some of what waits; without a number all, and `synced`."""
        while frames is None or frames > 0:
            data = next_frame(world, self.outgoing)
            if data is None:
                break
            self._apply(data)
            frames = None if frames is None else frames - 1
        if frames is None:
            self._apply(synced(world, self.outgoing))

    def _apply(self, data: bytes) -> None:
        for message in self._reader.read(data):
            assert not isinstance(message, Exception), message
            self.state.apply(message)

    def objects(self) -> dict[tuple[str, str], Object]:
        return {(kind, key): o for kind, several in self.state.objects.items() for key, o in several.items()}


@dataclass
class Random:
    """Records that change at random, as the database's would."""

    rng: random.Random
    records: Records = field(default_factory=Records)

    def step(self) -> Records:
        """One change."""
        kinds = ["port", "network", "group", "address_group", "agent", "dhcp", "dhcp_agent", "router", "dvr_mac"]
        kind = self.rng.choices(kinds, [10, 2, 3, 1, 2, 2, 1, 2, 1])[0]
        change = Records()
        getattr(self, f"_{kind}")(change)
        for name in vars(change).keys() - {"credentials"}:
            getattr(self.records, name).update(getattr(change, name))
        return change

    def _port(self, change: Records) -> None:
        key = self.rng.choice(PORTS)
        if self.rng.random() < 0.2:
            change.ports[key] = None
            return
        network = NETWORKS[PORTS.index(key) % len(NETWORKS)]
        groups = tuple(self.rng.sample(GROUPS, self.rng.randrange(3)))
        addresses = [f"10.0.0.{self.rng.randrange(4)}" for _ in range(self.rng.randrange(3))]
        hosts = self.rng.sample(HOSTS, self.rng.choice([0, 1, 1, 1, 2]))
        bound = {
            host: Port(
                id=key,
                revision=self.rng.randrange(3),
                network_id=network,
                mac_address=MAC,
                host=host,
                active=i == 0,
                security_groups=groups,
                fixed_ips=tuple(FixedIp("s", a) for a in addresses),
            )
            for i, host in enumerate(hosts)
        }
        tunnelled = hosts and network != NETWORKS[0]
        entry = Forwarding(
            id=key, network_id=network, host=hosts[0] if hosts else "", mac_address=MAC, ip_addresses=tuple(addresses)
        )
        members = frozenset(Member(a, MAC) for a in addresses) if groups else frozenset[Member]()
        dhcp = DhcpPort(
            id=key,
            revision=self.rng.randrange(3),
            network_id=network,
            mac_address=MAC,
            host=hosts[0] if hosts else "",
            device_id=self.rng.choice(ROUTERS),
            device_owner=self.rng.choice([OWNER, "compute:nova", "network:router_interface"]),
            fixed_ips=tuple(FixedIp("s", a) for a in addresses),
        )
        entries = entry if tunnelled else None
        change.ports[key] = PortRecord(key, network, bound, entries, frozenset(groups), members, dhcp)

    def _dhcp(self, change: Records) -> None:
        key = self.rng.choice(NETWORKS)
        agents = frozenset(self._some([*HOSTS, "gone"]))  # one of them is never there
        cidr = self.rng.choice(["10.0.0.0/24", "169.254.169.240/28"])  # the one or the other of a metadata network
        subnets = (Subnet(id="s", network_id=key, ip_version=4, cidr=cidr),)
        network = DhcpNetwork(id=key, revision=self.rng.randrange(3), subnets=subnets)
        change.dhcp[key] = DhcpRecord(network, agents) if self.rng.random() < 0.9 else None

    def _dhcp_agent(self, change: Records) -> None:
        key = self.rng.choice(HOSTS)  # an agent's id; agents of one host come and go under several
        up, distributed = self.rng.random() < 0.7, self.rng.random() < 0.4
        agent = DhcpAgent(self.rng.choice(HOSTS), admin_state_up=up, distributed=distributed)
        change.dhcp_agents[key] = agent if self.rng.random() < 0.8 else None

    def _router(self, change: Records) -> None:
        """Hosts may be given different parts of it."""
        key = self.rng.choice(ROUTERS)

        def router() -> Router:
            interfaces = (RouterInterface(id=f"{key}-{n}", network_id=n, mac_address=MAC) for n in self._some(NETWORKS))
            return Router(id=key, revision=self.rng.randrange(3), interfaces=tuple(interfaces))

        there = self.rng.random() < 0.9
        change.routers[key] = RouterRecord({host: router() for host in self._some(HOSTS)}) if there else None

    def _dvr_mac(self, change: Records) -> None:
        name = self.rng.choice(HOSTS)
        there = self.rng.random() < 0.7
        change.dvr_macs[f"agent-{name}"] = (
            DvrMac(id=name, mac_address=f"fa:16:3f:00:00:0{self.rng.randrange(2)}") if there else None
        )

    def _network(self, change: Records) -> None:
        key = self.rng.choice(NETWORKS)
        kind = "vlan" if key == NETWORKS[0] else "vxlan"
        segments = (Segment(id=f"s{key}", network_type=kind),)
        there = self.rng.random() < 0.9
        change.networks[key] = Network(id=key, revision=self.rng.randrange(3), segments=segments) if there else None

    def _group(self, change: Records) -> None:
        key = self.rng.choice(GROUPS)
        remotes = [Rule(id="r", direction="ingress", ethertype="IPv4", remote_group_id=g) for g in self._some(GROUPS)]
        addresses = [
            Rule(id="a", direction="ingress", ethertype="IPv4", remote_address_group_id=g)
            for g in self._some(ADDRESS_GROUPS)
        ]
        group = SecurityGroup(id=key, revision=self.rng.randrange(3), rules=(*remotes, *addresses))
        change.groups[key] = GroupRecord(group) if self.rng.random() < 0.9 else None

    def _some(self, of: list[str]) -> list[str]:
        return self.rng.sample(of, self.rng.randrange(len(of)))

    def _address_group(self, change: Records) -> None:
        key = self.rng.choice(ADDRESS_GROUPS)
        there = self.rng.random() < 0.9
        change.address_groups[key] = (
            AddressGroup(id=key, addresses=frozenset(f"10.2.0.{each[1:]}" for each in self._some(PORTS)))
            if there
            else None
        )

    def _agent(self, change: Records) -> None:
        name = self.rng.choice(HOSTS)
        there = self.rng.random() < 0.9
        address = self.rng.choice(["", "192.0.2.1", "192.0.2.2"])
        change.agents[f"agent-{name}"] = Host(id=name, tunneling_ip=address) if there else None


def check(records: Records, ends: list[HostEnd]) -> None:
    for end in ends:
        assert end.objects() == scope(records, end.host), end.host


@pytest.fixture(params=range(12))
def source(request: pytest.FixtureRequest) -> Random:
    return Random(random.Random(request.param))


def test_every_step_leads_to_what_the_definition_says(source: Random) -> None:
    world = Fanout()
    ends = [HostEnd(world, host) for host in HOSTS]
    for _ in range(300):
        world.apply(source.step())
        for end in ends:
            end.hear(world)
        check(source.records, ends)


def test_hosts_that_are_slow_or_lose_the_connection(source: Random) -> None:
    """Changes meet hosts in the middle of hearing the ones before; nothing is missed, nothing stays."""
    world, rng = Fanout(), source.rng
    ends = [HostEnd(world, host) for host in HOSTS]
    for step in range(400):
        world.apply(source.step())
        for end in ends:
            if rng.random() < 0.3:
                end.hear(world, rng.randrange(3))
            if rng.random() < 0.1:
                end.reconnect(world)
        if step % 20 == 0:
            for end in ends:
                end.hear(world)
            check(source.records, ends)


def test_a_new_server_finds_only_what_differs(source: Random) -> None:
    """The world read from scratch is the one that was followed: hosts that heard all have nothing to hear."""
    world = Fanout()
    ends = [HostEnd(world, host) for host in HOSTS]
    for _ in range(200):
        world.apply(source.step())
        for end in ends:
            end.hear(world)
    another = Fanout()
    another.apply(source.records)
    assert [end.reconnect(world, another) for end in ends] == [0] * len(ends)
    for _ in range(20):
        another.apply(source.step())
    for end in ends:
        end.hear(another)
    check(source.records, ends)


def test_a_cache_is_as_good_as_the_memory(source: Random) -> None:
    world = Fanout()
    ends = [HostEnd(world, host) for host in HOSTS]
    for step in range(100):
        world.apply(source.step())
        for end in ends:
            end.hear(world, source.rng.randrange(3) or None)
            if step % 10 == 0:
                saved, end.state = end.state.dump(), State()
                end.state.load(saved)
                end.reconnect(world)
    for end in ends:
        end.hear(world)
    check(source.records, ends)


def test_what_waits_does_not_outgrow_the_objects(source: Random) -> None:
    world = Fanout()
    ends = [HostEnd(world, host) for host in HOSTS]
    for _ in range(3000):
        world.apply(source.step())
    objects = len(PORTS) * 3 + len(NETWORKS) * 3 + len(ROUTERS) + len(GROUPS) * 2 + len(ADDRESS_GROUPS)
    objects += len(HOSTS) * 2
    assert all(len(end.outgoing) <= objects for end in ends)
    for end in ends:
        end.hear(world)
    check(source.records, ends)


def test_those_who_are_not_concerned_hear_nothing() -> None:
    world = Fanout()
    segments = (Segment(id="s", network_type="vxlan"),)
    world.apply(Records(networks={n: Network(id=n, segments=segments) for n in NETWORKS}))
    for i, host in enumerate(HOSTS):
        port = Port(id=f"p{i}", network_id=NETWORKS[i], mac_address=MAC, host=host)
        entry = Forwarding(id=port.id, network_id=port.network_id, host=host, mac_address=MAC)
        world.put_port(port.id, PortRecord(port.id, port.network_id, {host: port}, entry))
    ends = [HostEnd(world, host) for host in HOSTS]
    for end in ends:
        end.hear(world)
    port = Port(id="new", network_id=NETWORKS[0], mac_address=MAC, host=HOSTS[1])
    entry = Forwarding(id="new", network_id=port.network_id, host=HOSTS[1], mac_address=MAC)
    world.put_port("new", PortRecord("new", port.network_id, {HOSTS[1]: port}, entry))
    assert [bool(end.outgoing) for end in ends] == [True, True, False, False]


def test_members_travel_as_differences() -> None:
    world = Fanout()
    rule = Rule(id="r", direction="ingress", ethertype="IPv4", remote_group_id="g")
    world.put_group("g", GroupRecord(SecurityGroup(id="g", rules=(rule,))))
    own = Port(id="own", network_id="n", mac_address=MAC, host="h0", security_groups=("g",))
    world.put_port(
        "own", PortRecord("own", "n", {"h0": own}, None, frozenset({"g"}), frozenset({Member("10.1.0.1", MAC)}))
    )
    for i in range(500):
        members = frozenset({Member(str(ipaddress.IPv4Address("10.0.0.0") + i), MAC)})
        world.put_port(f"p{i}", PortRecord(f"p{i}", "n", {}, None, frozenset({"g"}), members))
    end = HostEnd(world, "h0")
    end.hear(world)
    world.put_port("p7", None)
    data = next_frame(world, end.outgoing)
    assert data is not None
    assert len(data) < 200
    end._apply(data)
    found = end.state.get("group_members", "g")
    assert isinstance(found, GroupMembers)
    assert len(found.members) == 500
    assert Member("10.0.0.7", MAC) not in found.members


def test_before_synced_nothing_is_taken_away() -> None:
    world = Fanout()
    port = Port(id="p", network_id="n", mac_address=MAC, host="h0")
    world.put_port("p", PortRecord("p", "n", {"h0": port}))
    end = HostEnd(world, "h0")
    end.hear(world)
    assert end.state.get("port", "p") == port
    world.put_port("p", None)
    end.reconnect(world)
    while (data := next_frame(world, end.outgoing)) is not None:
        end._apply(data)
    assert not end.state.is_synced
    assert end.state.get("port", "p") == port
    end.hear(world)
    assert end.state.is_synced
    assert end.state.get("port", "p") is None
