"""The real `Ask`: a question to a host is a query over the feed (`server/hosts/queries.py`)."""

from dataclasses import dataclass
from typing import Final

import msgspec

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
            return _decode(answer)
        except msgspec.MsgspecError as error:  # of a later release
            raise NoAnswer(host, Cause.OTHER, f"its answer is not understood: {error}") from None
