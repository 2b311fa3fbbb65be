"""Open vSwitch for the tests: a separate database and switch in a temporary directory, with the userspace datapath.

The machine's own Open vSwitch is not touched: sockets, pid files and the database are all in the directory. A
bridge of datapath type `dummy` has devices that exist only inside the switch, so that tests need no privileges and leave
no devices behind; one of type `netdev` creates real ones, in the network namespace of the test's process: one switch with
such bridges at a time, as each creates a device `ovs-netdev`.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from pathlib import Path

from tests.support.process import TemporaryServer

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class OpenVSwitch(TemporaryServer):
    """`with OpenVSwitch() as switch:` runs one; `vsctl` and `appctl` run commands on it."""

    name = "ovs"
    before: tuple[str, ...] = ()  # a command prefix for the switch
    seconds = 20  # for a command
    database_options: tuple[str, ...] = ()
    options: tuple[str, ...] = ("-vconsole:off", "--disable-system", "--enable-dummy")

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
                *(f"--log-file={self.directory}/db.log", "-vconsole:off", *self.database_options),
            ],
            ready=self._database_listens,
            env=self.environment(),
        )

    def start_switch(self) -> None:
        self.spawn(
            [
                *(*self.before, "ovs-vswitchd", self.database, f"--pidfile={self.directory}/ovs-vswitchd.pid"),
                *(f"--log-file={self.directory}/switch.log", *self.options),
            ],
            ready=self._switch_listens,
            env=self.environment(),
        )

    def _database_listens(self) -> bool:
        """Its socket is there a moment before it accepts connections."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{self.directory}/db.sock")
            return True
        return False

    def _switch_listens(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return Path(self.control).exists()
        return False

    @property
    def control(self) -> str:
        """The switch's control socket at its default path, which contains the pid."""
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
        return self.call("ovs-vsctl", f"--db={self.database}", f"--timeout={self.seconds}", *arguments)

    def appctl(self, *arguments: str) -> str:
        return self.call("ovs-appctl", "-t", self.control, *arguments)

    def call(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * self.seconds, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout.strip()
