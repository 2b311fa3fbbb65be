"""A feature of another package, found by its entry points: its resource, table, history, quota, kind and flows.

In a process of its own, as the features and tables that are installed are those of a process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.databases import prepared_database

ENTRY_POINTS = """
[neutrino.features]
rate_limit = tests.third_party.rate_limit.feature:FEATURE

[neutrino.agent.l2_extensions]
rate_limit = tests.third_party.rate_limit.extension:RateLimits
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"])
def test_a_feature_of_another_package(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    info = tmp_path / "site" / "rate_limit-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rate-limit\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    command = [
        sys.executable,
        "-m",
        "tests.third_party.check",
        str(tmp_path),
        prepared_database(request, database, tmp_path),
    ]
    path = f"{tmp_path / 'site'}:{ROOT}"
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"all checks have passed\n"
