"""Our attributes against those of neutron-lib's and Neutron's API definitions, for every alias that we advertise."""

from __future__ import annotations

import dataclasses
import uuid
from types import SimpleNamespace

import pytest
from neutron_lib.placement import utils as placement
from neutron_lib.placement.constants import TRAIT_NETWORK_TUNNEL as TUNNEL_TRAIT

from neutrino.features.qos.resource_request import resource_request
from neutrino.server.api.definition import Resource
from neutrino.server.ml2 import vlan_tags
from tests.conformance.differences import DIFFERENCES
from tests.conformance.facts import CORE, OWN_ALIASES, OWN_COLLECTIONS, Fact, aliases_of_lib, of_neutron, of_ours
from tests.conformance.neutron_facts import NEUTRON
from tests.conformance.server import LiveServer
from tests.support.resources import RESOURCES


@pytest.fixture(scope="module")
def aliases(server: LiveServer) -> set[str]:
    return {extension["alias"] for extension in server.ask("GET", "/v2.0/extensions")["extensions"]}


@pytest.fixture(scope="module")
def found(aliases: set[str]) -> dict[str, object]:
    """Every difference: its key -> what Neutron has and what we have."""
    want = of_neutron(aliases)
    # The server of these tests has the options of vlan_tags set.
    served = (
        dataclasses.replace(resource, attributes=(*resource.attributes, *vlan_tags.ATTRIBUTES))
        if resource.name == "network"
        else resource
        for resource in RESOURCES
    )
    have = of_ours(resource for resource in served if resource.collection not in OWN_COLLECTIONS)
    differences: dict[str, object] = {}
    for (collection, name), fact in want.items():
        ours = have.get((collection, name))
        if ours is None:
            differences[f"{collection}.{name}: absent"] = fact
        else:
            for aspect, pair in fact.differences(ours).items():
                differences[f"{collection}.{name}: {aspect}"] = pair
    differences.update({f"{c}.{n}: ours": fact for (c, n), fact in have.items() if (c, n) not in want})
    return differences


def explained_by(key: str) -> list[str]:
    """The documented entries for this difference."""
    place, aspect = key.split(": ")
    collection, name = place.split(".", 1)
    spellings = (f"{c}.{n}: {aspect}" for c, n in ((collection, name), ("*", name), (collection, "*")))
    return [spelling for spelling in spellings if spelling in DIFFERENCES]


def test_every_alias_is_one_of_neutrons(aliases: set[str]) -> None:
    assert sorted(aliases - set(aliases_of_lib()) - set(NEUTRON)) == sorted(OWN_ALIASES)


def test_every_difference_has_a_reason(found: dict[str, object]) -> None:
    assert {key: what for key, what in found.items() if not explained_by(key)} == {}


def test_every_reason_has_a_difference(found: dict[str, object]) -> None:
    used = {entry for key in found for entry in explained_by(key)}
    assert sorted(set(DIFFERENCES) - used) == []
    assert all(reason.strip() for reason in DIFFERENCES.values())


def test_extensions_build_only_on_extensions_that_are_here(aliases: set[str]) -> None:
    """Required extensions are advertised too: clients may check for either."""
    lacking = {
        alias: sorted(set(module.REQUIRED_EXTENSIONS or ()) - aliases - set(CORE))
        for alias, module in aliases_of_lib().items()
        if alias in aliases
    }
    assert {alias: names for alias, names in lacking.items() if names} == {}


def test_actions_are_those_of_the_definitions(aliases: set[str]) -> None:
    by_name = {resource.name: resource for resource in RESOURCES}
    wanted = {
        (resource.replace("-", "_"), action)  # as bgp-speaker
        for alias, module in aliases_of_lib().items()
        if alias in aliases
        for resource, actions in (module.ACTION_MAP or {}).items()
        for action in actions
    }
    assert wanted == {
        (name, action) for name, resource in by_name.items() for action in (*resource.actions, *resource.lookups)
    }


def test_resource_requests_are_those_of_neutron_lib() -> None:
    """Nova and Placement know groups by their ids, and providers by their traits."""
    port_id, rule_id = str(uuid.uuid4()), str(uuid.uuid4())
    rule = {"id": rule_id, "type": "minimum_bandwidth", "direction": "egress", "min_kbps": 10}
    for physical_network, trait in (("physnet-1.a", placement.physnet_trait("physnet-1.a")), (None, TUNNEL_TRAIT)):
        made = resource_request(port_id, "direct-physical", [rule], physical_network)
        assert made is not None
        (group,) = made["request_groups"]
        key = placement.resource_request_group_uuid(uuid.UUID(port_id), [SimpleNamespace(id=rule_id)])
        assert group["id"] == str(key)
        assert group["required"] == [trait, placement.vnic_type_trait("direct-physical")]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.collection)
def test_an_attribute_is_said_once(resource: Resource) -> None:
    names = [attribute.name for attribute in resource.attributes]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("ours", "aspects"),
    [
        (Fact(True, False, 0), []),
        (Fact(True, False, False), ["default"]),
        (Fact(False, True, 0, sort=True), ["post", "put", "sort"]),
    ],
)
def test_the_comparison_sees_each_aspect(ours: Fact, aspects: list[str]) -> None:
    assert sorted(Fact(True, False, 0).differences(ours)) == sorted(aspects)
