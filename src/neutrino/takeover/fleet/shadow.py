"""What the agents that are held beside Neutron's have compared by themselves, as text. Pure but for the asking.

Reports have the first differences; all of them are asked for, from the hosts themselves. What hosts say is not trusted: it
is bounded, and printed without control characters.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from neutrino.model.takeover import QUERY, Action, Compared, HostTakeover, Question, line
from neutrino.server.hosts.queries import NoAnswer

SHOWN: Final = 3  # differences of a host
MAX_LINES: Final = 2500  # of a host, of those that are asked for: more than an agent keeps
_SECONDS: Final = 5.0


class Asks(Protocol):
    """`HostQueries` as it is used here."""

    def ask_all(self, kind: str, questions: Mapping[str, bytes], seconds: float) -> dict[str, bytes | NoAnswer]: ...


def comparison_lines(
    hosts: Mapping[str, Compared | None], every: Mapping[str, Collection[str]] | None = None
) -> Iterator[str]:
    """A line for each host with a held agent, and its differences: the first ones, or all of `every`."""
    if hosts:
        yield f"{len(hosts)} hosts have an agent that is held beside Neutron's, and compares:"
    for host, compared in sorted(hosts.items()):
        yield f"  {line(host)}: {_text(compared)}"
        if compared is not None and compared.differing:
            asked = every.get(host) if every is not None else None
            texts = [*asked] if asked is not None else [*compared.differences[:SHOWN]]
            yield from (f"    {line(text)}" for text in texts)
            if len(texts) < compared.differing:
                hint = "" if every is not None else ": --differences shows them"
                yield f"    and {compared.differing - len(texts)} more{hint}"


def _text(compared: Compared | None) -> str:
    if compared is None:
        return "not compared yet"
    at = f"{line(compared.at)}: " if compared.at else ""
    if compared.error:
        return f"{at}not compared: {line(compared.error)}"
    ports = f"{compared.ports}" + (f" of {compared.of_ports}" if compared.ports < compared.of_ports else "")
    problems = f", {compared.problems} objects have problems" if compared.problems else ""
    differing = f"{compared.differing} differ" if compared.differing != 1 else "1 differs"
    return (
        f"{at}{compared.packets} packets of {ports} ports, {differing}; a conversion would make {compared.changes} changes"
        f"{problems}"
    )


def read_differences(asks: Asks, hosts: Collection[str]) -> dict[str, list[str]]:
    """All differences of hosts; those that do not answer are not in it."""
    found: dict[str, list[str]] = {}
    waiting = {*hosts}
    while waiting:
        questions = {host: Question(action=Action.SHADOW, after=len(found.get(host, ()))) for host in waiting}
        answers = asks.ask_all(QUERY, {host: msgspec.json.encode(one) for host, one in questions.items()}, _SECONDS)
        waiting = set()
        for host, answer in answers.items():
            try:
                work = msgspec.json.decode(answer, type=HostTakeover).work if isinstance(answer, bytes) else None
            except (msgspec.MsgspecError, UnicodeDecodeError):
                work = None
            if work is None:
                continue
            texts = found.setdefault(host, [])
            texts += [line(text) for text in work.lines[: MAX_LINES - len(texts)]]
            if work.lines and len(texts) < min(work.total, MAX_LINES):
                waiting.add(host)
    return found
