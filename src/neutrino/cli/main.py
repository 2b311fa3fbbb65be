"""The `neutrino` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from neutrino import __version__


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

    db = commands.add_parser("db", help="look after the database")
    db.add_argument("action", choices=["upgrade", "version", "recount"])
    _config_files(db)

    feed = commands.add_parser("feed", help="run the feed for the hosts by itself")
    _config_files(feed)
    feed.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)

    host = commands.add_parser("host", help="say which hosts may connect to the feed")
    host.add_argument("action", choices=["add", "list", "remove", "rotate", "show"])
    host.add_argument("name", nargs="?", help="the host's name; add and rotate print its credential, once")
    _config_files(host)

    args = parser.parse_args(argv)
    try:
        return _run(args)
    except KeyboardInterrupt:
        return 130


def _config_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config-file", action="append", default=[], help="configuration; may be given several times")


def _run(args: argparse.Namespace) -> int:
    # Each command imports what it needs: starting stays quick.
    if args.command == "server":
        from neutrino.cli.server import serve

        return serve(args.config_file)
    if args.command == "up":
        from neutrino.cli.up import up

        return up(args.state, args.port, args.config_file)
    if args.command == "feed":
        from neutrino.cli.feed import feed

        return feed(args.config_file, args.parent)
    if args.command == "host":
        from neutrino.cli.host import host

        return host(args.action, args.name, args.config_file)
    from neutrino.cli.database import database

    return database(args.action, args.config_file)


if __name__ == "__main__":
    sys.exit(main())
