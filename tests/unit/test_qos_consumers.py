"""What is written to Placement for instances whose ports get another policy; the requests are in tests/api."""

from __future__ import annotations

import pytest

from neutrino.features.qos.allocations import Allocated, amounts, wanted
from neutrino.features.qos.consumers import MAX_INSTANCES, Consumers, Wanted, amount, blamed, changed
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


def of(amounts: dict[str, dict[str, int]], *projects: str, before: dict[str, dict[str, int]] | None = None) -> Wanted:
    return Wanted("instance", "port", amounts, frozenset(projects), before or {})


def current(**resources: dict[str, int]) -> Object:
    allocations = {provider.replace("_", "-"): {"resources": each} for provider, each in resources.items()}
    return {"project_id": "p", "consumer_generation": 3, "allocations": allocations}


def test_ports_of_one_instance_are_written_together() -> None:
    ports = [
        Allocated(PORTS[n], instance, {group(PORTS[n]): A}, f"p{n}", instance == "y")
        for n, instance in enumerate("xxy")
    ]
    now = {"x": {A: {EGRESS: 100}}, "y": {A: {EGRESS: 7}}}
    then = {"x": {A: {EGRESS: 400}, B: {EGRESS: 1}}, "y": {A: {EGRESS: 200}}}
    assert wanted(ports, RULES, now, then) == [
        Wanted("x", PORTS[0], {A: {EGRESS: 400}}, frozenset(["p0", "p1"]), {A: {EGRESS: 100}}),
        Wanted("y", PORTS[2], {A: {EGRESS: 200}}, frozenset(), {A: {EGRESS: 7}}),
    ]


def test_a_port_needs_what_its_groups_have_on_providers() -> None:
    assert amounts(PORTS[0], {group(PORTS[0]): A}, RULES) == {A: {EGRESS: 200}}
    for allocation in (None, "text", {}, {"other": A}):
        assert amounts(PORTS[0], allocation, RULES) == {}


def test_what_is_not_ours_stays() -> None:
    before = current(provider_a={EGRESS: 100, "SRIOV_NET_VF": 1}, provider_b={EGRESS: 5}, node={"VCPU": 1})
    after = changed(of({A: {}, B: {}}, "p", before={A: {EGRESS: 100}, B: {EGRESS: 5}}), before)
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
    after = changed(of({A: {EGRESS: 2}}, before={A: {EGRESS: 1}}), body)
    assert after["allocations"] == {A: {"resources": {EGRESS: 2}}}


@pytest.mark.parametrize(
    ("there", "before", "after", "written"),
    [
        (500, 500, 900, 900),
        (900, 500, 900, 900),  # repeated
        (700, 500, 900, 1100),  # Nova has allocated 200 for a port that it is attaching
        (700, 500, 0, 200),
        (700, 0, 100, 800),
        (100, 500, 0, 0),
    ],
)
def test_what_is_allocated_for_others_stays(there: int, before: int, after: int, written: int) -> None:
    assert amount(there, before, after) == written


@pytest.mark.parametrize("instance", ["", "..", "../resource_providers", "x?y"])
def test_a_device_id_that_is_no_instance_becomes_no_path(instance: str) -> None:
    def never(method: str, path: str, body: object) -> PlacementResponse:
        raise AssertionError(path)

    with pytest.raises(QosPlacementAllocationUpdateConflict, match="no instance"):
        Consumers(never, never).write([Wanted(instance, "port", {A: {}}, frozenset())])


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
