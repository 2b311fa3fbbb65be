"""`neutrino agent`: run the host agent, print its plan (--dry-run), check for drift (verify), remove all (teardown)."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from neutrino.agent import config, main
from neutrino.agent.programs import programs_of
from neutrino.agent.runtime.role import START
from neutrino.cli import preflight
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.installed import AGENT_FILE, default_files
from neutrino.configuration import findings
from neutrino.dataplane.ovsdb.api import OvsdbError


def agent(args: argparse.Namespace) -> int | None:
    files = default_files(args.config_file, AGENT_FILE)
    if args.action == "teardown":
        return _teardown(args, files)
    if args.roles or args.keep_ports or args.all_ports or args.json:
        raise CommandError("--roles, --keep-ports, --all-ports and --json go with teardown alone", INVALID)
    if args.action == "verify":
        return _run_checked(files, lambda: _verify(files, args.wait))
    if args.dry_run:
        return _run_checked(files, lambda: _dry_run(files))
    return run_agent(files)


def run_agent(config_files: Sequence[str]) -> int | None:
    return _run_checked(config_files, lambda: main.run(config_files, _server_options))


def _server_options() -> findings.Groups:
    from neutrino.server.config import OPTIONS  # loads a part of the server

    return OPTIONS.items()


def _teardown(args: argparse.Namespace, files: Sequence[str]) -> int | None:
    from neutrino.cli.teardown import teardown

    return _with_switch(lambda: teardown(args, files))


def _run_checked(config_files: Sequence[str], work: Callable[[], int | None]) -> int | None:
    check(config_files)
    return _with_switch(work)


def _with_switch(work: Callable[[], int | None]) -> int | None:
    try:
        return work()
    except OvsdbError as error:
        raise CommandError(
            f"Open vSwitch cannot be reached: {error}; start it, or set [ovs] ovsdb_connection to its address"
        ) from None


def check(config_files: Sequence[str]) -> None:
    """Check that an agent can run with this configuration on this machine."""
    preflight.check_files(config_files)
    conf = config.configuration(config_files)
    config.values(conf)  # oslo.config checks the type of a value only when it is read
    config.check(conf)
    # After the configuration, which can be checked without privileges, and before anything on the host is touched.
    preflight.check_privileges("the agent")
    preflight.check_programs(programs_of(conf.roles, conf.bgp.bgpd, conntrackd=conf.ha_conntrackd_enabled))


def _dry_run(config_files: Sequence[str]) -> int:
    found, synced = main.find(config_files)
    if not synced:
        print("# The server does not respond: planned from the host's cached state, without deletions.")
    for each in found:
        if each.role != START:
            print(f"# {each.role}: {'nothing to change' if not each.plan else 'would change'}")
        if each.plan:
            print(each.plan)
        for name, problem in sorted(each.problems.items()):
            print(f"# {each.role}: {name}: {problem}")
    return 0


def _verify(config_files: Sequence[str], wait: float) -> int:
    """Print drift. A change that the running agent is applying is none: only differences that last `wait` seconds count."""
    give_up = time.monotonic() + wait
    while True:
        found, synced = main.find(config_files)
        if not synced:
            print("verify: the server does not respond, so the desired state is unknown", file=sys.stderr)
            return 3  # unknown: neither drift (1) nor none (0)
        drift = [each for each in found if each.plan]
        if not drift or time.monotonic() > give_up:
            break
        time.sleep(0.5)
    for each in found:
        if each.role == START:
            for text in each.problems.values():
                print(f"verify: an agent that is started now changes nothing: {text}", file=sys.stderr)
    for each in drift:
        print(each.plan)
        print(f"verify: {each.role}: {len(each.plan.splitlines())} differences", file=sys.stderr)
    if not drift:
        print("verify: no differences")
    return 1 if drift else 0
