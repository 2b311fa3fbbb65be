"""Open vSwitch for the tests: a database and a switch of their own, in a temporary directory, in userspace.

Nothing of the machine's own Open vSwitch is touched: sockets, pid files and the database are all in the directory. A
bridge of datapath type `dummy` is the userspace datapath with devices that exist only inside the switch, so that tests
need no privileges and leave no devices behind; one of type `netdev` makes real ones, in the network namespace of the
test's process: one switch with such bridges at a time, as each wants a device called `ovs-netdev`.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from tests.support.process import TemporaryServer

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class OpenVSwitch(TemporaryServer):
    """`with OpenVSwitch() as switch:` runs one; `vsctl` and `appctl` talk to it."""

    name = "ovs"

    @property
    def database(self) -> str:
        return f"unix:{self.directory}/db.sock"

    @property
    def run_directory(self) -> str:
        return str(self.directory)

    def start(self) -> None:
        self.call("ovsdb-tool", "create", f"{self.directory}/conf.db", _SCHEMA)
        self.start_database()
        self.vsctl("--no-wait", "init")
        self.start_switch()

    def start_database(self) -> None:
        self.spawn(
            [
                *("ovsdb-server", self.directory / "conf.db", f"--remote=punix:{self.directory}/db.sock"),
                *(f"--unixctl={self.directory}/db.ctl", f"--pidfile={self.directory}/db.pid"),
                *(f"--log-file={self.directory}/db.log", "-vconsole:off"),
            ],
            ready=lambda: (self.directory / "db.sock").exists(),
            env=self.environment(),
        )

    def start_switch(self) -> None:
        self.spawn(
            [
                *("ovs-vswitchd", self.database, f"--pidfile={self.directory}/ovs-vswitchd.pid"),
                *(f"--log-file={self.directory}/switch.log", "-vconsole:off", "--disable-system", "--enable-dummy"),
            ],
            ready=self._switch_listens,
            env=self.environment(),
        )

    def _switch_listens(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return Path(self.control).exists()
        return False

    @property
    def control(self) -> str:
        """The switch's control socket, where it stands by default: it has the process's number in its name."""
        number = int((self.directory / "ovs-vswitchd.pid").read_text())
        return f"{self.directory}/ovs-vswitchd.{number}.ctl"

    def stop_switch(self) -> None:
        self._end("ovs-vswitchd")

    def restart_database(self) -> None:
        self._end("ovsdb-server")
        (self.directory / "db.sock").unlink(missing_ok=True)
        self.start_database()

    def _end(self, program: str) -> None:
        found = [entry for entry in self._processes if program in entry[0].args]  # type: ignore[operator]
        if not found:
            raise LookupError(f"{program} does not run")
        for entry in found:
            process, stop_signal = entry
            process.send_signal(stop_signal)
            process.wait(timeout=20)
            self._processes.remove(entry)

    def environment(self) -> dict[str, str]:
        here = str(self.directory)
        return {"OVS_RUNDIR": here, "OVS_DBDIR": here, "OVS_LOGDIR": here}

    def vsctl(self, *arguments: str) -> str:
        return self.call("ovs-vsctl", f"--db={self.database}", "--timeout=20", *arguments)

    def appctl(self, *arguments: str) -> str:
        return self.call("ovs-appctl", "-t", self.control, *arguments)

    def call(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout.strip()
