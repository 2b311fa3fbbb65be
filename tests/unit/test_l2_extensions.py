"""The contract of L2 extensions on the fake switch: conflicts, failures, tables, rows and settings, loading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint

import pytest

from neutrino.agent import config as loading
from neutrino.agent.config import configuration
from neutrino.agent.l2.build import ENTRY_POINTS, load
from neutrino.agent.l2.desired import Desired, LocalPort
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner, stable_numbers, use_meter
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.pipeline import TRANSIENT
from neutrino.dataplane.openflow.api import Flow, Meter, flow
from neutrino.dataplane.ovsdb.api import PortSettings, Qos, SetBridge, SetPort
from neutrino.errors import RefusedToStart
from tests.fakes import packet
from tests.fakes.openvswitch import FakeOpenVSwitch
from tests.support.l2 import OPEN, mac, network, port
from tests.support.l2_extension import ExtensionHost, Limit, rate_limit

PORTS = (network("net", "local", 0), OPEN, port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"]))
SENT = packet.udp((mac(1), "10.0.0.1"), (mac(2), "10.0.0.2"), 53)


class Fixed(L2Extension):
    """Contributes the same for the host, whatever the desired state is."""

    def __init__(self, name: str, contribution: Contribution, owner: str = "test") -> None:
        self.name = name  # type: ignore[misc]
        self.contribution = contribution
        self.owner = owner

    def units(self, desired: Desired) -> Iterable[Unit]:
        yield Unit(self.owner, (self.contribution,), lambda contribution: contribution)


def host_with(*extensions: L2Extension) -> tuple[ExtensionHost, FakeOpenVSwitch]:
    switch = FakeOpenVSwitch()
    host = ExtensionHost(switch.ovsdb, switch.openflow, "", extensions)
    host.reconcile()
    for name in ("p1", "p2"):
        host.plug(name)
    return host, switch


def flows(switch: FakeOpenVSwitch, text: str) -> list[Flow]:
    return [each for each in switch.openflow.read_flows("br-int", 0, 0) if text in each.text()]


def test_packets_pass_the_meter_of_their_port() -> None:
    host, switch = host_with(rate_limit())
    host.reconcile(*PORTS, Limit("p1", 100, 1_000_000))
    (number,) = host.meters()
    (delivery,) = switch.openflow.send("br-int", "tapp1", SENT)
    assert delivery.port == "tapp2"
    assert switch.openflow.bridges["br-int"].metered == {number: 1}


def test_only_the_changed_port_is_rendered_again() -> None:
    rendered: list[str] = []

    class Recording(L2Extension):
        name = "recording"

        def units(self, desired: Desired) -> Iterable[Unit]:
            for each in desired.ports:
                yield Unit(port_owner(each), (each,), self.render)

        def render(self, rendered_port: LocalPort) -> Contribution:
            rendered.append(rendered_port.id)
            return Contribution()

    host, _ = host_with(Recording())
    host.reconcile(*PORTS)
    host.reconcile(*PORTS)
    assert rendered == ["p1", "p2"]
    host.reconcile(*PORTS[:3], port("p2", 9, groups=["open"]))
    assert rendered == ["p1", "p2", "p2"]


def test_of_conflicting_flows_the_first_counts_and_the_problem_names_both() -> None:
    first = flow(60, 200, "dl_type=0x88b5", "drop")
    second = flow(60, 200, "dl_type=0x88b5", "NORMAL")
    one, other = (
        Fixed("one", Contribution({"br-int": [first]}), "a"),
        Fixed("other", Contribution({"br-int": [second]}), "b"),
    )
    host, switch = host_with(one, other)
    outcome = host.reconcile(*PORTS)
    assert outcome.wired.keys() == {"p1", "p2"}
    assert [each.actions for each in flows(switch, "dl_type=0x88b5")] == ["drop"]
    assert outcome.faults.keys() == {"b"}
    for part in ("one of a", "other of b", "br-int"):
        assert part in outcome.faults["b"]
    assert host.find(*PORTS).problems == outcome.faults


@pytest.mark.parametrize(
    "contribution",
    [
        Contribution(meters={"br-int": {"same": Meter(1)}}),
        Contribution(rows=(SetBridge("br-same"),)),
        Contribution(ports={"tapp1": PortSettings({"ingress_policing_rate": "1"})}),
        Contribution(ports={"tapp1": PortSettings(qos=Qos("linux-htb"))}),
    ],
)
def test_every_kind_of_contribution_may_conflict(contribution: Contribution) -> None:
    host, _ = host_with(Fixed("one", contribution, "a"), Fixed("other", contribution, "b"))
    assert host.reconcile(*PORTS).faults.keys() == {"b"}


def test_columns_of_one_port_come_from_several_extensions() -> None:
    host, _ = host_with(
        Fixed("one", Contribution(ports={"tapp1": PortSettings({"ingress_policing_rate": "5"})})),
        Fixed("other", Contribution(ports={"tapp1": PortSettings({"other_config:a": "b"}, Qos("linux-htb"))})),
    )
    host.reconcile(*PORTS)
    columns = {"ingress_policing_rate": "5", "other_config:a": "b"}
    assert host.port("p1").settings == PortSettings(columns, Qos("linux-htb"))
    assert host.reconcile(*PORTS).changed == 0


class Failing(L2Extension):
    name = "failing"
    fails = True

    def units(self, desired: Desired) -> Iterable[Unit]:
        for each in desired.ports:
            yield Unit(port_owner(each), (each.id, self.fails), self.render)

    def render(self, port_id: str, fails: bool) -> Contribution:
        if fails and port_id == "p1":
            raise RuntimeError("no idea")
        return Contribution()


def test_an_extension_that_fails_for_a_port_costs_that_port() -> None:
    failing = Failing()
    host, switch = host_with(failing)
    outcome = host.reconcile(*PORTS)
    assert outcome.wired.keys() == {"p2"}
    assert outcome.problems == {"p1": "failing: RuntimeError: no idea"}
    assert switch.openflow.send("br-int", "tapp1", SENT) == []  # none of its flows is there
    failing.fails = False
    assert host.reconcile(*PORTS).wired.keys() == {"p1", "p2"}
    failing.fails = True  # now it stays as it was
    assert host.reconcile(*PORTS).wired.keys() == {"p2"}
    assert [each.port for each in switch.openflow.send("br-int", "tapp1", SENT)] == ["tapp2"]


def test_an_extension_that_fails_as_a_whole_costs_what_it_contributes() -> None:
    class Broken(L2Extension):
        name = "broken"

        def units(self, desired: Desired) -> Iterable[Unit]:
            raise LookupError("nothing")

    host, _ = host_with(Broken())
    outcome = host.reconcile(*PORTS)
    assert outcome.wired.keys() == {"p1", "p2"}
    assert outcome.faults == {"extension broken": "broken: LookupError: nothing"}


def test_rows_are_created_marked_and_removed() -> None:
    rows = (SetBridge("br-extra"), SetPort("br-extra", "extra0", "internal"))

    class Rows(Fixed):
        seen: Mapping[str, int]

        def units(self, desired: Desired) -> Iterable[Unit]:
            self.seen = dict(desired.plugged.extension_ports)
            return super().units(desired)

    extension = Rows("rows", Contribution(rows=rows))
    host, switch = host_with(extension)
    host.reconcile(*PORTS)
    made = switch.snapshot.bridges["br-extra"]
    assert made.external_ids["neutrino"] == "extension"
    host.reconcile(*PORTS)
    assert extension.seen == {"extra0": made.ports["extra0"].interfaces[0].ofport}
    assert host.find(*PORTS).plan == ""
    switch.ovsdb.apply([SetBridge("br-theirs")])
    host.restart([])
    host.reconcile(*PORTS)
    assert {*switch.snapshot.bridges} == {"br-int", "br-theirs"}


def test_another_programs_qos_is_not_replaced() -> None:
    host, switch = host_with(Fixed("shaping", Contribution(ports={"tapp1": PortSettings(qos=Qos("linux-htb"))})))
    switch.ovsdb.set_foreign_qos("tapp1")
    outcome = host.reconcile(*PORTS)
    assert host.port("p1").settings == PortSettings()
    assert outcome.faults == {"port tapp1": "it has a QoS row that is not ours, which is not replaced"}


def test_a_rejected_meter_costs_the_port_that_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    host, _ = host_with(rate_limit())
    monkeypatch.setattr("tests.fakes.openflow._MAX_METER", 10)
    outcome = host.reconcile(*PORTS, Limit("p1", 100, 1_000_000))
    assert outcome.wired.keys() == {"p2"}
    assert "OFPMMFC_INVALID_METER" in outcome.problems["p1"]
    monkeypatch.setattr("tests.fakes.openflow._MAX_METER", 65536)
    host.reconciler.tables.retry_rejected()
    assert host.reconcile(*PORTS, Limit("p1", 100, 1_000_000)).wired.keys() == {"p1", "p2"}


def test_a_meter_may_be_shared_and_must_exist() -> None:
    shared = Fixed("meter", Contribution(meters={"br-int": {"shared": Meter(5)}}), "a")
    uses, lost = (
        flow(60, 200, f"dl_type={kind}", f"{use_meter(name)},drop") for kind, name in ((1, "shared"), (2, "no"))
    )
    host, switch = host_with(
        shared,
        Fixed("uses", Contribution({"br-int": [uses]}), "b"),
        Fixed("lost", Contribution({"br-int": [lost]}), "c"),
    )
    outcome = host.reconcile(*PORTS)
    assert outcome.wired.keys() == {"p1", "p2"}
    (number,) = host.meters()
    assert [each.actions for each in flows(switch, "meter:")] == [f"meter:{number},drop"]
    assert outcome.faults.keys() == {"c"}
    assert "contributes a meter 'no' to br-int" in outcome.faults["c"]


def test_each_extension_with_a_table_gets_the_next_one() -> None:
    class Table(L2Extension):
        has_table = True

        def __init__(self, name: str) -> None:
            self.name = name  # type: ignore[misc]

        def units(self, desired: Desired) -> Iterable[Unit]:
            options = desired.options
            table = options.extension_table(self.name)
            contributed = table.flow(1, f"in_port={desired.ports[0].ofport}" if desired.ports else "", then=TRANSIENT)
            yield Unit(self.name, (contributed,), lambda contributed: Contribution({"br-int": [contributed]}))

    host, switch = host_with(Table("one"), Table("two"))
    host.reconcile(*PORTS)
    built_in = len([each for each in BUILT_IN if each.has_table])
    first = 50 + built_in
    chain = {each.table: each.actions for each in flows(switch, "priority=0 ") if first <= each.table < 60}
    assert chain == {first: f"resubmit(,{first + 1})", first + 1: "resubmit(,60)"}
    assert [each.port for each in switch.openflow.send("br-int", "tapp1", SENT)] == ["tapp2"]


def test_meter_ids_depend_on_names_alone() -> None:
    names = [f"port-{number}" for number in range(500)]
    numbers = stable_numbers(names, range(1, 1001))
    assert numbers == stable_numbers(reversed(names), range(1, 1001))
    assert len({*numbers.values()}) == 500
    assert {*numbers.values()} <= {*range(1, 1001)}
    assert use_meter("a") == "meter:@a"


def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: object, names: str, **known: str) -> tuple[L2Extension, ...]:
    entries = [EntryPoint(name, value, ENTRY_POINTS) for name, value in known.items()]
    monkeypatch.setattr(loading.entry_points, "of_group", lambda group: entries)
    file = f"{tmp_path}/agent.ini"
    with open(file, "w") as written:
        written.write(f"[agent]\nextensions = {names}\n")
    return load(configuration([file]))


def make_example(conf: object) -> L2Extension:
    return rate_limit()


def test_extensions_are_loaded_in_the_order_of_the_option(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    here = f"{__name__}:make_example"
    found = loaded(monkeypatch, tmp_path, "example", example=here)
    assert found[:-1] == BUILT_IN
    assert found[-1].name == "rate_limit"
    with pytest.raises(RefusedToStart, match="extension 'nothing' is not installed"):
        loaded(monkeypatch, tmp_path, "example, nothing", example=here)
    with pytest.raises(RefusedToStart, match="there are two extensions called 'rate_limit'"):
        loaded(monkeypatch, tmp_path, "example, again", example=here, again=here)
    with pytest.raises(RefusedToStart, match=r"extension 'broken' .* cannot be loaded"):
        loaded(monkeypatch, tmp_path, "broken", broken=f"{__name__}:missing")
