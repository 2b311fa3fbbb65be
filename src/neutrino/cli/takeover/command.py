"""`neutrino takeover`: check, import and export of a database of Neutron; the state of the takeover, and its end.

The address of Neutron's database has a password: it is read from a file or an environment variable too, so that it need not
be an argument, which all users of a machine see.
"""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import sqlalchemy as sa

from neutrino.cli.database import opened, read_configuration
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.takeover.arguments import VARIABLE
from neutrino.cli.takeover.host import host
from neutrino.cli.takeover.progress import progress
from neutrino.cli.takeover.report_file import ReportFile
from neutrino.cli.takeover.verify import verify
from neutrino.configuration.options import Configuration
from neutrino.server.hosts.queries import HostQueries
from neutrino.server.hosts.registry import Registry
from neutrino.takeover import opening, run
from neutrino.takeover.finishing import finish
from neutrino.takeover.fleet.hosts import read_cloud
from neutrino.takeover.fleet.shadow import read_differences
from neutrino.takeover.following import follow
from neutrino.takeover.report import Report
from neutrino.takeover.source import parse_url


def takeover(args: argparse.Namespace) -> int:
    if args.action == "verify":
        return verify(args, progress())
    if args.action == "host":
        return host(args)
    if args.action == "import" and args.follow is not None:
        return _follow(args)
    return _state(args) if args.action in ("status", "open", "finish") else _copy(args)


def _state(args: argparse.Namespace) -> int:
    """Show the state of the takeover on our side, or complete it."""
    conf = read_configuration(args)
    if args.action == "status" and args.json:
        with opened(conf) as db:
            cloud = read_cloud(db)
        print(msgspec.json.format(msgspec.json.encode(cloud.to_json())).decode())
        return _state_status(cloud.state)
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
    return _state_status(state)


def _state_status(state: opening.State) -> int:
    """0: the takeover is completed."""
    return 1 if state.is_frozen or not state.imports else 0


def _follow(args: argparse.Namespace) -> int:
    """Repeat the import until Ctrl-C."""
    if args.final or args.dry_run or args.report:
        raise CommandError("--follow goes with none of --final, --dry-run and --report", INVALID)
    if args.follow <= 0:
        raise CommandError(f"--follow is {args.follow:g}: give more than 0 seconds", INVALID)
    conf = read_configuration(args)
    url = parse_url(_address(args))
    options = run.Options(
        conf.dns_domain, allow_running=args.with_running_server, accept_unknown=args.accept_unknown_release
    )
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
    with _report_file(args) as file:
        report = _run(args, conf, url, file)
        print(report.to_text(), end="")
        is_written = file is None or file.write(report)
    return _status(report) or (0 if is_written else 1)


@contextmanager
def _report_file(args: argparse.Namespace) -> Iterator[ReportFile | None]:
    if not args.report:
        yield None
        return
    file = ReportFile(Path(args.report))
    try:
        yield file
    finally:
        file.close()


def _run(args: argparse.Namespace, conf: Configuration, url: sa.URL, file: ReportFile | None) -> Report:
    show = progress()
    before_writing = run.keep_nothing if file is None else file.reserve
    try:
        if args.action == "check":
            return run.check(url, run.Options(conf.dns_domain, accept_unknown=args.accept_unknown_release), show)
        with opened(conf) as db:
            if args.action == "export":
                return run.export(url, db, run.Options(conf.dns_domain, args.dry_run), show, before_writing)
            options = run.Options(
                conf.dns_domain, args.dry_run, args.final, args.with_running_server, args.accept_unknown_release
            )
            return run.run(url, db, options, show, before_writing)
    finally:
        show("", 0, 0)


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
