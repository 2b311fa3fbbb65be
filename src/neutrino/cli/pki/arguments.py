"""Arguments of `neutrino pki`. Imports little: every command loads it."""

import argparse

from neutrino.cli.parser import Parser

DEFAULT_DIRECTORY = "/etc/neutrino/pki"
RENEW_WITHIN_DAYS = 30


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--directory", default=DEFAULT_DIRECTORY, help="its files (default: %(default)s)")
    shared = Parser(add_help=False)
    # Without a default, which would override the value that was given before the action.
    shared.add_argument("--directory", default=argparse.SUPPRESS, help="directory of the authority's files")
    parser.take_commands("action")

    init = parser.add_command("init", parents=[shared], help="create the authority: ca.crt and ca.key")
    init.add_argument("--name", default="neutrino CA", help="name in its certificate (default: %(default)s)")
    init.add_argument("--days", type=int, default=3650, help="validity of its certificate (default: %(default)s)")

    issue = parser.add_command("issue", parents=[shared], help="create key and certificate of a server")
    issue.add_argument("name", metavar="NAME", help="name of the files, and of the server if no --address is given")
    issue.add_argument(
        "--address",
        dest="addresses",
        metavar="IP|DNS",
        action="append",
        default=[],
        help="address or DNS name by which clients and agents reach it; repeatable",
    )
    issue.add_argument("--days", type=int, default=397, help="validity in days (default: %(default)s)")
    issue.add_argument(
        "--client", action="store_true", help="for a client, to authenticate with where [ssl] ca_file is set"
    )
    issue.add_argument("--owner", metavar="USER", help="user who owns the key, such as neutrino (default: yourself)")

    renew = parser.add_command("renew", parents=[shared], help="replace certificates that end soon, with new keys")
    renew.add_argument("names", metavar="NAME", nargs="*", help="these, whenever they end; ca: the authority's own")
    within = "without NAME: those that end within this number of days (default: %(default)s)"
    renew.add_argument("--within", metavar="DAYS", type=int, default=RENEW_WITHIN_DAYS, help=within)
    renew.add_argument("--days", type=int, help="validity in days (default: that of the old certificate)")

    listing = parser.add_command("list", parents=[shared], help="list certificates with addresses and expiry")
    listing.add_argument("--json", action="store_true", help="print JSON")
    show = parser.add_command(
        "show", parents=[shared], help="show a certificate, and the options for server and agents"
    )
    show.add_argument("name", metavar="NAME", help="of the certificate, or ca")
    show.add_argument("--json", action="store_true", help="print JSON")
