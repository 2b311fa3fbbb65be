"""A BFD session: its states, its timers, and when a next hop counts as lost. Two sessions talk over a simulated link."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from neutrino.agent.l3.services.bfd.packet import ControlPacket, Diagnostic, State
from neutrino.agent.l3.services.bfd.session import ESTABLISH_SECONDS, BfdSession, Timing

FAST = Timing(200_000, 3)


def session(discriminator: int = 1, timing: Timing | None = None) -> BfdSession:
    return BfdSession(discriminator, timing or Timing(), lambda: 1.0)


def packet(state: State, yours: int = 1, **values: object) -> ControlPacket:
    return ControlPacket(state, 99, yours, **values)  # type: ignore[arg-type]


def up(timing: Timing | None = None, now: float = 0.0) -> BfdSession:
    made = session(timing=timing)
    made.receive(packet(State.DOWN, 0), now)
    made.receive(packet(State.INIT), now)
    assert made.state is State.UP
    return made


@dataclasses.dataclass
class Link:
    """Two ends; the time passes from deadline to deadline. Packets arrive at once, while the link is up."""

    ends: tuple[BfdSession, BfdSession]
    now: float = 0.0
    passes: tuple[bool, bool] = (True, True)  # from the first end, from the second
    sent: list[tuple[float, int, ControlPacket]] = dataclasses.field(default_factory=list)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while (at := min(each.deadline for each in self.ends)) <= until:
            self.now = max(self.now, at)
            for i, end in enumerate(self.ends):
                self.deliver(i, end.tick(self.now))
        self.now = until

    def deliver(self, sender: int, packets: list[ControlPacket]) -> None:
        for each in packets:
            self.sent.append((self.now, sender, each))
            if self.passes[sender]:
                self.deliver(1 - sender, self.ends[1 - sender].receive(each, self.now))

    @property
    def states(self) -> tuple[State, State]:
        return self.ends[0].state, self.ends[1].state


def link(one: Timing | None = None, two: Timing | None = None) -> Link:
    return Link((session(1, one), session(2, two)))


# --- the state machine --------------------------------------------------------------------------------------------------

A, D, I, U = State  # noqa: E741


@pytest.mark.parametrize(
    ("state", "received", "after"),
    [
        *[(D, A, D), (D, D, I), (D, I, U), (D, U, D)],
        *[(I, A, D), (I, D, I), (I, I, U), (I, U, U)],
        *[(U, A, D), (U, D, D), (U, I, U), (U, U, U)],
        *[(A, each, A) for each in State],
    ],
)
def test_transitions(state: State, received: State, after: State) -> None:
    made = session()
    made.state = state
    made.receive(packet(received), 0.0)
    assert made.state is after
    if state is U and after is D:
        assert made.diagnostic is Diagnostic.SIGNALED_DOWN


def test_a_packet_for_another_session_is_discarded() -> None:
    made = session()
    assert made.receive(packet(State.DOWN, yours=7), 0.0) == []
    assert (made.state, made.peer_discriminator) == (State.DOWN, 0)


def test_two_ends_come_up() -> None:
    pair = link()
    pair.run(2.0)
    assert pair.states == (State.UP, State.UP)
    assert [end.peer_discriminator for end in pair.ends] == [2, 1]
    assert all(end.was_up and not end.is_lost for end in pair.ends)


def test_a_change_of_state_is_sent_at_once() -> None:
    made = session()
    (answer,) = made.receive(packet(State.DOWN, 0), 0.0)
    assert (answer.state, answer.your_discriminator) == (State.INIT, 99)
    assert made.receive(packet(State.DOWN), 0.1) == []  # nothing new
    (answer,) = made.receive(packet(State.INIT), 0.2)
    assert answer.state is State.UP
    (answer,) = made.tick(10.0)
    assert (answer.state, answer.diagnostic, answer.your_discriminator) == (State.DOWN, Diagnostic.EXPIRED, 0)


# --- timers -------------------------------------------------------------------------------------------------------------


def test_no_more_than_one_packet_a_second_before_it_is_up() -> None:
    made = session(timing=FAST)
    times = []
    for _ in range(4):
        times.append(now := made.deadline)
        (sent,) = made.tick(now)
        assert (sent.state, sent.min_tx, sent.your_discriminator) == (State.DOWN, 1_000_000, 0)
    assert [b - a for a, b in itertools.pairwise(times)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("random", "multiplier", "seconds"), [(0.0, 3, 0.75), (1.0, 3, 1.0), (0.0, 1, 0.75), (1.0, 1, 0.9)]
)
def test_jitter(random: float, multiplier: int, seconds: float) -> None:
    made = BfdSession(1, Timing(multiplier=multiplier), lambda: random)
    made.tick(0.0)
    assert made.deadline == pytest.approx(seconds)


def test_the_slower_of_both_intervals_is_used() -> None:
    made = up(FAST)
    made.receive(packet(State.UP, min_rx=700_000, min_tx=500_000, multiplier=4), 0.0)
    assert made.send_seconds == 0.7
    assert made.detection_seconds == 4 * 0.5
    made.receive(packet(State.UP, min_rx=50_000, min_tx=50_000, multiplier=4), 0.0)
    assert made.send_seconds == 0.2
    assert made.detection_seconds == 4 * 0.2


def test_detection_time() -> None:
    made = up(FAST)
    made.receive(packet(State.UP, min_tx=300_000, multiplier=5), 10.0)
    made.tick(11.4999)
    assert made.state is State.UP
    made.tick(11.5)
    assert (made.state, made.diagnostic, made.peer_discriminator) == (State.DOWN, Diagnostic.EXPIRED, 0)
    assert made.is_lost


def test_each_packet_starts_the_detection_time_anew() -> None:
    made = up()
    for now in (2.9, 5.8, 8.7):
        made.tick(now)
        made.receive(packet(State.UP), now)
    made.tick(11.6)
    assert made.state is State.UP


def test_a_session_that_is_not_established_expires_too() -> None:
    made = session()
    made.receive(packet(State.DOWN, 0), 0.0)
    made.tick(3.0)
    assert (made.state, made.is_lost, made.was_up) == (State.DOWN, False, False)


def test_a_fast_session_slows_down_when_it_fails() -> None:
    pair = link(FAST, FAST)
    pair.run(3.0)
    assert all(end.send_seconds == 0.2 for end in pair.ends)
    pair.passes = (True, False)
    pair.run(3.0)
    assert pair.states == (State.DOWN, State.INIT)  # the second hears the first, which is down
    assert all(end.send_seconds == 1.0 for end in pair.ends)


def test_a_peer_that_wants_no_packets_gets_none() -> None:
    made = up()
    made.receive(packet(State.UP, min_rx=0), 0.0)
    assert made.tick(2.0) == []
    assert made.deadline == 3.0  # the detection time
    (sent,) = made.tick(3.0)  # the peer may have restarted
    assert (sent.state, sent.your_discriminator) == (State.DOWN, 0)


def test_demand_mode_of_the_peer() -> None:
    made = up()
    made.receive(packet(State.UP, demand=True), 0.0)
    assert made.tick(2.0) == []
    (answer,) = made.receive(packet(State.UP, demand=True, poll=True), 2.5)
    assert answer.final
    made.tick(5.5)
    assert made.state is State.DOWN
    assert made.tick(6.5)


# --- Poll Sequences -----------------------------------------------------------------------------------------------------


def test_a_poll_is_answered_with_final() -> None:
    made = up()
    (answer,) = made.receive(packet(State.UP, poll=True), 0.0)
    assert (answer.final, answer.poll, answer.state) == (True, False, State.UP)
    assert made.receive(packet(State.UP, final=True), 0.0) == []


def test_a_fast_session_polls_when_it_is_up() -> None:
    pair = link(FAST, FAST)
    pair.run(5.0)
    polls = [(sender, each) for _, sender, each in pair.sent if each.poll]
    assert {sender for sender, _ in polls} == {0, 1}
    assert all(each.state is State.UP and each.min_tx == 200_000 for _, each in polls)
    assert not any(each.poll for now, _, each in pair.sent if now > 3.0)  # confirmed
    slow = link()
    slow.run(5.0)
    assert not any(each.poll for _, _, each in slow.sent)


@pytest.mark.parametrize(("old", "new"), [(200_000, 800_000), (800_000, 200_000)])
def test_other_intervals_wait_for_the_peers_consent(old: int, new: int) -> None:
    made = up(Timing(old))
    made.receive(packet(State.UP, final=True, min_rx=100_000, min_tx=100_000), 0.0)
    made.configure(Timing(new), 0.0)
    # Until then the shorter interval is sent with, and the longer one is expected: no end misses a packet.
    assert made.send_seconds == 0.2
    assert made.detection_seconds == pytest.approx(2.4)
    (asking,) = made.tick(0.0)
    assert (asking.poll, asking.min_tx, asking.min_rx) == (True, new, new)
    made.receive(packet(State.UP, final=True, min_rx=100_000, min_tx=100_000), 0.1)
    assert made.send_seconds == new / 1e6
    assert made.detection_seconds == pytest.approx(3 * new / 1e6)
    assert not made.tick(1.0)[0].poll


def test_changed_intervals_on_both_ends() -> None:
    pair = link()
    pair.run(3.0)
    for end in pair.ends:
        end.configure(Timing(300_000, 2), pair.now)
    pair.run(10.0)
    pair.ends[0].configure(Timing(2_000_000, 4), pair.now)
    pair.run(20.0)
    assert pair.states == (State.UP, State.UP)
    assert not any(end.is_lost for end in pair.ends)
    assert [end.send_seconds for end in pair.ends] == [2.0, 2.0]
    assert [end.detection_seconds for end in pair.ends] == [4.0, 8.0]


def test_before_it_is_up_other_intervals_need_no_consent() -> None:
    made = session()
    made.configure(Timing(2_000_000), 0.0)
    made.configure(Timing(2_000_000), 0.0)
    (sent,) = made.tick(0.0)
    assert (sent.poll, sent.min_tx, made.send_seconds) == (False, 2_000_000, 2.0)


# --- when a next hop is lost --------------------------------------------------------------------------------------------


def test_a_peer_without_bfd_is_never_lost() -> None:
    made = session()
    for _ in range(100):
        made.tick(made.deadline)
    assert not made.is_lost
    made.receive(packet(State.DOWN, 0), 100.0)
    made.tick(200.0)
    assert not made.is_lost


@pytest.mark.parametrize("passes", [(False, False), (True, False), (False, True)])
def test_lost_within_the_detection_time_and_back(passes: tuple[bool, bool]) -> None:
    """Also if packets are lost in one direction alone."""
    pair = link()
    pair.run(3.0)
    pair.passes = passes
    pair.run(3.0)
    assert all(end.is_lost for end in pair.ends)
    pair.run(60.0)
    assert all(end.is_lost for end in pair.ends)
    pair.passes = (True, True)
    pair.run(2.0)
    assert pair.states == (State.UP, State.UP)
    assert not any(end.is_lost for end in pair.ends)


def test_a_peer_that_is_shut_down_on_purpose_is_not_lost() -> None:
    pair = link()
    pair.run(3.0)
    pair.deliver(0, pair.ends[0].end())
    assert pair.ends[1].state is State.DOWN
    pair.passes = (False, False)
    pair.run(60.0)
    assert not pair.ends[1].is_lost


def test_a_lost_peer_may_say_that_it_is_shut_down() -> None:
    made = up()
    made.tick(3.0)
    assert made.is_lost
    made.receive(packet(State.ADMIN_DOWN, 0), 4.0)
    assert not made.is_lost


def test_an_ended_session_says_so_to_a_peer_that_it_knows() -> None:
    assert session().end() == []
    made = up()
    (last,) = made.end()
    assert (last.state, last.diagnostic) == (State.ADMIN_DOWN, Diagnostic.ADMIN_DOWN)
    assert made.tick(10.0) == []


# --- after a restart of the speaker --------------------------------------------------------------------------------------


def test_a_session_that_was_up_has_time_to_come_up_again() -> None:
    made = session()
    made.restore(is_lost=False, now=100.0)
    made.tick(100.0 + ESTABLISH_SECONDS - 0.1)
    assert not made.is_lost
    made.tick(100.0 + ESTABLISH_SECONDS)
    assert made.is_lost


def test_a_session_that_is_up_again_in_time_is_not_lost() -> None:
    made = session()
    made.restore(is_lost=False, now=0.0)
    made.receive(packet(State.DOWN, 0), 1.0)
    made.receive(packet(State.INIT), 1.0)
    for now in range(2, 30):
        made.receive(packet(State.UP), now)
        made.tick(now)
    assert not made.is_lost


def test_a_lost_session_stays_lost_until_it_is_up() -> None:
    made = session()
    made.restore(is_lost=True, now=0.0)
    made.tick(0.0)
    assert made.is_lost
    made.receive(packet(State.DOWN, 0), 1.0)
    assert made.is_lost
    made.receive(packet(State.INIT), 1.0)
    assert not made.is_lost
