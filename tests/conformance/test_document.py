"""The tables of docs/conformance.md match the data of the tests."""

from __future__ import annotations

from tests.conformance.document import DOCUMENT, written_anew
from tests.conformance.facts import CORE, OWN_ALIASES, aliases_of_lib
from tests.conformance.missing import MISSING, OTHER_PROJECTS
from tests.conformance.neutron_facts import NEUTRON
from tests.conformance.server import LiveServer


def test_the_tables_are_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.count("<!-- table: ") == 5
    assert written_anew(text) == text, "write them anew: python -m tests.conformance.document"


def test_every_extension_is_here_or_said_to_be_missing(server: LiveServer) -> None:
    here = {extension["alias"] for extension in server.ask("GET", "/v2.0/extensions")["extensions"]}
    missing = [alias for aliases in (*MISSING.values(), *OTHER_PROJECTS.values()) for alias in aliases.split()]
    assert sorted(here & set(missing)) == []
    assert len(missing) == len(set(missing))
    known = set(aliases_of_lib()) - set(CORE) - {"dummy"}
    assert sorted(known - here - set(missing)) == []
    assert sorted({*here, *missing} - known - set(NEUTRON) - OWN_ALIASES) == []
