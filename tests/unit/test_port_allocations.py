"""Ports are bound where Placement has allocated their minimums."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from neutron_lib.placement import utils as neutron
from oslo_config import cfg

from neutrino.features.qos.allocations import after_change, amounts
from neutrino.features.qos.consumers import replaced, total
from neutrino.features.qos.resource_request import groups_of
from neutrino.model.agents import NIC_SWITCH, OVS
from neutrino.server.ml2.driver_api import PortToBind, Segment
from neutrino.server.ml2.mechanism_drivers import OpenVSwitch, SriovNicSwitch
from neutrino.server.ml2.ports.allocations import allocated
from neutrino.server.ml2.ports.binding import bind
from neutrino.server.ml2.ports.hardware import is_bound_differently

OVS_NAMESPACE = uuid.UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692")
NIC_NAMESPACE = uuid.UUID("87f1895c-73bb-11e8-9008-c4d987b2a692")
ONE, TWO, TUNNEL = Segment("vlan", "one", 1, "1"), Segment("vlan", "two", 2, "2"), Segment("vxlan", None, 3, "3")
RATE = {"egress": 10, "ingress": 10}
SWITCH = {
    "bridge_mappings": {"one": "br-a", "two": "br-b"},
    "tunnel_types": ["vxlan"],
    "resource_provider_bandwidths": {"br-a": RATE, "br-b": RATE, "rp_tunnelled": RATE},
    "resource_provider_packet_processing_without_direction": {"hv": {"any": 5}},
    "resource_provider_hypervisors": {"br-a": "hv", "br-b": "hv", "rp_tunnelled": "hv"},
    "tunnelled_network_rp_name": "rp_tunnelled",
}
NIC = {
    "device_mappings": {"one": ["ens1", "ens2"], "two": ["ens3"]},
    "resource_provider_bandwidths": {"ens1": RATE, "ens3": RATE},
    "resource_provider_hypervisors": {"ens1": "hv", "ens3": "hv"},
}


def agent(kind: str, configurations: dict[str, Any]) -> dict[str, Any]:
    return {"agent_type": kind, "host": "h", "alive": True, "admin_state_up": True, "configurations": configurations}


def drivers() -> list[Any]:
    conf = cfg.ConfigOpts()
    for group in ("ovs_driver", "sriov_driver"):
        conf.register_opts([cfg.ListOpt("vnic_type_prohibit_list", default=[])], group=group)
    conf([])
    return [OpenVSwitch(conf), SriovNicSwitch(conf)]


def bound(*providers: uuid.UUID | str, vnic_type: str = "normal", segments: Any = (ONE, TWO, TUNNEL)) -> str | None:
    """The segment that a port is bound to."""
    profile = {"allocation": {f"group-{number}": str(each) for number, each in enumerate(providers)}}
    agents = [agent(OVS, SWITCH), agent(NIC_SWITCH, NIC)]
    values = {"id": "p", "device_owner": "compute:nova"}
    made = bind(PortToBind(values, "h", vnic_type, profile, segments, agents), drivers())
    return str(made.levels[0]["segment_id"]) if made.is_bound else None


def device(namespace: uuid.UUID, name: str, hypervisor: str = "hv") -> uuid.UUID:
    return uuid.UUID(str(neutron.device_resource_provider_uuid(namespace, hypervisor, name)))


PACKETS = neutron.agent_resource_provider_uuid(OVS_NAMESPACE, "hv")


@pytest.mark.parametrize(
    ("providers", "segment"),
    [
        ((), "1"),
        ((device(OVS_NAMESPACE, "br-a"),), "1"),
        ((device(OVS_NAMESPACE, "br-b"),), "2"),
        ((device(OVS_NAMESPACE, "rp_tunnelled"),), "3"),
        ((PACKETS,), "1"),
        ((device(OVS_NAMESPACE, "br-b"), PACKETS), "2"),
        ((device(OVS_NAMESPACE, "br-c"),), None),
        ((device(OVS_NAMESPACE, "br-b", "other"),), None),
        ((device(OVS_NAMESPACE, "br-b"), uuid.uuid4()), None),
        ((device(NIC_NAMESPACE, "ens3"),), None),  # a normal port is not bound to a NIC
        (("nonsense",), None),
    ],
)
def test_the_segment_is_that_of_the_provider(providers: tuple[uuid.UUID, ...], segment: str | None) -> None:
    assert bound(*providers) == segment


def test_a_network_that_the_device_does_not_carry() -> None:
    assert bound(device(OVS_NAMESPACE, "br-b"), segments=(ONE,)) is None


def test_the_driver_is_that_of_the_provider() -> None:
    assert bound(device(NIC_NAMESPACE, "ens3"), vnic_type="direct") == "2"
    assert bound(device(NIC_NAMESPACE, "ens1"), vnic_type="direct") == "1"
    assert bound(device(OVS_NAMESPACE, "br-a"), vnic_type="direct") is None


def test_other_groups_on_the_same_providers_are_no_other_binding() -> None:
    base = {"binding:host_id": "h", "binding:vnic_type": "normal", "trusted": None}
    first = {**base, "binding:profile": {"allocation": {"a": "p"}}}
    assert not is_bound_differently(first, {**base, "binding:profile": {"allocation": {"b": "p"}}})
    assert is_bound_differently(first, {**base, "binding:profile": {"allocation": {"b": "q"}}})
    assert is_bound_differently(first, {**base, "binding:profile": {"allocation": {"b": "p"}, "pci_slot": "0"}})


@pytest.mark.parametrize("allocation", [None, "p", 5, [], {}])
def test_an_allocation_in_another_form_restricts_nothing(allocation: object) -> None:
    assert allocated({"allocation": allocation}) == frozenset()


# --- other policies -----------------------------------------------------------------------------------------------------

PORT, OTHER = str(uuid.uuid4()), str(uuid.uuid4())


def bandwidth(key: str, kbps: int, direction: str = "egress") -> dict[str, Any]:
    return {"id": key, "type": "minimum_bandwidth", "direction": direction, "min_kbps": kbps}


def packets(key: str, kpps: int) -> dict[str, Any]:
    return {"id": key, "type": "minimum_packet_rate", "direction": "any", "min_kpps": kpps}


def test_the_allocation_of_another_policy_is_on_the_same_providers() -> None:
    old, new = [bandwidth("1", 10), packets("2", 3)], [packets("3", 5), bandwidth("4", 7), bandwidth("5", 8, "ingress")]
    groups = groups_of(PORT, old)
    allocation = {groups["minimum_bandwidth"].id: "device", groups["minimum_packet_rate"].id: "agent"}
    after = groups_of(PORT, new)
    wanted = {after["minimum_bandwidth"].id: "device", after["minimum_packet_rate"].id: "agent"}
    assert after_change(PORT, allocation, old, new) == wanted
    assert after_change(PORT, allocation, old, []) == {}
    only = {key: one for key, one in allocation.items() if one == "device"}
    assert after_change(PORT, only, old[:1], new) == {after["minimum_bandwidth"].id: "device"}, (
        "Nova allocated no packets"
    )


def test_amounts_are_those_of_all_ports() -> None:
    rules, others = [bandwidth("1", 10)], [bandwidth("2", 5), bandwidth("3", 6, "ingress")]
    mine = {groups_of(PORT, rules)["minimum_bandwidth"].id: "device"}
    theirs = {groups_of(OTHER, others)["minimum_bandwidth"].id: "device"}
    ports = [(PORT, mine, rules), (OTHER, theirs, others), (str(uuid.uuid4()), None, rules)]
    found = total(amounts(*port) for port in ports)
    assert found == {"device": {"NET_BW_EGR_KILOBIT_PER_SEC": 15, "NET_BW_IGR_KILOBIT_PER_SEC": 6}}


def test_amounts_of_others_stay() -> None:
    current: dict[str, dict[str, Any]] = {
        "node": {"resources": {"VCPU": 1}, "generation": 3},
        "device": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 9, "CUSTOM_X": 1}, "generation": 2},
        "agent": {"resources": {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 4}},
    }
    before = {"device": {"NET_BW_EGR_KILOBIT_PER_SEC": 9}, "agent": {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 4}}
    assert replaced(current, before, {"device": {"NET_BW_IGR_KILOBIT_PER_SEC": 7}, "agent": {}}) == {
        "node": current["node"],
        "device": {"resources": {"CUSTOM_X": 1, "NET_BW_IGR_KILOBIT_PER_SEC": 7}, "generation": 2},
    }
