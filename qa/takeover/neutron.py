"""Neutron with every service plugin that this project serves, configured for a recording."""

from __future__ import annotations

from pathlib import Path

from qa.bench.neutron import processes
from qa.bench.neutron.configuration import Place

HOSTS = ("compute-1", "compute-2", "network-1", "network-2")
SERVICE_PLUGINS = (
    *("router", "qos", "trunk", "segments", "port_forwarding", "metering", "log", "network_segment_range"),
    *("ndp_proxy", "conntrack_helper", "local_ip", "firewall_v2", "vpnaas", "taas", "tapmirror"),
    "neutron_dynamic_routing.services.bgp.bgp_plugin.BgpPlugin",
)
EXTENSION_DRIVERS = (
    *("port_security", "qos", "subnet_dns_publish_fixed_ip", "data_plane_status"),
    *("uplink_status_propagation", "port_hints", "port_device_profile", "port_numa_affinity_policy", "port_trusted"),
)
_ML2 = f"""
[ml2]
type_drivers = flat,vlan,vxlan,gre,geneve,local
project_network_types = vxlan
mechanism_drivers = openvswitch,l2population
extension_drivers = {",".join(EXTENSION_DRIVERS)}
[ml2_type_flat]
flat_networks = public
[ml2_type_vlan]
network_vlan_ranges = physical:100:120
[ml2_type_vxlan]
vni_ranges = 1001:1020
[ml2_type_gre]
tunnel_id_ranges = 1:10
[ml2_type_geneve]
vni_ranges = 1:10
max_header_size = 38
[securitygroup]
firewall_driver = openvswitch
"""
_FWAAS = "neutron_fwaas.services.firewall.service_drivers.agents.agents.FirewallAgentDriver"
_MORE = f"""
[DEFAULT]
dns_domain = example.org.
max_l3_agents_per_router = 2
l3_ha = false
enable_dvr = true
network_auto_schedule = false
dhcp_agents_per_network = 1
default_availability_zones = nova
agent_down_time = 86400
[quotas]
quota_rbac_policy = -1
[service_providers]
service_provider = FIREWALL_V2:fwaas_db:{_FWAAS}:default
service_provider = VPN:strongswan:neutron_vpnaas.services.vpn.service_drivers.ipsec.IPsecVPNDriver:default
service_provider = TAAS:TAAS:neutron_taas.services.taas.service_drivers.taas_rpc.TaasRpcDriver:default
"""


def write_files(directory: Path, database: str, broker: str) -> Place:
    place = processes.write_files(directory, database, broker)
    text = place.neutron_conf.read_text(encoding="utf-8")
    start = text.index("service_plugins = ")
    end = text.index("\n", start)
    place.neutron_conf.write_text(f"{text[:start]}service_plugins = {','.join(SERVICE_PLUGINS)}{text[end:]}{_MORE}")
    place.ml2_conf.write_text(_ML2, encoding="utf-8")
    return place
