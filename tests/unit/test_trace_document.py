"""docs/trace.md has the situations that the lab tries, and there are enough of them."""

from __future__ import annotations

from neutrino.model.trace import Cause
from neutrino.server.features import catalogue
from tests.support.trace_document import PAGE, render_page
from tests.support.trace_situations.table import SITUATIONS

ENOUGH = 80


def test_the_page_has_every_situation() -> None:
    assert PAGE.read_text() == render_page(), "run python -m tests.support.trace_document"


def test_situations_have_names_of_their_own_and_known_causes() -> None:
    names = [situation.name for situation in SITUATIONS]
    assert len(set(names)) == len(names) >= ENOUGH
    causes = {cause for each in SITUATIONS for cause in (each.cause, each.reply_cause) if cause}
    assert causes <= {cause.value for cause in Cause}
    assert causes <= catalogue().keys(), "a cause without advice"
