"""The `neutrino` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from neutrino import __version__
from neutrino.cli.failures import report
from neutrino.cli.lab import add_arguments as add_lab_arguments
from neutrino.cli.metadata import add_arguments as add_metadata_arguments
from neutrino.cli.vm import add_arguments as add_vm_arguments
from neutrino.cli.vm import with_action


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="neutrino", description="Virtual networks behind the Networking API v2.0.")
    parser.add_argument("--version", action="version", version=f"neutrino {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    server = commands.add_parser("server", help="run the API server")
    _config_files(server)

    up = commands.add_parser("up", help="run everything on this machine with embedded defaults, until Ctrl-C")
    up.add_argument("--state", default="state", help="where its files are kept (default: %(default)s)")
    up.add_argument("--port", type=int, default=9696, help="port of the API on 127.0.0.1 (default: %(default)s)")
    up.add_argument("--config-file", action="append", default=[], help="more configuration, over the defaults")
    up.add_argument("--agent-config-file", action="append", default=[], help="the same for this machine's agent")
    up.add_argument("--no-dataplane", action="store_true", help="serve the API only, and wire nothing")

    db = commands.add_parser("db", help="look after the database")
    db.add_argument("action", choices=["upgrade", "version", "recount", "verify"])
    _config_files(db)

    feed = commands.add_parser("feed", help="run the feed for the hosts by itself")
    _config_files(feed)

    host = commands.add_parser("host", help="say which hosts may connect to the feed")
    host.add_argument("action", choices=["add", "list", "remove", "roles", "rotate", "show"])
    host.add_argument("name", nargs="?", help="the host's name; add and rotate print its credential, once")
    host.add_argument(
        "--roles",
        metavar="ROLES",
        help="for add and roles: what the host may be, of l2,dhcp,l3,metadata (add without it: l2,metadata)",
    )
    _config_files(host)

    agent = commands.add_parser("agent", help="run the agent of this host")
    agent.add_argument("action", nargs="?", choices=["run", "verify"], default="run")
    agent.add_argument("--dry-run", action="store_true", help="print what would be changed, and change nothing")
    agent.add_argument("--wait", type=float, default=5.0, help="verify: seconds that a difference has to last")
    _config_files(agent)

    add_vm_arguments(commands.add_parser("vm", help="stand-in VMs on the machine of `neutrino up`"))
    add_lab_arguments(commands.add_parser("lab", help="several hosts on this machine, to try it on"))
    add_metadata_arguments(commands.add_parser("metadata"))  # without help, so not listed: the agent starts it

    args = parser.parse_args(with_action(sys.argv[1:] if argv is None else argv))
    try:
        return _run(args)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report(error)


def _config_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config-file", action="append", default=[], help="configuration; may be given several times")


def _run(args: argparse.Namespace) -> int:
    # Each command imports what it needs: starting stays quick.
    if args.command == "server":
        from neutrino.cli.server import serve

        return serve(args.config_file)
    if args.command == "up":
        from neutrino.cli.up import up

        return up(
            args.state,
            args.port,
            args.config_file,
            dataplane=not args.no_dataplane,
            agent_files=args.agent_config_file,
        )
    if args.command == "feed":
        from neutrino.cli.feed import serve_feed

        return serve_feed(args.config_file)
    if args.command == "agent":
        from neutrino.cli.agent import agent

        return agent(args.action, args.config_file, dry_run=args.dry_run, wait=args.wait)
    if args.command == "vm":
        from neutrino.cli.vm import vm

        return vm(args)
    if args.command == "metadata":
        from neutrino.cli.metadata import metadata

        return metadata(args)
    if args.command == "lab":
        from neutrino.cli.lab import lab

        return lab(args)
    if args.command == "host":
        from neutrino.cli.host import host

        return host(args.action, args.name, args.roles, args.config_file)
    from neutrino.cli.database import database

    return database(args.action, args.config_file)


if __name__ == "__main__":
    sys.exit(main())
