"""Attributes of ports for the hypervisor and its hardware: hints, NUMA, device profiles, trusted VFs, offload, MACs."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.agents import NIC_SWITCH
from neutrino.server.main import Server
from tests.api.agents import report, switch
from tests.api.client import Api

VM = {"device_owner": "compute:nova", "device_id": "vm"}
STEERING = {"openvswitch": {"other_config": {"tx-steering": "hash"}}}
CARD = "3c:fd:fe:00:00:01"


@pytest.fixture
def network(api: Api) -> dict[str, Any]:
    made = api.network()
    api.subnet(made, "10.0.0.0/24")
    return made


def refused(api: Api, network: dict[str, Any], status: int, **values: Any) -> str:
    body = {"port": {"network_id": network["id"], **{key.replace("__", ":"): each for key, each in values.items()}}}
    return api.post("/ports", body).expect(status).message


def test_what_a_plain_port_has(admin: Api, network: dict[str, Any]) -> None:
    port = admin.port(network)
    names = ("hints", "trusted", "numa_affinity_policy", "device_profile", "hardware_offload_type")
    assert {port[name] for name in names} == {None}
    assert port["propagate_uplink_status"] is True
    assert port["binding:profile"] == {}
    assert admin.show("port", port["id"]) == port


# --- hints ------------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_hints_are_the_administrators(api: Api, admin: Api, network: dict[str, Any]) -> None:
    refused(api, network, 403, hints=STEERING)
    port = admin.port(network, hints=STEERING)
    assert port["hints"] == STEERING
    assert "hints" not in api.show("port", port["id"])
    api.put(f"/ports/{port['id']}", {"port": {"hints": None}}).expect(403)
    assert admin.change("port", port["id"], hints=None)["hints"] is None
    assert admin.change("port", port["id"], hints={"openvswitch": {}})["hints"] == {"openvswitch": {}}


@pytest.mark.parametrize(
    "hints",
    [
        "hash",
        [STEERING],
        {"ovn": {}},
        {"openvswitch": None},
        {"openvswitch": {"options": {}}},
        {"openvswitch": {"other_config": {"tx-steering": "static"}}},
        {"openvswitch": {"other_config": {"rx-steering": "hash"}}},
    ],
)
def test_unknown_hints_are_refused(admin: Api, network: dict[str, Any], hints: Any) -> None:
    assert "hints" in refused(admin, network, 400, hints=hints)


# --- NUMA, device profiles, uplink status -----------------------------------------------------------------------------


def test_numa_affinity(api: Api, network: dict[str, Any]) -> None:
    for policy in ("required", "preferred", "legacy", "socket", None):
        port = api.port(network, numa_affinity_policy=policy)
        assert api.show("port", port["id"])["numa_affinity_policy"] == policy
    assert api.change("port", port["id"], numa_affinity_policy="socket")["numa_affinity_policy"] == "socket"
    assert "numa_affinity_policy" in refused(api, network, 400, numa_affinity_policy="isolate")


def test_a_device_profile_is_given_once(api: Api, network: dict[str, Any]) -> None:
    port = api.port(network, device_profile="fpga")
    assert api.show("port", port["id"])["device_profile"] == "fpga"
    assert "device_profile" in api.put(f"/ports/{port['id']}", {"port": {"device_profile": "gpu"}}).expect(400).message
    assert "device_profile" in refused(api, network, 400, device_profile="x" * 256)


def test_the_uplink_status_can_be_changed(api: Api, network: dict[str, Any]) -> None:
    port = api.port(network, propagate_uplink_status=False)
    assert port["propagate_uplink_status"] is False
    assert api.change("port", port["id"], propagate_uplink_status=True)["propagate_uplink_status"] is True
    assert api.show("port", port["id"])["propagate_uplink_status"] is True


# --- trusted ----------------------------------------------------------------------------------------------------------


def test_trusted_is_in_the_profile_too(api: Api, admin: Api, network: dict[str, Any]) -> None:
    refused(api, network, 403, trusted=True)
    port = admin.port(network, trusted=True)
    assert (port["trusted"], port["binding:profile"]) == (True, {"trusted": True})
    assert "trusted" not in api.show("port", port["id"])
    api.put(f"/ports/{port['id']}", {"port": {"trusted": False}}).refused(403, "PolicyNotAuthorized")
    assert admin.show("port", port["id"])["binding:profile"] == {"trusted": True}
    nova = api.as_service()
    nova.put(f"/ports/{port['id']}", {"port": {"binding:profile": {"pci_slot": "0000:01:00.1", "trusted": False}}})
    assert admin.show("port", port["id"])["binding:profile"] == {"pci_slot": "0000:01:00.1", "trusted": True}
    changed = admin.change("port", port["id"], trusted=False)
    assert (changed["trusted"], changed["binding:profile"]) == (False, {"pci_slot": "0000:01:00.1", "trusted": False})
    nova.put(f"/ports/{port['id']}", {"port": {"binding:profile": None}}).expect(200)
    assert admin.show("port", port["id"])["binding:profile"] == {"trusted": False}
    assert "trusted" in admin.put(f"/ports/{port['id']}", {"port": {"trusted": None}}).expect(400).message


def test_trusted_does_not_bind_again(server: Server, admin: Api, network: dict[str, Any]) -> None:
    """An instance must not lose its connection."""
    switch(server, "h1")
    nova = admin.as_service()
    port = nova.port(network, **VM, binding__host_id="h1", binding__profile={"k": "v"})
    changed = admin.change("port", port["id"], trusted=True)
    assert changed["revision_number"] == port["revision_number"] + 1
    assert changed["binding:profile"] == {"k": "v", "trusted": True}
    (binding,) = nova.get(f"/ports/{port['id']}/bindings").expect(200).body["bindings"]
    assert binding["profile"] == {"k": "v"}
    again = admin.change("port", port["id"], trusted=True)
    assert again["revision_number"] == changed["revision_number"]


def test_a_port_stays_trusted_when_it_moves(server: Server, admin: Api, network: dict[str, Any]) -> None:
    switch(server, "h1")
    switch(server, "h2")
    nova = admin.as_service()
    port = admin.port(network, **VM, binding__host_id="h1", trusted=True)
    body = {"binding": {"host": "h2", "profile": {"migrating_to": "h2"}}}
    made = nova.post(f"/ports/{port['id']}/bindings", body).expect(201).body["binding"]
    assert made["profile"] == {"migrating_to": "h2"}
    nova.put(f"/ports/{port['id']}/bindings/h2/activate").expect(200)
    moved = admin.show("port", port["id"])
    assert (moved["binding:host_id"], moved["binding:profile"]) == ("h2", {"migrating_to": "h2", "trusted": True})


# --- hardware offload -------------------------------------------------------------------------------------------------


def test_offload_is_a_capability_of_the_profile(server: Server, api: Api, admin: Api, network: dict[str, Any]) -> None:
    refused(api, network, 403, hardware_offload_type="switchdev")
    switch(server, "h1")
    port = admin.port(
        network, **VM, binding__vnic_type="direct", binding__host_id="h1", hardware_offload_type="switchdev"
    )
    assert port["hardware_offload_type"] == "switchdev"
    assert port["binding:profile"] == {"capabilities": ["switchdev"]}
    assert port["binding:vif_type"] == "ovs"  # a direct port without the capability is not for Open vSwitch
    assert admin.show("port", port["id"])["hardware_offload_type"] == "switchdev"
    both = admin.port(network, hardware_offload_type="switchdev", trusted=True)
    assert both["binding:profile"] == {"capabilities": ["switchdev"], "trusted": True}
    body = {"port": {"hardware_offload_type": "switchdev"}}
    assert "hardware_offload_type" in admin.put(f"/ports/{port['id']}", body).expect(400).message
    for other in ("fpga", None):
        assert "hardware_offload_type" in refused(admin, network, 400, hardware_offload_type=other)


def test_offload_keeps_the_capabilities_that_are_given(server: Server, admin: Api, network: dict[str, Any]) -> None:
    both = Api(server.app, admin.project, "admin,service,member,reader")
    given = {"capabilities": ["x", "switchdev"], "k": 1}
    port = both.port(network, hardware_offload_type="switchdev", binding__profile=given)
    assert port["binding:profile"] == {"capabilities": ["x", "switchdev"], "k": 1}
    bad = {"capabilities": "x"}
    message = refused(both, network, 400, hardware_offload_type="switchdev", binding__profile=bad)
    assert "binding:profile" in message


# --- the MAC of a card ------------------------------------------------------------------------------------------------


def test_a_physical_port_has_the_mac_of_its_card(api: Api, network: dict[str, Any]) -> None:
    api.subnet(network, "fd00::/64", ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
    nova = api.as_service()
    port = nova.port(network, **VM, binding__vnic_type="direct-physical")
    assert port["mac_address"].startswith("fa:16:3e:")
    profile = {"pci_slot": "0000:01:00.0", "device_mac_address": CARD.upper()}
    bound = nova.change("port", port["id"], binding__profile=profile, binding__host_id="h1")
    assert bound["mac_address"] == CARD
    assert "fd00::3efd:feff:fe00:1" in [each["ip_address"] for each in bound["fixed_ips"]]
    # Nova unplugs it: the card, with its MAC, is for another port.
    freed = nova.change("port", port["id"], device_id="", device_owner="", binding__host_id="", binding__profile={})
    assert freed["mac_address"] not in (CARD, port["mac_address"])
    other = nova.port(network, **VM, binding__vnic_type="direct-physical", binding__profile=profile)
    assert other["mac_address"] == CARD
    body = {"port": {"binding:profile": profile}}
    nova.put(f"/ports/{port['id']}", body).refused(409, "MacAddressInUse")


def test_the_mac_of_a_virtual_port_is_its_own(api: Api, network: dict[str, Any]) -> None:
    nova = api.as_service()
    port = nova.port(network, **VM, binding__profile={"device_mac_address": CARD})
    assert port["mac_address"] != CARD
    freed = nova.change("port", port["id"], device_id="", device_owner="", binding__profile={})
    assert freed["mac_address"] == port["mac_address"]


@pytest.mark.parametrize("mac", ["x", 7, "01:00:5e:00:00:01", [CARD]])
def test_a_mac_that_no_card_has(api: Api, network: dict[str, Any], mac: Any) -> None:
    values = {"binding__vnic_type": "direct-physical", "binding__profile": {"device_mac_address": mac}}
    assert "binding:profile" in refused(api.as_service(), network, 400, **values)


def test_the_active_binding_decides_the_mac(server: Server, api: Api, network: dict[str, Any]) -> None:
    report(server, NIC_SWITCH, "nic", device_mappings={"physnet1": ["eth3"]})
    vlan = api.as_admin().network(provider__network_type="vlan", provider__physical_network="physnet1")
    nova = api.as_service()
    port = nova.port(vlan, **VM, binding__vnic_type="direct-physical", binding__host_id="h1")
    body = {"host": "nic", "vnic_type": "direct-physical", "profile": {"device_mac_address": CARD}}
    nova.post(f"/ports/{port['id']}/bindings", {"binding": body}).expect(201)
    assert nova.show("port", port["id"])["mac_address"] == port["mac_address"]
    nova.put(f"/ports/{port['id']}/bindings/nic/activate").expect(200)
    assert nova.show("port", port["id"])["mac_address"] == CARD
