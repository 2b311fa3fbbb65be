"""Real servers in temporary directories, ended by pid.

Some servers refuse to run as root; then they run as another user, who owns their directory.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from neutrino.lab.timing import Deadline, pause_after, scaled
from tests.support.launcher import PROGRAM, Launched, launch

# A killed test session cannot clean up; the kernel then ends its servers (PR_SET_PDEATHSIG). By a program that execs the
# server: Python code in a forked child (preexec_fn) may deadlock on a lock that another thread held at the fork.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")

STEP_SECONDS = 0.02
Process = subprocess.Popen[bytes] | Launched


def wait_until(ready: Callable[[], bool], *, timeout: float, what: str, failed: Callable[[], str | None]) -> None:
    """Poll `ready` until it is true; `failed` returns the reason if waiting longer is pointless."""
    deadline = Deadline(timeout)
    began = deadline.started
    while not ready():
        if reason := failed():
            raise RuntimeError(f"{what} {reason}")
        if deadline.has_passed():
            raise TimeoutError(f"{what} was not ready after {timeout:.0f} s")
        time.sleep(pause_after(time.monotonic() - began, STEP_SECONDS))
        began = time.monotonic()


class TemporaryServer:
    """A temporary directory and the processes that use it; a context manager."""

    name = "server"
    users: tuple[str, ...] = ()
    """Users to run as when started by root, by preference; `nobody` if none exists, the own user if empty."""
    place: str | None = None
    """Where its directory is; None: with all temporary files, which may be in memory."""

    def __init__(self) -> None:
        self._account = self._choose_account()
        self.directory = Path(tempfile.mkdtemp(prefix=f"neutrino-{self.name}-", dir=self.place))
        self._processes: list[tuple[Process, signal.Signals]] = []
        self._own(self.directory)

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process reaches the server, and does not own its processes."""
        return {**self.__dict__, "_processes": []}

    def start(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the processes in reverse order, and remove the directory."""
        while self._processes:
            process, stop_signal = self._processes.pop()
            if process.poll() is None:
                process.send_signal(stop_signal)
                try:
                    process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- for the servers ---

    def write(self, name: str, text: str) -> Path:
        """Write a file that only the server's user can read: it may contain a password."""
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        self._own(path)
        return path

    def mkdir(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir(mode=0o700)
        self._own(path)
        return path

    def run(self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        """Run a command to its end; its output is part of the error when it fails."""
        done = subprocess.run(
            [str(part) for part in argv],
            cwd=self.directory,
            env=self._environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=120,
            **self._identity(),
        )
        if done.returncode:
            raise RuntimeError(f"{argv[0]} ended with {done.returncode}:\n{done.stdout.decode(errors='replace')}")

    def spawn(
        self,
        argv: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        *,
        ready: Callable[[], bool],
        timeout: float = 180,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        """Start a process that `stop` will end, and wait until it is ready."""
        log = self.directory / f"{Path(argv[0]).name}-{len(self._processes)}.log"
        with log.open("wb") as output:
            process = self._started([str(part) for part in argv], self._environment(env), output)
        self._processes.append((process, stop_signal))

        def failed() -> str | None:
            if process.poll() is None:
                return None
            return f"ended with {process.returncode}:\n{log.read_text(errors='replace')[-4000:]}"

        wait_until(ready, timeout=scaled(timeout), what=str(argv[0]), failed=failed)

    def _started(self, argv: Sequence[str], environment: Mapping[str, str], output: IO[bytes]) -> Process:
        if argv[0] == str(PROGRAM):
            return launch(argv[1:], output.fileno(), environment=environment, directory=self.directory)
        return subprocess.Popen(
            [*ENDS_WITH_US, *argv],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A session of its own: Ctrl-C at the terminal signals pytest only, which then stops the servers in order.
            start_new_session=True,
            **self._identity(),
        )

    @property
    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._processes]

    def _choose_account(self) -> pwd.struct_passwd | None:
        if os.geteuid() != 0 or not self.users:
            return None
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        return next((known[name] for name in (*self.users, "nobody") if name in known), None)

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _environment(self, extra: Mapping[str, str] | None) -> dict[str, str]:
        # HOME is the directory: no server reads or writes the settings of the user who runs the tests.
        base = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        return {**base, "HOME": str(self.directory), **(extra or {})}

    def _own(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)
