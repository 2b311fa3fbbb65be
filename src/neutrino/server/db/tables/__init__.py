"""Every table, by the name that queries use."""

import sqlalchemy as sa

from neutrino.server.db.tables.access import quota_usages, quotas, rbac_policies, tags
from neutrino.server.db.tables.base import metadata
from neutrino.server.db.tables.changes import change_head, changes, journal
from neutrino.server.db.tables.hosts import agents, host_credentials
from neutrino.server.db.tables.l3 import (
    auto_allocated_topologies,
    conntrack_helpers,
    distributed_port_hosts,
    dvr_host_macs,
    flavor_service_profiles,
    flavors,
    floatingips,
    ha_networks,
    port_forwardings,
    router_l3_agents,
    router_ports,
    routers,
    service_profiles,
)
from neutrino.server.db.tables.networks import (
    address_scopes,
    network_dhcp_agents,
    network_segments,
    networks,
    subnetpools,
    subnets,
)
from neutrino.server.db.tables.ports import (
    ip_allocations,
    port_bindings,
    port_security_groups,
    ports,
    provisioning_blocks,
)
from neutrino.server.db.tables.security_groups import (
    address_groups,
    default_security_groups,
    security_group_rules,
    security_groups,
)

# The tables whose rows are counted against a project's quota, by the quota's name. Plugins add theirs.
COUNTED: dict[str, sa.FromClause] = {
    "network": networks,
    "subnet": subnets,
    "subnetpool": subnetpools,
    "port": ports,
    "rbac_policy": rbac_policies,
    "security_group": security_groups,
    "security_group_rule": security_group_rules,
    "router": routers,
    "floatingip": floatingips,
    "address_group": address_groups,
    # A port forwarding belongs to the project of its floating IP.
    "port_forwarding": sa.select(port_forwardings.c.id, floatingips.c.project_id)
    .join(floatingips, floatingips.c.id == port_forwardings.c.floatingip_id)
    .subquery("counted_port_forwardings"),
}

__all__ = [
    "COUNTED",
    "address_groups",
    "address_scopes",
    "agents",
    "auto_allocated_topologies",
    "change_head",
    "changes",
    "conntrack_helpers",
    "default_security_groups",
    "distributed_port_hosts",
    "dvr_host_macs",
    "flavor_service_profiles",
    "flavors",
    "floatingips",
    "ha_networks",
    "host_credentials",
    "ip_allocations",
    "journal",
    "metadata",
    "network_dhcp_agents",
    "network_segments",
    "networks",
    "port_bindings",
    "port_forwardings",
    "port_security_groups",
    "ports",
    "provisioning_blocks",
    "quota_usages",
    "quotas",
    "rbac_policies",
    "router_l3_agents",
    "router_ports",
    "routers",
    "security_group_rules",
    "security_groups",
    "service_profiles",
    "subnetpools",
    "subnets",
    "tags",
]
