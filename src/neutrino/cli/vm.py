"""`neutrino vm`: stand-in instances on the machine of `neutrino up`."""

import argparse
import os
from pathlib import Path

from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.preflight import check_privileges
from neutrino.cli.up.machine import find_running
from neutrino.lab.instances.instances import Instances, VmOptions


def vm(args: argparse.Namespace) -> None:
    check_privileges("neutrino vm")
    run = find_running(Path(args.state).absolute())
    if not run.host:
        raise CommandError("networks are not wired on this machine; neutrino up printed the reason when it started")
    if not run.no_auth:
        raise CommandError("neutrino vm has no Keystone credentials: it needs auth_strategy=noauth")
    instances = run.instances()
    if args.action == "create":
        vm = instances.create(args.name, **create_options(args))
        print(f"{vm.name}: {instances.describe(vm)}")
    elif args.action == "exec":
        command = instances.command(args.name, command_of(args))
        os.execvp(command[0], command)
    elif args.action == "delete":
        delete_instance(instances, args.name)
    else:
        for vm in instances.vms.all():
            print(f"{vm.name}: {instances.describe(vm)}")


def create_options(args: argparse.Namespace) -> VmOptions:
    if (args.network is None) == (args.port is None):
        raise CommandError(f"VM {args.name} needs either --network or --port", INVALID)
    address: str | None = getattr(args, "address", None)
    if args.port is not None and (args.security_group is not None or address is not None):
        raise CommandError("--security-group and --address apply to a new port only, not with --port", INVALID)
    return {
        "network": args.network,
        "port": args.port,
        "address": address,
        "security_groups": args.security_group,
        "dhcp": not args.no_dhcp,
    }


def delete_instance(instances: Instances, name: str) -> None:
    instances.delete(name)
    print(f"{name} is deleted")


def command_of(args: argparse.Namespace) -> list[str]:
    """The command after `--`."""
    argv: list[str] = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise CommandError(f"no command given: neutrino {args.command} exec NAME -- COMMAND", INVALID)
    return argv
