"""Lean hosts: WebSocket frames, and digests instead of objects."""

from __future__ import annotations

import msgspec
import pytest

from neutrino.feed import messages as m
from neutrino.feed.digests import text_of
from neutrino.model.state import Forwarding, Host
from neutrino.server.feed.fanout import Item
from qa.bench import frames
from qa.bench import lean_state as s

RESPONSE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def of_server(payload: bytes, opcode: int = frames.TEXT, *, final: bool = True) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((size,))
    elif size < 1 << 16:
        head = bytes((126,)) + size.to_bytes(2)
    else:
        head = bytes((127,)) + size.to_bytes(8)
    return bytes(((0x80 if final else 0) | opcode,)) + head + payload


@pytest.mark.parametrize("step", [1, 3, 1000, 1 << 20])
def test_frames_are_read_from_pieces_of_any_size(step: int) -> None:
    large = b"x" * 70_000
    data = (
        RESPONSE
        + of_server(b"one")
        + of_server(b"a" * 300)
        + of_server(b"be", final=False)
        + of_server(b"", frames.PING)
        + of_server(b"gin", frames.CONTINUATION)
        + of_server(large)
    )
    reader = frames.Reader()
    found = [each for at in range(0, len(data), step) for each in reader.feed(data[at : at + step])]
    wanted = [b"one", b"a" * 300, b"", b"begin", large]
    assert [payload for _, payload in found] == wanted
    assert [opcode for opcode, _ in found] == [frames.TEXT, frames.TEXT, frames.PING, frames.TEXT, frames.TEXT]


def test_a_refused_connection_is_an_error() -> None:
    with pytest.raises(frames.Broken, match="401"):
        list(frames.Reader().feed(b"HTTP/1.1 401 Unauthorized\r\n\r\n"))


def test_a_frame_of_a_client_is_masked() -> None:
    assert frames.frame(b"hi") == b"\x81\x82\0\0\0\0hi"
    assert frames.frame(b"x" * 200)[:4] == b"\x81\xfe\x00\xc8"
    assert frames.frame(b"", frames.PONG)[0] == 0x8A


def entry(key: str, network: str = "n1", host: str = "h1") -> Item:
    value = Forwarding(id=key, network_id=network, host=host, mac_address="fa:16:3e:00:00:01")
    return Item("forwarding", value)


def take(state: s.LeanState, *messages: bytes) -> None:
    for message in s.decode_frame(m.frame(messages)):
        match message:
            case s.Put():
                state.put(message)
            case s.Gone():
                state.gone(message.kind, message.id)
            case s.Entries():
                state.keep_only(message)
            case s.Synced():
                state.synced(message)


def test_the_sum_of_a_network_is_that_of_the_server() -> None:
    tables = s.Tables()
    first, second = s.LeanState(tables), s.LeanState(tables)
    one, two, newer = entry("p1"), entry("p2"), entry("p1", host="h2")
    for state in (first, second):
        take(state, one.encoded(), two.encoded())
    assert first.summary()["forwarding"] == {"n1": text_of(one.number + two.number)}
    assert first.have()["forwarding"] == {"n1": ""}, "unknown until the server has stated it"
    take(first, newer.encoded(), m.encode_one(m.Synced(position=1, entries={"n1": "00000000000000aa"})))
    assert first.summary()["forwarding"] == {"n1": text_of(newer.number + two.number)}
    assert first.have()["forwarding"] == {"n1": "00000000000000aa"}
    assert second.summary()["forwarding"] == {"n1": text_of(one.number + two.number)}
    take(first, m.encode_one(m.Gone(kind="forwarding", id="p1")), m.encode_one(m.Gone(kind="forwarding", id="own")))
    assert first.summary()["forwarding"] == {"n1": text_of(two.number)}
    take(second, m.encode_one(m.Entries(network_id="n1", ids=("p1",))))
    assert second.summary()["forwarding"] == {"n1": text_of(one.number)}
    assert (len(first), len(second)) == (1, 1)


def test_a_frame_of_many_hosts_is_decoded_once_and_means_the_same() -> None:
    tables = s.Tables()
    ids = [f"p{number:04}" for number in range(200)]
    frame = m.frame(entry(key).encoded() for key in ids)
    assert len(frame) > s.LARGE
    first, second = s.LeanState(tables), s.LeanState(tables)
    assert tables.block(frame) is None, "no other host has it yet"
    take(first, *(entry(key).encoded() for key in ids))
    block = tables.block(bytes(bytearray(frame)))
    assert block == (("n1", 0, 200),)
    assert second.put_block(block)
    assert second.summary() == first.summary()
    assert second.have() == first.have()
    take(second, m.encode_one(m.Gone(kind="forwarding", id="p0007")))
    assert len(second) == 199
    # An entry has changed meanwhile: a host that has its new version must not get the old one beside it.
    take(second, entry("p0001", host="h2").encoded())
    assert not second.put_block(block)


def test_frames_with_other_messages_are_decoded_by_each_host() -> None:
    tables, messages = s.Tables(), [entry(f"p{number:04}").encoded() for number in range(200)]
    frame = m.frame([*messages, m.encode_one(m.Synced(position=1))])
    assert [tables.block(frame) for _ in range(3)] == [None] * 3
    assert [tables.block(m.frame(messages[:1])) for _ in range(3)] == [None] * 3, "too small to be worth it"


def test_peers_are_reported_one_by_one() -> None:
    state = s.LeanState(s.Tables())
    peers = [Item("host", Host(id=name, tunneling_ip="192.0.2.1")) for name in ("h2", "h3")]
    take(state, *(peer.encoded() for peer in peers))
    assert state.have() == {"host": {peer.object.id: peer.digest for peer in peers}}
    assert state.summary() == {"host": {"": text_of(sum(peer.number for peer in peers))}}


def test_members_of_a_group_are_known_by_their_digest() -> None:
    state = s.LeanState(s.Tables())
    raw = msgspec.Raw(b'{"id":"g1","members":[]}')
    take(state, m.encode_one(m.Put(kind="group_members", object=raw, digest="0a")))
    assert state.have() == {"group_members": {"g1": "0a"}}
