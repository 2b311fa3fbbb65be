"""The tables and columns of Neutron 2026.2 that families read, by the branch of migrations that has them.

Of the releases that are known, older ones lack some, which read as empty. A release that is not known must have all.
"""

from collections.abc import Mapping
from typing import Final

_CORE: Final[Mapping[str, str]] = {
    "address_associations": "address address_group_id",
    "address_groups": "project_id id name standard_attr_id",
    "address_scopes": "id name project_id ip_version",
    "addressgrouprbacs": "project_id id target_project action object_id",
    "addressscoperbacs": "project_id id target_project action object_id",
    "agents": (
        "id agent_type binary topic host admin_state_up created_at started_at heartbeat_timestamp description "
        "configurations load availability_zone resource_versions resources_synced"
    ),
    "allowedaddresspairs": "port_id mac_address ip_address",
    "auto_allocated_topologies": "project_id network_id router_id",
    "conntrack_helpers": "id router_id protocol port helper",
    "default_security_group": "project_id security_group_id",
    "dnsnameservers": "address subnet_id order",
    "dvr_host_macs": "host mac_address",
    "externalnetworks": "network_id is_default",
    "extradhcpopts": "port_id opt_name opt_value ip_version",
    "flavors": "id name description enabled service_type",
    "flavorserviceprofilebindings": "service_profile_id flavor_id",
    "floatingipdnses": "floatingip_id dns_name dns_domain published_dns_name published_dns_domain",
    "floatingips": (
        "project_id id floating_ip_address floating_network_id floating_port_id fixed_port_id fixed_ip_address "
        "router_id status standard_attr_id"
    ),
    "ha_router_agent_port_bindings": "port_id router_id l3_agent_id state",
    "ha_router_networks": "project_id network_id",
    "ha_router_vrid_allocations": "network_id vr_id",
    "ipallocationpools": "subnet_id first_ip last_ip",
    "ipallocations": "port_id ip_address subnet_id",
    "local_ip_associations": "local_ip_id fixed_port_id fixed_ip",
    "local_ips": "id standard_attr_id name project_id local_port_id network_id local_ip_address ip_mode",
    "logs": "project_id id standard_attr_id name resource_type resource_id target_id event enabled",
    "meteringlabelrules": (
        "id direction remote_ip_prefix metering_label_id excluded source_ip_prefix destination_ip_prefix"
    ),
    "meteringlabels": "project_id id name description shared",
    "ml2_distributed_port_bindings": "port_id host status",
    "ml2_port_binding_levels": "port_id host level driver segment_id",
    "ml2_port_bindings": "port_id host vif_type vnic_type profile vif_details status",
    "ndp_proxies": "project_id name id router_id port_id ip_address standard_attr_id",
    "network_segment_ranges": (
        "id name default shared project_id network_type physical_network minimum maximum standard_attr_id"
    ),
    "networkdhcpagentbindings": "network_id dhcp_agent_id",
    "networkdnsdomains": "network_id dns_domain",
    "networkrbacs": "id object_id project_id target_project action",
    "networks": (
        "project_id id name status admin_state_up mtu vlan_transparent standard_attr_id availability_zone_hints qinq"
    ),
    "networksecuritybindings": "network_id port_security_enabled",
    "networksegments": (
        "id network_id network_type physical_network segmentation_id is_dynamic segment_index standard_attr_id name"
    ),
    "portdataplanestatuses": "port_id data_plane_status",
    "portdeviceprofiles": "port_id device_profile",
    "portdnses": "port_id dns_name dns_domain",
    "portforwardings": (
        "id floatingip_id internal_neutron_port_id protocol standard_attr_id internal_ip_address "
        "internal_port_start internal_port_end external_port_start external_port_end"
    ),
    "porthardwareoffloadtype": "port_id hardware_offload_type",
    "porthints": "port_id hints",
    "portnumaaffinitypolicies": "port_id numa_affinity_policy",
    "ports": (
        "project_id id name network_id mac_address admin_state_up status device_id device_owner standard_attr_id "
        "ip_allocation"
    ),
    "portsecuritybindings": "port_id port_security_enabled",
    "porttrusted": "port_id trusted",
    "portuplinkstatuspropagation": "port_id propagate_uplink_status",
    "provisioningblocks": "standard_attr_id entity",
    "qos_bandwidth_limit_rules": "id qos_policy_id max_kbps max_burst_kbps direction",
    "qos_dscp_marking_rules": "id qos_policy_id dscp_mark",
    "qos_fip_policy_bindings": "policy_id fip_id",
    "qos_minimum_bandwidth_rules": "id qos_policy_id min_kbps direction",
    "qos_minimum_packet_rate_rules": "id qos_policy_id min_kpps direction",
    "qos_network_policy_bindings": "policy_id network_id",
    "qos_packet_rate_limit_rules": "id qos_policy_id max_kpps max_burst_kpps direction",
    "qos_policies": "id name project_id standard_attr_id",
    "qos_policies_default": "qos_policy_id project_id",
    "qos_port_policy_bindings": "policy_id port_id",
    "qos_router_gw_policy_bindings": "policy_id router_id",
    "qospolicyrbacs": "id project_id target_project action object_id",
    "quotas": "project_id resource limit",
    "router_extra_attributes": (
        "router_id distributed service_router ha ha_vr_id availability_zone_hints enable_default_route_ecmp "
        "enable_default_route_bfd"
    ),
    "router_ndp_proxy_state": "router_id enable_ndp_proxy",
    "routerl3agentbindings": "router_id l3_agent_id",
    "routerports": "router_id port_id port_type",
    "routerroutes": "destination nexthop router_id",
    "routers": "project_id id name status admin_state_up gw_port_id enable_snat standard_attr_id flavor_id",
    "security_groups_default_statefulness": "id project_id stateful",
    "securitygroupdefaultrules": (
        "id standard_attr_id remote_group_id remote_address_group_id direction ethertype protocol port_range_min "
        "port_range_max remote_ip_prefix used_in_default_sg used_in_non_default_sg"
    ),
    "securitygroupportbindings": "port_id security_group_id",
    "securitygrouprbacs": "project_id id target_project action object_id",
    "securitygrouprules": (
        "project_id id security_group_id remote_group_id direction ethertype protocol port_range_min "
        "port_range_max remote_ip_prefix standard_attr_id remote_address_group_id"
    ),
    "securitygroups": "project_id id name standard_attr_id stateful",
    "serviceprofiles": "id description driver enabled metainfo",
    "standardattributes": "id resource_type created_at updated_at description revision_number",
    "subnet_dns_publish_fixed_ips": "subnet_id dns_publish_fixed_ip",
    "subnet_service_types": "subnet_id service_type",
    "subnetpoolprefixes": "cidr subnetpool_id",
    "subnetpoolrbacs": "project_id id target_project action object_id",
    "subnetpools": (
        "project_id id name ip_version default_prefixlen min_prefixlen max_prefixlen default_quota "
        "address_scope_id is_default standard_attr_id"
    ),
    "subnetroutes": "destination nexthop subnet_id",
    "subnets": (
        "project_id id name network_id ip_version cidr gateway_ip enable_dhcp ipv6_ra_mode ipv6_address_mode "
        "subnetpool_id standard_attr_id segment_id"
    ),
    "subports": "port_id trunk_id segmentation_type segmentation_id",
    "tags": "standard_attr_id tag",
    "trunks": "admin_state_up project_id id name port_id standard_attr_id",
}
_PLUGINS: Final[Mapping[str, Mapping[str, str]]] = {
    "alembic_version_fwaas": {
        "default_firewall_groups": "project_id firewall_group_id",
        "firewall_group_port_associations_v2": "firewall_group_id port_id",
        "firewall_groups_v2": (
            "id name project_id status admin_state_up shared egress_firewall_policy_id ingress_firewall_policy_id "
            "standard_attr_id"
        ),
        "firewall_policies_v2": "id name project_id audited shared standard_attr_id",
        "firewall_policy_rule_associations_v2": "firewall_policy_id firewall_rule_id position",
        "firewall_rules_v2": (
            "id name project_id protocol ip_version source_ip_address destination_ip_address source_port_range_min "
            "source_port_range_max destination_port_range_min destination_port_range_max action shared enabled "
            "standard_attr_id"
        ),
    },
    "alembic_version_vpnaas": {
        "ikepolicies": (
            "project_id id name description auth_algorithm encryption_algorithm phase1_negotiation_mode "
            "lifetime_units lifetime_value ike_version pfs"
        ),
        "ipsec_site_connections": (
            "project_id id name description peer_address peer_id route_mode mtu initiator auth_mode psk dpd_action "
            "dpd_interval dpd_timeout status admin_state_up vpnservice_id ipsecpolicy_id ikepolicy_id "
            "local_ep_group_id peer_ep_group_id local_id"
        ),
        "ipsecpeercidrs": "cidr ipsec_site_connection_id",
        "ipsecpolicies": (
            "project_id id name description transform_protocol auth_algorithm encryption_algorithm encapsulation_mode "
            "lifetime_units lifetime_value pfs"
        ),
        "vpn_endpoint_groups": "id project_id name description endpoint_type",
        "vpn_endpoints": "endpoint endpoint_group_id",
        "vpnservices": "project_id id name description status admin_state_up subnet_id router_id flavor_id",
    },
    "alembic_version_dr": {
        "bgp_peers": "id name auth_type password peer_ip remote_as project_id",
        "bgp_speaker_dragent_bindings": "agent_id bgp_speaker_id",
        "bgp_speaker_network_bindings": "bgp_speaker_id network_id",
        "bgp_speaker_peer_bindings": "bgp_speaker_id bgp_peer_id",
        "bgp_speakers": (
            "id name local_as ip_version project_id advertise_floating_ip_host_routes advertise_tenant_networks"
        ),
    },
    "alembic_version_taas": {
        "tap_flows": "id project_id name description tap_service_id source_port direction vlan_filter",
        "tap_id_associations": "tap_service_id taas_id",
        "tap_mirrors": "id project_id name description port_id directions remote_ip mirror_type",
        "tap_services": "id project_id name description port_id",
    },
}
# Columns of these tables that the import does not need.
_UNREAD: Final[Mapping[str, str]] = {
    "address_scopes": "shared",
    "bgp_speaker_network_bindings": "ip_version",
    "extradhcpopts": "id",
    "firewall_policies_v2": "rule_count",
    "floatingips": "last_known_router_id",
    "ipallocationpools": "id",
    "ipallocations": "network_id",
    "ml2_distributed_port_bindings": "router_id vif_type vif_details vnic_type profile",
    "networkdhcpagentbindings": "binding_index",
    "portdnses": "current_dns_name current_dns_domain previous_dns_name previous_dns_domain",
    "quotas": "id",
    "routerl3agentbindings": "binding_index",
    "subnetpools": "shared hash",
    "tap_flows": "status",
    "tap_services": "status",
    "trunks": "status",
    "vpnservices": "external_v4_ip external_v6_ip",
}


def required(tables: frozenset[str]) -> dict[str, frozenset[str]]:
    """The columns that the import reads, by table: those of Neutron, and of plugins whose branch the database has."""
    found = dict(_CORE)
    for branch, of_plugin in _PLUGINS.items():
        if branch in tables:
            found |= of_plugin
    return {name: frozenset(columns.split()) for name, columns in found.items()}


def unread(table: str) -> frozenset[str]:
    """Columns of a table that are known, and not needed."""
    return frozenset(_UNREAD.get(table, "").split())
