"""The command line that benchmarks share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qa.bench import command
from qa.bench.client import LoadError


def document(raw: dict[str, Any]) -> str:
    return f"figure: {raw['figure']}\n"


def missed(raw: dict[str, Any]) -> list[str]:
    return ["figure"] if raw["figure"] > 1 else []


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "unwind_if_terminated", lambda: None)  # it would stay for the other tests


def run(arguments: list[str], figure: float, *, check: bool = True) -> int:
    options = command.parser("A benchmark.").parse_args(arguments)
    return command.run(options, lambda: {"figure": figure}, document, missed, check=check)


def test_figures_are_printed_written_and_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert run(["--out", str(file)], 1) == 0
    assert json.loads(file.read_text()) == {"figure": 1}
    assert run(["--show", str(file)], 5) == 0
    assert capsys.readouterr().out == "figure: 1\n" * 2


def test_a_figure_that_is_missed_is_named_and_fails_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert [run([], 2, check=check) for check in (True, False)] == [1, 0]
    assert capsys.readouterr().err == "missed: figure\n" * 2


def test_a_measurement_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> command.Raw:
        raise LoadError("the server is gone")

    file = tmp_path / "figures.json"
    options = command.parser(None).parse_args(["--out", str(file)])
    assert command.run(options, fail, document) == 1
    assert capsys.readouterr().err == "the measurement failed: the server is gone\n"
    assert not file.exists()
