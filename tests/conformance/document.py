"""Generate the tables of docs/conformance.md from the data of the tests.

python -m tests.conformance.document
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from neutrino.configuration import neutron_options
from neutrino.configuration.neutron_values import TABLE
from tests.conformance import remaining
from tests.conformance.differences import DIFFERENCES
from tests.conformance.missing import MISSING, OTHER_PROJECTS
from tests.conformance.recording.exchange import read_recording
from tests.conformance.recording.replay import read_accepted
from tests.conformance.terraform import FUNCTIONS, MANAGED, NOT_HERE

DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"

_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written_anew(text: str) -> str:
    """The document with current tables."""
    tables = {
        "exchanges": _exchanges(),
        "attributes": _attributes(),
        "extensions": _extensions(),
        "terraform": _terraform(),
        "remaining": _remaining(),
    }
    return _TABLE.sub(lambda match: f"{match[1]}{tables[match[2]]}{match[3]}", text)


def _exchanges() -> str:
    recorded = {exchange.number: exchange.step for exchange in read_recording()}
    rows = []
    for number, reason in sorted(read_accepted().items()):
        step = recorded[number]
        rows.append((str(number), step.part, f"`{step.method} {step.path}`", reason))
    return _table(("exchange", "part", "request", "why it differs"), rows)


def _attributes() -> str:
    return _table(("attribute: aspect", "why it differs"), ((f"`{key}`", why) for key, why in DIFFERENCES.items()))


def _extensions() -> str:
    rows = ((what, ", ".join(f"`{alias}`" for alias in aliases.split())) for what, aliases in MISSING.items())
    return _table(("would come with", "aliases"), rows)


def _terraform() -> str:
    rows = [(f"`{name}`", f"`{MANAGED[name].path}`") for name in MANAGED]
    rows += [(f"`{name}`", "a part of another object") for name in FUNCTIONS]
    missing = [
        (", ".join(f"`{each}`" for each in names.split(", ")), f"not here: {what}") for names, what in NOT_HERE.items()
    ]
    return _table(("resource type", "managed at"), [*sorted(rows), *missing])


# --- all refusals and differences, in one table -------------------------------------------------------------------------


def _remaining() -> str:
    rows = (
        *(("request", *one) for one in remaining.STRICTER),
        *(("request", *one) for one in remaining.MORE_TOLERANT),
        *_answers(),
        *_attribute_reasons(),
        *(("extension", *one) for one in remaining.PARTLY),
        *_missing_extensions(),
        *(("driver for Neutron", *one) for one in remaining.DRIVERS),
        *_names(),
        *_options(),
        *_missing_options(),
    )
    return _table(("part", "what", "Neutron", "here", "reason"), rows)


def _answers() -> Iterator[Sequence[str]]:
    by_reason: dict[str, list[int]] = {}
    for number, reason in sorted(read_accepted().items()):
        by_reason.setdefault(reason, []).append(number)
    for reason, numbers in by_reason.items():
        yield (
            "answer",
            f"exchanges {_listed(numbers)} of the [recording](#the-recording)",
            "as recorded",
            "differs",
            reason,
        )


def _attribute_reasons() -> Iterator[Sequence[str]]:
    by_reason: dict[str, list[str]] = {}
    for key, reason in DIFFERENCES.items():
        by_reason.setdefault(reason, []).append(f"`{key}`")
    for reason, keys in by_reason.items():
        yield "attribute", ", ".join(keys), "as its definitions say", "differs", reason


def _missing_extensions() -> Iterator[Sequence[str]]:
    for reason, aliases in {**MISSING, **OTHER_PROJECTS}.items():
        yield "extension", ", ".join(f"`{alias}`" for alias in aliases.split()), "served", "not listed", reason


def _names() -> Iterator[Sequence[str]]:
    for (group, option), names in TABLE.items():
        by_reason: dict[str, list[str]] = {}
        for name, reason in names.missing.items():
            by_reason.setdefault(reason, []).append(f"`{name}`")
        for reason, refused in by_reason.items():
            yield (
                "name in an option",
                f"`[{group}] {option}`: {', '.join(refused)}",
                "loaded",
                "refused at the start",
                reason,
            )


def _options() -> Iterator[Sequence[str]]:
    for side, sections in neutron_options.REFUSED.items():
        for section, options in sections.items():
            for option, refusal in options.items():
                accepted = ", ".join(f"`{value}`" if value else "an empty value" for value in refusal.accepted)
                here = f"refused at the start of the {side}, other than {accepted}"
                yield "option", f"`[{section}] {option}`", "used", here, refusal.reason


def _missing_options() -> Iterator[Sequence[str]]:
    """Options that are accepted, though their function is not here."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for section, name in sorted(neutron_options.MISSING):
        by_reason.setdefault((section, neutron_options.reason(section, name) or ""), []).append(f"`{name}`")
    for (section, reason), names in by_reason.items():
        yield "option", f"`[{section}]` {', '.join(names)}", "used", "no effect, with a warning at the start", reason


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def main() -> int:
    DOCUMENT.write_text(written_anew(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
