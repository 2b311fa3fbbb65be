"""The tables whose changes are written to the change log."""

import sqlalchemy as sa

from neutrino.server.db.tables.access import rbac_policies
from neutrino.server.db.tables.bgp import bgp_peers, bgp_speakers
from neutrino.server.db.tables.firewalls import firewall_groups, firewall_policies, firewall_rules
from neutrino.server.db.tables.local_ips import local_ips
from neutrino.server.db.tables.logs import logs
from neutrino.server.db.tables.metering import metering_labels
from neutrino.server.db.tables.networks import address_scopes, networks, subnetpools, subnets
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

# The tables whose objects hosts get, with their kind in the change log: writes of their rows are logged.
LOGGED: dict[sa.Table, str] = {
    networks: "network",
    subnets: "subnet",
    ports: "port",
    security_groups: "security_group",
    address_groups: "address_group",
    routers: "router",
    qos_policies: "qos_policy",
    firewall_groups: "firewall_group",
    firewall_policies: "firewall_policy",
    firewall_rules: "firewall_rule",
    metering_labels: "metering_label",
    logs: "log",
    bgp_speakers: "bgp_speaker",
}
# Further tables whose changes are logged, for the history of their objects. The feed has no reader for these kinds.
HISTORY: dict[sa.Table, str] = LOGGED | {
    floatingips: "floatingip",
    port_forwardings: "port_forwarding",
    security_group_rules: "security_group_rule",
    subnetpools: "subnetpool",
    address_scopes: "address_scope",
    rbac_policies: "rbac_policy",
    trunks: "trunk",
    local_ips: "local_ip",
    bgp_peers: "bgp_peer",
    tap_services: "tap_service",
    tap_flows: "tap_flow",
    tap_mirrors: "tap_mirror",
    ikepolicies: "ikepolicy",
    ipsecpolicies: "ipsecpolicy",
    vpn_endpoint_groups: "endpoint_group",
    vpnservices: "vpnservice",
    ipsec_site_connections: "ipsec_site_connection",
}
HISTORY_ONLY = frozenset(HISTORY.values()) - frozenset(LOGGED.values())
