"""Processes that /proc does not show, as those of another unit with ProtectProc=invisible: they have not ended."""

import json
import os
import subprocess
import sys

# The code is loaded as root, as another user may not read this checkout; then as an unprivileged user, to whom a /proc with
# hidepid shows its own processes only.
SCRIPT = """
import json, os, sys
from neutrino.diagnosis.facts import MACHINE
from neutrino.server.status.processes import START, has_ended, machine, start_ticks
shown, killed = map(int, sys.argv[1:])
details = {MACHINE: machine(), START: start_ticks(shown)}
os.setgroups([])
os.setresgid(65534, 65534, 65534)  # a /proc with hidepid shows all to root's group
os.setresuid(65534, 65534, 65534)
print(json.dumps([start_ticks(shown), has_ended(shown, details), has_ended(killed, details)]))
"""


def test_a_process_that_is_hidden_has_not_ended_and_one_that_is_gone_has() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    mounted = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    command = [sys.executable, "-c", SCRIPT, str(os.getpid()), str(gone.pid)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, "sh", *command], check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == [None, False, True]
