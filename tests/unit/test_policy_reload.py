"""Edits of policy files take effect without a restart; unedited files keep the cached decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg
from oslo_policy import opts

from neutrino.server.context import Context
from neutrino.server.policy import authorizer as module
from neutrino.server.policy.authorizer import Authorizer

MEMBER = Context("p1", roles=frozenset({"member"}), credentials={"roles": ["member"], "project_id": "p1"})
RULE = "create_network"


class Evaluations:
    """An authorizer that looks at its files before each decision, and counts evaluated rules."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "RELOAD_SECONDS", -1.0)
        conf = cfg.ConfigOpts()
        conf([])
        opts.set_defaults(conf)  # registers the options
        conf.set_override("policy_file", str(path / "policy.yaml"), "oslo_policy")
        conf.set_override("policy_dirs", [str(path / "policy.d")], "oslo_policy")
        self.authorizer = Authorizer(conf)
        self.number = 0
        evaluate = self.authorizer._evaluate

        def counted(*arguments: Any) -> bool:
            self.number += 1
            return evaluate(*arguments)

        monkeypatch.setattr(self.authorizer, "_evaluate", counted)

    def allowed(self) -> bool:
        return self.authorizer.allows(MEMBER, RULE, {"project_id": "p1"})


@pytest.fixture(params=["policy.yaml", "policy.d/more.yaml"])
def edited(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.yaml").write_text('"get_network": "@"\n')
    path = tmp_path / str(request.param)
    path.write_text(f'"{RULE}": "@"\n')
    return path


def test_decisions_are_cached_until_a_file_is_edited(
    edited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations = Evaluations(tmp_path, monkeypatch)
    assert [evaluations.allowed() for _ in range(3)] == [True] * 3
    assert evaluations.number == 1
    edited.write_text(f'"{RULE}": "!"  # now forbidden\n')
    assert [evaluations.allowed() for _ in range(3)] == [False] * 3
    assert evaluations.number == 2
