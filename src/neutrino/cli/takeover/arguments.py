"""Arguments of `neutrino takeover`."""

from typing import Final

from neutrino.cli.parser import Parser

VARIABLE: Final = "NEUTRON_DATABASE_URL"


def add_arguments(takeover: Parser) -> None:
    takeover.add_argument("action", choices=["check", "import", "status", "open"])
    takeover.add_argument(
        "--from",
        dest="source",
        metavar="URL",
        help=f"address of Neutron's database, without its password if others use this machine (default: ${VARIABLE})",
    )
    takeover.add_argument("--from-file", metavar="FILE", help="file with this address, as [database] connection has it")
    takeover.add_argument("--dry-run", action="store_true", help="import: write nothing, report what would be written")
    takeover.add_argument("--final", action="store_true", help="import: record it as the last one, Neutron is frozen")
    takeover.add_argument("--report", metavar="FILE", help="write the whole report to this file (.json: as JSON)")
    takeover.add_argument(
        "--with-running-server", action="store_true", help="import: also while a server runs on our database"
    )
    takeover.add_argument(
        "--despite-hosts", metavar="HOST,…", default="", help="open: hosts that are out of use and need no conversion"
    )
