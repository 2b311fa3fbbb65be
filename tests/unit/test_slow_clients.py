"""Slow clients of the API: the front of a worker, and which connections are too slow."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from neutrino.cli.slow_clients import rules
from neutrino.cli.slow_clients.front import (
    MAX_BODIES,
    MAX_STREAMS,
    READ_TO_THE_END,
    SHARE,
    Front,
    InProgress,
    Started,
)
from neutrino.cli.slow_clients.rules import Limits, Track
from neutrino.cli.slow_clients.sockets import Sample

LIMITS = Limits(30, 1000)
CLIENT = "192.0.2.1"


class Pipe:
    """A body that arrives when the test says so. `waits` is set once it is being read."""

    def __init__(self) -> None:
        self.waits, self.arrives = threading.Event(), threading.Event()

    def read(self, size: int) -> bytes:
        self.waits.set()
        self.arrives.wait(30)
        return b"x" * size


class App:
    """Answers with the body that it was given; a path `/stream` in parts."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        self.bodies.append(environ["wsgi.input"].read())
        return iter([b"a", b"b"]) if environ["PATH_INFO"] == "/stream" else [b"done"]


def make(app: Any, threads: int = 1, max_body: int = 1000) -> Front:
    return Front(app, threads, max_body, lambda: None, lambda: None)


def ask(
    front: Front, body: Any = b"", path: str = "/", length: int | None = None, address: str = CLIENT
) -> tuple[str, Any]:
    answered: list[str] = []
    if isinstance(body, bytes):
        length, body = len(body) if length is None else length, io.BytesIO(body)
    environ = {"REMOTE_ADDR": address, "PATH_INFO": path, "wsgi.input": body}
    environ |= {"CONTENT_LENGTH": str(length)} if length is not None else {"HTTP_TRANSFER_ENCODING": "chunked"}
    answer = front(environ, lambda status, headers: answered.append(status))
    return answered[-1], answer


@pytest.fixture
def waiting() -> Iterator[tuple[Front, App, list[Pipe]]]:
    """A front with one thread, and as many requests of one client that wait for their body as it takes."""
    app, pipes = App(), [Pipe() for _ in range(int(MAX_BODIES * SHARE))]
    front = make(app)
    threads = [threading.Thread(target=ask, args=(front, pipe), kwargs={"length": 5}) for pipe in pipes]
    for thread, pipe in zip(threads, pipes, strict=True):
        thread.start()
        assert pipe.waits.wait(30)
    yield front, app, pipes
    for pipe in pipes:
        pipe.arrives.set()
    for thread in threads:
        thread.join(30)


def test_a_request_takes_its_thread_once_its_body_is_complete(waiting: tuple[Front, App, list[Pipe]]) -> None:
    front, app, pipes = waiting
    assert ask(front) == ("200 OK", [b"done"])
    assert ask(front, b"{}")[0].startswith("503 ")  # one more may not wait
    assert ask(front, b"{}", address="192.0.2.2") == ("200 OK", [b"done"])
    assert {each.address for each in front.in_progress.bodies.values()} == {CLIENT}
    pipes[0].arrives.set()
    while len(app.bodies) < 3:
        threading.Event().wait(0.01)
    assert app.bodies == [b"", b"{}", b"xxxxx"]


def test_large_lists_that_are_being_sent_are_bounded() -> None:
    front = make(App())
    share = int(MAX_STREAMS * SHARE)
    streams = [ask(front, path="/stream")[1] for _ in range(share)]
    status, answer = ask(front, path="/stream")
    assert status.startswith("503 ")
    assert b"large lists" in answer[0]
    assert ask(front)[0] == "200 OK"
    others = [ask(front, path="/stream", address=f"192.0.2.{n}") for n in range(10, 11 + MAX_STREAMS - share)]
    assert [status[:3] for status, _ in others] == ["200"] * (MAX_STREAMS - share) + ["503"]
    others[0][1].close()
    assert list(streams[0]) == [b"a", b"b"]
    streams[0].close()
    assert ask(front, path="/stream")[0] == "200 OK"


@pytest.mark.parametrize("length", [0, 5, 1000, 1001, 5000])
def test_what_the_application_gets_of_a_body(length: int) -> None:
    for stated in (length, None):  # None: chunked
        app, body = App(), io.BytesIO(b"x" * length)
        assert ask(make(app), body, length=stated)[0] == "200 OK"
        assert app.bodies == [b"x" * min(length, 1001)]  # one more than the limit, which it refuses
        assert body.read() == b""


def test_a_body_that_is_much_too_large_is_not_read() -> None:
    app, body = App(), io.BytesIO(b"x" * 10)
    assert ask(make(app), body, length=READ_TO_THE_END + 1)[0] == "200 OK"
    assert body.read() == b"x" * 10


def test_an_incomplete_body_is_not_handled() -> None:
    app = App()
    assert ask(make(app), b"xx", length=5)[0].startswith("408 ")
    assert app.bodies == []


# --- which connections are too slow -----------------------------------------------------------------------------------


def sample(received: int = 100, sent: int = 0, acknowledged: int = 0, unsent: int = 0, **ago: float) -> Sample:
    """`ago`: sent_ago, received_ago."""
    times = {"sent_ago": 100.0, "received_ago": 0.0, **ago}
    return Sample(1, CLIENT, received, sent, acknowledged, unsent, **times)


def judged(*samples: tuple[float, Sample], progress: InProgress | None = None) -> list[bool]:
    """Whether the connection is too slow, at each of these times."""
    track: Track | None = None
    found = []
    for now, each in samples:
        track = rules.follow(track, each, now)
        found.append(rules.too_slow(track, each, LIMITS, progress or InProgress(), now))
    return found


def test_an_idle_connection_is_not_slow() -> None:
    assert judged((0, sample(0)), (10_000, sample(0))) == [False, False]
    answered = sample(100, 500, 500, sent_ago=1, received_ago=2)
    assert judged((0, sample()), (1, answered), (10_000, answered)) == [False] * 3


def test_a_request_that_does_not_arrive() -> None:
    assert judged((0, sample()), (9, sample()), (11, sample(received_ago=11))) == [False, False, True]
    # On a connection that has been used: the second request came with or after the answer to the first.
    used = sample(200, 500, 500, sent_ago=5, received_ago=4)
    assert judged((0, sample()), (1, used), (20, used)) == [False, False, True]


def test_a_request_above_the_rate_is_limited_by_its_time() -> None:
    fast = [(float(now), sample(now * 2000 + 1)) for now in range(40)]
    assert judged(*fast) == [False] * 31 + [True] * 9
    slow = [(float(now), sample(now * 500 + 1)) for now in range(40)]
    assert judged(*slow).index(True) == 21  # at 20 it has had 10 + 20 * 500 / 1000


def test_a_request_that_is_handled_is_not_slow() -> None:
    handled = InProgress(handled={1: Started(CLIENT, 1.0)})
    assert judged((0, sample()), (100, sample(received_ago=99)), progress=handled) == [False, False]
    other = InProgress(handled={1: Started("192.0.2.2", 1.0)})
    assert judged((0, sample()), (100, sample(received_ago=99)), progress=other) == [False, True]


def test_beside_other_requests_of_its_address_a_client_is_closed_later() -> None:
    """It sends a byte at times, and at each of these times another request is handled."""
    track: Track | None = None
    closed = []
    for now in range(100):
        each = sample(100 + now)
        track = rules.follow(track, each, now)
        if rules.too_slow(track, each, LIMITS, InProgress(handled={1: Started(CLIENT, now - 0.1)}), now):
            closed.append(now)
    assert closed[0] == 61


def test_a_client_that_does_not_read() -> None:
    def answer(acknowledged: int) -> Sample:
        return sample(100, 50_000, acknowledged, 1_000_000, sent_ago=1, received_ago=2)

    assert judged((0, answer(0)), (9, answer(0)), (11, answer(0))) == [False, False, True]
    assert not any(judged(*((float(now), answer(now * 1000)) for now in range(100))))  # slowly, at the least rate


def test_a_client_that_reads_small_answers_is_not_slow() -> None:
    """Each sample happens to see an answer that is on its way, over a slow link."""
    each = [(float(n), sample(n * 100, n * 300, (n - 1) * 300, sent_ago=0.1, received_ago=0.2)) for n in range(1, 200)]
    assert not any(judged(*each))


def test_a_connection_that_looks_idle_and_holds_a_thread() -> None:
    idle = sample(100, 500, 500, sent_ago=70, received_ago=70)
    tracks = {1: Track(0.0, 500, 100)}
    progress = InProgress(bodies={1: Started(CLIENT, 1.0)})
    assert rules.holding_threads(tracks, [idle], LIMITS, progress, 60.0) == set()
    assert rules.holding_threads(tracks, [idle], LIMITS, progress, 62.0) == {1}
    newer = {1: Track(30.0, 500, 100)}
    assert rules.holding_threads(newer, [idle], LIMITS, progress, 62.0) == set()
    handled = InProgress(progress.bodies, {2: Started(CLIENT, 61.0)})
    busy = sample(100, 500, 500, sent_ago=70, received_ago=1)
    assert rules.holding_threads(tracks, [busy], LIMITS, handled, 62.0) == set()


def test_the_longest_idle_connections_make_room() -> None:
    samples = [Sample(n, CLIENT, 100, 500, 500, 0, sent_ago=float(n), received_ago=float(n) + 1) for n in range(100)]
    tracks = {n: Track(0.0, 500, 100, receiving=rules.Phase(0.0, 0) if n == 99 else None) for n in range(100)}
    assert rules.surplus(tracks, samples, 200, InProgress(), 1.0) == set()
    assert rules.surplus(tracks, samples, 128, InProgress(), 1.0) == {98, 97, 96, 95}  # 99 has a request
    assert rules.surplus(tracks, samples, 0, InProgress(), 1.0) == set(range(99))
    assert rules.surplus(tracks, samples, 0, InProgress(), 3.0) == set(range(100))  # which does not arrive
    handled = InProgress(handled={1: Started(CLIENT, 3.0 - 100.0)})
    assert rules.surplus(tracks, samples, 0, handled, 3.0) == set(range(99))
