"""Runs a program of ours in the virtual environment of the further services: one line of output for each step."""

from __future__ import annotations

import re
from pathlib import Path

from tests.openstack.checks.expect import CheckError, expect
from tests.openstack.cloud import Cloud
from tests.openstack.services_more.environment import more

MARK = "STEP "


def run_steps(cloud: Cloud, name: str, program: Path, arguments: list[str | Path]) -> int:
    """Run a program, report its steps, and return their number; CheckError with its last words if it fails."""
    with more(cloud):
        # -P: else a module of ours in the program's directory hides the package of that name.
        done = cloud.run([cloud.program("python"), "-P", program, *arguments], check=False)
    cloud.log(name).write_text(done.stdout + done.stderr)
    steps = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    for step in steps:
        cloud.say(f"{name} {step}")
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception|NotFound)\b", line)]
        raise CheckError(f"after {len(steps)} steps: {(reasons or ['ended'])[-1]}\n{done.stderr[-4000:]}")
    expect(steps, "the program did nothing")
    return len(steps)
