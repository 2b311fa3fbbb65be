"""`neutrino takeover`: check, import and export of a database of Neutron; the state of the takeover, and its end.

The address of Neutron's database has a password: it is read from a file or an environment variable too, so that it need not
be an argument, which all users of a machine see.
"""

import argparse
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from neutrino.cli.database import opened, read_configuration
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.takeover.arguments import VARIABLE
from neutrino.cli.takeover.host import host
from neutrino.cli.takeover.verify import verify
from neutrino.server.hosts.queries import HostQueries
from neutrino.server.hosts.registry import Registry
from neutrino.takeover import opening, run
from neutrino.takeover.finishing import finish
from neutrino.takeover.fleet.shadow import read_differences
from neutrino.takeover.following import follow
from neutrino.takeover.importer import Progress
from neutrino.takeover.report import Report
from neutrino.takeover.source import parse_url

_WIDTH: Final = 30
_CLEAR: Final = "\r\x1b[K"


def takeover(args: argparse.Namespace) -> int:
    if args.action == "verify":
        return verify(args, _progress())
    if args.action == "host":
        return host(args)
    if args.action == "import" and args.follow is not None:
        return _follow(args)
    return _state(args) if args.action in ("status", "open", "finish") else _copy(args)


def _progress() -> Progress:
    return _bar() if sys.stderr.isatty() else _lines()


def _state(args: argparse.Namespace) -> int:
    """Show the state of the takeover on our side, or complete it."""
    conf = read_configuration(args)
    with opened(conf) as db:
        if args.action == "finish":
            print(finish(db, _hosts(args)).to_text(), end="")
            return 0
        state = opening.open_writes(db, _hosts(args)) if args.action == "open" else opening.read_state(db)
        every = None
        if args.action == "status" and args.differences:
            differing = [
                host for host, compared in state.compared.items() if compared is not None and compared.differing
            ]
            every = read_differences(HostQueries(db, Registry(db, conf.agent_down_time)), differing)
    print(state.to_text(every), end="")
    return 1 if state.is_frozen or not state.imports else 0


def _follow(args: argparse.Namespace) -> int:
    """Repeat the import until Ctrl-C."""
    if args.final or args.dry_run or args.report:
        raise CommandError("--follow goes with none of --final, --dry-run and --report", INVALID)
    if args.follow <= 0:
        raise CommandError(f"--follow is {args.follow:g}: give more than 0 seconds", INVALID)
    conf = read_configuration(args)
    url = parse_url(_address(args))
    options = run.Options(conf.dns_domain, allow_running=args.with_running_server)
    with opened(conf) as db, suppress(KeyboardInterrupt):
        follow(lambda: run.run(url, db, options), args.follow, time.sleep, _print_line)
    return 0


def _print_line(text: str) -> None:
    print(text, flush=True)


def _hosts(args: argparse.Namespace) -> list[str]:
    return [host for host in args.despite_hosts.split(",") if host]


def _copy(args: argparse.Namespace) -> int:
    conf = read_configuration(args)
    url = parse_url(_address(args))
    progress = _progress()
    try:
        if args.action == "check":
            report = run.check(url, run.Options(conf.dns_domain), progress)
        elif args.action == "export":
            with opened(conf) as db:
                report = run.export(url, db, run.Options(conf.dns_domain, args.dry_run), progress)
        else:
            options = run.Options(conf.dns_domain, args.dry_run, args.final, args.with_running_server)
            with opened(conf) as db:
                report = run.run(url, db, options, progress)
    finally:
        progress("", 0, 0)
    print(report.to_text(), end="")
    if args.report:
        _write(report, Path(args.report))
    return _status(report)


def _address(args: argparse.Namespace) -> str:
    option = "--to" if args.action == "export" else "--from"
    if args.database and args.database_file:
        raise CommandError(f"give one of {option} and {option}-file", INVALID)
    if args.database_file:
        try:
            return Path(args.database_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise CommandError(f"{option}-file {args.database_file}: {error.strerror}", INVALID) from None
    address = args.database or os.environ.get(VARIABLE, "")
    if not address:
        raise CommandError(f"give Neutron's database by {option}, {option}-file or ${VARIABLE}", INVALID)
    return str(address)


def _status(report: Report) -> int:
    """1 if something is refused, or a dry run would write; 0 otherwise."""
    refused = report.deviations.refused
    if refused:
        print("nothing was changed: resolve what is refused, and run it again")
        return 1
    return 1 if report.dry_run and report.written else 0


def _write(report: Report, path: Path) -> None:
    text = (
        report.to_json() if path.suffix == ".json" else report.to_text() + "".join(f"{o}\n" for o in report.deviations)
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--report {path}: {error.strerror}") from None


def _bar() -> Progress:
    def show(step: str, done: int, total: int) -> None:
        if not step:
            sys.stderr.write(_CLEAR)
        else:
            filled = _WIDTH * done // max(total, 1)
            sys.stderr.write(f"{_CLEAR}[{'#' * filled:<{_WIDTH}}] {step} {done}/{total}")
        sys.stderr.flush()

    return show


def _lines() -> Progress:
    """A line for each family when it is complete."""

    def show(step: str, done: int, total: int) -> None:
        if step and done >= total:
            print(f"{step}: {done}", file=sys.stderr, flush=True)

    return show
