"""The chains of Neutron's agent for hybrid ports: saved, replaced by ours, and restored."""

from __future__ import annotations

import msgspec
import pytest

from neutrino.agent.l2.hybrid import render
from neutrino.agent.l2.hybrid.firewall import HybridFirewall
from neutrino.agent.takeover import hybrid
from neutrino.agent.takeover.hybrid import SavedFirewall
from neutrino.dataplane.iptables.api import Tables
from tests.fakes.conntrack import FakeKernelConntrack
from tests.fakes.iptables import FakeIptables
from tests.support import neutron_iptables
from tests.support.l2 import OPEN, Cloud, mac, network, port, rule
from tests.support.l2 import group as security_group
from tests.support.neutron_iptables import HybridPort

OLD = "11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
NEW = "22222222-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
MEMBERS = "33333333-cccc-4ccc-8ccc-cccccccccccc"
LOCAL = HybridPort(OLD, mac(1), {4: "10.0.0.1", 6: "2001:db8::1"}, 4100, (22,), (81, MEMBERS))
OPERATORS = ("-p 6 -j DROP", "-p 17 -j DROP")
State = tuple[dict[int, Tables], object]


def state_of(iptables: FakeIptables) -> State:
    return {family: iptables.read_rules(family) for family in render.FAMILIES}, iptables.read_sets()


@pytest.fixture
def iptables() -> FakeIptables:
    """With Neutron's jumps between two rules of another program."""
    made = FakeIptables()
    made.restore_sets(neutron_iptables.sets({MEMBERS: {4: ["10.0.0.7"], 6: ["2001:db8::7"]}}))
    for family in render.FAMILIES:
        made.restore_rules(family, f"*filter\n-I FORWARD 1 {OPERATORS[1]}\nCOMMIT\n")
        made.restore_rules(family, neutron_iptables.rules([LOCAL], family))
        made.restore_rules(family, f"*filter\n-I FORWARD 1 {OPERATORS[0]}\nCOMMIT\n")
    return made


def convert(iptables: FakeIptables, *more: str) -> None:
    """Our agent works on the host, with ports that were plugged since."""
    cloud = Cloud("h1")
    web = security_group("web", rule(protocol=6, remote_group_id=MEMBERS))
    ports = [port(key, number, groups=("web",), hybrid_plug=True) for number, key in enumerate((OLD, *more), 1)]
    desired = cloud.hosts["h1"].resolve(cloud.state_for("h1", (network("net"), OPEN, web, *ports)))
    firewall = HybridFirewall(iptables, FakeKernelConntrack())
    firewall.apply(firewall.plan(desired))
    assert not firewall.plan(desired)


def test_there_and_back(iptables: FakeIptables) -> None:
    before = state_of(iptables)
    saved = hybrid.read(iptables)
    assert saved.devices() == {LOCAL.tap}
    assert msgspec.json.decode(msgspec.json.encode(saved), type=SavedFirewall) == saved
    convert(iptables)
    assert neutron_iptables.TOP not in iptables.read_rules(4)["filter"]
    assert state_of(iptables) != before
    for _ in range(2):  # a killed agent repeats it
        hybrid.restore(iptables, saved)
        assert state_of(iptables) == before


def test_other_programs_may_have_changed_their_rules_since(iptables: FakeIptables) -> None:
    saved = hybrid.read(iptables)
    convert(iptables)
    for text in OPERATORS:
        iptables.restore_rules(4, f"*filter\n-D FORWARD {text}\nCOMMIT\n")
    hybrid.restore(iptables, saved)
    there = [one.text for one in iptables.read_rules(4)["filter"]["FORWARD"]]
    assert there == [f"-j {neutron_iptables.TOP}", f"-j {neutron_iptables.PREFIX}-FORWARD"]


def test_a_port_that_was_plugged_since_is_closed(iptables: FakeIptables) -> None:
    saved = hybrid.read(iptables)
    convert(iptables, NEW)
    hybrid.restore(iptables, saved)
    tap = render.port_device("tap", NEW)
    for family in render.FAMILIES:
        chains = iptables.read_rules(family)["filter"]
        forward = [one.text for one in chains[render.FORWARD]]
        assert forward[:2] == [
            f"-m physdev --physdev-out {tap} --physdev-is-bridged -j DROP",
            f"-m physdev --physdev-in {tap} -j DROP",
        ]
        assert not [text for text in forward[2:] if tap in text]
        assert chains[render.INPUT][0].text == f"-m physdev --physdev-in {tap} -j DROP"
        assert render.port_chain("i", NEW) not in chains


def test_without_chains_of_neutron_ours_go_on() -> None:
    iptables = FakeIptables()
    saved = hybrid.read(iptables)
    assert not saved
    convert(iptables, NEW)
    ours = state_of(iptables)
    hybrid.restore(iptables, saved)
    assert state_of(iptables) == ours
