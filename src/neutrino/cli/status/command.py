"""`neutrino status`: the state of servers, hosts and objects; `--watch` as a live screen.

Exit status: 0 ok, 1 degraded, 2 wrong arguments or configuration, 3 the state cannot be read.
"""

import argparse
import shutil
import sys
from typing import Any

import msgspec

from neutrino.cli import cloud
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.status import screen, text

OK, DEGRADED, UNREACHABLE = 0, 1, 3
WIDTH = 100  # where the output is no terminal


def status(args: argparse.Namespace) -> int:
    api = cloud.connect(args)

    def read() -> dict[str, Any]:
        query = {"host": args.host} if args.host else {}
        found: dict[str, Any] = api.get("/v2.0/status", **query)["status"]
        if args.host and not found["hosts"]:
            raise CommandError(f"no agent of host {args.host} has reported", INVALID)
        return found

    if args.watch:
        return screen.watch(read, _json if args.json else lambda found, width: render(found, width, args.all))
    try:
        found = read()
    except CommandError as error:
        if error.exit_status == INVALID:
            raise
        raise CommandError(str(error), UNREACHABLE) from None
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    lines = _json(found, width) if args.json else render(found, width, args.all)
    print("\n".join(lines))
    return OK if found["verdict"] == "ok" else DEGRADED


def render(found: dict[str, Any], width: int, every_host: bool) -> list[str]:
    try:
        return text.render(found, width, every_host=every_host)
    except (KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"the response is not the status of a neutrino server: {error!r}", UNREACHABLE) from None


def _json(found: dict[str, Any], width: int) -> list[str]:
    return [msgspec.json.format(msgspec.json.encode(found)).decode()]
