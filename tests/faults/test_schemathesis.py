"""Schemathesis generates requests from the OpenAPI document: no response may have a 5xx status.

Responses must also match their schema. It runs against a server of its own, with real workers and sockets, on PostgreSQL,
the strictest about column values; `tests/api/test_odd_values.py` tries what databases differ in on each of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.databases import prepared_database
from tests.support.neutrino import Neutrino

CHECKS = "not_a_server_error,status_code_conformance,response_schema_conformance,content_type_conformance"
NO_LIMITS: dict[str, object] = {
    f"quota_{name}": -1
    for name in ("network", "subnet", "port", "security_group", "security_group_rule", "rbac_policy")
}
PROGRAM = Path(sys.executable).with_name("st")
SECONDS = 20


@pytest.mark.slow
@pytest.mark.postgres
def test_no_request_fails(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = prepared_database(request, "postgresql", tmp_path)
    settings: dict[str, dict[str, object]] = {
        "database": {"connection": url},
        "quotas": NO_LIMITS,
        "feed": {"run": True},
    }
    with Neutrino(settings, workers=2) as server:
        done = subprocess.run(
            [
                *(PROGRAM, "run", f"{server.url}/openapi.json", "--no-color", "--checks", CHECKS),
                *("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "2", "--max-time", str(SECONDS)),
                # More workers than one upset the generator under Python 3.11; what is slow is the generator anyway.
                *("--workers", "1", "--seed", "20260101", "--suppress-health-check", "all", "--continue-on-failure"),
                *("--generation-database", "none", "--request-timeout", "30", "--warnings", "off"),
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS * 5 + 120,
            check=False,
        )
        log = server.log
    assert done.returncode == 0, f"{done.stdout.decode(errors='replace')[-12000:]}\n\n{log[-8000:]}"
    assert "Traceback" not in log
