"""Foreign flows that the operator has the agent remove: in the bundle in which ours come, so that nothing stays open."""

from __future__ import annotations

import dataclasses

import pytest

from neutrino.agent.guard.decide import FOREIGN_FLOWS, CookieRange
from neutrino.agent.guard.gate import Bridges, GuardOptions
from neutrino.agent.l2.reconciler import Reconciler
from neutrino.dataplane.openflow.api import LEARNED_COOKIE, Flow, OpenFlowError, flow
from tests.fakes.openflow import FakeSwitch
from tests.fakes.packet import tcp
from tests.support.l2 import OPEN, group, mac, network, port, rule
from tests.support.neutron_flows import BRIDGES, COOKIE, neutron_flows
from tests.support.switch_host import PEER, SwitchHost, host_state

WEB = group("web", rule(protocol=6, port_min=80, port_max=80))
OBJECTS = (network("net"), OPEN, WEB, PEER, port("p1", 1, "net", groups=["web"]), port("p2", 2, "net", groups=["open"]))
KEPT = flow(0, 3, "arp,in_port=99", "drop", cookie=0x77)


class Host(SwitchHost):
    """With Neutron's flows, and an agent that has just been started."""

    def __init__(self, *despite: str) -> None:
        super().__init__()
        self.reconcile()  # bridges and patch ports, as Neutron's agent leaves them
        for port_id in ("p1", "p2"):
            self.plug(port_id)
        for bridge in BRIDGES:
            ours = self.switch.openflow.read_flows(bridge, 0, 0)
            interface = self.switch.snapshot.bridges["br-int"].ports["tapp1"].interfaces[0]
            left = neutron_flows(bridge, interface.ofport or 0, mac=mac(1))
            self.switch.openflow.apply_flows(bridge, add=[*left, KEPT], delete=ours)
        self.guard = GuardOptions(frozenset(despite), (CookieRange(0x77, 0xFF),))
        self.bridges = Bridges(
            lambda: self.switch.ovsdb, self.switch.openflow, self.guard, "br-int", ("br-tun",), ("br-phys",)
        )
        self.restart()

    def restart(self) -> Reconciler:
        made = self.new_reconciler()
        made.tables.foreign = self.bridges.removable
        return made

    def foreign(self) -> dict[str, list[Flow]]:
        return {bridge: found for bridge in BRIDGES if (found := self.bridges.foreign(bridge))}


def test_neutrons_flows_are_found_on_every_bridge() -> None:
    host = Host()
    assert {bridge: len(found) for bridge, found in host.foreign().items()} == {
        "br-int": 21,
        "br-tun": 10,
        "br-phys": 2,
    }
    facts = host.bridges.read()
    assert set(facts.foreign) == set(BRIDGES)
    assert set(facts.plugged) == {"p1", "p2"}
    assert facts.unreadable == ""


@pytest.mark.parametrize("error", [OpenFlowError("no answer"), ValueError("a flow that no release knows")])
def test_flows_that_cannot_be_read_end_no_agent(error: Exception) -> None:
    class Broken(FakeSwitch):
        def count_flows(self, bridge: str, cookie: int, mask: int) -> int:
            raise error

    facts = dataclasses.replace(Host().bridges, openflow=Broken()).read()
    assert str(error) in facts.unreadable
    assert facts.foreign == {}


def test_flows_are_only_counted_where_all_are_ours() -> None:
    """A host has tens of thousands, and every start looks at them."""
    host = Host(FOREIGN_FLOWS)
    host.reconcile(*OBJECTS)
    host.switch.openflow.apply_flows("br-int", add=(), delete=[KEPT])
    learned = flow(20, 1, "dl_vlan=1,dl_dst=fa:16:3e:00:00:09", "output:2", cookie=LEARNED_COOKIE)
    host.switch.openflow.apply_flows("br-tun", add=[learned], delete=[KEPT])
    host.switch.openflow.reads.clear()
    assert host.foreign() == {}
    assert host.switch.openflow.reads == ["br-phys"], "it has a flow that is kept"


def test_foreign_flows_go_in_the_bundle_in_which_ours_come() -> None:
    host = Host(FOREIGN_FLOWS)
    bundles: list[tuple[str, int]] = []
    apply = host.switch.openflow.apply_flows

    def recorded(bridge: str, *, add: object, delete: object) -> None:
        stale = list(delete)  # type: ignore[call-overload]
        bundles.append((bridge, sum(each.cookie == COOKIE for each in stale)))
        apply(bridge, add=add, delete=stale)  # type: ignore[arg-type]

    host.switch.openflow.apply_flows = recorded  # type: ignore[method-assign]
    lines = host.reconciler.find(host_state(*OBJECTS), complete=True).plan
    assert f"br-int - cookie={COOKIE:#x}" in lines
    assert bundles == [], "`--dry-run` changes nothing"
    host.reconcile(*OBJECTS)
    assert {bridge: number for bridge, number in bundles if number} == {"br-int": 21, "br-tun": 10, "br-phys": 2}
    assert len(bundles) == len(set(BRIDGES)), "one bundle for each bridge"
    assert host.foreign() == {}
    assert KEPT.text() in host.flows("br-int")
    assert host.reconcile(*OBJECTS).changed == 0
    host.restart()
    assert host.reconcile(*OBJECTS).changed == 0, "a restart finds nothing to remove"


def test_flows_that_come_back_are_removed() -> None:
    """The switch goes on learning, by flows that are gone, from packets of its megaflow cache."""
    host = Host(FOREIGN_FLOWS)
    host.reconcile(*OBJECTS)
    learned = flow(20, 1, "vlan_tci=0x1/0xfff,dl_dst=fa:16:3e:00:00:09", "output:2", cookie=COOKIE)
    host.switch.openflow.apply_flows("br-tun", add=[learned], delete=())
    assert host.reconciler.drift(whole=False) == {"br-tun": (0, 1)}
    host.reconciler.forget("br-tun")
    assert host.reconcile(*OBJECTS).changed == 1
    assert host.foreign() == {}
    assert host.reconciler.drift(whole=False) == {}
    host.switch.openflow.reads.clear()
    assert host.reconciler.drift(whole=False) == {}
    assert host.switch.openflow.reads == [], "looked at once more, and no longer"


def test_a_removed_rule_is_closed() -> None:
    """Neutron's flow for SSH would go on delivering, as an agent that compares its own flows alone does not see it."""
    host = Host(FOREIGN_FLOWS)
    host.reconcile(*OBJECTS)

    def receivers(port_number: int) -> set[str]:
        packet = tcp((mac(2), "10.0.0.2"), (mac(1), "10.0.0.1"), port_number)
        return {each.port for each in host.switch.openflow.send("br-int", "tapp2", packet)}

    assert receivers(80) == {"tapp1"}
    assert receivers(22) == set()
    assert not any("tp_dst=22" in each for each in host.flows("br-int"))


@pytest.mark.parametrize("despite", [(), ("unknown_ports", "other_database")])
def test_without_the_option_no_foreign_flow_is_removed(despite: tuple[str, ...]) -> None:
    host = Host(*despite)
    host.reconcile(*OBJECTS)
    assert sum(map(len, host.foreign().values())) > 0


def test_nothing_foreign_is_removed_before_the_server_has_sent_everything() -> None:
    host = Host(FOREIGN_FLOWS)
    before = {bridge: len(found) for bridge, found in host.foreign().items()}
    plan = host.reconciler.find(host_state(*OBJECTS), complete=False).plan
    assert f"cookie={COOKIE:#x}" not in plan
    assert {bridge: len(found) for bridge, found in host.foreign().items()} == before
