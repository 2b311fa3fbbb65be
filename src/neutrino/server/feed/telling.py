"""From what a host is still to be told to the messages that tell it, and from what it has to what it lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from neutrino.feed.messages import MOST_MEMBERS, Entries, Members, Synced, encode_one, frame
from neutrino.server.feed.items import gone
from neutrino.server.feed.outgoing import Difference, Outgoing
from neutrino.server.feed.world import World

FRAME_BYTES: Final = 64 * 1024  # a frame is closed when it has grown to this
Have = Mapping[str, Mapping[str, str]]
KEYED: Final = ("network", "host", "address_group", "security_group", "port")  # in the order in which they are told


def compare(world: World, outgoing: Outgoing, have: Have) -> None:
    """Note all in which what the host has differs from what it should have."""
    host = outgoing.host
    wanted: dict[str, dict[str, str]] = {kind: {} for kind in KEYED}
    for kind, key in world.keys(host):
        item = world.lookup(host, kind, key)
        if item is not None:
            wanted[kind][key] = item.digest
    for kind, should in wanted.items():
        has = have.get(kind, {})
        for key in {*should, *has}:
            if should.get(key) != has.get(key):
                outgoing.touch(kind, key)
    has = have.get("group_members", {})
    for group_id in {*world.remote_groups(host), *has}:
        members = world.members(host, group_id)
        if members is None or members.digest != has.get(group_id):
            outgoing.touch_all_members(group_id)
    has = have.get("forwarding", {})
    followed = world.tunnelled_networks(host)
    for network_id in {*followed, *has}:
        if network_id not in followed or world.entries_digest(host, network_id) != has.get(network_id):
            outgoing.touch_entries(network_id)
    for kind in have.keys() - {*KEYED, "group_members", "forwarding"}:  # of a later release: nobody here looks after it
        for key in have[kind]:
            outgoing.touch(kind, key)


def next_frame(world: World, outgoing: Outgoing) -> bytes | None:
    """Some of what the host is to be told, as one frame; None if there is nothing."""
    parts: list[bytes] = []
    size = 0
    for some in _messages(world, outgoing):
        parts += some
        size += sum(map(len, some))
        if size >= FRAME_BYTES:
            break
    return frame(parts) if parts else None


def synced(world: World, outgoing: Outgoing) -> bytes:
    """After the last frame: the host has everything, as of the world's position."""
    digests = {n: world.entries_digest(outgoing.host, n) for n in outgoing.digests}
    followed = world.tunnelled_networks(outgoing.host)
    outgoing.digests.clear()
    told = {network_id: value if network_id in followed else "" for network_id, value in digests.items()}
    return frame([encode_one(Synced(position=world.position, entries=told))])


def _messages(world: World, outgoing: Outgoing) -> Iterator[list[bytes]]:
    """Each is taken out of `outgoing` when it is asked for, so that what is not asked for waits."""
    host = outgoing.host
    while outgoing.networks:
        network_id = next(iter(outgoing.networks))
        del outgoing.networks[network_id]
        entries = world.entries(host, network_id)
        for key in entries:
            outgoing.keys["forwarding", key] = None
        yield [encode_one(Entries(network_id=network_id, ids=tuple(entries)))]
    while outgoing.members:
        group_id = next(iter(outgoing.members))
        yield _members(world, host, group_id, outgoing.members.pop(group_id))
    while outgoing.keys:
        kind, key = next(iter(outgoing.keys))
        del outgoing.keys[kind, key]
        item = world.lookup(host, kind, key)
        yield [gone(kind, key) if item is None else item.encoded()]


def _members(world: World, host: str, group_id: str, difference: Difference | None) -> list[bytes]:
    members = world.members(host, group_id)
    if members is None:
        return [gone("group_members", group_id)]
    if difference is None or len(difference.added) + len(difference.removed) > MOST_MEMBERS:
        return members.encoded(group_id)
    if not difference.added and not difference.removed:
        return []
    added, removed = tuple(difference.added), tuple(difference.removed)
    return [encode_one(Members(id=group_id, added=added, removed=removed, digest=members.digest))]
