"""The cache file of a host across releases: after an upgrade the host gets the fields that its old release did not know."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from neutrino.feed.digests import digest_of_type
from neutrino.feed.messages import Cursor, Welcome, read_from_server
from neutrino.feed.state import State
from neutrino.model.kinds import KINDS, Kind
from neutrino.model.state import Forwarding, Network, Object, Port, Segment
from neutrino.server.features import sources
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.records import NetworkRecord, PortRecord

MAC = "fa:16:3e:00:00:01"


class OldNetwork(Object, frozen=True, kw_only=True):
    """As of a release without the MTU."""

    segments: tuple[Segment, ...] = ()


class OldForwarding(Object, frozen=True, kw_only=True):
    network_id: str
    host: str = ""


class Inner(msgspec.Struct):
    """One."""

    description: str


class Outer(msgspec.Struct):
    inner: Inner


def kinds(**old: type[Object]) -> dict[str, Kind]:
    return {name: replace(kind, type=old[name]) if name in old else kind for name, kind in KINDS.items()}


def cloud() -> Fanout:
    fanout = Fanout(sources().kinds)
    network = Network(id="n", mtu=9000, segments=(Segment(id="s", network_type="vxlan"),))
    ports = {
        host: PortRecord(
            f"p-{host}",
            "n",
            {host: Port(id=f"p-{host}", network_id="n", mac_address=MAC, host=host)},
            Forwarding(id=f"p-{host}", network_id="n", host=host, mac_address=MAC),
        )
        for host in ("h1", "h2")
    }
    fanout.apply({"network": {"n": NetworkRecord(network)}, "port": {each.id: each for each in ports.values()}})
    return fanout


def receive(fanout: Fanout, state: State) -> int:
    """Connect, and take everything; how much the server found to differ."""
    state.apply(Welcome(cursor=Cursor("db", fanout.position)))
    pending = fanout.connect("h1", state.have())
    differing, is_last = len(pending), False
    while not is_last:
        data, is_last = fanout.next_frame(pending)
        for message in read_from_server(data):
            state.apply(message)
    fanout.disconnect(pending)
    return differing


def restarted(state: State, into: State) -> State:
    into.load(state.dump())
    return into


def test_an_upgraded_agent_gets_the_fields_that_its_old_release_dropped() -> None:
    fanout = cloud()
    old = State(kinds(network=OldNetwork))
    receive(fanout, old)
    new = restarted(old, State())
    assert new.get("network", "n").mtu == Network(id="n").mtu
    assert receive(fanout, new) == 1  # objects of other kinds are not sent again
    assert new.get("network", "n").mtu == 9000
    assert receive(fanout, restarted(new, State())) == 0


def test_forwarding_entries_are_sent_again_too() -> None:
    """They have one digest per network."""
    fanout = cloud()
    old = State(kinds(forwarding=OldForwarding))
    receive(fanout, old)
    new = restarted(old, State())
    receive(fanout, new)
    assert new.get("forwarding", "p-h2").mac_address == MAC


def test_a_cache_file_from_before_there_were_digests_of_types() -> None:
    fanout, state = cloud(), State()
    receive(fanout, state)
    saved = msgspec.json.decode(state.dump())
    saved.pop("types", None)
    new = State()
    new.load(msgspec.json.encode(saved))
    assert new.objects == state.objects
    assert receive(fanout, new) > 0
    assert receive(fanout, new) == 0


def test_sums_of_kinds_whose_type_differs_are_unknown() -> None:
    fanout = cloud()
    old = State(kinds(network=OldNetwork))
    receive(fanout, old)
    new = restarted(old, State())
    assert new.sums()["network"] == ""
    assert new.sums()["port"] == old.sums()["port"]


def test_a_types_digest_covers_nested_fields_and_not_docstrings() -> None:
    first = digest_of_type(Outer)
    described = msgspec.defstruct("Inner", [("description", str)], namespace={"__doc__": "Two."})
    assert digest_of_type(msgspec.defstruct("Outer", [("inner", described)])) == first
    without = msgspec.defstruct("Inner", [("name", str)])
    assert digest_of_type(msgspec.defstruct("Outer", [("inner", without)])) != first
