"""The table of docs/trace.md: the situations in which traces are compared with packets. `python -m` writes it."""

from __future__ import annotations

from pathlib import Path

from tests.support.lab_trace import OUTSIDE
from tests.support.trace_situations import firewalls, table
from tests.support.trace_situations.table import SITUATIONS, S

PAGE = Path(__file__).parents[2] / "docs" / "trace.md"
MARK = "<!-- the rest is written by python -m tests.support.trace_document -->\n"
TABLE = """
### {}

| situation | from | to | packet | packets arrive | trace |
|---|---|---|---|---|---|
"""
TITLES = {
    "One network": table.ONE_NETWORK,
    "Guards": table.GUARDS,
    "Security groups": table.RULES,
    "Ports": table.STATES,
    "Addresses of several ports": table.VIRTUAL_ADDRESSES,
    "Routers of every kind": table.ROUTERS,
    "The outside": table.OUTSIDES,
    "Routes": table.ROUTES,
    "Firewall groups, and security groups behind routers": table.FIREWALLS,
    "Firewall groups on distributed routers": firewalls.DISTRIBUTED,
    "VPN": table.VPN,
    "Faults": table.FAULTS,
}


def render_page() -> str:
    assert sum(map(len, TITLES.values())) == len(SITUATIONS)
    tables = "".join(TABLE.format(title) + "".join(map(_row, rows)) for title, rows in TITLES.items())
    head, mark, _ = PAGE.read_text().partition(MARK)
    assert mark, f"{PAGE.name} has no line {MARK}"
    return f"{head}{MARK}\n{len(SITUATIONS)} situations.\n{tables}"


def _row(situation: S) -> str:
    source = "outside" if situation.source == OUTSIDE else situation.source
    cells = situation.name, source, situation.to, situation.packet.words, _arrives(situation), _trace(situation)
    return f"| {' | '.join(cells)} |\n"


def _arrives(situation: S) -> str:
    return "yes" if situation.arriving else "no"


def _trace(situation: S) -> str:
    there = _words(situation.wanted, situation.cause)
    back = situation.wanted_reply
    if back is None or (back, situation.reply_cause) == ("delivered", ""):
        return there
    return f"{there}; reply {_words(back, situation.reply_cause)}"


def _words(verdict: str, cause: str) -> str:
    return f"{verdict} (`{cause}`)" if cause else verdict


if __name__ == "__main__":
    PAGE.write_text(render_page())
