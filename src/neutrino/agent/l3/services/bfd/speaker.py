"""The BFD speaker of a host: keeps the sessions that the agent wants, and writes down what it finds.

One thread, in a loop: packets that have arrived, sessions whose time has come, once a second the files of the agent.
Packets are read before timers: a process that got no processor time for a while must not take that for a silent peer.
"""

import heapq
import itertools
import logging
import random
import selectors
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from neutrino.agent.l3.services.bfd import files
from neutrino.agent.l3.services.bfd.files import SessionState, WantedSession, WantedSessions
from neutrino.agent.l3.services.bfd.packet import ControlPacket
from neutrino.agent.l3.services.bfd.session import BfdSession, Timing
from neutrino.agent.l3.services.bfd.sockets import LinkSockets, has_address, inode, open_sockets
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces

LOG = logging.getLogger(__name__)
SCAN_SECONDS = 1.0
NEVER = float("inf")


@dataclass(eq=False)
class Link:
    """A session with its sockets, which it has while they can be opened."""

    router_id: str
    wanted: WantedSession
    session: BfdSession
    sockets: LinkSockets | None = None
    failed: bool = False  # to send: the sockets are opened anew
    logged: bool = False  # that it failed; once, until a packet is sent again
    scheduled: float = NEVER

    @property
    def state(self) -> SessionState:
        wanted, session = self.wanted, self.session
        state = session.state.name.lower()
        return SessionState(wanted.device, wanted.local, wanted.peer, state, session.was_up, session.is_lost)

    def send(self, packets: Iterable[ControlPacket]) -> None:
        for packet in packets:
            if self.sockets is not None:
                try:
                    self.sockets.send(packet)
                except OSError as error:
                    if not self.logged:
                        LOG.info("router %s: nothing can be sent to %s: %s", self.router_id, self.wanted.peer, error)
                    self.failed = self.logged = True
                else:
                    self.logged = False


@dataclass(eq=False)
class SupervisedRouter:
    id: str
    wanted: WantedSessions
    links: dict[WantedSession, Link] = field(default_factory=dict)
    written: tuple[SessionState, ...] | None = None  # the states in the file

    @property
    def states(self) -> tuple[SessionState, ...]:
        return tuple(sorted(link.state for link in self.links.values()))


@dataclass(eq=False)
class Speaker:
    directory: Path
    namespaces: Namespaces
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._routers: dict[str, SupervisedRouter] = {}
        self._loaded: dict[str, tuple[int, int]] = {}  # files by router: modification time and inode
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, Link]] = []
        self._numbers = itertools.count()
        self._next_scan = 0.0
        self._changed: set[str] = set()

    def step(self, longest: float = SCAN_SECONDS) -> None:
        """One round of the loop. Waits for packets or timers, for `longest` seconds at most."""
        now = self.clock()
        first = min(self._next_scan, self._due[0][0] if self._due else NEVER)
        for key, _ in self._selector.select(max(0.0, min(longest, first - now))):
            self._receive(key.data)
        now = self.clock()
        self._tick(now)
        if now >= self._next_scan:
            self._scan(now)
            self._next_scan = now + SCAN_SECONDS
        for router_id in list(self._changed):
            self._write(router_id)

    def end(self) -> None:
        """Ends all sessions on purpose: their peers do not take it for a failure."""
        for router in self._routers.values():
            for link in router.links.values():
                self._end(link)

    # --- packets and timers -----------------------------------------------------------------------------------------

    def _receive(self, link: Link) -> None:
        if link.sockets is not None:
            for packet in link.sockets.receive():
                link.send(link.session.receive(packet, self.clock()))
            self._note(link)

    def _tick(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            at, _, link = heapq.heappop(self._due)
            if at == link.scheduled:  # else it was scheduled anew since, or is gone
                link.scheduled = NEVER
                link.send(link.session.tick(now))
                self._note(link)

    def _note(self, link: Link) -> None:
        """After anything that happened to a session: its next timer, and whether the agent has to know."""
        deadline = link.session.deadline
        if deadline < link.scheduled:
            link.scheduled = deadline
            heapq.heappush(self._due, (deadline, next(self._numbers), link))
        router = self._routers[link.router_id]
        if router.written is None or link.state not in router.written:
            self._changed.add(link.router_id)

    # --- the agent's files ------------------------------------------------------------------------------------------

    def _scan(self, now: float) -> None:
        present: dict[str, tuple[int, int]] = {}
        for path in sorted((self.directory / files.WANTED).glob("*")):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue
            present[path.name] = (found.st_mtime_ns, found.st_ino)
            if self._loaded.get(path.name) != present[path.name]:
                self._load(path, now)
        for router_id in self._routers.keys() - present.keys():
            self._drop(router_id)
        self._loaded = present
        for router in self._routers.values():
            self._check_sockets(router)
            if not (self.directory / files.STATES / router.id).exists():
                router.written = None
            if router.written != router.states:  # or it could not be written before
                self._changed.add(router.id)

    def _load(self, path: Path, now: float) -> None:
        try:
            wanted = files.read_wanted(path)
        except (ValueError, OSError) as error:
            LOG.error("%s is not readable: %s", path, error)
            return
        if wanted is None:
            return
        router = self._routers.setdefault(path.name, SupervisedRouter(path.name, wanted))
        if wanted.namespace != router.wanted.namespace:
            for link in router.links.values():
                self._close(link)
        router.wanted = wanted
        for key in router.links.keys() - set(wanted.sessions):
            self._end(router.links.pop(key))
        timing = Timing(wanted.interval, wanted.multiplier)
        states = files.read_states(self.directory / files.STATES / router.id)
        known = {WantedSession(each.device, each.local, each.peer): each for each in states if each.was_up}
        for session in wanted.sessions:
            if session not in router.links:
                router.links[session] = link = Link(router.id, session, self._session(timing))
                if session in known:
                    link.session.restore(is_lost=known[session].is_lost, now=now)
            link = router.links[session]
            link.session.configure(timing, now)
            self._note(link)
        self._changed.add(router.id)

    def _session(self, timing: Timing) -> BfdSession:
        used = {link.session.discriminator for router in self._routers.values() for link in router.links.values()}
        number = random.randint(1, 2**32 - 1)
        while number in used:
            number = random.randint(1, 2**32 - 1)
        return BfdSession(number, timing, random.random)

    def _drop(self, router_id: str) -> None:
        for link in self._routers[router_id].links.values():
            self._end(link)
        del self._routers[router_id]
        self._changed.discard(router_id)
        (self.directory / files.STATES / router_id).unlink(missing_ok=True)

    def _write(self, router_id: str) -> None:
        self._changed.discard(router_id)
        router = self._routers[router_id]
        states = router.states
        try:
            files.replace(self.directory / files.STATES / router_id, files.encode(states))
        except OSError as error:  # retried by the next scan
            LOG.error("states of router %s are not written: %s", router_id, error)
            return
        for each in sorted(set(states) - set(router.written or ())):
            LOG.info("router %s: session with %s on %s: %s", router_id, each.peer, each.device, _described(each))
        router.written = states
        files.notify(self.directory, router_id)

    # --- sockets ----------------------------------------------------------------------------------------------------

    def _check_sockets(self, router: SupervisedRouter) -> None:
        """Sockets of a namespace that was deleted, or an address or device that is gone, are closed and opened anew."""
        namespace = router.wanted.namespace
        there = inode(self.namespaces, namespace)
        for link in router.links.values():
            sockets = link.sockets
            if sockets is not None and (link.failed or sockets.inode != there or self._has_left(router, link)):
                self._close(link)
            if link.sockets is None and there is not None:
                try:
                    link.sockets = open_sockets(self.namespaces, namespace, link.wanted)
                except (
                    OSError,
                    NetlinkError,
                    ValueError,
                ) as error:  # normal on a standby host
                    LOG.debug("router %s: %s on %s: %s", router.id, link.wanted.local, link.wanted.device, error)
                    continue
                link.failed = False
                self._selector.register(link.sockets.receiver, selectors.EVENT_READ, link)

    def _has_left(self, router: SupervisedRouter, link: Link) -> bool:
        if not router.wanted.fails_over or ":" not in link.wanted.local:
            return False
        try:
            return not has_address(self.namespaces, router.wanted.namespace, link.wanted)
        except (OSError, NetlinkError):
            return True

    def _end(self, link: Link) -> None:
        link.send(link.session.end())
        link.scheduled = NEVER  # no timer of it counts any more
        self._close(link)

    def _close(self, link: Link) -> None:
        if link.sockets is not None:
            self._selector.unregister(link.sockets.receiver)
            link.sockets.close()
            link.sockets = None


def _described(state: SessionState) -> str:
    return f"{state.state}, the next hop is lost" if state.is_lost else state.state
