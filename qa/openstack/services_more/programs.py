"""Runs a program of ours in the virtual environment of the further services: one line of output for each step."""

from __future__ import annotations

import re
from pathlib import Path

from qa.openstack.checks.expect import CheckError, expect
from qa.openstack.cloud import Cloud
from qa.openstack.services_more.environment import more

MARK = "STEP "
SECONDS = 900.0  # some hundred requests and tokens, on a busy machine


def run_steps(cloud: Cloud, name: str, program: Path, arguments: list[str | Path]) -> int:
    """Run a program, report its steps, and return their number; CheckError with its last words if it fails."""
    log = cloud.log(name)
    with more(cloud):
        # -P: else a module of ours in the program's directory hides the package of that name.
        argv = [cloud.program("python"), "-P", program, *arguments]
        status = cloud.run(["sh", "-c", 'exec "$@" >"$0" 2>&1', log, *argv], check=False, seconds=SECONDS).returncode
    output = log.read_text(errors="replace")
    steps = [line.removeprefix(MARK) for line in output.splitlines() if line.startswith(MARK)]
    for step in steps:
        cloud.say(f"{name} {step}")
    if status:
        reasons = [line for line in output.splitlines() if re.match(r"[\w.]+(Error|Exception|NotFound)\b", line)]
        raise CheckError(f"after {len(steps)} steps: {(reasons or ['ended'])[-1]}\nend of {log}:\n{output[-4000:]}")
    expect(steps, "the program did nothing")
    return len(steps)
