"""`neutrino agent teardown`: remove from this host what its agent has created."""

import argparse
import dataclasses
import sys
from collections.abc import Sequence

import msgspec

from neutrino.agent import config
from neutrino.agent.runtime.own_state import AgentRuns
from neutrino.agent.teardown.build import obstacles, stopped_agent, teardown_host
from neutrino.agent.teardown.plan import Removal, Selection, TeardownPlan, plan_teardown
from neutrino.cli import preflight
from neutrino.cli.errors import INVALID, CommandError
from neutrino.configuration.options import Configuration
from neutrino.dataplane.openflow.api import OpenFlowError
from neutrino.dataplane.sriov.api import SriovError
from neutrino.model.roles import ROLES

LEFT = 1  # something is on the host that should not be


@dataclasses.dataclass
class Report:
    """What is printed, as lines or as one document."""

    as_json: bool
    rows: list[dict[str, str]] = dataclasses.field(default_factory=list)
    failed: int = 0

    def add(self, removal: Removal, reason: str = "") -> None:
        self.failed += bool(reason)
        row = {"role": removal.role, "kind": removal.kind, "name": removal.name, "change": removal.text()}
        self.rows.append(row | ({"error": reason} if reason else {}))
        if reason:
            print(f"neutrino: {removal.text()}: {reason}", file=sys.stderr, flush=True)
        elif not self.as_json:
            print(removal.text(), flush=True)

    def end(self, plan: TeardownPlan, *, dry: bool) -> None:
        if self.as_json:
            kept = [{"name": name, "reason": reason} for name, reason in sorted(plan.kept.items())]
            document = {"dry_run": dry, "removals": self.rows, "kept": kept, "refused": list(plan.obstacles)}
            print(msgspec.json.format(msgspec.json.encode(document)).decode())
            return
        for name, reason in sorted(plan.kept.items()):
            print(f"# {name} stays: {reason}")
        if not plan.removals:
            print("nothing to remove")
        for obstacle in plan.obstacles:
            print(f"# this would be refused: {obstacle}")


def teardown(args: argparse.Namespace, files: Sequence[str]) -> int:
    selection = _selection(args)
    preflight.check_files(files)
    conf = config.configuration(files)
    preflight.check_privileges("removing an agent's work")
    report = Report(args.json)
    try:
        if args.dry_run:
            plan = _plan(conf, selection)
            for removal in plan.removals:
                report.add(removal)
            report.end(plan, dry=True)
            return LEFT if plan.obstacles else 0
        with stopped_agent(conf, whole=selection.is_whole):
            return _remove(conf, selection, report)
    except OpenFlowError as error:
        raise CommandError(f"Open vSwitch does not answer: {error}; start it, so that its flows are known") from None
    except SriovError as error:
        raise CommandError(f"SR-IOV cards cannot be read: {error}") from None
    except AgentRuns as error:
        raise CommandError(f"{error}: stop it first (systemctl stop neutrino-agent)", error.exit_status) from None


def _selection(args: argparse.Namespace) -> Selection:
    if args.keep_ports and args.all_ports:
        raise CommandError("--keep-ports and --all-ports are alternatives", INVALID)
    roles = frozenset(args.roles.split(",")) if args.roles else frozenset(ROLES)
    if unknown := sorted(roles - set(ROLES)):
        raise CommandError(f"--roles: there is no role {unknown[0]!r}, of {', '.join(ROLES)}", INVALID)
    return Selection(roles, args.keep_ports, args.all_ports)


def _plan(conf: Configuration, selection: Selection) -> TeardownPlan:
    with teardown_host(conf) as host:
        plan = plan_teardown(host.options, host.read(switch=selection.needs_switch), selection)
        return dataclasses.replace(plan, obstacles=(*obstacles(conf, selection.roles), *plan.obstacles))


def _remove(conf: Configuration, selection: Selection, report: Report) -> int:
    with teardown_host(conf) as host:
        plan = plan_teardown(host.options, host.read(switch=selection.needs_switch), selection)
        if found := (*obstacles(conf, selection.roles), *plan.obstacles):
            raise CommandError(f"nothing is removed: {'; '.join(found)}")
        host.apply(plan, report.add)
    report.end(plan, dry=False)
    if report.failed:
        raise CommandError(
            f"{report.failed} of {len(plan.removals)} could not be removed: see above, then run it again"
        )
    return 0
