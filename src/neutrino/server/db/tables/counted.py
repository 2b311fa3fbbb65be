"""The tables whose rows count against quotas."""

import sqlalchemy as sa

from neutrino.server.db.tables.access import rbac_policies
from neutrino.server.db.tables.firewalls import firewall_groups, firewall_policies, firewall_rules
from neutrino.server.db.tables.networks import networks, subnetpools, subnets
from neutrino.server.db.tables.ports import ports
from neutrino.server.db.tables.qos import qos_policies
from neutrino.server.db.tables.routers import floatingips, port_forwardings, routers
from neutrino.server.db.tables.security_groups import address_groups, security_group_rules, security_groups
from neutrino.server.db.tables.tap_services import tap_flows, tap_mirrors, tap_services
from neutrino.server.db.tables.trunks import trunks
from neutrino.server.db.tables.vpn import (
    ikepolicies,
    ipsec_site_connections,
    ipsecpolicies,
    vpn_endpoint_groups,
    vpnservices,
)

# The tables whose rows count against a project's quota, by the quota's name. Plugins add theirs.
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
    "qos_policy": qos_policies,
    # A port forwarding counts against the project of its floating IP.
    "port_forwarding": sa.select(port_forwardings.c.id, floatingips.c.project_id)
    .join(floatingips, floatingips.c.id == port_forwardings.c.floatingip_id)
    .subquery("counted_port_forwardings"),
    "firewall_group": firewall_groups,
    "firewall_policy": firewall_policies,
    "firewall_rule": firewall_rules,
    "trunk": trunks,
    "tap_service": tap_services,
    "tap_flow": tap_flows,
    "tap_mirror": tap_mirrors,
    "ikepolicy": ikepolicies,
    "ipsecpolicy": ipsecpolicies,
    "endpoint_group": vpn_endpoint_groups,
    "vpnservice": vpnservices,
    "ipsec_site_connection": ipsec_site_connections,
}
# The same by table: rows are counted as they are inserted and deleted.
QUOTAS = {table: name for name, table in COUNTED.items()}
