"""Differences of our attributes from Neutron's definitions, each with its reason.

A key is "collection.attribute: aspect". The aspects are those of `facts.Fact`; "absent" is an attribute that Neutron has
and we have not, "ours" one that no extension advertised here brings. `*` stands for any collection, or any attribute.
"""

from __future__ import annotations

_SORTED = "Lists can be sorted by it too. Neutron refuses that; nothing depends on the refusal."
_NEVER_SET = (
    "Neutron shows it to every client, null unless the extension that sets it is there: clients expect the field."
)
_FILTER = (
    "A filter of lists. The API cannot create or change rule types, in Neutron either, whatever its definition allows."
)
_OF_POLICY = "A rule belongs to the project of its policy; Neutron's answers do not have it either (exchange 669)."
_SHOWN = "Neutron shows it on this resource too, though its definitions do not say so."
_FIREWALL_FILTER = "openstacksdk filters by it; Neutron refuses or ignores that."
_NO_UPDATE = "Neutron has no update of these rules, whatever its definition allows."
_NDP_FILTER = "The options of `openstack router ndp proxy list` filter by it; Neutron refuses or ignores that."
_TAP_LIST = (
    "Lists of taps are filtered and sorted by every attribute; Neutron's definitions of taps name none for that."
)
_FIREWALL_LIST = "Neutron turns its default, null, into the empty list."
_FIREWALL_STANDARD = (
    "The standard attributes and tags that standard-attr-fwaas-v2 announces; neutron-lib does not list its resources."
)
_BGP_LISTS = "Neutron's plugin does not check filters and sort keys; clients find a speaker by its name."
_BGP_NUMBER = "Neutron's default, null, cannot be stored: it has to be given."
_STANDARD = ("created_at", "updated_at", "revision_number")

DIFFERENCES: dict[str, str] = {
    "*.created_at: sort": _SORTED,
    "*.updated_at: sort": _SORTED,
    "*.description: sort": _SORTED,
    "*.revision_number: sort": _SORTED,
    "networks.shared: sort": _SORTED,
    "rbac_policies.id: sort": _SORTED,
    "rbac_policies.project_id: sort": _SORTED,
    "rbac_policies.object_type: default": "Neutron's default, null, is then refused as no type: it must be given.",
    "address_groups.shared: visible": "Neutron shows it in some answers (add_addresses) and not in others; here always.",
    "dhcp-agents.*: absent": "The agents of a network are shown as under /agents, at a route of their own.",
    "dhcp-networks.network_id: absent": "Networks are given to an agent at a route of their own.",
    "auto_allocated_topologies.*: absent": "The topology is shown at a route of its own, which makes it.",
    "next_providers.*: absent": "One service makes all routers: there is no next one.",
    "networks.extra_dhcp_opts: ours": "DHCP options of all ports of a network; ours alone.",
    "networks.is_default: sort": _SORTED,
    "rule_types.*: post": _FILTER,
    "rule_types.*: put": _FILTER,
    "rule_types.*: default": _FILTER,
    "alias_bandwidth_limit_rules.project_id: absent": _OF_POLICY,
    "alias_dscp_marking_rules.project_id: absent": _OF_POLICY,
    "alias_minimum_bandwidth_rules.project_id: absent": _OF_POLICY,
    "agents.resource_versions: ours": _SHOWN,
    "security_groups.stateful: default": "As security-groups-default-statefulness sets it; true without a setting.",
    "security_groups.description: ours": _SHOWN,
    "security_groups.revision_number: ours": _SHOWN,
    "security_group_rules.description: ours": _SHOWN,
    "security_group_rules.revision_number: ours": _SHOWN,
    "security_group_rules.tags: ours": _SHOWN,
    "address_groups.created_at: ours": _SHOWN,
    "address_groups.updated_at: ours": _SHOWN,
    "address_groups.revision_number: ours": _SHOWN,
    **{f"{kind}.{name}: ours": _SHOWN for kind in ("logs", "local_ips") for name in _STANDARD},
    "logs.description: ours": _SHOWN,
    **{f"firewall_{kind}.*: ours": _FIREWALL_STANDARD for kind in ("rules", "policies", "groups")},
    **{f"firewall_{kind}.description: filter": _FIREWALL_FILTER for kind in ("rules", "policies", "groups")},
    "firewall_rules.firewall_policy_id: filter": _FIREWALL_FILTER,
    "firewall_rules.source_port: filter": _FIREWALL_FILTER,
    "firewall_rules.destination_port: filter": _FIREWALL_FILTER,
    "firewall_rules.position: absent": "Neutron does not show it either: a rule may be in several policies.",
    "firewall_policies.firewall_rules: default": _FIREWALL_LIST,
    "firewall_groups.ports: default": _FIREWALL_LIST,
    "ipsec_site_connections.peer_cidrs: default": _FIREWALL_LIST,
    "trunks.*: ours": "The standard attributes and tags, as Neutron shows them (exchange 687), not in neutron-lib.",
    **{f"{kind}.*: filter": _BGP_LISTS for kind in ("bgp_speakers", "bgp_peers")},
    **{f"{kind}.*: sort": _BGP_LISTS for kind in ("bgp_speakers", "bgp_peers")},
    **{f"bgp_{name}: default": _BGP_NUMBER for name in ("speakers.local_as", "speakers.ip_version", "peers.remote_as")},
    "metering_label_rules.project_id: visible": "Neutron's answers do not have it either (exchange 730).",
    "metering_label_rules.source_ip_prefix: put": _NO_UPDATE,
    "metering_label_rules.destination_ip_prefix: put": _NO_UPDATE,
    **{f"tap_{kind}.*: {what}": _TAP_LIST for kind in ("services", "flows", "mirrors") for what in ("filter", "sort")},
    **{f"ndp_proxies.{name}: ours": _SHOWN for name in ("created_at", "updated_at", "revision_number")},
    **{
        f"ndp_proxies.{name}: filter": _NDP_FILTER
        for name in ("id", "project_id", "router_id", "port_id", "ip_address", "description")
    },
}
