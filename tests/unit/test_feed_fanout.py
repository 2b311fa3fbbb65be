"""Fan-out: whatever the order of changes, every host receives exactly the objects of its scope."""

from __future__ import annotations

import ipaddress
import random
from collections import defaultdict
from dataclasses import dataclass, field
from graphlib import CycleError
from typing import Any

import msgspec
import pytest

from neutrino.feed.messages import Cursor, Synced, Welcome, read_from_server
from neutrino.feed.state import State
from neutrino.model.dhcp import OWNER, DhcpNetwork, DhcpPort
from neutrino.model.kinds import KINDS
from neutrino.model.roles import ROLES
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
from neutrino.server.features import sources
from neutrino.server.feed import fanout as fanout_module
from neutrino.server.feed.declarations import Feed, Reference, assemble
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.records import AgentRecord, DhcpAgent, NetworkRecord, PortRecord, Records
from tests.support.feed_scope import scope

HOSTS = [f"h{i}" for i in range(4)]
MAC = "fa:16:3e:00:00:01"
NETWORKS = [f"n{i}" for i in range(4)]
GROUPS = [f"g{i}" for i in range(4)]
ADDRESS_GROUPS = ["a0", "a1"]
ROUTERS = ["r0", "r1", "r2"]
PORTS = [f"p{i}" for i in range(14)]


class HostEnd:
    """The server's queue for a host and the host's state, without a socket in between."""

    def __init__(self, fanout: Fanout, host: str) -> None:
        self.host = host
        self.state = State()
        self._connect(fanout)

    def _connect(self, fanout: Fanout) -> None:
        self.state.apply(Welcome(cursor=Cursor("db", fanout.position)))
        self.pending = fanout.connect(self.host, self.state.have())

    def reconnect(self, fanout: Fanout, to: Fanout | None = None) -> int:
        """How much the server finds to differ."""
        fanout.disconnect(self.pending)
        self._connect(to or fanout)
        return len(self.pending)

    def receive(self, fanout: Fanout, frames: int | None = None) -> None:
        """Some of the frames that are due; without a number all, up to `synced`."""
        while frames is None or frames > 0:
            data, is_last = fanout.next_frame(self.pending)
            self.apply(data)
            if is_last:
                break
            frames = None if frames is None else frames - 1

    def receive_unsynced(self, fanout: Fanout) -> None:
        """All frames, and the connection is lost just before `synced`."""
        data, is_last = fanout.next_frame(self.pending)
        assert is_last
        for message in read_from_server(data)[:-1]:
            self.state.apply(message)

    def apply(self, data: bytes) -> None:
        for message in read_from_server(data):
            assert not isinstance(message, Exception), message
            self.state.apply(message)

    def objects(self) -> dict[tuple[str, str], Object]:
        return {(kind, key): o for kind, objects in self.state.objects.items() for key, o in objects.items()}


Changes = dict[str, dict[str, Any]]


@dataclass
class Random:
    """Records that change at random, as those of the database do."""

    rng: random.Random
    records: Changes = field(default_factory=lambda: defaultdict(dict))

    def step(self) -> Records:
        """One change."""
        kinds = ["port", "network", "group", "address_group", "agent", "dhcp_agent", "router"]
        kind = self.rng.choices(kinds, [10, 4, 3, 1, 3, 1, 2])[0]
        change: Changes = defaultdict(dict)
        getattr(self, f"_{kind}")(change)
        for source, records in change.items():
            self.records[source].update(records)
        return change

    def _port(self, change: Changes) -> None:
        key = self.rng.choice(PORTS)
        if self.rng.random() < 0.2:
            change["port"][key] = None
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
                segment_id=self.rng.choice(["s1", "s2"]),
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
        change["port"][key] = PortRecord(key, network, bound, entries, frozenset(groups), members, dhcp)

    def _dhcp_agent(self, change: Changes) -> None:
        key = self.rng.choice(HOSTS)  # the agent's id: an agent may be registered again under another one
        up, distributed = self.rng.random() < 0.7, self.rng.random() < 0.4
        agent = DhcpAgent(self.rng.choice(HOSTS), admin_state_up=up, distributed=distributed)
        change["agent"][key] = AgentRecord(dhcp=agent) if self.rng.random() < 0.8 else None

    def _router(self, change: Changes) -> None:
        """Hosts may be given different parts of it."""
        key = self.rng.choice(ROUTERS)

        def router() -> Router:
            interfaces = (RouterInterface(id=f"{key}-{n}", network_id=n, mac_address=MAC) for n in self._some(NETWORKS))
            return Router(id=key, revision=self.rng.randrange(3), interfaces=tuple(interfaces))

        there = self.rng.random() < 0.9
        change["router"][key] = {host: router() for host in self._some(HOSTS)} if there else None

    def _network(self, change: Changes) -> None:
        """Scheduled to some DHCP agents, of which one never exists; some are metadata networks."""
        key = self.rng.choice(NETWORKS)
        segments = (Segment(id=f"s{key}", network_type="vlan" if key == NETWORKS[0] else "vxlan"),)
        network = Network(id=key, revision=self.rng.randrange(3), segments=segments)
        cidr = self.rng.choice(["10.0.0.0/24", "169.254.169.240/28"])
        routed = {"segment_id": self.rng.choice(["", "s1"])}  # of a routed network
        subnets = (Subnet(id="s", network_id=key, ip_version=4, cidr=cidr, **routed),)
        dhcp = DhcpNetwork(id=key, revision=self.rng.randrange(3), subnets=subnets)
        agents = frozenset(self._some([*HOSTS, "gone"]))
        record = NetworkRecord(network, dhcp, agents) if self.rng.random() < 0.8 else NetworkRecord(network)
        change["network"][key] = record if self.rng.random() < 0.9 else None

    def _group(self, change: Changes) -> None:
        key = self.rng.choice(GROUPS)
        remotes = [Rule(id="r", direction="ingress", ethertype="IPv4", remote_group_id=g) for g in self._some(GROUPS)]
        addresses = [
            Rule(id="a", direction="ingress", ethertype="IPv4", remote_address_group_id=g)
            for g in self._some(ADDRESS_GROUPS)
        ]
        group = SecurityGroup(id=key, revision=self.rng.randrange(3), rules=(*remotes, *addresses))
        change["security_group"][key] = group if self.rng.random() < 0.9 else None

    def _some(self, of: list[str]) -> list[str]:
        return self.rng.sample(of, self.rng.randrange(len(of)))

    def _address_group(self, change: Changes) -> None:
        key = self.rng.choice(ADDRESS_GROUPS)
        there = self.rng.random() < 0.9
        change["address_group"][key] = (
            AddressGroup(id=key, addresses=frozenset(f"10.2.0.{each[1:]}" for each in self._some(PORTS)))
            if there
            else None
        )

    def _agent(self, change: Changes) -> None:
        name = self.rng.choice(HOSTS)
        address = self.rng.choice(["", "192.0.2.1", "192.0.2.2"])
        host = Host(id=name, tunneling_ip=address) if address else None
        mac = DvrMac(id=name, mac_address=f"fa:16:3f:00:00:0{self.rng.randrange(2)}")
        record = AgentRecord(host, mac if self.rng.random() < 0.7 else None)
        change["agent"][f"agent-{name}"] = record if self.rng.random() < 0.9 else None


def check(records: Changes, ends: list[HostEnd]) -> None:
    for end in ends:
        assert end.objects() == scope(records, end.host), end.host


@pytest.fixture(params=range(12))
def source(request: pytest.FixtureRequest) -> Random:
    return Random(random.Random(request.param))


def test_hosts_equal_their_scope_after_every_change(source: Random) -> None:
    fanout = Fanout(sources().kinds)
    ends = [HostEnd(fanout, host) for host in HOSTS]
    for _ in range(300):
        fanout.apply(source.step())
        for end in ends:
            end.receive(fanout)
        check(source.records, ends)


def test_the_sums_of_a_synced_host_agree_and_those_of_another_state_differ(source: Random) -> None:
    fanout = Fanout(sources().kinds)
    ends = [HostEnd(fanout, host) for host in HOSTS]
    for _ in range(100):
        before = [end.objects() for end in ends]
        sums = [end.state.sums() for end in ends]
        fanout.apply(source.step())
        for end, had, stated in zip(ends, before, sums, strict=True):
            end.receive(fanout)
            assert _differing(fanout, end.host, end.state.sums()) == []
            has = end.objects()
            changed = {kind for kind, key in {*had, *has} if had.get((kind, key)) != has.get((kind, key))}
            assert {*_differing(fanout, end.host, stated)} >= changed


def _differing(fanout: Fanout, host: str, sums: dict[str, str]) -> list[str]:
    pending, kinds = fanout.resume(host, sums, ROLES, lambda: None)
    fanout.disconnect(pending)
    return kinds


def small_frames(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Snapshots in several frames also of few objects."""
    for module in ("composed", "frames"):
        monkeypatch.setattr(f"neutrino.server.feed.{module}.FRAME_BYTES", size)


@pytest.mark.parametrize("size", [200, 64 * 1024])
def test_slow_hosts_and_lost_connections_miss_nothing(
    source: Random, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes happen while earlier ones and snapshots are being sent: nothing is missed, nothing stale stays."""
    small_frames(monkeypatch, size)
    fanout, rng = Fanout(sources().kinds), source.rng
    ends = [HostEnd(fanout, host) for host in HOSTS]
    for step in range(400):
        fanout.apply(source.step())
        for number, end in enumerate(ends):
            if rng.random() < 0.3:
                end.receive(fanout, rng.randrange(3))
            if rng.random() < 0.1:
                end.reconnect(fanout)
            if rng.random() < 0.05:  # its disk is lost
                fanout.disconnect(end.pending)
                ends[number] = HostEnd(fanout, end.host)
        if step % 20 == 0:
            for end in ends:
                end.receive(fanout)
            check(source.records, ends)


def test_a_new_server_sends_only_differences(source: Random) -> None:
    """A fan-out read from scratch equals one that followed changes: synced hosts get nothing."""
    fanout = Fanout(sources().kinds)
    ends = [HostEnd(fanout, host) for host in HOSTS]
    for _ in range(200):
        fanout.apply(source.step())
        for end in ends:
            end.receive(fanout)
    another = Fanout(sources().kinds)
    another.apply(source.records)
    assert [end.reconnect(fanout, another) for end in ends] == [0] * len(ends)
    for _ in range(20):
        another.apply(source.step())
    for end in ends:
        end.receive(another)
    check(source.records, ends)


def test_a_host_resumes_from_its_cache_file(source: Random) -> None:
    fanout = Fanout(sources().kinds)
    ends = [HostEnd(fanout, host) for host in HOSTS]
    for step in range(100):
        fanout.apply(source.step())
        for end in ends:
            end.receive(fanout, source.rng.randrange(3) or None)
            if step % 10 == 0:
                saved, end.state = end.state.dump(), State()
                end.state.load(saved)
                end.reconnect(fanout)
    for end in ends:
        end.receive(fanout)
    check(source.records, ends)


def test_a_send_queue_does_not_outgrow_the_objects(source: Random) -> None:
    fanout = Fanout(sources().kinds)
    ends = [HostEnd(fanout, host) for host in HOSTS]
    for _ in range(600):
        fanout.apply(source.step())
    objects = len(PORTS) * 3 + len(NETWORKS) * 3 + len(ROUTERS) + len(GROUPS) * 2 + len(ADDRESS_GROUPS)
    objects += len(HOSTS) * 2
    assert all(len(end.pending) <= objects for end in ends)
    for end in ends:
        end.receive(fanout)
    check(source.records, ends)


def put_port(fanout: Fanout, key: str, record: PortRecord | None) -> None:
    fanout.apply({"port": {key: record}})


def test_a_change_marks_nothing_for_hosts_out_of_scope() -> None:
    fanout = Fanout(sources().kinds)
    segments = (Segment(id="s", network_type="vxlan"),)
    fanout.apply({"network": {n: NetworkRecord(Network(id=n, segments=segments)) for n in NETWORKS}})
    for i, host in enumerate(HOSTS):
        port = Port(id=f"p{i}", network_id=NETWORKS[i], mac_address=MAC, host=host)
        entry = Forwarding(id=port.id, network_id=port.network_id, host=host, mac_address=MAC)
        put_port(fanout, port.id, PortRecord(port.id, port.network_id, {host: port}, entry))
    ends = [HostEnd(fanout, host) for host in HOSTS]
    for end in ends:
        end.receive(fanout)
    port = Port(id="new", network_id=NETWORKS[0], mac_address=MAC, host=HOSTS[1])
    entry = Forwarding(id="new", network_id=port.network_id, host=HOSTS[1], mac_address=MAC)
    put_port(fanout, "new", PortRecord("new", port.network_id, {HOSTS[1]: port}, entry))
    assert [bool(end.pending) for end in ends] == [True, True, False, False]


def test_members_are_sent_as_differences() -> None:
    fanout = Fanout(sources().kinds)
    rule = Rule(id="r", direction="ingress", ethertype="IPv4", remote_group_id="g")
    fanout.apply({"security_group": {"g": SecurityGroup(id="g", rules=(rule,))}})
    own = Port(id="own", network_id="n", mac_address=MAC, host="h0", security_groups=("g",))
    members = frozenset({Member("10.1.0.1", MAC)})
    put_port(fanout, "own", PortRecord("own", "n", {"h0": own}, None, frozenset({"g"}), members))
    for i in range(500):
        members = frozenset({Member(str(ipaddress.IPv4Address("10.0.0.0") + i), MAC)})
        put_port(fanout, f"p{i}", PortRecord(f"p{i}", "n", {}, None, frozenset({"g"}), members))
    end = HostEnd(fanout, "h0")
    end.receive(fanout)
    put_port(fanout, "p7", None)
    data, is_last = fanout.next_frame(end.pending)
    assert is_last
    assert len(data) < 250
    end.apply(data)
    found = end.state.get("group_members", "g")
    assert isinstance(found, GroupMembers)
    assert len(found.members) == 500
    assert Member("10.0.0.7", MAC) not in found.members


def test_a_host_without_the_role_receives_neither_objects_nor_ids() -> None:
    fanout = Fanout(sources().kinds)
    pending = fanout.connect("h0", {}, roles=("dhcp",))
    rule = Rule(id="r", direction="ingress", ethertype="IPv4", remote_group_id="g")
    fanout.apply({"security_group": {"g": SecurityGroup(id="g", rules=(rule,))}})
    fanout.apply({"network": {"n": NetworkRecord(Network(id="n", segments=(Segment(id="s", network_type="vxlan"),)))}})
    for key, host in (("own", "h0"), ("other", "h1")):
        port = Port(id=key, network_id="n", mac_address=MAC, host=host, security_groups=("g",))
        entry = Forwarding(id=key, network_id="n", host=host, mac_address=MAC)
        members = frozenset({Member(f"10.0.0.{len(key)}", MAC)})
        put_port(fanout, key, PortRecord(key, "n", {host: port}, entry, frozenset({"g"}), members))
    data, is_last = fanout.next_frame(pending)
    assert is_last
    messages = read_from_server(data)
    assert [type(message) for message in messages] == [
        Synced
    ]  # not even `gone`, which has the id of another host's port


def test_an_object_that_no_frame_can_have_does_not_cut_the_host_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The host would close the connection, and do so again in every next one."""
    monkeypatch.setattr("neutrino.server.feed.frames.MAX_MESSAGE", 1000)
    fanout = Fanout(sources().kinds)
    large, other = (Port(id=key, network_id="n", mac_address=MAC, host="h0") for key in ("large", "other"))
    put_port(fanout, "large", PortRecord("large", "n", {"h0": large}))
    end = HostEnd(fanout, "h0")
    end.receive(fanout)
    addresses = tuple(FixedIp("s", f"10.0.0.{number}") for number in range(100))
    grown = msgspec.structs.replace(large, fixed_ips=addresses)
    put_port(fanout, "large", PortRecord("large", "n", {"h0": grown}))
    put_port(fanout, "other", PortRecord("other", "n", {"h0": other}))
    end.receive(fanout)
    assert end.state.is_synced
    assert end.state.get("port", "other") == other
    assert end.state.get("port", "large") == large  # as it was
    assert "port large" in caplog.text
    put_port(fanout, "large", PortRecord("large", "n", {"h0": large}))
    end.reconnect(fanout)
    end.receive(fanout)
    assert len(end.pending) == 0


def test_the_network_of_a_deleted_port_is_known_when_the_row_of_its_deletion_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A port that was deleted while an earlier change of it was read: its router was read before, with the old hosts."""
    monkeypatch.setattr(fanout_module, "DELETED_PORTS", 2)
    fanout = Fanout(sources().kinds)
    for key in ("a", "b", "c"):
        put_port(fanout, key, PortRecord(key, f"net-{key}", {}))
    assert fanout.networks_of(["a", "unknown"]) == {"net-a"}
    put_port(fanout, "a", None)
    assert fanout.networks_of(["a"]) == {"net-a"}
    put_port(fanout, "b", None)
    put_port(fanout, "c", None)
    assert fanout.networks_of(["a", "b", "c"]) == {"net-b", "net-c"}, "only the last ones are remembered"
    put_port(fanout, "b", PortRecord("b", "other", {}))
    assert fanout.networks_of(["b"]) == {"other"}


def test_nothing_is_deleted_before_synced() -> None:
    fanout = Fanout(sources().kinds)
    port = Port(id="p", network_id="n", mac_address=MAC, host="h0")
    put_port(fanout, "p", PortRecord("p", "n", {"h0": port}))
    end = HostEnd(fanout, "h0")
    end.receive(fanout)
    assert end.state.get("port", "p") == port
    put_port(fanout, "p", None)
    end.reconnect(fanout)
    end.receive_unsynced(fanout)
    assert not end.state.is_synced
    assert end.state.get("port", "p") == port
    end.reconnect(fanout)
    end.receive(fanout)
    assert end.state.is_synced
    assert end.state.get("port", "p") is None


def test_every_kind_is_served_in_message_order() -> None:
    order = [served.name for served in sources().kinds]
    assert sorted(order) == sorted(KINDS)
    for served in sources().kinds:
        late = [other for other in served.referenced_by if order.index(other) < order.index(served.name)]
        # A host needs the network before the tunnels on it.
        assert late in ([], ["network"]), served.name
    assert {served.source for served in sources().kinds} == sources().readers.keys()


def test_kinds_that_refer_to_each_other_are_refused() -> None:
    circle = [Reference("network", "router", lambda router: ()), Reference("router", "network", lambda network: ())]
    with pytest.raises(CycleError):
        assemble([Feed(kinds=sources().kinds, references=circle)])
