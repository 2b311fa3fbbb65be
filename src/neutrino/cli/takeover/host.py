"""`neutrino takeover host`: asks the agent of this host to convert it, or to give it back to Neutron's agents."""

import argparse
import sys

from neutrino.agent import config
from neutrino.agent.takeover import control
from neutrino.cli import preflight
from neutrino.cli.errors import CommandError
from neutrino.cli.installed import AGENT_FILE, default_files


def host(args: argparse.Namespace) -> int:
    files = default_files(args.config_file, AGENT_FILE)
    preflight.check_files(files)
    conf = config.configuration(files)
    preflight.check_privileges("the conversion of a host")
    action = control.BACK if args.back else control.DRY_RUN if args.dry_run else control.CONVERT
    try:
        for answer in control.ask(conf.state_path, action):
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
