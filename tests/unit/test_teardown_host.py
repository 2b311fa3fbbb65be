"""A teardown on a host in memory: flows and meters of others, and what an interrupted or failed one leaves for the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from neutrino.agent.config import configuration
from neutrino.agent.guard.gate import Bridges, GuardOptions
from neutrino.agent.l2.desired import L2Options
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.teardown.host import TeardownHost
from neutrino.agent.teardown.plan import RemoveNamespace, Selection, TeardownPlan, plan_teardown
from neutrino.agent.teardown.records import Records
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.openflow.api import COOKIE, Flow, Meter, flow
from neutrino.dataplane.ovsdb.api import MARK, SetBridge, SetPort
from neutrino.dataplane.process.api import Daemon, ForeignProcess, Process, ProcessError
from neutrino.model.roles import ROLES
from tests.fakes.netlink import FakeNetlink
from tests.fakes.openflow import FakeSwitch
from tests.fakes.ovsdb import FakeOvsdb
from tests.fakes.process import FakeProcesses

ROUTER = "7e1ab6d2-0000-4000-8000-000000000001"
NAMESPACE = f"qrouter-{ROUTER}"
ALL = Selection(frozenset(ROLES))
OURS = flow(0, 1, "", "drop", cookie=COOKIE)
NORMAL = flow(0, 0, "", "NORMAL")
OPERATORS = flow(0, 50, "in_port=3", "drop")  # without a cookie
METER = {40000: Meter(10, "kbps", 10)}


class Stubborn(FakeProcesses):
    """`unending`: names of daemons that nothing ends."""

    def __init__(self) -> None:
        super().__init__()
        self.unending: set[str] = set()

    def stop(self, process: Process, *, patience: float = 5.0, pid_file: str = "") -> None:
        if process.name in self.unending:
            raise ProcessError(f"{process.name} does not exit")
        super().stop(process, patience=patience, pid_file=pid_file)


class BusyNetlink(FakeNetlink):
    """`busy`: namespaces that cannot be deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: set[str] = set()

    def delete_namespace(self, name: str) -> None:
        if name in self.busy:
            raise NetlinkError(f"{name} is busy")
        super().delete_namespace(name)


class NoOthers:
    def inside(self, namespace: str) -> list[ForeignProcess]:
        return []

    def by_namespace(self, namespaces: Collection[str]) -> Mapping[str, Sequence[ForeignProcess]]:
        return {}

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None:
        raise AssertionError


@dataclasses.dataclass
class Machine:
    directory: Path
    ovsdb: FakeOvsdb = dataclasses.field(default_factory=FakeOvsdb)
    switch: FakeSwitch = dataclasses.field(default_factory=FakeSwitch)
    netlink: BusyNetlink = dataclasses.field(default_factory=BusyNetlink)
    processes: Stubborn = dataclasses.field(default_factory=Stubborn)

    @property
    def host(self) -> TeardownHost:
        state = self.directory / "state"
        (self.directory / "agent.conf").write_text(f"[DEFAULT]\nstate_path = {state}\n")
        return TeardownHost(
            str(state),
            L2Options(bridge_mappings=(("outside", "br-ex"),)),
            Records(configuration([str(self.directory / "agent.conf")])),
            self.processes,
            NoOthers(),
            ServiceNamespaces(self.netlink, lambda: self.ovsdb, owner=str(state)),
            self.switch,
            Bridges(lambda: self.ovsdb, self.switch, GuardOptions(), "br-int", (), ("br-ex",)),
        )

    def bridge(self, name: str, *flows: Flow, meters: Mapping[int, Meter] | None = None, mark: str = "") -> None:
        ids = {MARK: mark} if mark else {}
        self.ovsdb.apply([SetBridge(name, fail_mode="secure", external_ids=ids)])
        self.switch.add_bridge(name).meters |= meters or {}
        self.switch.apply_flows(name, add=flows, delete=())

    def router(self) -> None:
        """With a namespace and keepalived, and the record of both."""
        record = self.directory / "state" / "routers" / ROUTER
        record.parent.mkdir(parents=True)
        record.write_text("")
        self.netlink.create_namespace(NAMESPACE)
        self.processes.start(Daemon(name=f"keepalived {ROUTER}", argv=("keepalived",)))

    def plan(self) -> TeardownPlan:
        return plan_teardown(L2Options(), self.host.read(), ALL)

    def run(self) -> dict[str, str]:
        """What could not be removed, with the reason."""
        failed: dict[str, str] = {}
        self.host.apply(self.plan(), lambda removal, reason: failed.update({removal.text(): reason} if reason else {}))
        return failed


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def fail_mode(machine: Machine, bridge: str) -> str:
    return machine.ovsdb.read().bridges[bridge].fail_mode


def test_a_bridge_with_our_flows_alone_forwards_afterwards(machine: Machine) -> None:
    machine.bridge("br-ex", OURS, meters=METER)
    assert machine.run() == {}
    assert machine.switch.read_flows("br-ex", 0, 0) == {NORMAL}
    assert machine.switch.read_meters("br-ex") == {}
    assert fail_mode(machine, "br-ex") == "standalone"


def test_flows_of_the_operator_on_a_physical_bridge_stay_in_force(machine: Machine) -> None:
    """They have no cookie. In another fail mode the switch would delete them; NORMAL would forward what they drop."""
    machine.bridge("br-ex", OURS, OPERATORS)
    assert machine.run() == {}
    assert machine.switch.read_flows("br-ex", 0, 0) == {OPERATORS}
    assert fail_mode(machine, "br-ex") == "secure"


def test_meters_of_another_program_are_not_ours_by_their_numbers(machine: Machine) -> None:
    machine.bridge("br-mine", OPERATORS, meters=METER)
    assert machine.plan() == TeardownPlan()


def test_the_bridges_of_the_configuration_have_our_meters_also_without_flows(machine: Machine) -> None:
    machine.bridge("br-ex", meters=METER)
    assert machine.run() == {}
    assert machine.switch.read_meters("br-ex") == {}


def test_what_could_not_be_removed_is_known_to_the_next_run(machine: Machine) -> None:
    machine.router()
    machine.netlink.busy = {NAMESPACE}
    assert machine.run() == {f"remove namespace {NAMESPACE} with its devices": f"{NAMESPACE} is busy"}
    machine.netlink.busy = set()
    assert RemoveNamespace("l3", NAMESPACE) in machine.plan().removals
    assert machine.run() == {}
    assert machine.netlink.namespaces() == frozenset()
    assert machine.plan() == TeardownPlan()


def test_records_of_a_daemon_that_does_not_end_stay(machine: Machine) -> None:
    machine.router()
    machine.processes.unending = {f"keepalived {ROUTER}"}
    assert list(machine.run().values()) == [f"keepalived {ROUTER} does not exit"]
    assert (machine.directory / "state" / "routers" / ROUTER).exists()


def test_ports_of_the_bridges_between_are_removed(machine: Machine) -> None:
    machine.bridge("br-int", OURS, mark="bridge")
    machine.bridge("br-ex", OURS)
    machine.ovsdb.apply([SetPort("br-ex", "phy-br-ex", "patch", options={"peer": "x"}, external_ids={MARK: "patch"})])
    assert machine.run() == {}
    snapshot = machine.ovsdb.read()
    assert snapshot.bridges.keys() == {"br-ex"}
    assert "phy-br-ex" not in snapshot.bridges["br-ex"].ports
