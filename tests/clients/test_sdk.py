"""openstacksdk: every resource through its proxy, as programs and Ansible's modules do."""

from __future__ import annotations

import pytest
from openstack import exceptions
from openstack.connection import Connection
from openstack.network.v2.network import Network

from tests.clients.conftest import HOSTS, Cloud


@pytest.fixture
def network(conn: Connection) -> Network:
    """A network with a subnet, which the test need not delete."""
    made: Network = conn.network.create_network(name="sdk")
    conn.network.create_subnet(network_id=made.id, ip_version=4, cidr="10.0.0.0/24", name="sdk")
    return made


def clear(conn: Connection, network: Network) -> None:
    for port in conn.network.ports(network_id=network.id):
        conn.network.delete_port(port, ignore_missing=False)
    conn.network.delete_network(network, ignore_missing=False)


def test_networks(conn: Connection, cloud: Cloud) -> None:
    made = conn.network.create_network(
        name="net", description="d", mtu=1400, is_admin_state_up=False, provider_network_type="vxlan", dns_domain="a.b."
    )
    assert (made.status, made.mtu, made.project_id, made.provider_network_type) == (
        "ACTIVE",
        1400,
        cloud.project,
        "vxlan",
    )
    found = conn.network.find_network("net", ignore_missing=False)
    assert found.id == made.id
    changed = conn.network.update_network(made, name="net2", is_admin_state_up=True, is_shared=True)
    assert (changed.name, changed.is_admin_state_up, changed.is_shared) == ("net2", True, True)
    assert changed.revision_number > made.revision_number or changed is made
    assert [n.id for n in conn.network.networks(name="net2", is_shared=True)] == [made.id]
    conn.network.delete_network(made)
    assert conn.network.find_network("net2") is None
    with pytest.raises(exceptions.NotFoundException):
        conn.network.get_network(made.id)
    with pytest.raises(exceptions.NotFoundException):
        conn.network.delete_network(made.id, ignore_missing=False)


def test_if_revision(conn: Connection, network: Network) -> None:
    revision = conn.network.get_network(network.id).revision_number
    conn.network.update_network(network.id, if_revision=revision, description="first")
    with pytest.raises(exceptions.HttpException) as refused:
        conn.network.update_network(network.id, if_revision=revision, description="second")
    assert refused.value.status_code == 412
    clear(conn, network)


def test_segments_of_several_providers(conn: Connection) -> None:
    segments = [
        {"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 160},
        {"provider:network_type": "vxlan"},
    ]
    made = conn.network.create_network(name="multi", segments=segments)
    assert [segment["provider:network_type"] for segment in made.segments] == ["vlan", "vxlan"]
    clear(conn, made)


def test_subnets(conn: Connection) -> None:
    network = conn.network.create_network(name="of-subnets")
    made = conn.network.create_subnet(
        network_id=network.id,
        ip_version=4,
        cidr="10.1.0.0/24",
        name="s",
        gateway_ip="10.1.0.254",
        dns_nameservers=["9.9.9.9"],
        host_routes=[{"destination": "10.9.0.0/16", "nexthop": "10.1.0.2"}],
        allocation_pools=[{"start": "10.1.0.10", "end": "10.1.0.20"}],
        service_types=["compute:nova"],
    )
    assert (made.gateway_ip, made.dns_nameservers, made.service_types) == ("10.1.0.254", ["9.9.9.9"], ["compute:nova"])
    changed = conn.network.update_subnet(made, name="t", gateway_ip=None, is_dhcp_enabled=False, dns_nameservers=[])
    assert (changed.name, changed.gateway_ip, changed.is_dhcp_enabled, changed.dns_nameservers) == (
        "t",
        None,
        False,
        [],
    )
    six = conn.network.create_subnet(
        network_id=network.id, ip_version=6, cidr="2001:db8::/64", ipv6_address_mode="slaac", ipv6_ra_mode="slaac"
    )
    port = conn.network.create_port(network_id=network.id, fixed_ips=[{"subnet_id": six.id}])
    assert port.fixed_ips[0]["ip_address"].startswith("2001:db8::")
    assert conn.network.find_subnet("t", network_id=network.id, ignore_missing=False).id == made.id
    assert len(list(conn.network.subnets(network_id=network.id))) == 2
    with pytest.raises(exceptions.BadRequestException):
        conn.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.1.0.128/25")
    clear(conn, network)


def test_ports(conn: Connection, network: Network) -> None:
    made = conn.network.create_port(
        network_id=network.id,
        name="p",
        fixed_ips=[{"ip_address": "10.0.0.9"}],
        allowed_address_pairs=[{"ip_address": "10.0.0.77"}],
        extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": "1400"}],
        binding_host_id=HOSTS[0],
        binding_profile={"a": "b"},
        device_owner="compute:nova",
    )
    assert (made.binding_vif_type, made.binding_profile, made.status) == ("ovs", {"a": "b"}, "DOWN")
    assert len(made.security_group_ids) == 1
    changed = conn.network.update_port(
        made, name="q", security_group_ids=[], allowed_address_pairs=[], is_port_security_enabled=False
    )
    assert (changed.name, changed.security_group_ids, changed.is_port_security_enabled) == ("q", [], False)
    assert conn.network.find_port("q", ignore_missing=False).id == made.id
    assert [p.id for p in conn.network.ports(fixed_ips="ip_address=10.0.0.9", network_id=network.id)] == [made.id]
    assert [p.id for p in conn.network.ports(fields=["id"], device_owner="compute:nova", name="q")] == [made.id]
    clear(conn, network)


def test_ports_in_bulk_and_in_pages(conn: Connection, network: Network) -> None:
    data = [{"network_id": network.id, "name": f"bulk{i}", "tags": ["bulk"]} for i in range(12)]
    made = list(conn.network.create_ports(data))
    assert len({port.fixed_ips[0]["ip_address"] for port in made}) == 12
    paged = list(conn.network.ports(network_id=network.id, limit=5))
    assert sorted(port.id for port in paged) == sorted(port.id for port in made)
    few = list(conn.network.ports(network_id=network.id, limit=5, paginated=False))
    assert len(few) == 5
    backwards = conn.network.ports(network_id=network.id, sort_key="name", sort_dir="desc", limit=3)
    assert [port.name for port in backwards] == sorted((port.name for port in made), reverse=True)
    assert all(port.tags == ["bulk"] for port in conn.network.ports(network_id=network.id))
    clear(conn, network)


def test_port_bindings(conn: Connection, network: Network) -> None:
    port = conn.network.create_port(network_id=network.id, binding_host_id=HOSTS[0], device_owner="compute:nova")
    second = conn.network.create_port_binding(port, host=HOSTS[1])
    assert (second.host, second.vif_type, second.status) == (HOSTS[1], "ovs", "INACTIVE")
    assert {b.host: b.status for b in conn.network.port_bindings(port)} == {HOSTS[0]: "ACTIVE", HOSTS[1]: "INACTIVE"}
    conn.network.activate_port_binding(port, HOSTS[1])
    assert conn.network.get_port(port.id).binding_host_id == HOSTS[1]
    conn.network.delete_port_binding(port, HOSTS[0])
    assert [b.host for b in conn.network.port_bindings(port)] == [HOSTS[1]]
    clear(conn, network)


def test_tags(conn: Connection, network: Network) -> None:
    conn.network.set_tags(network, ["red", "blue"])
    conn.network.add_tag(network, "green")
    assert sorted(conn.network.get_network(network.id).tags) == ["blue", "green", "red"]
    assert conn.network.check_tag(network, "red")
    conn.network.remove_tag(network, "red")
    assert [n.id for n in conn.network.networks(tags="blue,green", not_tags="red", id=network.id)] == [network.id]
    assert list(conn.network.networks(not_any_tags="blue,x", id=network.id)) == []
    assert [n.id for n in conn.network.networks(any_tags="blue,x")] == [network.id]
    conn.network.remove_all_tags(network)
    assert conn.network.get_network(network.id).tags == []
    clear(conn, network)


def test_security_groups(conn: Connection) -> None:
    made = conn.network.create_security_group(name="sg", description="d", stateful=False)
    assert len(made.security_group_rules) == 2
    changed = conn.network.update_security_group(made, name="sg2", stateful=True)
    assert (changed.name, changed.stateful) == ("sg2", True)
    assert conn.network.find_security_group("sg2", ignore_missing=False).id == made.id
    rule = conn.network.create_security_group_rule(
        security_group_id=made.id, direction="ingress", protocol="tcp", port_range_min=22, port_range_max=23
    )
    assert (rule.ether_type, rule.port_range_max, rule.remote_ip_prefix) == ("IPv4", 23, None)
    more = conn.network.create_security_group_rules(
        [
            {"security_group_id": made.id, "direction": "egress", "protocol": "udp", "remote_group_id": made.id},
            {"security_group_id": made.id, "direction": "ingress", "ether_type": "IPv6", "protocol": "ipv6-icmp"},
        ]
    )
    assert len(list(more)) == 2
    assert len(list(conn.network.security_group_rules(security_group_id=made.id))) == 5
    assert conn.network.get_security_group_rule(rule.id).security_group_id == made.id
    assert conn.network.find_security_group_rule(rule.id, ignore_missing=False).id == rule.id
    conn.network.delete_security_group_rule(rule, ignore_missing=False)
    assert "default" in [group.name for group in conn.network.security_groups()]
    conn.network.delete_security_group(made, ignore_missing=False)


def test_address_groups(conn: Connection) -> None:
    made = conn.network.create_address_group(name="ag", addresses=["10.0.0.0/8"], description="d")
    conn.network.add_addresses_to_address_group(made, ["192.0.2.1/32", "2001:db8::/32"])
    conn.network.remove_addresses_from_address_group(made, ["10.0.0.0/8"])
    assert sorted(conn.network.get_address_group(made.id).addresses) == ["192.0.2.1/32", "2001:db8::/32"]
    conn.network.update_address_group(made, name="ag2", description="e")
    assert conn.network.find_address_group("ag2", ignore_missing=False).description == "e"
    assert made.id in [group.id for group in conn.network.address_groups()]
    conn.network.delete_address_group(made, ignore_missing=False)


def test_subnet_pools_and_address_scopes(conn: Connection) -> None:
    scope = conn.network.create_address_scope(name="scope", ip_version=4)
    conn.network.update_address_scope(scope, name="scope2")
    assert conn.network.find_address_scope("scope2", ignore_missing=False).ip_version == 4
    assert scope.id in [one.id for one in conn.network.address_scopes()]
    pool = conn.network.create_subnet_pool(
        name="pool", prefixes=["10.50.0.0/16"], default_prefix_length=26, address_scope_id=scope.id
    )
    changed = conn.network.update_subnet_pool(pool, name="pool2", prefixes=["10.50.0.0/16", "10.60.0.0/16"])
    assert changed.prefixes == ["10.50.0.0/16", "10.60.0.0/16"]
    assert conn.network.find_subnet_pool("pool2", ignore_missing=False).address_scope_id == scope.id
    network = conn.network.create_network(name="of-pool")
    subnet = conn.network.create_subnet(network_id=network.id, ip_version=4, subnetpool_id=pool.id, prefixlen=28)
    assert subnet.cidr.endswith("/28")
    assert [one.id for one in conn.network.subnets(subnet_pool_id=pool.id)] == [subnet.id]
    with pytest.raises(exceptions.ConflictException):
        conn.network.delete_address_scope(scope)
    clear(conn, network)
    conn.network.delete_subnet_pool(pool, ignore_missing=False)
    conn.network.delete_address_scope(scope, ignore_missing=False)


def test_rbac_policies(conn: Connection, cloud: Cloud, network: Network) -> None:
    made = conn.network.create_rbac_policy(
        object_type="network", object_id=network.id, action="access_as_shared", target_project_id=cloud.other
    )
    assert conn.network.get_rbac_policy(made.id).target_project_id == cloud.other
    assert conn.network.find_rbac_policy(made.id, ignore_missing=False).id == made.id
    changed = conn.network.update_rbac_policy(made, target_project_id="*")
    assert changed.target_project_id == "*"
    assert [one.id for one in conn.network.rbac_policies(object_id=network.id)] == [made.id]
    assert conn.network.get_network(network.id).is_shared
    conn.network.delete_rbac_policy(made, ignore_missing=False)
    assert not conn.network.get_network(network.id).is_shared
    clear(conn, network)


def test_agents(conn: Connection, network: Network) -> None:
    known = list(conn.network.agents(agent_type="DHCP agent"))
    assert {agent.host for agent in known} == set(HOSTS)
    [agent] = conn.network.agents(agent_type="Open vSwitch agent", host=HOSTS[1])
    assert conn.network.get_agent(agent.id).configuration["tunnel_types"] == ["vxlan"]
    assert conn.network.update_agent(agent, description="x", is_admin_state_up=True).description == "x"
    serving = conn.network.get_agent(next(conn.network.network_hosting_dhcp_agents(network)).id)
    conn.network.remove_dhcp_agent_from_network(serving, network)
    assert list(conn.network.network_hosting_dhcp_agents(network)) == []
    conn.network.add_dhcp_agent_to_network(serving, network)
    assert network.id in [one.id for one in conn.network.dhcp_agent_hosting_networks(serving)]
    clear(conn, network)


def test_quotas(conn: Connection, cloud: Cloud) -> None:
    conn.network.update_quota(cloud.other, networks=3, ports=4)
    quota = conn.network.get_quota(cloud.other)
    assert (quota.networks, quota.ports) == (3, 4)
    details = conn.network.get_quota(cloud.other, details=True)
    assert details.networks == {"limit": 3, "used": 0, "reserved": 0}
    assert conn.network.get_quota_default(cloud.other).networks == -1
    assert cloud.other in [one.project_id for one in conn.network.quotas()]
    conn.network.delete_quota(cloud.other)
    assert conn.network.get_quota(cloud.other).networks == -1


def test_what_there_is(conn: Connection, network: Network) -> None:
    assert conn.network.find_extension("Availability Zone", ignore_missing=False).alias == "availability_zone"
    assert conn.network.find_extension("binding-extended", ignore_missing=False).name == "Port Bindings Extended"
    assert conn._has_neutron_extension("security-group")
    assert {zone.name for zone in conn.network.availability_zones()} == {"nova"}
    conn.network.create_port(network_id=network.id)
    availability = conn.network.get_network_ip_availability(network.id)
    assert (availability.total_ips, availability.used_ips) == (253, 1)
    assert network.id in [one.network_id for one in conn.network.network_ip_availabilities(ip_version=4)]
    assert conn.network.find_network_ip_availability(network.id, ignore_missing=False).total_ips == 253
    clear(conn, network)


def test_the_cloud_layer(conn: Connection) -> None:
    """What Ansible's modules and shade's users call."""
    network = conn.create_network("layer")
    subnet = conn.create_subnet("layer", cidr="10.3.0.0/24", subnet_name="layer", dns_nameservers=["9.9.9.9"])
    port = conn.create_port(network.id, name="layer")
    group = conn.create_security_group("layer", "d")
    assert conn.create_security_group_rule("layer", 80, 80, "tcp").port_range_min == 80
    assert [one.id for one in conn.search_ports("layer")] == [port.id]
    assert conn.get_subnet("layer").id == subnet.id
    assert conn.update_port("layer", name="layer2", security_groups=[group.id]).name == "layer2"
    assert conn.delete_port("layer2")
    assert conn.delete_security_group("layer")
    assert conn.delete_subnet("layer")
    assert conn.delete_network("layer")
