"""BFD speakers on real sockets: two of them, with the sessions of a router each, in two namespaces joined by a link."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neutrino.agent.l3.services.bfd import files
from neutrino.agent.l3.services.bfd.files import SessionState, WantedSession, WantedSessions
from neutrino.agent.l3.services.bfd.packet import ControlPacket, State, encode
from neutrino.agent.l3.services.bfd.session import ESTABLISH_SECONDS
from neutrino.agent.l3.services.bfd.sockets import PORT, LinkSockets, open_sockets
from neutrino.agent.l3.services.bfd.speaker import SCAN_SECONDS, Link, Speaker
from neutrino.dataplane.netlink.namespaces import Namespaces

ROUTER = "r1"
DEVICE = "eth0"
# Of both ends; the MACs make the link-local addresses.
ADDRESSES: dict[object, tuple[str, str]] = {
    4: ("203.0.113.1", "203.0.113.2"),
    6: ("2001:db8::1", "2001:db8::2"),
    "link-local": ("fe80::ff:fe00:1", "fe80::ff:fe00:2"),
}
SECONDS = 30.0


class End:
    """A speaker with its directory and namespace. Its clock can be put forward."""

    def __init__(self, directory: Path, name: str, number: int) -> None:
        self.directory, self.namespace, self.number = directory, name, number
        self.forward = 0.0
        self.speaker = self._started()

    def _started(self) -> Speaker:
        return Speaker(self.directory, Namespaces(), lambda: time.monotonic() + self.forward)

    def restart(self) -> None:
        """As after SIGKILL: the sockets of the old process are gone."""
        for link in self.links():
            self.speaker._close(link)
        self.speaker = self._started()

    def want(self, *kinds: object, fails_over: bool = False, interval: int = 100_000) -> None:
        own, other = (self.number, 1 - self.number)
        sessions = [WantedSession(DEVICE, ADDRESSES[each][own], ADDRESSES[each][other]) for each in kinds]
        wanted = WantedSessions(
            namespace=self.namespace, interval=interval, multiplier=3, fails_over=fails_over, sessions=tuple(sessions)
        )
        files.replace(self.directory / files.WANTED / ROUTER, files.encode(wanted))

    @property
    def states(self) -> dict[str, SessionState]:
        return {each.peer: each for each in files.read_states(self.directory / files.STATES / ROUTER)}

    def are_all(self, state: str, count: int) -> bool:
        return [each.state for each in self.states.values()] == [state] * count

    def links(self) -> list[Link]:
        return [link for router in self.speaker._routers.values() for link in router.links.values()]

    @property
    def inside(self) -> tuple[str, ...]:
        return "ip", "netns", "exec", self.namespace

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", "-n", self.namespace, *words], check=True)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[End, End]]:
    namespaces, names = Namespaces(), [f"bfd-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    with contextlib.ExitStack() as undo:
        for name in names:
            namespaces.create(name)
            undo.callback(namespaces.delete, name)
        peer = ("peer", "name", DEVICE, "address", "02:00:00:00:00:02", "netns", names[1])
        link = ("link", "add", DEVICE, "address", "02:00:00:00:00:01", "type", "veth", *peer)
        subprocess.run(["ip", "-n", names[0], *link], check=True)
        made = tuple(End(tmp_path / name, name, i) for i, name in enumerate(names))
        for end in made:
            end.ip("address", "add", f"{ADDRESSES[4][end.number]}/24", "dev", DEVICE)
            end.ip("address", "add", f"{ADDRESSES[6][end.number]}/64", "dev", DEVICE, "nodad")
            for setting in ("accept_dad=0", "keep_addr_on_down=1"):
                subprocess.run([*end.inside, "sysctl", "-qw", f"net.ipv6.conf.{DEVICE}.{setting}"], check=True)
            end.ip("link", "set", DEVICE, "up")
            undo.callback(end.restart)
        yield made[0], made[1]


def until(ends: tuple[End, ...], condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        for end in ends:
            end.speaker.step(0.01)


def established(ends: tuple[End, End], *kinds: object) -> None:
    for end in ends:
        end.want(*kinds)
    until(ends, lambda: all(end.are_all("up", len(kinds)) for end in ends), "not all sessions are up")


def test_sessions_of_both_ip_versions(ends: tuple[End, End]) -> None:
    ends[0].directory.mkdir()
    os.mkfifo(ends[0].directory / files.NEWS)
    news = os.open(ends[0].directory / files.NEWS, os.O_RDWR | os.O_NONBLOCK)
    try:
        established(ends, 4, 6, "link-local")
        assert set(os.read(news, 4096).decode().split()) == {ROUTER}
    finally:
        os.close(news)
    assert set(ends[0].states) == {ADDRESSES[kind][1] for kind in ADDRESSES}
    # A link that is cut, and back.
    ends[1].ip("link", "set", DEVICE, "down")
    until(ends[:1], lambda: all(each.is_lost for each in ends[0].states.values()), "the peer is not lost")
    ends[1].ip("link", "set", DEVICE, "up")
    until(ends, lambda: all(end.are_all("up", 3) for end in ends), "the sessions are not up again")
    assert not any(each.is_lost for each in ends[0].states.values())


def test_the_end_of_sessions_is_no_failure(ends: tuple[End, End]) -> None:
    established(ends, 4, 6)
    ends[1].want(4)
    until(ends, lambda: ends[0].states[ADDRESSES[6][1]].state == "down", "the peer does not know")
    (ends[1].directory / files.WANTED / ROUTER).unlink()
    until(ends, lambda: ends[0].are_all("down", 2), "the peer does not know")
    assert all(each.was_up and not each.is_lost for each in ends[0].states.values())
    assert not (ends[1].directory / files.STATES / ROUTER).exists()
    established(ends, 4)
    ends[1].speaker.end()  # SIGTERM
    until(ends[:1], lambda: ends[0].are_all("down", 1), "the peer does not know")
    assert not any(each.is_lost for each in ends[0].states.values())


def test_a_speaker_that_was_killed_goes_on_with_what_is_known(ends: tuple[End, End]) -> None:
    established(ends, 4)
    ends[0].restart()
    until(ends[:1], lambda: ends[0].are_all("down", 1), "the wanted session is not started")
    assert not ends[0].states[ADDRESSES[4][1]].is_lost
    until(ends, lambda: ends[0].are_all("up", 1), "the session is not up again")
    # The peer fails while no speaker runs.
    ends[0].restart()
    ends[0].speaker.step(0.0)
    ends[0].forward += ESTABLISH_SECONDS
    until(ends[:1], lambda: ends[0].states[ADDRESSES[4][1]].is_lost, "the peer is not lost")
    ends[0].restart()
    ends[0].speaker.step(0.0)
    assert ends[0].states[ADDRESSES[4][1]].is_lost


@pytest.mark.parametrize("kind", [4, 6])
def test_nothing_is_sent_from_an_address_that_has_moved_away(ends: tuple[End, End], kind: int) -> None:
    """As on the standby host of an HA router, also while no agent says so."""
    established(ends, kind)
    ends[0].want(kind, fails_over=True)
    prefixed = f"{ADDRESSES[kind][0]}/{24 if kind == 4 else 64}"
    ends[0].ip("address", "del", prefixed, "dev", DEVICE)

    def is_silent() -> bool:
        return all(link.sockets is None for link in ends[0].links())

    until(ends, is_silent, "its sockets are open")
    until(ends, lambda: ends[1].states[ADDRESSES[kind][0]].is_lost, "the peer still hears it")
    ends[0].forward += SCAN_SECONDS
    ends[0].speaker.step(0.0)
    assert is_silent()
    ends[0].ip("address", "add", prefixed, "dev", DEVICE, *(["nodad"] if kind == 6 else []))
    until(ends, lambda: ends[1].are_all("up", 1), "the session is not up again")


def test_a_namespace_that_is_created_again(ends: tuple[End, End]) -> None:
    established(ends, 4)
    namespaces, end = Namespaces(), ends[0]
    namespaces.delete(end.namespace)
    end.forward += SCAN_SECONDS
    end.speaker.step(0.0)  # closes the sockets, and with them the namespace
    namespaces.create(end.namespace)
    until(ends, lambda: ends[1].states[ADDRESSES[4][0]].is_lost, "the peer still hears it")
    link = ("type", "veth", "peer", "name", "eth1", "netns", ends[1].namespace)
    end.ip("link", "add", DEVICE, *link)
    end.ip("address", "add", f"{ADDRESSES[4][0]}/24", "dev", DEVICE)
    end.ip("link", "set", DEVICE, "up")
    end.forward += SCAN_SECONDS
    until((end,), lambda: all(link.sockets is not None for link in end.links()), "no sockets in the new one")


def test_what_others_send_is_discarded(ends: tuple[End, End]) -> None:
    namespaces = Namespaces()
    wanted = WantedSession(DEVICE, *ADDRESSES[4])
    receiving = open_sockets(namespaces, ends[0].namespace, wanted)
    peer = open_sockets(namespaces, ends[1].namespace, WantedSession(DEVICE, *ADDRESSES[4][::-1]))
    ends[1].ip("address", "add", "203.0.113.9/24", "dev", DEVICE)
    other = open_sockets(namespaces, ends[1].namespace, WantedSession(DEVICE, "203.0.113.9", ADDRESSES[4][0]))
    with contextlib.ExitStack() as undo:
        for each in (receiving, peer, other):
            undo.callback(each.close)
        assert 49152 <= peer.sender.getsockname()[1] <= 65535
        other.send(ControlPacket(State.DOWN, 1))
        _send_with_ttl(peer, 254, ControlPacket(State.DOWN, 2))
        peer.sender.sendto(b"no BFD", (ADDRESSES[4][0], PORT))
        peer.send(ControlPacket(State.DOWN, 3))
        found: list[ControlPacket] = []

        def arrived() -> bool:
            found.extend(receiving.receive())
            return bool(found)

        until((), arrived, "no packet arrives")
        assert [each.my_discriminator for each in found] == [3]


def _send_with_ttl(link: LinkSockets, ttl: int, packet: ControlPacket) -> None:
    link.sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
    link.sender.sendto(encode(packet), (ADDRESSES[4][0], PORT))
    link.sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 255)
