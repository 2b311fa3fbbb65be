"""Arguments of `neutrino vm` and `neutrino lab`."""

import argparse
import os
from collections.abc import Sequence

from neutrino.cli.parser import Parser

DEFAULT_LAB = "/run/neutrino-lab"
VM_ACTIONS = ("create", "exec", "delete", "list")
UPLINKS = ("underlay", "provider", "external")  # of `lab/settings.py`, which loads more than a help text needs
_DELETE = "--delete"


def with_vm_action(argv: Sequence[str]) -> list[str]:
    """Expand `vm web …` to `vm create web …`, `lab vm web …` likewise, and `lab vm --delete web` to `lab vm delete web`."""
    words = list(argv)
    at = 0
    if words[:1] == ["lab"]:
        at = _after_state(words, 1)
    if words[at : at + 1] != ["vm"]:
        return words
    is_lab, at = at > 0, _after_state(words, at + 1)
    rest = words[at:]
    if not rest or rest[0] in (*VM_ACTIONS, "-h", "--help") or (not is_lab and rest[0].startswith("-")):
        return words
    if is_lab and _DELETE in rest:
        return [*words[:at], "delete", *(word for word in rest if word != _DELETE)]
    return [*words[:at], "create", *rest]


def _after_state(words: Sequence[str], at: int) -> int:
    if words[at : at + 1] == ["--state"]:
        return min(at + 2, len(words))
    return at + 1 if at < len(words) and words[at].startswith("--state=") else at


def add_vm_arguments(parser: Parser) -> None:
    state = _state(parser, "state", "the state directory of neutrino up")
    _add_vm_actions(parser, state, "vm")


def add_lab_arguments(parser: Parser) -> None:
    state = _state(parser, DEFAULT_LAB, "the lab's directory")
    parser.take_commands("action")
    _add_up(parser.add_command("up", parents=[state], help="create a lab: a server and hosts"))

    vm = parser.add_command("vm", parents=[state], help="stand-in instances, with the words of `neutrino vm`")
    create = _add_vm_actions(vm, state, "lab vm", "vm_action")
    create.add_argument("--host", help="h1 to hN (default: the one with the fewest VMs)")
    create.add_argument("--project", help="of the new port, with --keystone by name too (default: the network's)")
    create.add_argument("--hybrid", action="store_true", help="plug through a Linux bridge, for a hybrid firewall")

    on = "run a command in a VM, on a host, or on the external machine"
    execute = parser.add_command("exec", parents=[state], help=on)
    execute.add_argument("where", metavar="NAME|hN|external")
    execute.add_argument("argv", metavar="-- COMMAND", nargs=argparse.REMAINDER, help="its exit status is returned")

    status = parser.add_command("status", parents=[state], help="show hosts, VMs and the API")
    status.add_argument("--json", action="store_true", help="print JSON")
    _add_faults(parser, state)
    parser.add_command("down", parents=[state], help="remove the lab")
    demo = "a short demonstration in a temporary lab, with the openstack client"
    parser.add_command("demo", parents=[state], help=demo)


def _add_up(up: Parser) -> None:
    up.add_argument("--hosts", type=int, default=3, help="number of hosts, h1 to hN (default: %(default)s)")
    up.add_argument("--port", type=int, default=9696, help="port of the API on 127.0.0.1 (default: %(default)s)")
    up.add_argument("--mtu", type=int, default=1500, help="MTU of the physical networks (default: %(default)s)")
    up.add_argument("--underlay-ip-version", type=int, default=4, choices=[4, 6], help="of the tunnel endpoints")
    datapath = "datapath of Open vSwitch: kernel (system) or userspace (netdev) (default: %(default)s)"
    up.add_argument("--datapath", default="netdev", choices=["system", "netdev"], help=datapath)
    up.add_argument("--central", type=int, default=2, help="hosts with agent_mode dvr_snat (default: %(default)s)")
    keystone = "authenticate by a real Keystone, with projects and users (default PYTHON: of scripts/setup keystone)"
    up.add_argument("--keystone", metavar="PYTHON", nargs="?", const="", help=keystone)
    for option, dest, what in (
        ("--config-file", "server_config_files", "configuration file for the server; repeatable"),
        ("--agent-config-file", "agent_config_files", "configuration file for the agents"),
    ):
        up.add_argument(option, dest=dest, metavar="FILE", type=os.path.abspath, action="append", default=[], help=what)


def _add_faults(parser: Parser, state: Parser) -> None:
    """Commands that break things on purpose, and mend them."""
    kill = "end it by SIGKILL, as a crash does"
    agent = parser.add_command("agent", parents=[state], help="stop, start or restart the agent of a host")
    agent.add_actions(
        {
            "stop": "end the agent; its daemons and the dataplane stay",
            "start": "start it, and wait until it is alive",
            "restart": "both",
        },
        "what",
    )
    agent.add_argument("host", metavar="HOST", help="h1 to hN")
    agent.add_argument("--kill", action="store_true", help=kill)
    server = parser.add_command("server", parents=[state], help="stop, start or restart the server")
    server.add_actions(
        {
            "stop": "end the server with its API workers and the feed; hosts go on with their last known state",
            "start": "start it, and wait until the API responds",
            "restart": "both",
        },
        "what",
    )
    server.add_argument("--kill", action="store_true", help=kill)
    link = parser.add_command("link", parents=[state], help="cut a host's link to a network, or restore it")
    link.add_argument("host", metavar="HOST", help="h1 to hN")
    link.add_actions({"down": "cut it, as when its cable is pulled", "up": "restore it"}, "what")
    link.add_argument("--uplink", choices=UPLINKS, default=UPLINKS[0], help="the network (default: %(default)s)")
    host = parser.add_command("host", parents=[state], help="kill a host, or start it again")
    host.add_actions(
        {
            "kill": "cut all links of the host and kill its agent, switch and daemons, as when its power fails",
            "start": "restore its links, start its switch and agent, and wait until the agent is alive",
        },
        "what",
    )
    host.add_argument("host", metavar="HOST", help="h1 to hN")


def _add_vm_actions(parser: Parser, state: Parser, command: str, dest: str = "action") -> Parser:
    """Add what `neutrino vm` and `neutrino lab vm` share; return the parser of `create`."""
    parser.take_commands(dest)
    create = parser.add_command(
        "create", parents=[state], help=f"create one; `neutrino {command} NAME …` is short for it"
    )
    create.add_argument("name", metavar="NAME")
    create.add_argument("--network", help="the network, by name or id")
    create.add_argument("--port", help="an existing port instead of a network, by name or id")
    group = "by name or id; repeatable"
    create.add_argument("--security-group", dest="security_groups", metavar="GROUP", action="append", help=group)
    without = "configure the port's addresses without DHCP"
    create.add_argument("--no-dhcp", dest="dhcp", action="store_false", help=without)
    create.add_argument("--address", help="fixed IP of the new port (default: any free one)")
    execute = parser.add_command("exec", parents=[state], help="run a command in one, and exit with its status")
    execute.add_argument("name", metavar="NAME")
    execute.add_argument("argv", metavar="-- COMMAND", nargs=argparse.REMAINDER)
    delete = parser.add_command("delete", parents=[state], help="delete one, with the port that was created for it")
    delete.add_argument("name", metavar="NAME")
    parser.add_command("list", parents=[state], help="list them with their addresses and ports")
    return create


def _state(parser: Parser, default: str, what: str) -> Parser:
    """Add --state, and return a parent for the parsers of actions that accept it too: users type it before and after."""
    parser.add_argument("--state", default=default, help=f"{what} (default: {default})")
    parent = Parser(add_help=False)
    # Without a default, which would override the value that was given before the action.
    parent.add_argument("--state", default=argparse.SUPPRESS, help=what)
    return parent
