"""The Open vSwitch of `neutrino up`: in its own directory, so that the machine's own one, if any, is not touched.

Both daemons end with `neutrino up`, also where that is killed. At a normal end the switch is asked to clean up, which
removes the devices of its bridges; a killed one leaves them, and the next start takes them over by their names.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino import private
from neutrino.cli.beside import PR_SET_PDEATHSIG
from neutrino.dataplane.openflow.unixctl import ControlConnection, ControlError, control_socket

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
SECONDS = 20.0
STOP_SECONDS = 8.0
# One machine to try things on: one thread of each kind is enough.
THREADS = ("other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")


class NoDataplane(Exception):
    """Why this machine cannot wire networks; the API serves without."""


@dataclass(frozen=True)
class OwnSwitch:
    """`with OwnSwitch(directory, datapath).running():` has Open vSwitch; bridges are made with `vsctl`."""

    directory: Path
    datapath: str

    @property
    def socket(self) -> str:
        return f"unix:{self.directory}/db.sock"

    @contextlib.contextmanager
    def running(self, stale_bridges: Sequence[str]) -> Iterator[None]:
        """`stale_bridges` are removed from the database before the switch reads it: whoever made them makes them anew."""
        private.own_directory(self.directory)
        database = self.directory / "conf.db"
        with contextlib.ExitStack() as stack:
            if not database.exists():
                call("ovsdb-tool", "create", str(database), SCHEMA)
            (self.directory / "db.sock").unlink(missing_ok=True)
            # The second remote: managers in the database, such as the one of [ovs] ovsdb_managers, are served too.
            remotes = (f"--remote=p{self.socket}", "--remote=db:Open_vSwitch,Open_vSwitch,manager_options")
            self._spawn(stack, "ovsdb-server", str(database), *remotes)
            _wait(lambda: (self.directory / "db.sock").exists(), "ovsdb-server")
            removals = [word for bridge in stale_bridges for word in ("--", "--if-exists", "del-br", bridge)]
            self.vsctl("--no-wait", "init", *removals)
            vswitchd = self._spawn(stack, "ovs-vswitchd", self.socket)
            stack.callback(self._clean_up, vswitchd)
            # ovs-vsctl waits for the switch only if it has changed something: after a reboot the database has all already.
            self.vsctl("set", "Open_vSwitch", ".", *THREADS, f"external_ids:neutrino-start={uuid.uuid4()}")
            yield

    def add_bridge(self, name: str) -> None:
        """A bridge whose device is there when this returns."""
        self.vsctl("--may-exist", "add-br", name, "--", "set", "Bridge", name, f"datapath_type={self.datapath}")
        ofport, error = self.vsctl("get", "Interface", name, "ofport", "error").splitlines()
        if not ofport.isdecimal():
            raise NoDataplane(f"Open vSwitch cannot make the bridge {name}: {error.strip('[]') or 'it has no port'}")

    def bridges(self) -> list[str]:
        return self.vsctl("list-br").split()

    def vsctl(self, *arguments: str) -> str:
        return call("ovs-vsctl", f"--db={self.socket}", f"--timeout={SECONDS:.0f}", *arguments)

    def _spawn(self, stack: contextlib.ExitStack, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A process that ends with us, whatever happens to us."""
        log = f"--log-file={self.directory}/{program}.log"
        process = subprocess.Popen(
            # The console first: opening the log would be reported there.
            [program, "-vconsole:off", "-vsyslog:off", log, "--no-chdir", "--pidfile", *arguments],
            env={**os.environ, "OVS_RUNDIR": str(self.directory), "OVS_LOGDIR": str(self.directory)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us, who then end it
            preexec_fn=_end_with_parent,
        )
        stack.callback(_end, process)
        return process

    def _clean_up(self, vswitchd: subprocess.Popen[bytes]) -> None:
        """End the switch so that the devices of its bridges go with it."""
        try:
            with ControlConnection(control_socket(str(self.directory)), STOP_SECONDS) as control:
                control.call("exit", "--cleanup")
            vswitchd.wait(timeout=STOP_SECONDS)
        except (ControlError, subprocess.TimeoutExpired):
            return  # it is ended like any process, and its devices stay until the next start


def others_running(own: Path) -> bool:
    """Whether another ovs-vswitchd runs in this network namespace."""
    here = os.readlink("/proc/self/ns/net")
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if (
                Path(entry.path, "comm").read_text().strip() == "ovs-vswitchd"
                and os.readlink(f"{entry.path}/ns/net") == here
                and f"OVS_RUNDIR={own}".encode() not in Path(entry.path, "environ").read_bytes().split(b"\0")
            ):
                return True
    return False


def call(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NoDataplane(f"{command[0]} did not end in {2 * SECONDS:.0f} s") from None
    except OSError as error:
        raise NoDataplane(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise NoDataplane(f"{command[0]}: {' '.join(done.stderr.split())}")
    return done.stdout.strip()


def _wait(ready: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + SECONDS
    while not ready():
        if time.monotonic() > give_up:
            raise NoDataplane(f"{what} does not start")
        time.sleep(0.01)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
