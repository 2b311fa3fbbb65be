"""The real `Ask`: a question to a host is a query over the feed (`server/hosts/queries.py`)."""

from dataclasses import dataclass
from typing import Final

import msgspec

from neutrino.model import fields
from neutrino.model.trace import QUERY, Cause, HostAnswer, Question
from neutrino.server.hosts.queries import HostQueries, Reason
from neutrino.server.hosts.queries import NoAnswer as NotAnswered
from neutrino.server.trace.ask import NoAnswer

MOST_SECONDS: Final = 4.0  # for one host: one that does not answer leaves time for the others
CAUSES: Final = {
    Reason.DOWN: Cause.HOST_DOWN,
    Reason.TIMEOUT: Cause.HOST_TIMEOUT,
    Reason.BUSY: Cause.HOST_TIMEOUT,
    Reason.ERROR: Cause.OTHER,
}
# Above what a host gives (`agent/trace/trail.py`): a host that was taken over must not cost the server more.
MOST_EXITS: Final = 64
MOST_OBSERVATIONS: Final = 1000
_decode = msgspec.json.Decoder(HostAnswer).decode


@dataclass(frozen=True)
class HostAsk:
    queries: HostQueries

    def __call__(self, host: str, question: Question, seconds: float) -> HostAnswer:
        try:
            answer = self.queries.ask(host, QUERY, msgspec.json.encode(question), min(seconds, MOST_SECONDS))
        except NotAnswered as error:
            raise NoAnswer(host, CAUSES[error.reason], str(error)) from None
        try:
            decoded = _decode(answer)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:  # of a later release, or hostile
            raise NoAnswer(host, Cause.OTHER, f"its answer is not understood: {error}") from None
        if found := fault(decoded):
            raise NoAnswer(host, Cause.OTHER, f"its answer is not valid: {found}")
        return decoded


def fault(answer: HostAnswer) -> str:
    """What is wrong with an answer; empty if nothing is. Addresses of a valid one can be parsed and compared."""
    if len(answer.exits) > MOST_EXITS:
        return f"it has more than {MOST_EXITS} exits"
    if max(len(answer.observations), len(answer.drift), len(answer.problems)) > MOST_OBSERVATIONS:
        return f"it has more than {MOST_OBSERVATIONS} observations, differences or problems"
    if found := fields.fault(answer):
        return found
    mixed = any((":" in each.packet.source) != (":" in each.packet.destination) for each in answer.exits)
    return "the source and the destination of a packet are of different IP versions" if mixed else ""
