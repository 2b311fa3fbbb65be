"""The question to a host, as a callable: the dataplane's part of a trace, seen from the server.

`collect.py` follows a packet over any `Ask`. The real one sends queries over the feed; tests have one of their own.
"""

from dataclasses import dataclass, field
from typing import Protocol

from neutrino.model.trace import Cause, HostAnswer, Question


class NoAnswer(Exception):
    """A host did not answer, or could not."""

    def __init__(self, host: str, cause: Cause, reason: str) -> None:
        self.host = host
        self.cause = cause  # HOST_DOWN, HOST_TIMEOUT, DATAPLANE_DOWN or OTHER
        self.reason = reason
        super().__init__(f"host {host}: {reason}")


class Ask(Protocol):
    def __call__(self, host: str, question: Question, seconds: float) -> HostAnswer:
        """The answer of a host's dataplane; raises `NoAnswer` if there is none within the time."""
        ...


@dataclass(frozen=True)
class AskOnce:
    """An `Ask` for one trace: a host that has not answered is not asked again, which would take the time of the others."""

    ask: Ask
    _failed: dict[str, NoAnswer] = field(default_factory=dict)

    def __call__(self, host: str, question: Question, seconds: float) -> HostAnswer:
        if host in self._failed:
            raise self._failed[host]
        try:
            return self.ask(host, question, seconds)
        except NoAnswer as failure:
            self._failed[host] = failure
            raise
