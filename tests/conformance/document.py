"""Generate the tables of docs/conformance.md from the data of the tests.

python -m tests.conformance.document
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.conformance.differences import DIFFERENCES
from tests.conformance.missing import MISSING
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


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def main() -> int:
    DOCUMENT.write_text(written_anew(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
