"""A security group with more members than a frame can have: sent in several frames, and applied as a whole."""

from __future__ import annotations

import pytest

from neutrino.feed.messages import MAX_BYTES, MAX_MEMBERS, Cursor, Members, Put, Synced, Welcome, read_from_server
from neutrino.feed.state import State
from neutrino.model.state import Member, Port, Rule, SecurityGroup
from neutrino.server.features import sources
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.queues import Pending
from neutrino.server.feed.records import PortRecord

MAC = "fa:16:3e:00:00:01"


def members(first: int, last: int) -> frozenset[Member]:
    return frozenset(
        Member(f"2001:db8:1234:5678:9abc:def0:{i >> 16:x}:{i & 0xFFFF:x}", MAC) for i in range(first, last)
    )


def port_with(found: frozenset[Member], key: str = "many") -> dict[str, dict[str, PortRecord]]:
    return {"port": {key: PortRecord(key, "n", groups=frozenset({"g"}), members=found)}}


def cloud(count: int) -> Fanout:
    fanout = Fanout(sources().kinds)
    group = SecurityGroup(id="own", rules=(Rule(id="r", direction="ingress", ethertype="IPv4", remote_group_id="g"),))
    own = Port(id="p", network_id="n", mac_address=MAC, host="h1", security_groups=("own",))
    fanout.apply({"security_group": {"own": group}, "port": {"p": PortRecord("p", "n", {"h1": own})}})
    fanout.apply(port_with(members(0, count)))
    return fanout


class Host:
    """A host that takes frame by frame, and records the sizes of the group that its roles would see."""

    def __init__(self, fanout: Fanout) -> None:
        self.state, self.fanout = State(), fanout
        self.sizes: list[int] = []
        self.frames: list[int] = []
        self.pending = self.connect()

    def connect(self) -> Pending:
        self.state.apply(Welcome(cursor=Cursor("db", 1)))
        return self.fanout.connect("h1", self.state.have())

    def take(self, frames: int = 1_000_000) -> bool:
        """Whether the last frame had `synced`."""
        for _ in range(frames):
            data, is_last = self.fanout.next_frame(self.pending)
            self.frames.append(len(data))
            for message in read_from_server(data):
                self.state.apply(message)
            while (change := self.state.take()) is not None:
                if change.kind == "group_members":
                    self.sizes.append(len(change.new.members) if change.new is not None else -1)
            if is_last:
                return True
        return False

    @property
    def members(self) -> frozenset[Member]:
        found: frozenset[Member] = self.state.get("group_members", "g").members
        return found


@pytest.mark.parametrize("count", [MAX_MEMBERS, MAX_MEMBERS + 1, 5 * MAX_MEMBERS])
def test_members_are_sent_in_frames_of_bounded_size_and_applied_at_once(count: int) -> None:
    host = Host(cloud(count))
    assert host.take()
    assert max(host.frames) < MAX_BYTES / 8
    assert host.members == members(0, count)
    assert host.sizes == [count]
    host.fanout.disconnect(host.pending)
    host.pending = host.connect()
    assert len(host.pending) == 0


def test_changes_while_the_parts_are_sent_follow_them() -> None:
    """Without starting again: a large group that changes often would never be complete."""
    fanout = cloud(5 * MAX_MEMBERS)
    host = Host(fanout)
    for step in range(1, 4):
        host.take(2)
        fanout.apply(port_with(members(step, 5 * MAX_MEMBERS + step)))
    host.take()
    assert host.members == members(3, 5 * MAX_MEMBERS + 3)
    assert len(host.frames) < 12
    assert min(host.sizes) >= 5 * MAX_MEMBERS - 3
    host.fanout.disconnect(host.pending)
    host.pending = host.connect()
    assert len(host.pending) == 0


def test_a_connection_lost_between_the_parts_leaves_the_old_members() -> None:
    fanout = cloud(10)
    host = Host(fanout)
    host.take()
    fanout.apply(port_with(members(100, 3 * MAX_MEMBERS)))
    host.take(2)
    assert host.members == members(0, 10)
    host.fanout.disconnect(host.pending)
    host.state.disconnected()
    host.pending = host.connect()
    host.take()
    assert host.members == members(100, 3 * MAX_MEMBERS)
    assert host.sizes == [10, 3 * MAX_MEMBERS - 100]


def test_a_group_that_is_no_longer_needed_while_its_parts_are_sent() -> None:
    fanout = cloud(3 * MAX_MEMBERS)
    host = Host(fanout)
    host.take(2)
    fanout.apply({"port": {"p": None}})
    host.take()
    assert host.state.get("group_members", "g") is None


def test_a_server_of_an_earlier_release_sends_all_parts_in_one_frame() -> None:
    """Its messages are the same."""
    fanout = cloud(3 * MAX_MEMBERS)
    pending, messages = fanout.connect("h1", {}), []
    while not (messages and isinstance(messages[-1], Synced)):
        messages += read_from_server(fanout.next_frame(pending)[0])
    parts = [
        each for each in messages if isinstance(each, Members) or (isinstance(each, Put) and "members" in each.kind)
    ]
    assert [bool(each.digest) for each in parts] == [False, False, True]
