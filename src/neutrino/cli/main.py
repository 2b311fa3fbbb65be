"""The `neutrino` command: arguments of all commands, and their dispatch."""

import argparse
import os
import pkgutil
import sys
from collections.abc import Sequence

from neutrino import __version__
from neutrino.cli import cloud
from neutrino.cli import lab_arguments as lab
from neutrino.cli.errors import INVALID, flush_output, open_standard_streams, output_error, report
from neutrino.cli.history.command import add_arguments as add_history
from neutrino.cli.parser import Parser
from neutrino.cli.pki import arguments as pki
from neutrino.cli.takeover import arguments as takeover
from neutrino.cli.trace import arguments as trace

SBIN = "/usr/sbin:/sbin"
# The function of each command, which returns an exit status other than 0, or None. Imported when it is called, as
# importing the whole server takes a second.
COMMANDS = {
    "server": "neutrino.cli.server:serve",
    "feed": "neutrino.cli.server:serve_feed",
    "up": "neutrino.cli.up.command:up",
    "db": "neutrino.cli.database:database",
    "host": "neutrino.cli.database:host",
    "notify": "neutrino.cli.notify:notify",
    "agent": "neutrino.cli.agent:agent",
    "history": "neutrino.cli.history.command:history",
    "pki": "neutrino.cli.pki.command:pki",
    "metadata": "neutrino.cli.main:metadata_proxy",
    "bfd": "neutrino.cli.main:bfd_speaker",
    "shadow": "neutrino.cli.takeover.shadow:shadow",
    "doctor": "neutrino.cli.doctor.command:doctor",
    "status": "neutrino.cli.status.command:status",
    "vm": "neutrino.cli.lab:vm",
    "lab": "neutrino.cli.lab:lab",
    "config": "neutrino.cli.sample:config",
    "policy": "neutrino.cli.policy:policy",
    "completion": "neutrino.cli.documents.completion:completion",
    "trace": "neutrino.cli.trace.command:trace",
    "takeover": "neutrino.cli.takeover.command:takeover",
}


def main(argv: Sequence[str] | None = None) -> int:
    open_standard_streams()
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report(error)


def _run(argv: Sequence[str]) -> int:
    try:
        if not argv:
            build_parser().print_help()
            return flush_output() or INVALID
        args = build_parser().parse_args(lab.with_vm_action(argv))
        path = os.environ.get("PATH", os.defpath)
        # `su` without `-` keeps the PATH of a user, without sbin. Not for the server, whose environment must stay
        # untouched: setproctitle, which names its processes, fails if the first variable was replaced.
        if args.command not in ("server", "feed") and not path.endswith(SBIN):
            os.environ["PATH"] = f"{path}:{SBIN}"
        status: int | None = pkgutil.resolve_name(COMMANDS[args.command])(args)
    except OSError as error:
        # Output is buffered, so that an error of writing it may appear here or below.
        return output_error(error)
    except SystemExit:  # of argparse, after --help or an error
        flush_output()
        raise
    return flush_output() or status or 0


def build_parser() -> Parser:
    parser = Parser(prog="neutrino", description="Virtual networks behind the Networking API v2.0.")
    parser.add_argument("--version", action="version", version=f"neutrino {__version__}")
    parser.take_commands("command")

    config = Parser(add_help=False)
    config.add_argument("--config-file", action="append", default=[], help="configuration file; repeatable")

    parser.add_command("server", parents=[config], help="run the API server")
    _add_up(parser)
    db = parser.add_command("db", parents=[config], help="maintain the database")
    db.add_actions(
        {
            "check-upgrade": "say what would stop or surprise an upgrade to this release; exit status 1 if there is "
            "something, 3 if the database cannot be read",
            "upgrade": "upgrade the schema to that of this release; make a backup first",
            "version": "print the version of the schema, and the one that this release needs",
            "recount": "count objects again for quotas, and correct counters; servers may run meanwhile",
            "restored": "after a backup was restored: hosts get a new identity of the database, and are compared with it",
            "verify": "list routers that no agent can host, with the reason; exit status 1 if there are any",
        }
    )

    db.add_argument("--json", action="store_true", help="check-upgrade: print JSON")
    parser.add_command("feed", parents=[config], help="run the feed for the host agents as a separate process")

    host = parser.add_command("host", parents=[config], help="manage the credentials of hosts for the feed")
    host.add_actions(
        {
            "add": "create the credential of a new host, and print it",
            "list": "list hosts with their roles",
            "remove": "remove a host's credential: its agent is disconnected at once",
            "roles": "change the roles that a host may have",
            "rotate": "replace a host's credential, and print the new one; the old one is invalid at once",
            "show": "show the objects that a host receives",
        }
    )
    host.add_argument("name", nargs="?", help="the host's name; add and rotate print its credential, once")
    host.add_argument(
        "--roles", help="for add and roles: of l2,dhcp,l3,metadata,bgp,sriov (default of add: l2,metadata)"
    )

    notify = parser.add_command("notify", parents=[config], help="send notifications for accounting")
    notify.add_actions(
        {
            "exists": "send network.exists, subnet.exists, port.exists, router.exists and floatingip.exists for each "
            "object, as neutron-usage-audit does; exit status 1 if the broker has not taken all of them"
        }
    )

    agent = parser.add_command("agent", parents=[config], help="run the agent of this host")
    agent.add_actions(
        {
            "run": "run the agent, until SIGTERM (default)",
            "verify": "compare this host with the desired state, and print every difference, flows and rules of others "
            "among them; exit status 1 if there are any, 3 if the server does not respond",
            "teardown": "remove what the stopped agent has created on this host: daemons, namespaces, switch ports, flows, "
            "bridges, rules, files. Refused while instances have ports; what has no mark of this agent stays. Exit status "
            "1 if it is refused or something is left",
        },
        default="run",
    )
    agent.add_argument("--dry-run", action="store_true", help="print the planned changes without applying them")
    agent.add_argument("--wait", type=float, default=5.0, help="verify: seconds that a difference must last")
    agent.add_argument("--roles", help="teardown: of these roles alone, of l2,dhcp,l3,metadata,bgp,sriov")
    agent.add_argument(
        "--keep-ports", action="store_true", help="teardown: ports of instances stay on the bridge, without a network"
    )
    agent.add_argument(
        "--all-ports", action="store_true", help="teardown: ports of instances are removed with the bridges"
    )
    agent.add_argument("--json", action="store_true", help="teardown: print JSON")

    status = parser.add_command("status", help="show the state of servers, hosts and objects, and all problems")
    cloud.add_arguments(status)
    status.add_argument("--watch", action="store_true", help="a live screen, until q")
    status.add_argument("--all", action="store_true", help="list all hosts, also many without problems")
    status.add_argument("--host", metavar="NAME", help="list this host only")
    add_history(parser.add_command("history", help="show the changes of an object, with their requests"))
    pki.add_arguments(parser.add_command("pki", help="a small certificate authority, for installations without one"))

    _add_doctor(parser, config)
    lab.add_vm_arguments(parser.add_command("vm", help="stand-in instances on the machine of `neutrino up`"))
    trace.add_arguments(parser.add_command("trace", help="trace a packet: why it arrives or not"))
    lab.add_lab_arguments(parser.add_command("lab", help="several hosts on this machine, for trying it out"))
    _add_policy(parser, config)
    takeover.add_arguments(parser.add_command("takeover", help="take over a running Neutron"), config)
    _add_texts(parser)
    _add_daemons(parser)
    return parser


def _add_up(parser: Parser) -> None:
    up = parser.add_command("up", help="run everything on this machine with built-in defaults, until Ctrl-C")
    up.add_argument("--state", default="state", help="directory of its files (default: %(default)s)")
    up.add_argument("--port", type=int, default=9696, help="port of the API on 127.0.0.1 (default: %(default)s)")
    up.add_argument("--config-file", action="append", default=[], help="configuration that overrides the defaults")
    up.add_argument("--agent-config-file", action="append", default=[], help="the same for this machine's agent")
    up.add_argument("--no-dataplane", action="store_true", help="serve the API only, without Open vSwitch and agent")


def _add_doctor(parser: Parser, config: Parser) -> None:
    doctor = parser.add_command("doctor", parents=[config], help="check this machine as a server or a host")
    role = doctor.add_mutually_exclusive_group()
    of_server = "the files are a server's (default: by their content)"
    doctor.declare(role.add_argument("--server", action="store_true", help=of_server))
    doctor.declare(role.add_argument("--host", action="store_true", help="the files are an agent's"))
    doctor.add_argument("--only", metavar="CHECKS", help="these checks only, separated by commas")
    doctor.add_argument("--list", action="store_true", help="list the checks")
    doctor.add_argument("--json", action="store_true", help="print JSON")


def _add_policy(parser: Parser, config: Parser) -> None:
    policy = parser.add_command(
        "policy",
        parents=[config],
        help="check a policy file",
        description="Check a policy file: invalid rules, names that no rule has. Exit status 1 if there are any.",
    )
    policy.add_actions({"check": "print what is wrong"})
    policy.add_argument("file", nargs="?", help="the policy file (default: the files of the configuration)")


def _add_texts(parser: Parser) -> None:
    """Commands that print a text for a file."""
    sample = parser.add_command(
        "config",
        help="print a sample configuration file",
        description="Print a configuration file with all options, their help and defaults, each commented out.",
    )
    sample.add_actions({"sample": "print a sample configuration"})
    sample.add_argument("program", choices=["server", "agent"], help="the program that reads the file")

    completion = parser.add_command(
        "completion",
        help="print the completion script of a shell",
        description="Print the completion script of a shell: `source <(neutrino completion bash)`.",
    )
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")


def _add_daemons(parser: Parser) -> None:
    """Programs that the agent starts; without help, argparse does not list them."""
    metadata = parser.add_command("metadata")
    metadata.add_argument("--socket", required=True, help="control socket of the agent")
    metadata.add_argument("--user", type=int, required=True, help="uid to run as")
    metadata.add_argument("--group", type=int, required=True, help="gid to run as")
    metadata.add_argument("--monitor-file", default="", help="file to write the time to")
    metadata.add_argument("--log-json", action="store_true", help="log lines as JSON")
    metadata.add_argument("--debug", action="store_true", help="log at DEBUG")
    metadata.add_argument("--monitor-interval", type=float, default=5.0, help="seconds between two writes")
    shadow = parser.add_command("shadow")
    shadow.add_argument("--config-file", action="append", default=[], help="configuration file; repeatable")
    shadow.add_argument("--seconds", type=float, required=True, help="after which it ends with what it has")
    shadow.add_argument("--first", type=int, default=0, help="the port that it begins with")
    bfd = parser.add_command("bfd")
    bfd.add_argument("--directory", required=True, help="where the agent's files are")
    bfd.add_argument("--format", required=True, help="of these files: a speaker of another one is restarted")


def metadata_proxy(args: argparse.Namespace) -> None:
    """The proxy process of the metadata role. Here, as `neutrino.cli.agent` would load the whole agent into it."""
    from neutrino.agent.metadata.proxy.process import run

    log = "json" if args.log_json else ""
    run(args.socket, args.user, args.group, args.monitor_file, args.monitor_interval, log, args.debug)


def bfd_speaker(args: argparse.Namespace) -> None:
    """The BFD process of the L3 role. Here for the same reason."""
    from neutrino.agent.l3.services.bfd.process import run

    run(args.directory)


if __name__ == "__main__":
    sys.exit(main())
