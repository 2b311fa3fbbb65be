"""From what a host is still to be told to the messages that tell it, and from what it has to what it lacks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from neutrino.feed.messages import MOST_MEMBERS, Entries, Members, Synced, encode_one, frame
from neutrino.model.roles import may_know
from neutrino.server.feed.encoding import gone
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.pending import Difference, Pending

FRAME_BYTES: Final = 64 * 1024  # a frame is closed when it has grown to this
Have = Mapping[str, Mapping[str, str]]
KEYED: Final = (  # in the order in which they are told
    "network",
    "host",
    "address_group",
    "security_group",
    "port",
    "dhcp_network",
    "dhcp_port",
    "router",
    "dvr_mac",
)


def compare(world: Fanout, outgoing: Pending, have: Have) -> None:
    """Note all in which what the host has differs from what it should have."""
    host = outgoing.host
    wanted: dict[str, dict[str, str]] = {kind: {} for kind in KEYED}
    for kind, key, item in world.items(host):
        if may_know(kind, outgoing.roles):
            wanted[kind][key] = item.digest
    for kind, should in wanted.items():
        has = have.get(kind, {})
        if should == has:
            continue
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


def next_frame(world: Fanout, outgoing: Pending) -> bytes | None:
    """Some of what the host is to be told, as one frame; None if there is nothing."""
    parts = _next_parts(world, outgoing)
    return frame(parts) if parts else None


def synced(world: Fanout, outgoing: Pending) -> bytes:
    """After the last frame: the host has everything, as of the world's position."""
    return frame([_synced(world, outgoing)])


def next_and_synced(world: Fanout, outgoing: Pending) -> tuple[bytes, bool]:
    """The next frame, and whether it was the last: then `synced` is in it."""
    parts = _next_parts(world, outgoing)
    is_last = not outgoing
    if is_last:
        parts.append(_synced(world, outgoing))
    return frame(parts), is_last


def _synced(world: Fanout, outgoing: Pending) -> bytes:
    told = {}
    if outgoing.digests:
        followed = world.tunnelled_networks(outgoing.host)
        told = {n: world.entries_digest(outgoing.host, n) if n in followed else "" for n in outgoing.digests}
        outgoing.digests.clear()
    return encode_one(Synced(position=world.position, entries=told))


def _next_parts(world: Fanout, outgoing: Pending) -> list[bytes]:
    """Messages up to the size of a frame. What is told is taken out of `outgoing`, the rest waits there."""
    parts: list[bytes] = []
    size = 0
    while outgoing.networks and size < FRAME_BYTES:
        network_id = next(iter(outgoing.networks))
        del outgoing.networks[network_id]
        entries = world.entries(outgoing.host, network_id)
        for key in entries:
            outgoing.keys["forwarding", key] = None
        parts.append(encode_one(Entries(network_id=network_id, ids=tuple(entries))))
        size += len(parts[-1])
    while outgoing.members and size < FRAME_BYTES:
        group_id = next(iter(outgoing.members))
        told = _members(world, outgoing.host, group_id, outgoing.members.pop(group_id))
        parts += told
        size += sum(map(len, told))
    if size < FRAME_BYTES:
        parts += _objects(world, outgoing, FRAME_BYTES - size)
    return parts


def _objects(world: Fanout, outgoing: Pending, room: int) -> list[bytes]:
    parts: list[bytes] = []
    for kind, key in outgoing.keys:
        item = world.lookup(outgoing.host, kind, key) if may_know(kind, outgoing.roles) else None
        told = gone(kind, key) if item is None else item.encoded()
        parts.append(told)
        room -= len(told)
        if room <= 0:
            break
    if len(parts) == len(outgoing.keys):
        outgoing.keys.clear()
    else:
        for done in list(islice(outgoing.keys, len(parts))):
            del outgoing.keys[done]
    return parts


def _members(world: Fanout, host: str, group_id: str, difference: Difference | None) -> list[bytes]:
    members = world.members(host, group_id)
    if members is None:
        return [gone("group_members", group_id)]
    if difference is None or len(difference.added) + len(difference.removed) > MOST_MEMBERS:
        return members.encoded(group_id)
    if not difference.added and not difference.removed:
        return []
    added, removed = tuple(difference.added), tuple(difference.removed)
    return [encode_one(Members(id=group_id, added=added, removed=removed, digest=members.digest))]
