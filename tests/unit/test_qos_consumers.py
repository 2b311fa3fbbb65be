"""What is written to Placement for instances whose ports get another policy; the requests are in tests/api."""

from __future__ import annotations

import pytest

from neutrino.features.qos.allocations import Allocated, amounts, wanted
from neutrino.features.qos.consumers import MAX_INSTANCES, Consumers, Wanted, blamed, changed
from neutrino.features.qos.errors import QosPlacementAllocationUpdateConflict, TooManyAllocations
from neutrino.features.qos.resource_request import groups_of
from neutrino.model.objects import Object
from neutrino.server.placement import PlacementResponse

PORTS = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(3)]
RULES = [{"id": "rule", "type": "minimum_bandwidth", "direction": "egress", "min_kbps": 200}]
EGRESS = "NET_BW_EGR_KILOBIT_PER_SEC"
A, B = "provider-a", "provider-b"


def group(port: str) -> str:
    return groups_of(port, RULES)["minimum_bandwidth"].id


def of(amounts: dict[str, dict[str, int]], *projects: str) -> Wanted:
    return Wanted("instance", "port", amounts, frozenset(projects))


def current(**resources: dict[str, int]) -> Object:
    allocations = {provider.replace("_", "-"): {"resources": each} for provider, each in resources.items()}
    return {"project_id": "p", "consumer_generation": 3, "allocations": allocations}


def test_ports_of_one_instance_are_written_together() -> None:
    ports = [
        Allocated(PORTS[n], instance, {group(PORTS[n]): A}, frozenset([f"p{n}"])) for n, instance in enumerate("xxy")
    ]
    needs = {"x": {A: {EGRESS: 400}, B: {EGRESS: 1}}, "y": {A: {EGRESS: 200}}}
    assert wanted(ports, RULES, needs) == [
        Wanted("x", PORTS[0], {A: {EGRESS: 400}}, frozenset(["p0", "p1"])),
        Wanted("y", PORTS[2], {A: {EGRESS: 200}}, frozenset(["p2"])),
    ]


def test_a_port_needs_what_its_groups_have_on_providers() -> None:
    assert amounts(PORTS[0], {group(PORTS[0]): A}, RULES) == {A: {EGRESS: 200}}
    for allocation in (None, "text", {}, {"other": A}):
        assert amounts(PORTS[0], allocation, RULES) == {}


def test_what_is_not_ours_stays() -> None:
    before = current(provider_a={EGRESS: 100, "SRIOV_NET_VF": 1}, provider_b={EGRESS: 5}, node={"VCPU": 1})
    after = changed(of({A: {}, B: {}}, "p"), before)
    assert after == current(provider_a={"SRIOV_NET_VF": 1}, node={"VCPU": 1})


@pytest.mark.parametrize("body", [current(), {"allocations": {}}, current(provider_b={EGRESS: 1})])
def test_an_instance_without_an_allocation_there_is_refused(body: Object) -> None:
    with pytest.raises(QosPlacementAllocationUpdateConflict, match="none on resource provider provider-a"):
        changed(of({A: {EGRESS: 1}}), body)


def test_an_instance_of_another_project_is_refused() -> None:
    body = current(provider_a={EGRESS: 1})
    for projects in ({"q"}, {"p", "q"}):
        with pytest.raises(QosPlacementAllocationUpdateConflict, match="another project"):
            changed(of({A: {EGRESS: 2}}, *projects), body)
    assert changed(of({A: {EGRESS: 2}}), body)["allocations"] == {A: {"resources": {EGRESS: 2}}}


def test_the_refused_one_of_several_is_named() -> None:
    one, other = Wanted("x", "port-x", {A: {}}, frozenset()), Wanted("y", "port-y", {B: {}}, frozenset())
    assert blamed("no capacity on provider-b", [one, other]) is other
    assert blamed("no capacity", [one, other]) is one


def test_too_many_instances_are_refused_before_placement_is_asked() -> None:
    def never(method: str, path: str, body: object) -> PlacementResponse:
        raise AssertionError(path)

    several = [Wanted(str(n), "port", {A: {}}, frozenset()) for n in range(MAX_INSTANCES + 1)]
    with pytest.raises(TooManyAllocations, match=f"{MAX_INSTANCES + 1} instances"):
        Consumers(never, never).write(several)
