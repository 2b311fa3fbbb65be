"""The tests pass on a machine with devices, switches and servers that have the names and ports of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.machine import Machine
from tests.support.openvswitch import OpenVSwitch

ROOT = Path(__file__).parents[2]
LOOKING = (
    "tests/lab/test_lab.py::test_three_hosts_are_created_and_removed_completely",  # checks for leftover devices
    "tests/functional/test_dataplane_conntrack.py::test_several_datapaths_require_a_name",  # a bridge of type netdev
)


class SwitchOfAnother(OpenVSwitch):
    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def spawn(self, argv: Sequence[str | Path], *args: Any, **options: Any) -> None:
        super().spawn(self._machine.inside([str(part) for part in argv]), *args, **options)


def test_names_that_are_taken_on_the_machine_are_no_hindrance() -> None:
    with Machine() as machine, SwitchOfAnother(machine) as switch:
        for name in ("br-ex", "br-int"):
            switch.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev")
        devices = machine.run("ls", "/sys/class/net").split()
        assert {"br-ex", "br-int", "ovs-netdev"} <= set(devices)
        server = machine.inside([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "9696"])
        listener = subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
            command = machine.inside(["env", f"--chdir={ROOT}", *pytest, *LOOKING])
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"{len(LOOKING)} passed" in done.stdout
            assert machine.run("ls", "/sys/class/net").split() == devices
        finally:
            listener.terminate()
            listener.wait(timeout=20)
