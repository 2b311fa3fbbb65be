"""`neutrino policy check`: findings of a policy file, and the exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from neutrino.cli.main import main


def configured(path: Path, text: str = "") -> str:
    file = path / "server.conf"
    file.write_text(f"[DEFAULT]\nauth_strategy = noauth\nstate_path = {path / 'state'}\n{text}")
    return str(file)


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ('"get_network": "role:auditor"\n', 0, "valid"),
        ("", 0, "valid"),
        ('"get_network": "role:reader\n', 1, "error: "),
        ('"get_network": "role:reader and"\n', 1, "'get_network': 'role:reader and' is not a valid check"),
        ('"create_netwrok": "role:reader"\n', 1, "warning: "),
        ('"get_network": "rule:undefined"\n', 1, "there is no rule 'undefined'"),
        ('"get_port:pvlan_type": "role:reader"\n', 1, "there is no such rule"),
    ],
)
def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: int, words: str) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(text)
    assert main(["policy", "check", str(file), "--config-file", configured(tmp_path)]) == status
    shown = capsys.readouterr()
    assert words in shown.out
    assert str(file) in shown.out
    assert shown.err == ""


def test_the_files_of_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["policy", "check", "--config-file", configured(tmp_path)]
    assert main(arguments) == 0
    assert "default rules apply" in capsys.readouterr().out
    (tmp_path / "policy.yaml").write_text('"get_network": "@"\n')
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d" / "more.yaml").write_text('"get_netwrok": "@"\n')
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "more.yaml" in shown
    assert "policy.yaml" not in shown
    configured(tmp_path, "[oslo_policy]\npolicy_file = gone.yaml\n")
    assert main(arguments) == 1
    assert "gone.yaml: [oslo_policy] policy_file does not exist" in capsys.readouterr().out


def test_a_file_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", str(tmp_path / "gone.yaml"), "--config-file", configured(tmp_path)]) == 2
    assert "gone.yaml" in capsys.readouterr().err
