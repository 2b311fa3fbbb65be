"""Plans: only differences, only our flows, independent of the history, and empty the second time."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neutrino.agent.l2 import plan as plan_module
from neutrino.agent.l2.extension_api import cookie_of
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.extensions.firewall import cover_ports as cover
from neutrino.agent.l2.plan import BridgePlan, Renderer, plan
from neutrino.agent.runtime.delta import Delta, diff
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, Flow, flow
from neutrino.model.state import AddressGroup, GroupMembers, Member
from tests.support.l2 import OPEN, OUT, Cloud, group, mac, network, port, rule

OBJECTS = (
    network("net"),
    network("vlan", "vlan", 205, "physnet1"),
    OPEN,
    OUT,
    group(
        "web",
        rule(protocol=6, port_min=80, port_max=90, remote_group_id="g"),
        rule(protocol=6, remote_address_group_id="a"),
    ),
    GroupMembers(id="g", members=frozenset({Member("10.0.0.1", mac(1)), Member("2001:db8::1", mac(1))})),
    AddressGroup(id="a", addresses=frozenset({"10.0.0.1", "10.1.0.0/16"})),
    port("p1", 1, groups=["out", "web"]),
    port("p2", 2, groups=["web", "open"]),
    port("p3", 3, "vlan", port_security_enabled=False),
    port("p4", 4, "vlan", groups=["open"]),
    port("p5", 5, host="h2", groups=["web"]),
    port("p6", 6, host="h3", groups=["web"]),
)


def flows_of(cloud: Cloud, host: str = "h1") -> dict[str, frozenset[Flow]]:
    switch = cloud.hosts[host].switch
    return {name: switch.read_flows(name, COOKIE, COOKIE_MASK) for name in switch.bridges}


def wired(*steps: tuple[object, ...]) -> Cloud:
    cloud = Cloud("h1", "h2", "h3")
    # The numbers of ports and the local VLANs are the bridge's memory, not ours to compare.
    cloud.apply(*OBJECTS)
    for step in steps:
        cloud.apply(*step)
    return cloud


def test_the_second_plan_is_empty():
    cloud = wired()
    for host in cloud.hosts.values():
        assert not any(host.plans(host.desired))
        host.renderer = Renderer(BUILT_IN)  # an agent without memory
        assert not any(host.plans(host.desired))


@pytest.mark.parametrize("seed", range(8))
def test_the_result_does_not_depend_on_the_way_there(seed):
    shuffled = random.Random(seed)
    expected = flows_of(wired())
    steps = []
    objects = list(OBJECTS)
    for _ in range(3):
        shuffled.shuffle(objects)
        ports = [entry for entry in OBJECTS if entry.id in ("p1", "p3")]  # keep both networks, and so their VLANs
        nets = [entry for entry in OBJECTS if entry.id in ("net", "vlan")]
        part = objects[: shuffled.randrange(len(objects))]
        steps.append(tuple({entry.id: entry for entry in [*part, *ports, *nets]}.values()))
    shuffled.shuffle(objects)
    assert flows_of(wired(*steps, tuple(objects))) == expected


def test_a_change_of_one_port_plans_that_port_only():
    cloud = wired()
    host = cloud.hosts["h1"]
    changed = [entry for entry in OBJECTS if entry.id != "p1"]
    changed.append(port("p1", 1, groups=["out"]))
    desired = host.resolve(cloud.state_for("h1", changed))
    plans = {entry.bridge: entry for entry in host.plans(desired)}
    assert not plans["br-tun"]
    assert not plans["br-phys"]
    assert {entry.cookie for entry in plans["br-int"].delete} == {cookie_of("port p1")}
    assert plans["br-int"].set == []


def test_an_owner_is_rendered_again_only_when_its_input_changes(monkeypatch):
    cloud = wired()
    host = cloud.hosts["h1"]
    rendered: list[str] = []
    original = plan_module.cookie_of
    monkeypatch.setattr(plan_module, "cookie_of", lambda owner: rendered.append(owner) or original(owner))
    host.renderer.render(host.resolve(cloud.state_for("h1", OBJECTS)))
    assert rendered == []
    more = (*OBJECTS, port("p7", 7, groups=["open"]))
    host.renderer.render(host.resolve(cloud.state_for("h1", more)))
    assert sorted({*rendered}) == ["network net 1", "port p7"]


def test_foreign_flows_stay():
    cloud = wired()
    host = cloud.hosts["h1"]
    foreign = flow(0, 77, "in_port=5", "drop", cookie=0x1234)
    host.switch.apply_flows("br-int", add=[foreign], delete=[])
    cloud.apply()
    assert foreign in host.switch.read_flows("br-int", 0x1234, (1 << 64) - 1)


def test_foreign_changes_of_our_flows_are_planned_back():
    cloud = wired()
    host = cloud.hosts["h1"]
    one, two, *_ = sorted(host.switch.read_flows("br-int", COOKIE, COOKIE_MASK))
    wrong = two._replace(actions="output:99")
    stale = flow(60, 50, "in_port=9", "drop", cookie=cookie_of("port gone"))
    host.switch.apply_flows("br-int", add=[wrong, stale], delete=[one])
    planned = {entry.bridge: entry for entry in host.plans(host.desired)}["br-int"]
    delta = Delta({one.key: one}, {two.key: (wrong, two)}, {stale.key: stale})
    assert planned == BridgePlan("br-int", delta)
    lines = planned.text().splitlines()
    assert [line.split()[:2] for line in lines] == [["br-int", "-"], ["br-int", "~"], ["br-int", "+"]]


def test_an_empty_plan_is_false():
    assert not plan("br-int", {}, [])
    assert plan("br-int", {}, [flow(0, 1, "", "drop")])


def test_diff():
    delta = diff({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5})
    assert (delta.add, delta.change, delta.remove) == ({"a": 1}, {"c": (4, 3)}, {"d": 5})
    assert not diff({"a": 1}, {"a": 1})


@given(st.integers(0, 65535), st.integers(0, 65535))
def test_port_ranges_cover_exactly(one, other):
    first, last = sorted((one, other))
    blocks = cover(first, last)
    edges = {0, first - 1, first, first + 1, (first + last) // 2, last - 1, last, last + 1, 65535}
    for number in edges & set(range(65536)):
        assert any(number & mask == value for value, mask in blocks) == (first <= number <= last)
    assert sum(65536 - mask for _, mask in blocks) == last - first + 1
    assert all(a != b for a, b in itertools.combinations(blocks, 2))
    assert len(blocks) <= 30
