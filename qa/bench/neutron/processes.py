"""Neutron's processes: API under uWSGI, RPC server, periodic workers; on a database and a broker of the run."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from qa.bench.neutron import configuration
from qa.bench.neutron.configuration import Place
from qa.bench.server import Running, ServerError
from tests.support import memory
from tests.support.ports import free_port
from tests.support.process import ENDS_WITH_US

ROOT = Path(__file__).parents[3]
VENV = ROOT / "build" / "neutron" / "venv"

_MIGRATE_SECONDS = 900.0
_START_SECONDS = 300.0
_STOP_SECONDS = 30.0
_PROBE_HEADERS = {"X-Project-Id": "probe", "X-User-Id": "probe", "X-Roles": "admin,member,reader"}


def write_files(directory: Path, database: str, broker: str) -> Place:
    """The configuration of a Neutron with its files in `directory`."""
    place = Place(directory, free_port(), database, broker)
    shipped = (VENV / "etc" / "neutron" / "api-paste.ini").read_text(encoding="utf-8")
    texts = {
        place.neutron_conf: configuration.neutron_conf(place),
        place.ml2_conf: configuration.ml2_conf(),
        place.uwsgi: configuration.uwsgi(place),
        place.paste: configuration.paste(shipped),
    }
    directory.mkdir(mode=0o700, exist_ok=True)
    for path, text in texts.items():
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return place


def migrate(place: Place) -> None:
    """Create the schema."""
    with (place.directory / "db-manage.log").open("wb") as log:
        command: list[str | Path] = [VENV / "bin" / "neutron-db-manage", *_options(place), "upgrade", "heads"]
        done = subprocess.run([*ENDS_WITH_US, *command], stdout=log, stderr=log, timeout=_MIGRATE_SECONDS, check=False)
    if done.returncode:
        raise ServerError(f"neutron-db-manage ended with {done.returncode}:\n{_tail(log.name)}")


@contextmanager
def running(place: Place) -> Iterator[tuple[Running, list[int]]]:
    """Neutron for the duration of the block, and the pids of the processes that it consists of."""
    commands: dict[str, list[str | Path]] = {
        "api": [VENV / "bin" / "uwsgi", "--ini", place.uwsgi],
        "rpc": [VENV / "bin" / "neutron-rpc-server", *_options(place)],
        "periodic": [VENV / "bin" / "neutron-periodic-workers", *_options(place)],
    }
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        stack.callback(lambda: _stop(list(processes.values())))
        started = time.perf_counter()
        for name, command in commands.items():
            with (place.directory / f"{name}.log").open("ab") as log:
                processes[name] = _spawn(command, place, log.fileno())
        _await_answer(place, processes)
        start_ms = (time.perf_counter() - started) * 1000
        pids = [process.pid for process in processes.values()]
        yield Running(f"http://127.0.0.1:{place.port}", pids[0], start_ms), pids
        _check(place, processes)


def _options(place: Place) -> list[str]:
    return ["--config-file", str(place.neutron_conf), "--config-file", str(place.ml2_conf)]


def _spawn(command: Sequence[str | Path], place: Place, log: int) -> subprocess.Popen[bytes]:
    files = f"{place.neutron_conf};{place.ml2_conf}"
    return subprocess.Popen(
        [*ENDS_WITH_US, *command],
        cwd=place.directory,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OS_NEUTRON_CONFIG_FILES": files},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # Ctrl-C at the terminal goes to the benchmark only, which then stops the processes in order.
        start_new_session=True,
    )


def _await_answer(place: Place, processes: dict[str, subprocess.Popen[bytes]]) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while not _answers(place.port):
        _check(place, processes)
        if time.monotonic() > give_up:
            raise ServerError(f"Neutron does not answer:\n{_tail(place.directory / 'api.log')}")
        time.sleep(0.01)


def _check(place: Place, processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """A Neutron without one of its parts would be measured too fast and too small."""
    for name, process in processes.items():
        if process.poll() is not None:
            log = _tail(place.directory / f"{name}.log")
            raise ServerError(f"the {name} process of Neutron ended with {process.returncode}:\n{log}")


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
    try:
        connection.request("GET", "/v2.0/networks?limit=1", headers=_PROBE_HEADERS)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Terminate them together; what remains of them and their children after a timeout is killed."""
    family = [pid for process in processes for pid in memory.tree(process.pid)]
    for process in processes:
        if process.poll() is None:
            process.terminate()
    give_up = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < give_up:
        for process in processes:
            process.poll()  # reaps it
        if not any(memory.alive(pid) for pid in family):
            return
        time.sleep(0.05)
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in processes:
        process.wait(_STOP_SECONDS)


def _tail(log: str | Path) -> str:
    return "\n".join(Path(log).read_text(errors="replace").splitlines()[-30:])
