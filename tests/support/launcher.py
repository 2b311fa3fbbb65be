"""Starts `neutrino` commands as forks of one process that has loaded the code, which takes two seconds otherwise.

    process = launch(["server", "--config-file", path], log.fileno(), environment=os.environ, directory="/")

Such a process has a session, standard streams, an environment, a working directory and, on demand, namespaces of its own.
The kernel kills it when the process that runs the tests has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import importlib.metadata
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from neutrino.lab import timing
from tests.support.isolation import mount, new_mount_namespace

PROGRAM = Path(sys.executable).with_name("neutrino")
ROOT = Path(__file__).parents[2]
NOBODY = 65534
LOADED = (
    "granian.server",
    "neutrino.cli.agent",
    "neutrino.cli.api_tls",
    "neutrino.cli.database",
    "neutrino.cli.doctor.agent",
    "neutrino.cli.lab",
    "neutrino.cli.server",
    "neutrino.cli.status.command",
    "neutrino.cli.up.command",
    "neutrino.cli.workers",
    "neutrino.dataplane.ovsdb.real",
    "neutrino.server.feed.server",
    "neutrino.server.main",
    # What a server imports by its configuration.
    "keystonemiddleware.auth_token",
    "psycopg",
    "pymysql",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
)
# Of the conversion of a host: they are the agent's own, and no options.
TIMES = {
    "neutrino.agent.takeover.conversion": ("APPLY_SECONDS", "VERIFY_SECONDS", "SILENT_SECONDS"),
    "neutrino.dataplane.probes.real": ("PATIENCE",),
}
_LARGEST = 1 << 20  # bytes of a request
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_one_at_a_time = threading.Lock()


class Launched:
    """A started process, with those methods of subprocess.Popen that tests use."""

    def __init__(self, args: Sequence[str], pid: int, status: int) -> None:
        self.args, self.pid = args, pid
        self.returncode: int | None = None
        self._status = os.fdopen(status, "rb", buffering=0)  # readable once the process has ended

    def __del__(self) -> None:
        self._status.close()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("neutrino", timeout or 0)
            self.returncode = int(self._status.read() or -signal.SIGKILL)
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def launch(
    argv: Sequence[str],
    output: int | None,
    error: int | None = None,
    *,
    environment: Mapping[str, str],
    directory: str | Path,
    inside: int | None = None,
    mark: tuple[str, str] | None = None,
    unprivileged: bool = False,
) -> Launched:
    """Start `neutrino` with these arguments. Standard output is closed if it is None; errors go there too, or to `error`.

    `inside`: the pid of a process whose network and mount namespaces it gets; `mark`: a mount namespace of its own, with a
    tmpfs of this name at this path.
    """
    request = {
        "argv": [*argv],
        "closed": output is None,
        "environment": dict(environment),
        "directory": str(directory),
        "inside": inside,
        "mark": mark,
        "unprivileged": unprivileged,
    }
    reader, writer = os.pipe()
    with Path(os.devnull).open("r+b") as null, _one_at_a_time:
        standard = null.fileno() if output is None else output
        streams = [null.fileno(), standard, standard if error is None else error]
        launcher = _launcher()
        socket.send_fds(launcher, [json.dumps(request).encode()], [*streams, writer])
        pid = int(launcher.recv(_LARGEST))
    os.close(writer)
    return Launched(["neutrino", *argv], pid, reader)


@functools.cache
def _launcher() -> socket.socket:
    """One for all tests of this process; it ends with it."""
    own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.support.launcher", str(its.fileno())]
    process = subprocess.Popen(command, pass_fds=[its.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL)
    its.close()

    def end() -> None:
        own.close()
        process.wait(10)

    atexit.register(end)
    return own


# --- in the process that forks ----------------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> None:
    """Fork for each request, and write the status of each process that has ended to its descriptor."""
    waiting, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    statuses: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), waiting], [], [])
        if waiting in ready:
            os.read(waiting, 4096)
            _reap(statuses)
        if requests.fileno() not in ready:
            continue
        message, received, _, _ = socket.recv_fds(requests, _LARGEST, 4)
        if not message:
            return
        *streams, status = received
        child = os.fork()
        if child == 0:
            requests.close()
            for descriptor in (waiting, wakes, status, *statuses.values()):
                os.close(descriptor)
            _become(json.loads(message), streams)
        statuses[child] = status
        for descriptor in streams:
            os.close(descriptor)
        requests.send(str(child).encode())


def _reap(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        descriptor = statuses.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it
            os.write(descriptor, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(descriptor)


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Run the command in this process, and end it: at once, as the interpreter needs long to clear all modules."""
    status = 1
    try:
        _prepare(request, streams)
        from neutrino.cli.main import main

        status = main()
    except SystemExit as end:  # of the parser of arguments
        status = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            status = 120  # as the interpreter does
        sys.stderr.flush()
        os._exit(status)


def _prepare(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    if request["closed"]:
        os.close(1)
        sys.stdout = None  # as Python has it then
    if request["inside"] is not None:
        _enter(request["inside"])
    if request["mark"] is not None:
        new_mount_namespace()
        source, target = request["mark"]
        mount(source, target, "tmpfs", options="size=4k,mode=500")
    os.chdir(request["directory"])
    if request["unprivileged"]:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # not before: a change of the user clears it
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    if paths := list(filter(None, os.environ.get("PYTHONPATH", "").split(":"))):
        sys.path[:0] = paths
        from stevedore import ExtensionManager

        ExtensionManager.ENTRY_POINT_CACHE.clear()  # it remembers entry points by their group alone
    sys.argv = [str(PROGRAM), *request["argv"]]

    import setproctitle

    setproctitle.setproctitle(" ".join(["neutrino", *request["argv"]]))


def _enter(process: int) -> None:
    opened = [os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("net", "mnt")]
    for namespace in opened:
        if _libc.setns(namespace, 0) != 0:
            raise OSError(ctypes.get_errno(), f"the namespaces of {process} cannot be entered")
        os.close(namespace)


def _load() -> None:
    sys.path.remove(str(ROOT))  # the working directory, which `-m` adds
    for loaded in LOADED:
        importlib.import_module(loaded)
    for name, times in TIMES.items():  # in an emulated machine
        module = importlib.import_module(name)
        for each in times:
            setattr(module, each, timing.scaled(getattr(module, each)))
    import stevedore

    from neutrino import entry_points

    for plugin in importlib.metadata.distribution("neutrino").entry_points:
        if plugin.group.startswith("neutrino."):
            plugin.load()
    entry_points.of_group("")  # reads the metadata of all packages
    stevedore.ExtensionManager("")  # which reads them too
    _assemble()
    import setproctitle

    setproctitle.getproctitle()  # it finds the place of the title by the first environment variable, which is still there
    gc.collect()
    gc.freeze()


def _assemble() -> None:
    """Make a server, and nothing of it runs: paths, checks of policies and the page are compiled once per process."""
    from neutrino.server.config import configuration
    from neutrino.server.main import assemble

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "neutrino.conf"
        file.write_text(
            f"[DEFAULT]\nauth_strategy = noauth\n[database]\nconnection = sqlite:///{directory}/none.sqlite\n"
        )
        assemble(configuration([str(file)])).close()


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
