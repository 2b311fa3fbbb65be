"""How the recorded server was configured, and what it had, where it shows in the answers.

A server under test has to run alike. A DHCP and an L3 agent were alive, but no agent that plugs ports, so no port binds;
there was an external network, which every project sees; and nothing limited the size of a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Settings = Mapping[str, Mapping[str, str]]

AGENTS_HOST = "vm"
AGENTS_ZONE = "nova"
EXTERNAL_CIDR = "172.24.4.0/22"
L3_AGENT: dict[str, Any] = {  # the report of the L3 agent
    "agent_mode": "legacy",
    "ex_gw_ports": 0,
    "extensions": ["port_forwarding", "conntrack_helper"],
    "floating_ips": 0,
    "handle_internal_only_routers": True,
    "interface_driver": "openvswitch",
    "interfaces": 0,
    "log_agent_heartbeats": False,
    "routers": 0,
}

SETTINGS: Settings = {
    "DEFAULT": {
        "auth_strategy": "noauth",
        "dns_domain": "openstackgate.local.",
        "global_physnet_mtu": "1500",
    },
    "quotas": {
        "quota_network": "500",
        "quota_subnet": "500",
        "quota_port": "500",
        "quota_floatingip": "500",
        "quota_security_group_rule": "500",
        "quota_router": "100",
        "quota_security_group": "100",
    },
    "ml2": {"tenant_network_types": "vxlan", "path_mtu": "1500"},
    "ml2_type_flat": {"flat_networks": "public,*"},
    "ml2_type_vlan": {"network_vlan_ranges": "public:100:999,foo:1:10"},
    "ml2_type_vxlan": {"vni_ranges": "1:20000"},
    "ml2_type_geneve": {"vni_ranges": "1:10000"},
    "ml2_type_gre": {"tunnel_id_ranges": "1:1000"},
}


def configuration(more: Settings | None = None, settings: Settings = SETTINGS) -> str:
    """The text of a configuration file with these settings and `more` (address, database)."""
    lines = []
    extra = more or {}
    for section in [*settings, *(name for name in extra if name not in settings)]:
        options = {**settings.get(section, {}), **extra.get(section, {})}
        lines += [f"[{section}]", *(f"{name} = {value}" for name, value in options.items()), ""]
    return "\n".join(lines)
