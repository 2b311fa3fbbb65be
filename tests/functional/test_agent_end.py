"""The end of an agent's process: in time, whatever its threads wait for."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.support.launcher import PROGRAM
from tests.support.neutrino import configuration

QUITTING = 1
HANGS = 120  # seconds, for which the agent waits for the switch
ENDS = 40.0  # seconds, on a busy machine


def test_an_agent_ends_after_quitting_rpc_timeout_while_the_switch_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "credential").write_text("secret")
    settings: dict[str, dict[str, object]] = {
        "DEFAULT": {"host": "h1", "state_path": tmp_path / "agent", "roles": "l2"},
        "agent": {"quitting_rpc_timeout": QUITTING},
        "feed": {"server": f"unix:{tmp_path}/feed.sock", "credential_file": tmp_path / "credential"},
        "ovs": {"ovsdb_connection": f"unix:{tmp_path}/db.sock", "ovsdb_timeout": HANGS},
    }
    (tmp_path / "agent.conf").write_text(configuration(settings))
    with socket.socket(socket.AF_UNIX) as database:
        database.bind(str(tmp_path / "db.sock"))
        database.listen()
        database.settimeout(60)
        argv = [str(PROGRAM), "agent", "--config-file", str(tmp_path / "agent.conf")]
        agent = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            with database.accept()[0]:  # from here on, the agent waits for an answer
                began = time.monotonic()
                agent.send_signal(signal.SIGTERM)
                log, _ = agent.communicate(timeout=ENDS)
        finally:
            agent.kill()
            agent.wait()
    assert time.monotonic() - began >= QUITTING
    assert agent.returncode == 0
    assert f"work is not completed after quitting_rpc_timeout={QUITTING} seconds" in log
