"""Reads the Containerfile: instructions as values, for its tests; pure.

There is no container engine on a build machine: `make package-test` runs the instructions in copies of a bare Debian.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FLAG = re.compile(r"^--([a-z-]+)=(\S+)$")
KNOWN = frozenset(
    {
        "ARG",
        "FROM",
        "RUN",
        "COPY",
        "USER",
        "WORKDIR",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
        "ENV",
    }
)


class Invalid(ValueError):
    """An instruction that cannot be understood, with its line."""


@dataclass(frozen=True)
class Instruction:
    name: str
    text: str  # without the name
    line: int
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> Sequence[str]:
        """The arguments: of the form with brackets, or separated by spaces."""
        if self.text.startswith("["):
            try:
                found = json.loads(self.text)
            except ValueError as error:
                raise Invalid(f"line {self.line}: {self.name}: {error}") from None
            return [str(word) for word in found]
        return shlex.split(self.text)


@dataclass(frozen=True)
class Stage:
    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def last(self, name: str) -> Instruction:
        return [each for each in self.instructions if each.name == name][-1]


def parse(text: str) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    for each in _instructions(text):
        if each.name == "FROM":
            base, *named = each.words
            name = named[1] if len(named) == 2 and named[0].upper() == "AS" else f"stage-{len(stages)}"
            stages.append(Stage(base, name, ()))
        elif not stages:
            raise Invalid(f"line {each.line}: {each.name} before FROM")
        else:
            last = stages[-1]
            source = each.flags.get("from")
            if source is not None and source not in {stage.name for stage in stages[:-1]}:
                raise Invalid(f"line {each.line}: there is no stage {source} before this one")
            stages[-1] = Stage(last.base, last.name, (*last.instructions, each))
    return tuple(stages)


def _instructions(text: str) -> list[Instruction]:
    found, start, pending = [], 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not pending:
            start = number
        pending += line.rstrip()
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        found.append(_instruction(pending.strip(), start))
        pending = ""
    if pending:
        raise Invalid(f"line {start}: the last line is continued")
    return found


def _instruction(text: str, line: int) -> Instruction:
    name, _, rest = text.partition(" ")
    if name not in KNOWN:
        raise Invalid(f"line {line}: {name} is not an instruction")
    flags: dict[str, str] = {}
    rest = rest.strip()
    while (flag := FLAG.match(rest.partition(" ")[0])) is not None:
        flags[flag[1]] = flag[2]
        rest = rest.partition(" ")[2].strip()
    if not rest:
        raise Invalid(f"line {line}: {name} has no argument")
    return Instruction(name, rest, line, flags)
