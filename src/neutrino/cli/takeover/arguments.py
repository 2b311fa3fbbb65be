"""Arguments of `neutrino takeover`."""

from typing import Final

from neutrino.cli import cloud
from neutrino.cli.parser import Parser

PAUSE: Final = 60.0  # seconds between two imports that follow each other; here, as every command imports this module

VARIABLE: Final = "NEUTRON_DATABASE_URL"


def add_arguments(takeover: Parser, config: Parser) -> None:
    """`config`: the arguments of commands that read our configuration."""
    takeover.take_commands("action")
    check = takeover.add_command(
        "check", parents=[config], help="read Neutron's database, and report what is wrong in it"
    )
    _add_source(check)
    _add_accept(check)
    imports = takeover.add_command("import", parents=[config], help="make our database equal to Neutron's")
    _add_source(imports)
    _add_accept(imports)
    imports.add_argument("--dry-run", action="store_true", help="write nothing, report what would be written")
    imports.add_argument("--final", action="store_true", help="record it as the last one: Neutron is frozen")
    imports.add_argument(
        "--follow",
        metavar="SECONDS",
        nargs="?",
        type=float,
        const=PAUSE,
        help="repeat it with this pause until Ctrl-C, as the mirror of a staging server (default: %(const)s)",
    )
    imports.add_argument(
        "--with-running-server", action="store_true", help="the first one also while a server runs on our database"
    )
    exports = takeover.add_command(
        "export", parents=[config], help="after `open`: write what changed here since into Neutron's database"
    )
    _add_database(exports, "--to", "that Neutron's database, with a user who may write")
    exports.add_argument("--dry-run", action="store_true", help="write nothing, report what would be written")
    _add_verify(takeover.add_command("verify", help="compare the answers of Neutron's API with those of ours"))
    _add_host(takeover, config)
    status = takeover.add_command("status", parents=[config], help="show imports, and which hosts are converted")
    status.add_argument(
        "--differences",
        action="store_true",
        help="ask the hosts that are not converted for all differences to Neutron's flows that they have found",
    )
    status.add_argument("--json", action="store_true", help="print JSON, with the order in which hosts are converted")
    opening = takeover.add_command("open", parents=[config], help="complete it: requests may write")
    finish = takeover.add_command("finish", parents=[config], help="after `open`: give up the way back to Neutron")
    for command in (opening, finish):
        command.add_argument(
            "--despite-hosts", metavar="HOST,…", default="", help="hosts that are out of use and need no conversion"
        )


def _add_host(takeover: Parser, config: Parser) -> None:
    host = takeover.add_command(
        "host", parents=[config], help="convert hosts of Neutron's agents, or give them back to them"
    )
    host.add_argument(
        "hosts",
        metavar="HOST",
        nargs="*",
        help="hosts that are converted from this server, through the feed (default: this host, by its agent)",
    )
    what = host.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="show what would be changed, and what is in the way")
    what.add_argument(
        "--compare",
        action="store_true",
        help="compare security groups with the flows that are there, by traced packets",
    )
    what.add_argument("--back", action="store_true", help="restore what was there before the conversion")
    host.add_argument(
        "--stop-neutron-agents",
        action="store_true",
        help="have the host's agent stop the services of Neutron's agents before, and start them again after --back",
    )
    host.add_argument(
        "--all", action="store_true", help="from a server: all hosts that are to be converted, or given back"
    )
    host.add_argument(
        "--batch", metavar="N", type=int, default=50, help="from a server: hosts at a time (default: %(default)s)"
    )


def _add_accept(command: Parser) -> None:
    command.add_argument(
        "--accept-unknown-release",
        action="store_true",
        help="also a database of an unknown, newer release, if it has all that is read; there is no export back to it",
    )


def _add_source(command: Parser) -> None:
    _add_database(command, "--from", "Neutron's database")


def _add_database(command: Parser, option: str, which: str) -> None:
    command.add_argument(
        option,
        dest="database",
        metavar="URL",
        help=f"address of {which}, without its password if others use this machine (default: ${VARIABLE})",
    )
    command.add_argument(
        f"{option}-file",
        dest="database_file",
        metavar="FILE",
        help="file with this address, as [database] connection has it",
    )
    _add_report(command)


def _add_report(command: Parser) -> None:
    command.add_argument("--report", metavar="FILE", help="write the whole report to this file (.json: as JSON)")


def _add_verify(verify: Parser) -> None:
    cloud.add_arguments(verify)
    verify.add_argument("--neutron-url", metavar="URL", required=True, help="endpoint of Neutron's API")
    verify.add_argument("--neutrino-url", metavar="URL", default="", help="that of ours (default: by the credentials)")
    verify.add_argument(
        "--as",
        dest="callers",
        metavar="CLOUD",
        action="append",
        default=[],
        help="compare also what this cloud of clouds.yaml sees, as a member of a project (repeatable)",
    )
    verify.add_argument(
        "--sample",
        metavar="N",
        type=int,
        default=100,
        help="objects of a collection whose parts are compared, as bindings of ports (default: %(default)s)",
    )
    _add_report(verify)
