"""Questions to hosts as queries over the feed: causes of missing answers, answers of other releases, one try per trace."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from neutrino.model.trace import QUERY, Cause, HostAnswer, Packet, Point, PointKind, Question
from neutrino.server.hosts.queries import NoAnswer as NotAnswered
from neutrino.server.hosts.queries import Reason
from neutrino.server.trace.ask import AskOnce, NoAnswer
from neutrino.server.trace.host_ask import MOST_EXITS, MOST_OBSERVATIONS, MOST_SECONDS, HostAsk

QUESTION = Question(
    point=Point(kind=PointKind.PORT, port_id="p"),
    packet=Packet(
        eth_src="02:00:00:00:00:01",
        eth_dst="02:00:00:00:00:02",
        source="10.0.0.1",
        destination="10.0.0.2",
        protocol=1,
    ),
)
ANSWER = HostAnswer(position=7, drift=("flow",))


class Queries:
    def __init__(self, result: bytes | NotAnswered) -> None:
        self.result = result
        self.asked: list[tuple[Any, ...]] = []

    def ask(self, *question: Any) -> bytes:
        self.asked.append(question)
        if isinstance(self.result, NotAnswered):
            raise self.result
        return self.result


def ask(result: bytes | NotAnswered) -> tuple[Queries, HostAsk]:
    queries = Queries(result)
    return queries, HostAsk(queries)  # type: ignore[arg-type]


def test_a_question_is_a_query_within_the_time_of_one_host() -> None:
    queries, asking = ask(msgspec.json.encode(ANSWER))
    assert asking("h1", QUESTION, 60.0) == ANSWER
    assert asking("h1", QUESTION, 0.5) == ANSWER
    (host, kind, question, seconds), (*_, shorter) = queries.asked
    assert (host, kind, seconds, shorter) == ("h1", QUERY, MOST_SECONDS, 0.5)
    assert msgspec.json.decode(question, type=Question) == QUESTION


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (Reason.DOWN, Cause.HOST_DOWN),
        (Reason.TIMEOUT, Cause.HOST_TIMEOUT),
        (Reason.BUSY, Cause.HOST_TIMEOUT),
        (Reason.ERROR, Cause.OTHER),
    ],
)
def test_why_there_is_no_answer(reason: Reason, cause: Cause) -> None:
    _, asking = ask(NotAnswered("h1", reason, "the reason"))
    with pytest.raises(NoAnswer, match="the reason") as caught:
        asking("h1", QUESTION, 1.0)
    assert caught.value.cause is cause


DEEP = b'{"later": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.mark.parametrize("answer", [b'{"exits": 5}', b"[]", b"null", b"{", b'{"position": 1e999}', DEEP])
def test_an_answer_that_is_not_understood(answer: bytes) -> None:
    _, asking = ask(answer)
    with pytest.raises(NoAnswer, match="not understood") as caught:
        asking("h1", QUESTION, 1.0)
    assert caught.value.cause is Cause.OTHER


PACKET = msgspec.to_builtins(QUESTION.packet)
HOSTILE: dict[str, dict[str, Any]] = {
    "destination: '999.1.1.1'": {"exits": [{"packet": PACKET | {"destination": "999.1.1.1"}}]},
    "source: 'x'": {"exits": [{"packet": PACKET}, {"packet": PACKET | {"source": "x"}}]},
    "eth_dst: ''": {"exits": [{"packet": PACKET | {"eth_dst": ""}}]},
    "destination_port: 65536": {"exits": [{"packet": PACKET | {"destination_port": 65536}}]},
    "different IP versions": {"exits": [{"packet": PACKET | {"source": "2001:db8::1"}}]},
    "point.peer: 'x'": {"exits": [{"packet": PACKET, "point": {"kind": "tunnel", "peer": "x"}}]},
    "position: -1": {"position": -1},
    "position: 9{30}": {"position": int("9" * 30)},
    "table: 256": {"observations": [{"source": "", "where": "", "effect": "", "table": 256}]},
    "exits": {"exits": [{"packet": PACKET}] * (MOST_EXITS + 1)},
    "observations": {"observations": [{"source": "", "where": "", "effect": ""}] * (MOST_OBSERVATIONS + 1)},
    "differences": {"drift": ["flow"] * (MOST_OBSERVATIONS + 1)},
}


@pytest.mark.parametrize("found", HOSTILE)
def test_an_answer_that_is_not_valid(found: str) -> None:
    """A host that was taken over makes no trace fail: it counts as one that has not answered."""
    _, asking = ask(json.dumps(HOSTILE[found]).encode())
    with pytest.raises(NoAnswer, match=f"not valid: .*{found}|not understood: .*position") as caught:
        asking("h1", QUESTION, 1.0)
    assert caught.value.cause is Cause.OTHER


def test_a_host_that_has_not_answered_is_asked_once_per_trace() -> None:
    queries, asking = ask(NotAnswered("h1", Reason.TIMEOUT, "late"))
    once = AskOnce(asking)
    for _ in range(3):
        with pytest.raises(NoAnswer, match="late"):
            once("h1", QUESTION, 1.0)
    assert len(queries.asked) == 1
    queries.result = msgspec.json.encode(ANSWER)
    assert once("h2", QUESTION, 1.0) == ANSWER
    assert once("h2", QUESTION, 1.0) == ANSWER
    assert len(queries.asked) == 3
