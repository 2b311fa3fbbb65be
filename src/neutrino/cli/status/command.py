"""`neutrino status`: the state of servers, hosts and objects; `--watch` as a live screen.

Exit status: 0 ok, 1 degraded, 2 wrong arguments or configuration, 3 the state cannot be read.
"""

import argparse
import shutil
import sys

import msgspec

from neutrino.cli import cloud
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.status import screen, text
from neutrino.model.objects import Object

OK, DEGRADED, UNREACHABLE = 0, 1, 3
WIDTH = 100  # where the output is no terminal


def status(args: argparse.Namespace) -> int:
    api = cloud.connect(args)

    def read() -> Object:
        query = {"host": args.host} if args.host else {}
        document: Object = api.get("/v2.0/status", **query)["status"]
        if args.host and not document["hosts"]:
            raise CommandError(f"no agent of host {args.host} has reported", INVALID)
        return document

    if args.watch:
        return screen.watch(read, _json if args.json else lambda document, width: render(document, width, args.all))
    try:
        document = read()
    except CommandError as error:
        if error.exit_status == INVALID:
            raise
        raise CommandError(f"{error}{_remedy(api, error)}", UNREACHABLE) from None
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    lines = _json(document, width) if args.json else render(document, width, args.all)
    print("\n".join(lines))
    return OK if document["verdict"] == "ok" else DEGRADED


def _remedy(api: cloud.Cloud, error: CommandError) -> str:
    """What to do about an answer that is a refusal, with the URL that gave it."""
    status = error.status if isinstance(error, cloud.ApiError) else 0
    if status == 401:
        how = "source an openrc file, or use --os-cloud NAME; without Keystone, --endpoint URL"
        return f"; {api.url} requires credentials: {how}"
    if status == 403:
        return f"; at {api.url} the rule get_status allows administrators: use their credentials"
    return ""


def render(document: Object, width: int, every_host: bool) -> list[str]:
    try:
        return text.render(document, width, every_host=every_host)
    except (KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"the response is not the status of a neutrino server: {error!r}", UNREACHABLE) from None


def _json(document: Object, width: int) -> list[str]:
    return [msgspec.json.format(msgspec.json.encode(document)).decode()]
