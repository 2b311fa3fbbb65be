"""First snapshots of many hosts: messages that are composed once, and hosts that get no others than their own."""

from __future__ import annotations

import pytest

from neutrino.feed.messages import Cursor, Gone, Put, Welcome, expanded, is_compressed, read_from_server
from neutrino.feed.state import State
from neutrino.model.state import Forwarding, Host, Network, Port, Segment
from neutrino.server.features import sources
from neutrino.server.feed.composed import Composed
from neutrino.server.feed.fanout import Fanout, Item
from neutrino.server.feed.queues import Pending
from neutrino.server.feed.records import AgentRecord, NetworkRecord, PortRecord, Records
from tests.support.feed_scope import scope

HOSTS = [f"h{number:02}" for number in range(40)]
MAC = "fa:16:3e:00:00:01"
VXLAN = (Segment(id="s", network_type="vxlan"),)
FRAME = 1000


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("composed", "frames"):
        monkeypatch.setattr(f"neutrino.server.feed.{module}.FRAME_BYTES", FRAME)
    monkeypatch.setattr("neutrino.server.feed.composed.LEAST_COMPRESSED", FRAME // 4)


@pytest.fixture(params=[False, True], ids=["plain", "compressed"])
def accepts_zlib(request: pytest.FixtureRequest) -> bool:
    """Whether hosts accept compressed frames."""
    return bool(request.param)


def port(key: str, host: str, network: str = "n", *, migrates_to: str = "") -> PortRecord:
    value = Port(id=key, network_id=network, mac_address=MAC, host=host)
    entry = Forwarding(id=key, network_id=network, host=host, mac_address=MAC, migrates_to=migrates_to)
    return PortRecord(key, network, {host: value}, entry)


class Cloud:
    """A network with a port on every host, and its records."""

    def __init__(self) -> None:
        self.fanout = Fanout(sources().kinds)
        self.records: dict[str, dict[str, object]] = {"network": {}, "agent": {}, "port": {}}
        agents = {f"a-{name}": agent(name, number) for number, name in enumerate(HOSTS)}
        network = NetworkRecord(Network(id="n", segments=VXLAN))
        self.apply(
            {
                "network": {"n": network},
                "agent": agents,
                "port": {f"p-{name}": port(f"p-{name}", name) for name in HOSTS},
            }
        )

    def apply(self, records: Records, request_id: str = "") -> None:
        for source, several in records.items():
            self.records.setdefault(source, {}).update(several)
        self.fanout.apply(records, {("port", key): request_id for key in records.get("port", {}) if request_id})


def agent(name: str, number: int) -> AgentRecord:
    return AgentRecord(Host(id=name, tunneling_ip=f"192.0.2.{number + 1}", tunnel_types=("vxlan",)))


class End:
    """A host without any state."""

    def __init__(self, cloud: Cloud, name: str, accepts_zlib: bool = False) -> None:
        self.cloud, self.name, self.state, self.frames = cloud, name, State(), list[bytes]()
        self.state.apply(Welcome(cursor=Cursor("db", 1)))
        self.pending: Pending = cloud.fanout.connect(name, {})
        self.pending.accepts_zlib = accepts_zlib

    @property
    def compressed(self) -> list[bytes]:
        """The compressed ones of its frames."""
        return [frame for frame in self.frames if is_compressed(frame)]

    def take(self, frames: int = 1000) -> bool:
        """Whether the last frame had `synced`."""
        for _ in range(frames):
            data, is_last = self.cloud.fanout.next_frame(self.pending)
            self.frames.append(data)
            for message in read_from_server(data):
                assert not isinstance(message, Exception)
                self.state.apply(message)
            if is_last:
                return True
        return False

    def check(self) -> None:
        found = {(kind, key): value for kind, objects in self.state.objects.items() for key, value in objects.items()}
        assert found == scope(self.cloud.records, self.name), self.name


def test_hosts_get_the_same_frames_but_for_their_own(accepts_zlib: bool) -> None:
    cloud = Cloud()
    ends = [End(cloud, name, accepts_zlib) for name in HOSTS]
    for end in ends:
        assert end.take()
        end.check()
    first, second = set(ends[0].frames), set(ends[-1].frames)
    assert len(first & second) >= len(first) // 2 >= 4, "parts that neither host has objects in"


def test_a_part_without_own_objects_is_compressed_once_for_all_hosts_that_accept_it() -> None:
    cloud = Cloud()
    old = End(cloud, HOSTS[0])
    assert old.take()
    assert not old.compressed
    ends = [End(cloud, name, accepts_zlib=True) for name in HOSTS]
    for end in ends:
        assert end.take()
        end.check()
        own = f'"{end.name}"'.encode()
        assert end.compressed
        assert not [frame for frame in end.compressed if own in expanded(frame)]
        assert sum(map(len, end.frames)) < sum(map(len, old.frames)) * 0.7
    first, last = ({id(frame) for frame in end.compressed} for end in (ends[0], ends[-1]))
    assert len(first & last) >= 4, "one object for both, not a copy for each"


def test_changes_are_never_compressed() -> None:
    cloud = Cloud()
    end = End(cloud, HOSTS[0], accepts_zlib=True)
    assert end.take()
    sent = len(end.compressed)
    cloud.apply({"agent": {f"a-{name}": agent(name, 100 + number) for number, name in enumerate(HOSTS)}})
    assert end.take()
    end.check()
    assert len(end.compressed) == sent


def test_what_changes_during_a_snapshot_is_sent_as_it_is(accepts_zlib: bool) -> None:
    cloud = Cloud()
    ends = [End(cloud, name, accepts_zlib) for name in HOSTS[:20]]
    for number, end in enumerate(ends):
        assert not end.take(2 + number % 3)
    new, gone = port("new", HOSTS[30]), HOSTS[35]
    cloud.apply({"port": {"new": new, f"p-{gone}": None}})
    cloud.apply({"agent": {f"a-{HOSTS[31]}": agent(HOSTS[31], 100), f"a-{HOSTS[32]}": AgentRecord()}})
    late = [End(cloud, name, accepts_zlib) for name in HOSTS[20:]]
    for end in (*ends, *late):
        assert end.take()
        end.check()


def test_a_host_that_leaves_a_network_during_its_snapshot_gets_no_more_of_it(accepts_zlib: bool) -> None:
    cloud = Cloud()
    end = End(cloud, HOSTS[0], accepts_zlib)
    assert not end.take(2)
    sent = len(end.frames)
    cloud.apply({"port": {f"p-{HOSTS[0]}": port(f"p-{HOSTS[0]}", HOSTS[1])}})
    assert end.take()
    end.check()
    messages = [message for frame in end.frames[sent:] for message in read_from_server(frame)]
    assert not [message for message in messages if isinstance(message, Put) and message.kind in ("forwarding", "host")]
    assert any(isinstance(message, Gone) for message in messages)


def test_the_source_of_a_migration_gets_its_own_entry(accepts_zlib: bool) -> None:
    cloud = Cloud()
    moving = f"p-{HOSTS[0]}"
    cloud.apply({"port": {moving: port(moving, HOSTS[0], migrates_to=HOSTS[1])}})
    end = End(cloud, HOSTS[0], accepts_zlib)
    assert end.take()
    end.check()
    assert end.state.objects["forwarding"][moving].migrates_to == HOSTS[1]


def test_what_a_request_causes_has_its_id_in_every_message() -> None:
    cloud = Cloud()
    cloud.apply({"network": {"m": NetworkRecord(Network(id="m", segments=VXLAN))}, "port": {}})
    cloud.apply({"port": {f"q-{name}": port(f"q-{name}", name, "m") for name in HOSTS[1:]}})
    end, other = (End(cloud, name, accepts_zlib=True) for name in HOSTS[:2])
    assert end.take()
    assert other.take()  # composes the messages of the network
    sent = len(end.frames)
    cloud.apply({"port": {"q": port("q", HOSTS[0], "m")}}, "req-1")
    assert end.take()
    end.check()
    puts = [each for frame in end.frames[sent:] for each in read_from_server(frame) if isinstance(each, Put)]
    assert len([each for each in puts if each.kind == "forwarding"]) == len(HOSTS) - 1
    assert {each.request_id for each in puts} == {"req-1"}


def test_parts_are_made_in_order_and_once() -> None:
    made: list[str] = []

    def message(key: str) -> tuple[bytes, str]:
        made.append(key)
        return key.encode() * 100, "h1" if key == "c" else ""

    composed = Composed(tuple("abcdefghijklmnopqrstuvwxyz"), message)
    assert composed.part(3) is None
    first = composed.part(0)
    assert first is not None
    assert first.end == 10, "until it is as large as a frame"
    assert first.data == b",".join(key.encode() * 100 for key in "abcdefghij")
    assert first.without("h2") == first.data
    assert first.without("h1") == first.data.replace(b"c" * 100 + b",", b"")
    assert composed.part(0) is first
    second, last = composed.part(10), composed.part(20)
    assert second is not None
    assert last is not None
    assert (second.end, last.end) == (20, 26)
    assert "".join(made) == "abcdefghijklmnopqrstuvwxyz"
    assert first.compressed_for("h1") is None
    found = first.compressed_for("h2")
    assert found is not None
    assert found is first.compressed_for("h3")
    assert expanded(found) == b"[%b]" % first.data


def test_a_small_part_is_not_compressed() -> None:
    part = Composed(["a"], lambda key: (b"<a>", "")).part(0)
    assert part is not None
    assert part.compressed_for("h1") is None


@pytest.mark.parametrize("owners", ["h1", "h1 h1", "h1 h2 h1 h3 h1", "h2 h1", "h1 h2", "h2 h1 h1 h2", "h2 h3"])
def test_a_host_gets_a_part_without_its_own(owners: str) -> None:
    """At the beginning, at the end, in a row, alone."""
    own = dict(enumerate(owners.split()))
    composed = Composed([str(number) for number in own], lambda key: (f"<{key}>".encode(), own[int(key)]))
    part = composed.part(0)
    assert part is not None
    assert part.without("h1").decode() == ",".join(f"<{number}>" for number, owner in own.items() if owner != "h1")


def test_a_composed_message_is_not_kept_twice() -> None:
    item = Item("host", Host(id="h1", tunneling_ip="192.0.2.1"))
    assert item.message() == item.message() == item.encoded()
    assert item.message() is item.encoded()
