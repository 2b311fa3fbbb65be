"""Takeover of a host of Neutron's agents, as server and host speak of it: questions through the feed, and what they answer.

A question never waits for work: it starts one, or asks how far it is. To start one it has to name the ticket of an answer
of the last minute, so that a question that was left over, or is sent again, starts nothing.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

QUERY: Final = "takeover"  # kind of the query to a host
MAX_TEXT: Final = 2000  # characters of one line
MAX_LINES: Final = 200  # in one answer
MAX_TICKET: Final = 64

Line = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Short = Annotated[str, msgspec.Meta(max_length=MAX_TICKET)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Action(StrEnum):
    CONVERT = "convert"
    BACK = "back"
    DRY_RUN = "dry-run"
    COMPARE = "compare"
    SHADOW = "shadow"  # shows what the agent has compared by itself


CHANGING: Final = frozenset({Action.CONVERT, Action.BACK})


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    action: Action
    ticket: Short = ""  # start the work; empty: show it
    stop_agents: bool = False  # stop Neutron's agents before the conversion
    after: Count = 0  # lines of the work that are known


class WorkState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A work of the host that runs, or has ended."""

    id: Short  # the ticket by which it was started; another one if it was started on the host
    seconds: Seconds = 0.0
    lines: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_LINES)] = ()  # from `after` on
    total: Count = 0  # lines so far
    status: int | None = None  # as the command on the host exits; None: it runs
    text: Line = ""  # how it has ended
    given_back: bool = False  # it has failed, and the host is Neutron's again


class HostTakeover(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a host."""

    phase: Short = ""  # converting, converted, returning; empty: the host is Neutron's, or never was
    ticket: Short = ""  # starts a work
    work: WorkState | None = None  # the last one of the action that was asked for
    refused: Line = ""  # why the question has started nothing


class Compared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent that is held beside Neutron's has compared by itself, last."""

    at: Short = ""  # when, in UTC
    ports: Count = 0
    of_ports: Count = 0  # that are to be compared: in a limited time it may be fewer
    packets: Count = 0
    differing: Count = 0
    changes: Count = 0  # that a conversion would make
    problems: Count = 0  # of objects that a conversion could not wire
    differences: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_LINES)] = ()  # the first ones
    error: Line = ""  # why nothing could be compared


def line(text: str) -> str:
    """A text of any origin as one printable line that is not too long."""
    return "".join(each if each.isprintable() else " " for each in text[:MAX_TEXT])
