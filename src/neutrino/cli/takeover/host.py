"""`neutrino takeover host`: asks the agent of this host to convert it, or to give it back to Neutron's agents.

With names of hosts, or --all, it is a command of a server for those hosts (`fleet.py`).
"""

import argparse
import sys
from collections.abc import Sequence

from neutrino.agent import config, main
from neutrino.agent.takeover import control
from neutrino.cli import preflight
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.installed import AGENT_FILE, default_files


def host(args: argparse.Namespace) -> int:
    if args.stop_neutron_agents and (args.back or args.dry_run or args.compare):
        raise CommandError("--stop-neutron-agents goes with a conversion alone: --back starts them again", INVALID)
    if args.hosts or args.all:
        from neutrino.cli.takeover.fleet import fleet

        return fleet(args)
    files = default_files(args.config_file, AGENT_FILE)
    preflight.check_files(files)
    conf = config.configuration(files)
    preflight.check_privileges("the conversion of a host")
    if args.compare:
        return _compare(files)
    action = control.BACK if args.back else control.DRY_RUN if args.dry_run else control.CONVERT
    try:
        for answer in control.ask(conf.state_path, control.Request(action, stop_agents=args.stop_neutron_agents)):
            if answer.status is None:
                print(answer.text, flush=True)
                continue
            print(answer.text, file=sys.stderr if answer.status else sys.stdout)
            return answer.status
    except control.NotRunning as error:
        raise CommandError(
            f"{error}. Start neutrino's agent on this host: it changes nothing there before it is told to",
            control.UNREACHABLE,
        ) from None
    raise CommandError("the agent has ended before the work was done: see its log, start it, and run this again")


def _compare(files: Sequence[str]) -> int:
    """List packets that the conversion would let through or stop; 1 if there are any."""
    comparison = main.compare(files, lambda text: print(text, file=sys.stderr, flush=True))
    if comparison is None:
        raise CommandError("the server does not respond, so the security groups are unknown", control.UNREACHABLE)
    for difference in comparison.differences:
        print(difference.text())
    print(comparison.text())
    return 1 if comparison.differences else 0
