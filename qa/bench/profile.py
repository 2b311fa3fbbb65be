"""Processor time of the server for each operation, in one process without HTTP; and what functions take of it.

  python -m qa.bench.profile [--database sqlite|postgresql|mariadb] [--repeats N] [--show OPERATION] [--agents]
  python -m qa.bench.profile --old ../before/src      # two checkouts, request by request

Times are of the processor, so load from outside disturbs them less than times of a clock; they do not include the database
server. `--show` prints cProfile's table of one operation: its own work
makes all functions look slower, so take the proportions from it. With `--old` a process of each checkout, with a
database of its own, gets every request in turns: a few percent show on a busy machine too.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from qa.bench import agents, databases, server
from qa.bench.client import Client, LoadError, Reply, Target
from qa.bench.operations import HEADERS, OPERATIONS, Ids, prepare
from qa.bench.workbench import progress

_SECONDS = 3600.0
_WARM_UP = 20  # requests of each operation that are not measured: PostgreSQL's driver prepares a statement after five
_LINES = 60
_URL = "http://127.0.0.1:9696"  # nobody listens there


class InProcess(Client):
    """Calls the WSGI application. The time of a reply is processor time."""

    def __init__(self, app: Any, target: Target) -> None:
        super().__init__(target)
        self._app = app

    def request(self, method: str, path: str, body: Any = None, accept: Collection[int] = (200, 201, 204)) -> Reply:
        environ = _environ(method, path, body, self.target)
        answered: list[str] = []
        before = time.process_time()
        content = b"".join(self._app(environ, lambda status, headers, *rest: answered.append(status)))
        millis = (time.process_time() - before) * 1000
        status = int(answered[0][:3])
        if status not in accept:
            raise LoadError(f"{method} {path}: {status} {content[:300].decode(errors='replace')}")
        return Reply(status, content, millis)


def _environ(method: str, path: str, body: Any, target: Target) -> dict[str, Any]:
    """The request as a WSGI server passes it on."""
    raw = b"" if body is None else json.dumps(body).encode()
    path, _, query = f"/v2.0{path}".partition("?")
    address = urllib.parse.urlsplit(target.url)
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": address.hostname,
        "SERVER_PORT": str(address.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": address.netloc,
        "HTTP_ACCEPT": "application/json",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(raw),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in target.headers.items()},
    }
    if body is not None:
        environ |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(raw))}
    return environ


@contextmanager
def application(database: str, *, with_agents: bool) -> Iterator[Client]:
    """A client of the application on an empty database, or one with agents alone, in this process."""
    from neutrino.server import config, main  # not needed by the process that compares two checkouts

    with tempfile.TemporaryDirectory() as place, databases.database(database, Path(place)) as connection:
        file = Path(place) / "neutrino.conf"
        log = f"log_file = {place}/server.log"
        file.write_text(server.configuration(connection, 9696, Path(place), more=log), encoding="utf-8")
        assembled = main.assemble(config.configuration([str(file)]))
        try:
            made = main.application(assembled)  # creates the tables
            if with_agents:
                agents.register(connection)
            yield InProcess(made, Target(_URL, HEADERS, time.monotonic() + _SECONDS))
        finally:
            assembled.close()


class Sequence:
    """The requests of all operations, with the ids of the objects that they create."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ids: Ids = defaultdict(list)
        prepare(client, self._ids)

    def request(self, operation: str, number: int) -> float:
        """Milliseconds of the operation's request with this number."""
        reply = OPERATIONS[operation](self._client, self._ids, number)
        if operation.startswith("create_"):
            self._ids[operation].append(str(reply.item()["id"]))
        return reply.millis


def measure(client: Client, repeats: int, show: str | None) -> None:
    """Print the median of each operation, up to the one to be shown."""
    sequence = Sequence(client)
    for operation in OPERATIONS:
        profile = cProfile.Profile() if operation == show else None
        times = []
        for number in range(_WARM_UP + repeats):
            with profile if profile is not None and number >= _WARM_UP else nullcontext():
                times.append(sequence.request(operation, number))
        progress(f"{operation:21} {statistics.median(times[_WARM_UP:]):7.3f} ms")
        if profile is not None:
            pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(_LINES)
            break


def compare(database: str, old: Path, repeats: int, *, with_agents: bool) -> None:
    """Print the medians of another checkout and of this one, and their ratios."""
    own = Path(__file__).parents[2] / "src"
    with ExitStack() as stack:
        before, after = (stack.enter_context(_other_process(database, source, with_agents)) for source in (old, own))
        print("| operation | before | now | ratio |\n|---|---:|---:|---:|")
        for operation in OPERATIONS:
            times: dict[Any, list[float]] = {before: [], after: []}
            for number in range(_WARM_UP + repeats):
                # Who is first changes, for the second request may find processor caches warmer.
                for process in (before, after) if number % 2 else (after, before):
                    print(operation, number, file=process.stdin, flush=True)
                    times[process].append(float(process.stdout.readline()))
            was, now = (statistics.median(times[process][_WARM_UP:]) for process in (before, after))
            print(f"| {operation.replace('_', ' ')} | {was:.2f} ms | {now:.2f} ms | {now / was:.2f} |", flush=True)


@contextmanager
def _other_process(database: str, source: Path, with_agents: bool) -> Iterator[Any]:
    """A process that runs `follow` with the server's code at `source`."""
    command = [sys.executable, "-m", "qa.bench.profile", "--database", database, "--follow"]
    command += ["--agents"] if with_agents else []
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()


def follow(client: Client) -> None:
    """Read requests from standard input, and write the time of each."""
    sequence = Sequence(client)
    for line in sys.stdin:
        operation, number = line.split()
        print(sequence.request(operation, int(number)), flush=True)


def run(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=databases.NAMES, default="postgresql")
    parser.add_argument("--repeats", type=int, default=200, help="requests per operation")
    parser.add_argument("--show", choices=list(OPERATIONS), help="profile this operation, and end after it")
    parser.add_argument("--old", type=Path, metavar="SRC", help="the folder src of the checkout to compare with")
    parser.add_argument("--agents", action="store_true", help="with agents that networks and routers are scheduled to")
    parser.add_argument("--follow", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.old is not None:
        compare(options.database, options.old, options.repeats, with_agents=options.agents)
        return 0
    with application(options.database, with_agents=options.agents) as client:
        if options.follow:
            follow(client)
        else:
            measure(client, options.repeats, options.show)
    return 0


if __name__ == "__main__":
    sys.exit(run())
