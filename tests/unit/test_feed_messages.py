"""Messages: encoding, and compatibility between adjacent releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from neutrino.feed import messages as m
from neutrino.feed.address import Address, BadAddress, parse
from neutrino.feed.client import UnacknowledgedReports
from neutrino.feed.state import State
from neutrino.model.agents import AgentState
from neutrino.model.rates import Counted
from neutrino.model.routing import MeteredTraffic
from neutrino.model.state import GroupMembers, Member

TRAFFIC = MeteredTraffic(
    id="c", label_id="l", router_id="r", project_id="p", packets=1, bytes=2, first_update=3, last_update=4
)
FROM_HOST = [
    m.Hello(host="h1", cursor=m.Cursor("db", 7), have={"port": {"p": "1"}}, roles=("l2",)),
    m.Report(serial=1, states=(AgentState("a", "b", "h1", "t", configurations={"x": [1]}),), applied=3),
    m.PortUp(serial=2, port_id="p", revision=4),
    m.PortDown(serial=3, port_id="p", reason="unplugged"),
    m.Have(have={"port": {"p": "1"}}),
    m.PortReady(serial=5, port_id="p", revision=4),
    m.Status(serial=6, kind="floating_ip", id="f", status="ACTIVE"),
    m.Traffic(serial=8, counters=(TRAFFIC,), granular=True),
    m.Rates(serial=9, seconds=30, ports={"p": Counted(1, 2, 3, 4, 5, 6)}, tunnels={"192.0.2.1": Counted(7)}),
    m.ErrorMessage(serial=4, kind="port", id="p", text="no tap"),
    m.Answer(serial=7, id="q", result=msgspec.Raw(b'{"exits":[]}')),
]
FROM_SERVER = [
    m.Welcome(cursor=m.Cursor("db", 7), server="s"),
    m.Refused(reason="no"),
    m.Put(kind="port", object=msgspec.Raw(b'{"id":"p"}'), digest="1"),
    m.Gone(kind="port", id="p"),
    m.Members(id="g", added=(Member("10.0.0.1", "m"),), digest="2"),
    m.Entries(network_id="n", ids=("p",)),
    m.Synced(position=8, entries={"n": "3"}),
    m.Ack(serial=9),
    m.Query(id="q", kind="trace", question=msgspec.Raw(b'{"flows":true}'), seconds=3.0),
]


@pytest.mark.parametrize(
    "messages, types, read",
    [(FROM_HOST, m.HostMessage, m.read_from_host), (FROM_SERVER, m.ServerMessage, m.read_from_server)],
)
def test_messages_survive_encoding(
    messages: list[m.Message], types: Any, read: Callable[[bytes | str], list[Any]]
) -> None:
    assert {type(message) for message in messages} | {m.ErrorMessage} == set(get_args(types))
    assert read(m.encode(messages)) == messages
    assert read(m.frame(map(m.encode_one, messages)).decode()) == messages


def test_a_compressed_frame() -> None:
    plain = m.encode(FROM_SERVER)
    data = m.compressed(plain)
    assert (m.is_compressed(data), m.is_compressed(plain)) == (True, False)
    assert m.read_from_server(data) == FROM_SERVER


@pytest.mark.parametrize(
    "data, reason",
    [
        (m.compressed(m.encode(FROM_SERVER))[:-5], "incomplete"),
        (m.compressed(b"[" + b" " * m.MAX_BYTES + b"]"), "too large"),
        (b"x", "incomplete"),
        (b"xxxxxxxx", "not a compressed frame"),
        (m.compressed(b"["), "not a frame"),
    ],
)
def test_an_invalid_compressed_frame(data: bytes, reason: str) -> None:
    with pytest.raises(m.NotUnderstood, match=reason):
        m.read_from_server(data)


def test_a_host_sends_plain_frames_only() -> None:
    with pytest.raises(m.NotUnderstood, match="not a frame"):
        m.read_from_host(m.compressed(m.encode(FROM_HOST)))


def test_fields_of_a_later_release_are_ignored() -> None:
    data = b'[{"type":"hello","host":"h1","version":2,"colour":"blue","cursor":{"database":"d","position":1,"x":2}}]'
    assert m.read_from_host(data) == [m.Hello(host="h1", version=2, cursor=m.Cursor("d", 1))]


def test_a_message_of_a_later_release_does_not_spoil_the_others() -> None:
    first, second = m.read_from_host(b'[{"type":"sing"},{"type":"port_up","serial":1,"port_id":"p"}]')
    assert isinstance(first, m.NotUnderstood)
    assert "'sing'" in str(first)
    assert second == m.PortUp(serial=1, port_id="p")


@pytest.mark.parametrize("data", [b"", b"{}", b"[", b'"x"', b"\xff", "["])
def test_invalid_frames(data: bytes | str) -> None:
    with pytest.raises(m.NotUnderstood):
        m.read_from_host(data)


@pytest.mark.parametrize("data", [b"[1]", b"[{}]", b'[{"type":1}]', b'[{"type":"port_up"}]', b'[{"type":"hello"}]'])
def test_invalid_messages(data: bytes) -> None:
    assert [type(one) for one in m.read_from_host(data)] == [m.NotUnderstood]


# --- the state --------------------------------------------------------------------------------------------------------


def test_kinds_and_fields_of_a_later_release_are_ignored() -> None:
    state = State()
    state.apply(m.Put(kind="star", object=msgspec.Raw(b'{"id":"s"}')))
    state.apply(m.Gone(kind="star", id="s"))
    state.apply(m.Put(kind="address_group", object=msgspec.Raw(b'{"id":"a","addresses":[],"colour":"blue"}')))
    assert {kind: list(objects) for kind, objects in state.objects.items() if objects} == {"address_group": ["a"]}


def test_changes_are_taken_once_and_the_newest() -> None:
    state = State()
    for addresses in (["10.0.0.1"], ["10.0.0.1", "10.0.0.2"]):
        raw = msgspec.json.encode({"id": "a", "addresses": addresses})
        state.apply(m.Put(kind="address_group", object=msgspec.Raw(raw)))
    change = state.take()
    assert change is not None
    assert change.old is None
    assert change.new == state.get("address_group", "a")
    assert state.take() is None
    state.apply(m.Synced(position=1))
    state.apply(m.Gone(kind="address_group", id="a"))
    state.apply(m.Put(kind="address_group", object=msgspec.Raw(raw)))
    assert state.take() is None


def test_members_of_an_unknown_group_are_ignored() -> None:
    state = State()
    state.apply(m.Members(id="g", added=(Member("10.0.0.1", "fa:16:3e:00:00:01"),), digest="x"))
    assert state.get("group_members", "g") is None
    state.apply(m.Put(kind="group_members", object=msgspec.Raw(msgspec.json.encode(GroupMembers(id="g"))), digest="y"))
    state.apply(
        m.Members(
            id="g", added=(Member("10.0.0.1", "fa:16:3e:00:00:01"), Member("10.0.0.2", "fa:16:3e:00:00:01")), digest="x"
        )
    )
    state.apply(m.Members(id="g", removed=(Member("10.0.0.1", "fa:16:3e:00:00:01"),), digest="z"))
    assert state.get("group_members", "g").members == {Member("10.0.0.2", "fa:16:3e:00:00:01")}
    assert state.have() == {"group_members": {"g": "z"}}


# --- reports of a host ------------------------------------------------------------------------------------------------


def up(port: str) -> Any:
    return m.PortUp(port_id=port)


def taken(box: UnacknowledgedReports) -> list[Any]:
    frame = box.take()
    assert frame is not None
    return m.read_from_host(frame)


def test_unacknowledged_reports_are_sent_again() -> None:
    box = UnacknowledgedReports()
    box.put(("port", "a"), up("a"))
    box.put(("port", "b"), up("b"))
    assert [s.serial for s in taken(box)] == [1, 2]
    assert box.take() is None
    box.acknowledge(1)
    box.reconnected()
    assert taken(box) == [m.PortUp(serial=2, port_id="b")]


def test_the_newest_wins_and_is_not_acknowledged_by_the_one_before() -> None:
    box = UnacknowledgedReports()
    box.put(("port", "a"), up("a"))
    box.take()
    box.put(("port", "a"), m.PortDown(port_id="a"))
    box.acknowledge(1)
    assert taken(box) == [m.PortDown(serial=2, port_id="a")]
    box.acknowledge(2)
    assert len(box) == 0


def test_reports_are_bounded_and_errors_are_dropped_first() -> None:
    box = UnacknowledgedReports(most=2)
    box.put(("port", "a"), up("a"))
    box.put(("error", "port", "b"), m.ErrorMessage(text="x"))
    box.put(("port", "c"), up("c"))
    box.put(("port", "d"), up("d"))
    assert [getattr(one, "port_id", "error") for one in taken(box)] == ["c", "d"]


def test_heartbeats_are_sent_before_other_reports() -> None:
    box = UnacknowledgedReports()
    for number in range(1500):
        box.put(("port", str(number)), up(str(number)))
    box.put(("report",), m.Report())
    first = taken(box)
    assert isinstance(first[0], m.Report)
    assert len(first) == 500
    assert sum(1 for _ in iter(box.take, None)) == 3


def test_a_frame_of_reports_is_bounded_in_bytes() -> None:
    """A frame above MAX_BYTES would close the connection, and the next one, as the reports are repeated."""
    box = UnacknowledgedReports()
    for number in range(400):
        box.put(("error", "port", str(number)), m.ErrorMessage(text="x" * 64 * 1024, kind="port", id=str(number)))
    frames = list(iter(box.take, None))
    assert max(map(len, frames)) < m.MAX_BYTES / 8
    assert sum(len(m.read_from_host(frame)) for frame in frames) == 400


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, address",
    [
        ("unix:/a/b", Address(path="/a/b")),
        ("unix:///a/b", Address(path="/a/b")),
        ("/a/b", Address(path="/a/b")),
        ("127.0.0.1:1", Address(host="127.0.0.1", port=1)),
        ("wss://[::1]:2", Address(host="::1", port=2, tls=True)),
        ("ws://h:3/", Address(host="h", port=3)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse(text) == address
    assert parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "unix:", "unix:a", "h", "h:", ":1", "h:x", "h:70000", "http://h:1"])
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(BadAddress):
        parse(text)
