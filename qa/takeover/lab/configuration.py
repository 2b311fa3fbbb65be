"""Configuration of Neutron's server and agents in the lab, as a usual deployment has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neutrino.lab.settings import BRIDGE_MAPPINGS, OVS_RUN

SERVICE_PLUGINS = ("router", "qos", "trunk", "segments", "port_forwarding")
# Agents by their programs; the L3 agent last, as it needs most of the others' work.
L3 = "neutron-l3-agent"
HYBRID, HYBRID_HOST = "iptables_hybrid", "h2"  # one host filters with iptables, as older clouds do
AGENTS = ("neutron-openvswitch-agent", "neutron-dhcp-agent", "neutron-metadata-agent", L3)

ML2 = """[ml2]
type_drivers = flat,vlan,vxlan,gre,geneve
project_network_types = vxlan
mechanism_drivers = openvswitch,l2population
extension_drivers = port_security,qos
[ml2_type_flat]
flat_networks = external
[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199
[ml2_type_vxlan]
vni_ranges = 1001:1999
[ml2_type_gre]
tunnel_id_ranges = 1:100
[ml2_type_geneve]
vni_ranges = 1:100
max_header_size = 38
[securitygroup]
firewall_driver = openvswitch
"""

SERVER = """
[DEFAULT]
max_l3_agents_per_router = 2
l3_ha = false
router_distributed = false
enable_dvr = true
dhcp_agents_per_network = 1
rpc_workers = 1
rpc_state_report_workers = 0
# Neutron's own failover would move objects while a host is converted; see docs/takeover.md.
agent_down_time = 86400
"""


# Of the L3 agent only: other agents have another meaning of the option.
L3_AGENT = """[agent]
extensions = port_forwarding
"""


@dataclass(frozen=True)
class AgentHost:
    """What the agents' files of a host depend on."""

    name: str
    directory: Path  # state_path of its agents
    local_ip: str
    agent_mode: str  # of the L3 agent
    transport: str  # URL of the broker
    metadata_secret: str
    use_veth: bool = False
    firewall_driver: str = "openvswitch"


@dataclass(frozen=True)
class Shape:
    """What a lab consists of."""

    hosts: int = 3
    agents: tuple[str, ...] = AGENTS  # of each host
    hybrid_host: str = HYBRID_HOST
    server: str = ""  # further configuration of the server
    use_veth: bool = False

    def firewall_driver(self, host: str) -> str:
        return HYBRID if host == self.hybrid_host else "openvswitch"


def agent_conf(host: AgentHost) -> str:
    """The file of all agents of a host; options that an agent does not have are ignored."""
    mappings = ",".join(f"{network}:{bridge}" for network, bridge in BRIDGE_MAPPINGS.items())
    return f"""[DEFAULT]
host = {host.name}
state_path = {host.directory}
transport_url = {host.transport.replace("$", "$$")}
interface_driver = openvswitch
ovs_use_veth = {host.use_veth}
agent_mode = {host.agent_mode}
enable_isolated_metadata = true
dhcp_driver = neutron.agent.linux.dhcp.Dnsmasq
nova_metadata_host = 127.0.0.1
nova_metadata_port = 8775
metadata_proxy_shared_secret = {host.metadata_secret}
metadata_workers = 0
rpc_response_timeout = 180
[agent]
# Agents are root here; their helpers of privilege separation are started by `env` in place of sudo.
root_helper = env
use_helper_for_ns_read = false
tunnel_types = vxlan,gre,geneve
l2_population = true
arp_responder = true
enable_distributed_routing = true
extensions = qos
report_interval = 10
[ovs]
ovsdb_connection = unix:{OVS_RUN}/db.sock
local_ip = {host.local_ip}
bridge_mappings = {mappings}
datapath_type = netdev
[securitygroup]
firewall_driver = {host.firewall_driver}
enable_security_group = true
[oslo_concurrency]
lock_path = {host.directory}/lock
"""
