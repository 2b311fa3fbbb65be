"""Commands whose output is not read to its end, as by `neutrino status | head`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from neutrino.cli.errors import BROKEN_PIPE

PROGRAM = """
import sys
from neutrino.cli import main

def large(args):
    print("x" * 1_000_000)
    return 1

main.COMMANDS["history"] = "__main__:large"
sys.exit(main.main(["history", "port", "x"]))
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_enough_is_no_error(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == BROKEN_PIPE
