"""`neutrino takeover host HOST…` at a server: hosts are converted, given back or looked at through the feed.

It needs the server's configuration and database. The API has no such request.
"""

import argparse
import sys
from collections.abc import Collection

from neutrino.cli.database import opened, read_configuration
from neutrino.cli.errors import INVALID, CommandError
from neutrino.model.takeover import Action
from neutrino.server.hosts.queries import HostQueries
from neutrino.server.hosts.registry import Registry
from neutrino.takeover.fleet.hosts import Cloud, read_cloud, read_layout
from neutrino.takeover.fleet.works import Fleet, Outcome, Result, status_of, summary
from neutrino.takeover.opening import Phase


def fleet(args: argparse.Namespace) -> int:
    if args.hosts and args.all:
        raise CommandError("give hosts or --all, not both", INVALID)
    if args.batch < 1:
        raise CommandError(f"--batch is {args.batch}: give at least 1", INVALID)
    conf = read_configuration(args)
    action = _action(args)
    with opened(conf) as db:
        cloud = read_cloud(db)
        hosts = _chosen(args.hosts, action, cloud)
        if not hosts:
            print("no host is converted" if action is Action.BACK else "all hosts are converted")
            return 0
        if action is Action.CONVERT:
            _check_phase(cloud)
        shows = action in (Action.DRY_RUN, Action.COMPARE)
        work = Fleet(
            HostQueries(db, Registry(db, conf.agent_down_time)),
            action,
            done=lambda outcome: _print(outcome, lines=shows),
            say=lambda text: print(text, file=sys.stderr, flush=True),
            stop_agents=args.stop_neutron_agents,
            batch=args.batch,
        )
        try:
            outcomes = work.run(hosts, lambda: read_layout(db))
        except KeyboardInterrupt:
            if not shows:
                print("hosts that have begun go on: run this again to await them", file=sys.stderr)
            raise
    for text in summary(outcomes):
        print(text)
    return status_of(outcomes)


def _action(args: argparse.Namespace) -> Action:
    if args.back:
        return Action.BACK
    if args.dry_run:
        return Action.DRY_RUN
    return Action.COMPARE if args.compare else Action.CONVERT


def _chosen(named: Collection[str], action: Action, cloud: Cloud) -> Collection[str]:
    if named:
        unknown = sorted({*named} - cloud.hosts)
        if unknown:
            raise CommandError(f"these hosts have no agent in the database: {', '.join(unknown)}", INVALID)
        return named
    return cloud.state.converted if action is Action.BACK else cloud.state.left


def _check_phase(cloud: Cloud) -> None:
    """Neutron's API has to be closed: our hosts would not learn of what it changes."""
    match cloud.state.phase:
        case Phase.NONE:
            raise CommandError("nothing was imported: run `neutrino takeover import` first")
        case Phase.IMPORTED:
            raise CommandError(
                "the last import was not the final one, so Neutron may have changed since: let Neutron refuse writes, and "
                "run `neutrino takeover import --final` first"
            )
        case Phase.CLOSED | Phase.EXPORTED:
            raise CommandError(
                "this cloud was exported to Neutron, which serves the hosts that were given back and may have changed: "
                "run `neutrino takeover import --final` first, or `neutrino takeover open` to go on here"
            )


def _print(outcome: Outcome, *, lines: bool) -> None:
    if lines:
        for text in outcome.lines:
            print(f"{outcome.host}: {text}")
    result = outcome.text if outcome.result is Result.DONE and outcome.text else f"{outcome.result}: {outcome.text}"
    print(f"{outcome.host}: {result}", flush=True)
