"""One BFD session in asynchronous mode: the state machine of RFC 5880. Pure; the time is passed in, in seconds.

A session is active: it sends from its start. While it is not Up, it sends at most once a second. A change of the
intervals is negotiated by a Poll Sequence: what would make a peer miss packets is used when the peer has confirmed it.

What routes are decided by is `is_lost`, not the state: the session was Up and has failed. A next hop that has never
spoken BFD is not lost, and neither is one that has ended the session on purpose (RFC 5882, sections 3.2 and 4.1).
"""

import dataclasses
from collections.abc import Callable

from neutrino.agent.l3.services.bfd.packet import ControlPacket, Diagnostic, State

SLOW = 1_000_000  # microseconds: the shortest interval of a session that is not Up
ESTABLISH_SECONDS = 10.0  # for a session that was Up before the speaker was restarted to be Up again
_MICROSECONDS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Timing:
    interval: int = 1_000_000  # microseconds between packets, sent and expected
    multiplier: int = 3


@dataclasses.dataclass
class BfdSession:
    """`random` gives a number from 0 to 1, for the jitter of packets."""

    discriminator: int
    timing: Timing
    random: Callable[[], float]
    state: State = State.DOWN
    diagnostic: Diagnostic = Diagnostic.NONE
    was_up: bool = False
    is_lost: bool = False
    peer_state: State = State.DOWN
    peer_discriminator: int = 0
    _peer_min_rx: int = 1
    _peer_min_tx: int = 0
    _peer_multiplier: int = 0
    _peer_demands: bool = False
    _polling: bool = False
    # The intervals in use: during a Poll Sequence, one of them may not be the desired one yet.
    _send_interval: int = dataclasses.field(init=False)
    _expected_interval: int = dataclasses.field(init=False)
    _next_send: float = 0.0
    _expires: float | None = None  # when the peer is silent; None: it has sent nothing yet, or is silent already
    _up_by: float | None = None

    def __post_init__(self) -> None:
        self._use_timing()

    # --- what happens to it -----------------------------------------------------------------------------------------

    def restore(self, *, is_lost: bool, now: float) -> None:
        """It was Up in an earlier process: it is lost if it still is, or if it is not Up again soon."""
        self.was_up, self.is_lost = True, is_lost
        self._up_by = None if is_lost else now + ESTABLISH_SECONDS

    def configure(self, timing: Timing, now: float) -> None:
        """Other intervals. While Up, a longer one to send and a shorter one to expect wait for the peer's consent."""
        if timing == self.timing:
            return
        self.timing = timing
        if self.state is not State.UP:
            self._use_timing()
            return
        self._polling = True
        self._send_interval = min(self._send_interval, timing.interval)
        self._expected_interval = max(self._expected_interval, timing.interval)
        self._next_send = now

    def receive(self, packet: ControlPacket, now: float) -> list[ControlPacket]:
        """The packets to send at once. Section 6.8.6, after the checks that need no session."""
        if packet.your_discriminator not in (0, self.discriminator):
            return []  # of a session that we no longer have: the peer finds out by its detection time
        before = self._packet()
        self.peer_discriminator, self.peer_state = packet.my_discriminator, packet.state
        self._peer_min_rx, self._peer_min_tx = packet.min_rx, packet.min_tx
        self._peer_multiplier, self._peer_demands = packet.multiplier, packet.demand
        if self._polling and packet.final:
            self._polling = False
            self._use_timing()
        if self.state is State.ADMIN_DOWN:
            return []
        self._react(packet.state)
        self._expires = now + self.detection_seconds
        self._hasten(now)
        if packet.poll:
            return [self._packet(final=True)]
        return [self._sent(now)] if _is_news(before, self._packet()) else []

    def tick(self, now: float) -> list[ControlPacket]:
        """The packets that are due, after a silent peer is noticed."""
        before = self._packet()
        if self._expires is not None and now >= self._expires:
            self._expires, self.peer_discriminator, self.peer_state = None, 0, State.DOWN
            # A peer that wanted no packets, and has restarted, waits for one.
            self._peer_min_rx, self._peer_demands = 1, False
            if self.state in (State.INIT, State.UP):
                self._leave(Diagnostic.EXPIRED)
        if self._up_by is not None and now >= self._up_by:
            self._up_by, self.is_lost = None, True
        if self._is_quiet:
            return []
        return [self._sent(now)] if now >= self._next_send or _is_news(before, self._packet()) else []

    def end(self) -> list[ControlPacket]:
        """The session is ended on purpose, which its peer is not to take for a failure."""
        self.state, self.diagnostic = State.ADMIN_DOWN, Diagnostic.ADMIN_DOWN
        return [self._packet()] if self.peer_discriminator else []

    @property
    def deadline(self) -> float:
        """When `tick` has something to do next."""
        times = [each for each in (self._expires, self._up_by) if each is not None]
        return min([*times, *([] if self._is_quiet else [self._next_send])], default=float("inf"))

    # --- timing -----------------------------------------------------------------------------------------------------

    @property
    def detection_seconds(self) -> float:
        """How long the peer may be silent (section 6.8.4)."""
        return self._peer_multiplier * max(self._expected_interval, self._peer_min_tx) / _MICROSECONDS

    @property
    def send_seconds(self) -> float:
        """The negotiated interval, without jitter."""
        slowest = max(self._send_interval, 0 if self.state is State.UP else SLOW)
        return max(slowest, self._peer_min_rx) / _MICROSECONDS

    @property
    def _is_quiet(self) -> bool:
        """The peer wants no packets: none at all, or none without a Poll Sequence (Demand mode)."""
        demanded = self._peer_demands and State.UP is self.state is self.peer_state and not self._polling
        return self._peer_min_rx == 0 or demanded or self.state is State.ADMIN_DOWN

    def _use_timing(self) -> None:
        self._send_interval = self._expected_interval = self.timing.interval

    def _hasten(self, now: float) -> None:
        """A shorter interval is used at once, not after the longer one has passed."""
        self._next_send = min(self._next_send, now + self.send_seconds)

    def _sent(self, now: float) -> ControlPacket:
        # From 75 % to 100 % of the interval; with a multiplier of 1 to 90 %, or a late packet would be one missed.
        spread = 0.15 if self.timing.multiplier == 1 else 0.25
        self._next_send = now + self.send_seconds * (0.75 + spread * self.random())
        return self._packet()

    # --- states -----------------------------------------------------------------------------------------------------

    def _react(self, received: State) -> None:
        if received is State.ADMIN_DOWN:
            if self.state is not State.DOWN:
                self._leave(Diagnostic.SIGNALED_DOWN)
            self.is_lost, self._up_by = False, None
        elif self.state is State.DOWN:
            if received is State.DOWN:
                self.state = State.INIT
            elif received is State.INIT:
                self._enter_up()
        elif self.state is State.INIT:
            if received in (State.INIT, State.UP):
                self._enter_up()
        elif received is State.DOWN:
            self._leave(Diagnostic.SIGNALED_DOWN)

    def _enter_up(self) -> None:
        self.state, self.diagnostic = State.UP, Diagnostic.NONE
        self.was_up, self.is_lost, self._up_by = True, False, None
        # Faster than once a second only from now on: the peer is notified, and confirms it.
        self._polling = self.timing.interval < SLOW

    def _leave(self, diagnostic: Diagnostic) -> None:
        if self.state is State.UP:
            self.is_lost = True
        self.state, self.diagnostic, self._polling = State.DOWN, diagnostic, False
        self._use_timing()

    def _packet(self, *, final: bool = False) -> ControlPacket:
        return ControlPacket(
            state=self.state,
            my_discriminator=self.discriminator,
            your_discriminator=self.peer_discriminator,
            multiplier=self.timing.multiplier,
            min_tx=self.timing.interval if self.state is State.UP else max(self.timing.interval, SLOW),
            min_rx=self.timing.interval,
            diagnostic=self.diagnostic,
            poll=self._polling and not final,
            final=final,
        )


def _is_news(before: ControlPacket, after: ControlPacket) -> bool:
    """Whether the peer is notified at once: by what it acts on."""
    return (before.state, before.min_tx, before.min_rx) != (after.state, after.min_tx, after.min_rx)
