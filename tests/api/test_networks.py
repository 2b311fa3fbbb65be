"""Networks: kinds of segments, MTU, several segments, what others use, and what goes with a network."""

from __future__ import annotations

import pytest

from tests.api.client import Api


def test_provider_attributes_are_hidden_from_projects(api: Api, admin: Api) -> None:
    made = api.network(name="blue")
    assert "provider:network_type" not in made
    seen = admin.show("network", made["id"])
    assert seen["provider:network_type"] == "vxlan"
    assert 1 <= seen["provider:segmentation_id"] <= 16000
    assert seen["mtu"] == 1450
    assert "segments" not in seen


@pytest.mark.parametrize(
    ("provider", "mtu"),
    [
        ({"provider:network_type": "geneve"}, 1450),
        ({"provider:network_type": "gre"}, 1458),
        ({"provider:network_type": "local"}, 1500),
        ({"provider:network_type": "vlan", "provider:physical_network": "physnet1"}, 1500),
    ],
)
def test_mtu_by_network_type(admin: Api, provider: dict[str, str], mtu: int) -> None:
    assert admin.post("/networks", {"network": provider}).expect(201).body["network"]["mtu"] == mtu


def test_mtu_limits(admin: Api) -> None:
    made = admin.network(mtu=1400)
    assert made["mtu"] == 1400
    assert admin.change("network", made["id"], mtu=1450)["mtu"] == 1450
    admin.put(f"/networks/{made['id']}", {"network": {"mtu": 1451}}).refused(400, "InvalidInput")
    assert admin.change("network", made["id"], mtu=60)["mtu"] == 60  # without subnets there is no minimum
    conflict = "NetworkMTUSubnetConflict"
    subnet = {"subnet": {"network_id": made["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}}
    admin.post("/subnets", subnet).refused(409, conflict)
    admin.change("network", made["id"], mtu=1279)
    admin.post("/subnets", subnet).expect(201)
    admin.put(f"/networks/{made['id']}", {"network": {"mtu": 67}}).refused(409, conflict)
    six = {"subnet": {"network_id": made["id"], "ip_version": 6, "cidr": "fd00::/64"}}
    admin.post("/subnets", six).refused(409, conflict)
    admin.change("network", made["id"], mtu=1280)
    admin.post("/subnets", six).expect(201)
    admin.put(f"/networks/{made['id']}", {"network": {"mtu": 1279}}).refused(409, conflict)


@pytest.mark.every_database
def test_a_segment_in_use_is_refused(admin: Api) -> None:
    vlan = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    made = admin.network(**vlan, provider__segmentation_id=3150)
    body = {"network": {k.replace("__", ":"): v for k, v in vlan.items()} | {"provider:segmentation_id": 3150}}
    admin.post("/networks", body).refused(409, "VlanIdInUse")
    other = admin.network(**vlan)
    admin.put(f"/networks/{other['id']}", {"network": {"provider:segmentation_id": 3150}}).refused(409, "VlanIdInUse")
    assert admin.change("network", other["id"], provider__segmentation_id=3151)["provider:segmentation_id"] == 3151
    admin.delete(f"/networks/{made['id']}").expect(204)
    admin.post("/networks", body).expect(201)


@pytest.mark.every_database
def test_one_flat_network_per_physical_network(admin: Api) -> None:
    body = {"network": {"provider:network_type": "flat", "provider:physical_network": "physnet9"}}
    made = admin.post("/networks", body).expect(201).body["network"]
    admin.post("/networks", body).refused(409, "FlatNetworkInUse")
    admin.delete(f"/networks/{made['id']}").expect(204)
    admin.post("/networks", body).expect(201)


@pytest.mark.parametrize(
    "provider",
    [
        {"provider:network_type": "vlan"},
        {"provider:network_type": "vlan", "provider:physical_network": "unknown"},
        {"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 5000},
        {"provider:network_type": "flat"},
        {"provider:network_type": "local", "provider:segmentation_id": 5},
        {"provider:network_type": "vxlan", "provider:physical_network": "physnet1"},
        {"provider:network_type": "token-ring"},
        {"provider:segmentation_id": 5},
    ],
)
def test_invalid_segments_are_refused(admin: Api, provider: dict[str, object]) -> None:
    admin.post("/networks", {"network": provider}).expect(400)


def test_a_network_with_several_segments_shows_them_as_a_list(api: Api, admin: Api) -> None:
    segments = [
        {"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 3160},
        {"provider:network_type": "vxlan", "provider:physical_network": None, "provider:segmentation_id": 100001},
    ]
    made = admin.network(segments=segments)
    assert made["segments"] == segments
    assert made["mtu"] == 1450
    assert "provider:network_type" not in made
    assert admin.show("network", made["id"])["segments"] == segments
    assert [n["id"] for n in admin.all("/networks", {"provider:segmentation_id": 100001})] == [made["id"]]
    assert "segments" not in api.show("network", made["id"])
    api.post("/networks", {"network": {"segments": segments}}).refused(403)


def test_external_networks_are_visible_to_all_projects(api: Api, admin: Api) -> None:
    made = admin.network(router__external=True)
    stranger = api.as_stranger()
    assert stranger.show("network", made["id"])["router:external"] is True
    stranger.post("/ports", {"port": {"network_id": made["id"]}}).refused(403)
    admin.change("network", made["id"], router__external=False)
    stranger.get(f"/networks/{made['id']}").refused(404, "NetworkNotFound")


def test_a_network_used_by_others_cannot_be_unshared(api: Api, admin: Api) -> None:
    made = admin.network(shared=True)
    stranger = api.as_stranger()
    port = stranger.port(made)
    admin.put(f"/networks/{made['id']}", {"network": {"shared": False}}).refused(409, "InvalidSharedSetting")
    stranger.delete(f"/ports/{port['id']}").expect(204)
    admin.change("network", made["id"], shared=False)
    stranger.get(f"/networks/{made['id']}").refused(404)


@pytest.mark.every_database
def test_delete_removes_subnets_and_is_refused_with_ports(api: Api) -> None:
    network = api.network()
    subnet = api.subnet(network)
    port = api.port(network)
    api.delete(f"/networks/{network['id']}").refused(409, "NetworkInUse")
    api.delete(f"/ports/{port['id']}").expect(204)
    api.delete(f"/networks/{network['id']}").expect(204)
    api.get(f"/subnets/{subnet['id']}").refused(404, "SubnetNotFound")
    api.delete(f"/networks/{network['id']}").refused(404, "NetworkNotFound")


def test_a_dhcp_port_is_deleted_with_its_network(api: Api, admin: Api) -> None:
    network = api.network()
    api.subnet(network)
    port = admin.port(network, device_owner="network:dhcp", device_id="dhcp-1")
    api.delete(f"/networks/{network['id']}").expect(204)
    admin.get(f"/ports/{port['id']}").refused(404)


@pytest.mark.every_database
def test_a_bulk_create_is_all_or_nothing(api: Api) -> None:
    both = api.post("/networks", {"networks": [{"name": "a"}, {"name": "b"}]}).expect(201).body["networks"]
    assert [n["name"] for n in both] == ["a", "b"]
    api.post("/networks", {"networks": [{"name": "c"}, {"name": "d", "mtu": 999999}]}).expect(400)
    assert sorted(n["name"] for n in api.all("/networks")) == ["a", "b"]


@pytest.mark.every_database
def test_only_a_real_update_raises_the_revision(api: Api) -> None:
    made = api.network(name="a")
    same = api.change("network", made["id"], name="a")
    assert same["revision_number"] == made["revision_number"]
    changed = api.change("network", made["id"], name="b", admin_state_up=False, description="what for")
    assert changed["revision_number"] == made["revision_number"] + 1
    assert (changed["name"], changed["admin_state_up"], changed["description"]) == ("b", False, "what for")
    assert api.show("network", made["id"]) == changed


def test_network_wide_dhcp_options(api: Api) -> None:
    options = [{"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}]
    made = api.network(extra_dhcp_opts=options)
    assert made["extra_dhcp_opts"] == options
    assert api.change("network", made["id"], extra_dhcp_opts=[])["extra_dhcp_opts"] == []


@pytest.mark.every_database
def test_ip_availability(api: Api, admin: Api) -> None:
    network = api.network()
    api.subnet(network, "10.1.0.0/28")
    api.subnet(network, "fd01::/64")
    api.port(network)
    shown = admin.get(f"/network-ip-availabilities/{network['id']}").expect(200).body["network_ip_availability"]
    four = next(s for s in shown["subnet_ip_availability"] if s["ip_version"] == 4)
    assert (four["total_ips"], four["used_ips"]) == (13, 1)
    assert shown["used_ips"] == 2
    api.get(f"/network-ip-availabilities/{network['id']}").refused(404)
