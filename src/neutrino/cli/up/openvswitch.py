"""Open vSwitch of `neutrino up`, in its state directory: an Open vSwitch of the machine itself is not touched.

Both daemons end with `neutrino up`, even if that is killed. On a normal end ovs-vswitchd cleans up, which removes the
devices of its bridges; after a kill they stay, and the next start reuses them by name.
"""

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino import private
from neutrino.cli.child_process import end_with_parent
from neutrino.dataplane.protocols.unixctl import ControlError, control_connection
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import command
from neutrino.lab.hosts.ovs import MANAGER_REMOTE, THREADS, create_database
from neutrino.lab.hosts.processes import read_namespace, read_pids

START_SECONDS = 20.0
STOP_SECONDS = 8.0


@dataclass(frozen=True)
class OwnSwitch:
    """`with OwnSwitch(directory, datapath, pid).running(…):` runs Open vSwitch."""

    directory: Path
    datapath: str
    holder: int  # the pid of `neutrino up`, in whose namespaces instances are plugged

    @property
    def socket(self) -> str:
        return f"unix:{self.directory}/db.sock"

    @contextlib.contextmanager
    def running(self, stale_bridges: Sequence[str]) -> Iterator[None]:
        """Run both daemons. `stale_bridges` are deleted from the database before ovs-vswitchd reads it: their ports and
        controllers are of a previous run, and the agent creates them again.
        """
        private.own_directory(self.directory)
        with contextlib.ExitStack() as stack:
            create_database(self.directory / "conf.db")
            socket = self.directory / "db.sock"
            socket.unlink(missing_ok=True)  # of a killed run: its existence must mean that the new server listens
            self._spawn(stack, "ovsdb-server", f"{self.directory}/conf.db", f"--remote=p{self.socket}", MANAGER_REMOTE)
            wait_until(socket.exists, START_SECONDS, "ovsdb-server does not listen")
            removals = [word for bridge in stale_bridges for word in ("--", "--if-exists", "del-br", bridge)]
            self.vsctl("--no-wait", "init", *removals)
            vswitchd = self._spawn(stack, "ovs-vswitchd", self.socket)
            stack.callback(self._clean_up, vswitchd)
            # ovs-vsctl waits for ovs-vswitchd only if it changes the database, and the other values may be set already.
            self.vsctl("set", "Open_vSwitch", ".", *THREADS, f"external_ids:neutrino-start={uuid.uuid4()}")
            yield

    def add_bridge(self, name: str) -> None:
        """Add a bridge, and check that Open vSwitch could create its device."""
        self.vsctl("--may-exist", "add-br", name, "--", "set", "Bridge", name, f"datapath_type={self.datapath}")
        ofport, error = self.vsctl("get", "Interface", name, "ofport", "error").splitlines()
        if not ofport.isdecimal():
            raise LabError(f"Open vSwitch cannot create the bridge {name}: {error.strip('[]') or 'it has no port'}")

    def vsctl(self, *arguments: str) -> str:
        return command(["ovs-vsctl", f"--db={self.socket}", f"--timeout={START_SECONDS:.0f}", *arguments])

    def _spawn(self, stack: contextlib.ExitStack, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = f"--log-file={self.directory}/{program}.log"
        process = subprocess.Popen(
            # -vconsole first: opening the log file is itself logged to the console.
            [program, "-vconsole:off", "-vsyslog:off", log, "--no-chdir", "--pidfile", *arguments],
            env={**os.environ, "OVS_RUNDIR": str(self.directory), "OVS_LOGDIR": str(self.directory)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at the terminal must not end it before the agent's state is removed
            preexec_fn=lambda: end_with_parent(signal.SIGTERM),
        )
        stack.callback(_end, process)
        return process

    def _clean_up(self, vswitchd: subprocess.Popen[bytes]) -> None:
        """End ovs-vswitchd with the devices of its bridges. If that fails, `_end` follows and the devices stay."""
        with contextlib.suppress(ControlError, subprocess.TimeoutExpired):
            with control_connection(str(self.directory), STOP_SECONDS) as control:
                control.call("exit", "--cleanup")
            vswitchd.wait(timeout=STOP_SECONDS)


def others_running(own: Path) -> bool:
    """Return whether another ovs-vswitchd runs in this network namespace."""
    here, mine = read_namespace("self", "net"), f"OVS_RUNDIR={own}".encode()
    for pid in read_pids():
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            is_switch = Path(f"/proc/{pid}/comm").read_text() == "ovs-vswitchd\n" and read_namespace(pid, "net") == here
            if is_switch and mine not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
