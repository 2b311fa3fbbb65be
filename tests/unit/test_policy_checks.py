"""Policy checks of other packages are loaded when a rule uses one, and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest
from oslo_policy import _checks, _external, _parser

from neutrino.server.policy.checks import load_extension_checks_lazily

PROGRAM = """
import sys
from oslo_policy import _parser
from neutrino.server.policy.checks import load_extension_checks_lazily
load_extension_checks_lazily()
_parser.parse_rule("role:admin and project_id:%(project_id)s")
assert "requests" not in sys.modules
_parser.parse_rule("http://127.0.0.1/allowed")
assert "requests" in sys.modules
"""


def test_a_rule_gets_the_check_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_checks, "extension_checks", None)
    load_extension_checks_lazily()
    rule = _parser.parse_rule("https://127.0.0.1/allowed")
    assert isinstance(rule, _external.HttpsCheck)
    assert str(rule) == "https://127.0.0.1/allowed"


def test_nothing_is_loaded_for_rules_without_one() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
