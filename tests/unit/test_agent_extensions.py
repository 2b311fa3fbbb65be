"""Loading the extensions of an agent role from entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from neutrino.agent import config
from neutrino.errors import RefusedToStart

GROUP = "neutrino.agent.example_extensions"


class First:
    def __init__(self, *args: object) -> None:
        self.args = args


class Second(First):
    pass


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(n.lower(), f"{__name__}:{n}", GROUP) for n in ("First", "Second", "Missing")]
    monkeypatch.setattr(config.entry_points, "of_group", lambda group: points if group == GROUP else [])


def test_extensions_are_instances_in_the_order_of_the_names() -> None:
    second, first = config.load_extensions(GROUP, ["second", "first"], 7)
    assert isinstance(second, Second)
    assert isinstance(first, First)
    assert first.args == (7,)


def test_an_unknown_name_is_refused_in_one_line_that_lists_what_is_installed() -> None:
    with pytest.raises(RefusedToStart) as refused:
        config.load_extensions(GROUP, ["qos"])
    assert str(refused.value) == (
        f"extension 'qos' is not installed as entry point of {GROUP} (installed: first, missing, second)"
    )


def test_an_extension_that_cannot_be_loaded_is_refused_by_its_name() -> None:
    with pytest.raises(RefusedToStart, match=r"extension 'missing' of .* cannot be loaded: AttributeError"):
        config.load_extensions(GROUP, ["missing"])
