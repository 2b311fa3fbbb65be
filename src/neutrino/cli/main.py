"""The `neutrino` command: arguments of all commands, and their dispatch."""

import argparse
import os
import sys
from collections.abc import Sequence

from neutrino import __version__
from neutrino.cli import lab, vm
from neutrino.cli.errors import report

SBIN = "/usr/sbin:/sbin"


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(vm.with_action(sys.argv[1:] if argv is None else argv))
    path = os.environ.get("PATH", os.defpath)
    # `su` without `-` keeps the PATH of a user, without sbin. Not for the server, whose environment must stay untouched:
    # setproctitle, which names its processes, fails if the first variable was replaced.
    if args.command not in ("server", "feed") and not path.endswith(SBIN):
        os.environ["PATH"] = f"{path}:{SBIN}"
    try:
        return _run(args)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="neutrino", description="Virtual networks behind the Networking API v2.0.")
    parser.add_argument("--version", action="version", version=f"neutrino {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    _config_files(commands.add_parser("server", help="run the API server"))
    up = commands.add_parser("up", help="run everything on this machine with built-in defaults, until Ctrl-C")
    up.add_argument("--state", default="state", help="directory of its files (default: %(default)s)")
    up.add_argument("--port", type=int, default=9696, help="port of the API on 127.0.0.1 (default: %(default)s)")
    up.add_argument("--config-file", action="append", default=[], help="configuration that overrides the defaults")
    up.add_argument("--agent-config-file", action="append", default=[], help="the same for this machine's agent")
    up.add_argument("--no-dataplane", action="store_true", help="serve the API only, without Open vSwitch and agent")

    db = commands.add_parser("db", help="maintain the database")
    db.add_argument("action", choices=["upgrade", "version", "recount", "verify"])
    _config_files(db)

    _config_files(commands.add_parser("feed", help="run the feed for the host agents as a separate process"))

    host = commands.add_parser("host", help="manage the credentials of hosts for the feed")
    host.add_argument("action", choices=["add", "list", "remove", "roles", "rotate", "show"])
    host.add_argument("name", nargs="?", help="the host's name; add and rotate print its credential, once")
    host.add_argument("--roles", help="for add and roles: of l2,dhcp,l3,metadata (default of add: l2,metadata)")
    _config_files(host)

    agent = commands.add_parser("agent", help="run the agent of this host")
    agent.add_argument("action", nargs="?", choices=["run", "verify"], default="run")
    agent.add_argument("--dry-run", action="store_true", help="print the planned changes without applying them")
    agent.add_argument("--wait", type=float, default=5.0, help="verify: seconds that a difference must last")
    _config_files(agent)

    vm.add_arguments(commands.add_parser("vm", help="stand-in instances on the machine of `neutrino up`"))
    lab.add_arguments(commands.add_parser("lab", help="several hosts on this machine, for trying it out"))

    metadata = commands.add_parser("metadata")  # started by the agent; without help, argparse does not list it
    metadata.add_argument("--socket", required=True, help="control socket of the agent")
    metadata.add_argument("--user", type=int, required=True, help="uid to run as")
    metadata.add_argument("--group", type=int, required=True, help="gid to run as")
    metadata.add_argument("--monitor-file", default="", help="file to write the time to")
    metadata.add_argument("--monitor-interval", type=float, default=5.0, help="seconds between two writes")
    return parser


def _config_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config-file", action="append", default=[], help="configuration file; repeatable")


def _metadata(args: argparse.Namespace) -> int:
    from neutrino.agent.metadata.proxy.process import run

    run(args.socket, args.user, args.group, args.monitor_file, args.monitor_interval)
    return 0


def _run(args: argparse.Namespace) -> int:
    """Call the command; only its own modules are imported, as importing the whole server takes a second."""
    if args.command == "server":
        from neutrino.cli.server import serve

        return serve(args.config_file)
    if args.command == "feed":
        from neutrino.cli.server import serve_feed

        return serve_feed(args.config_file)
    if args.command == "up":
        from neutrino.cli.up.command import up

        wired = not args.no_dataplane
        return up(args.state, args.port, args.config_file, dataplane=wired, agent_files=args.agent_config_file)
    if args.command == "agent":
        from neutrino.cli.agent import agent

        return agent(args.action, args.config_file, dry_run=args.dry_run, wait=args.wait)
    if args.command == "host":
        from neutrino.cli.host import host

        return host(args.action, args.name, args.roles, args.config_file)
    if args.command == "db":
        from neutrino.cli.database import database

        return database(args.action, args.config_file)
    return {"vm": vm.vm, "lab": lab.lab, "metadata": _metadata}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
