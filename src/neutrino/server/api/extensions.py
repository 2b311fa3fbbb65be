"""The aliases of what the core can do. Plugins name those that come with their own resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from neutrino.server.api.definition import Extension

CORE = (
    Extension("project-id", "Project id", "Resources name their owner project_id beside tenant_id."),
    Extension("standard-attr-timestamp", "Timestamps", "created_at and updated_at."),
    Extension("standard-attr-revisions", "Revisions", "revision_number counts a resource's changes."),
    Extension("standard-attr-description", "Descriptions", "Resources have a description."),
    Extension("revision-if-match", "If-Match", "A change can be tied to a revision."),
    Extension("pagination", "Pagination", "Lists by limit and marker, with links."),
    Extension("sorting", "Sorting", "Lists by sort_key and sort_dir."),
    Extension("sort-key-validation", "Sort key validation", "Sort keys that a resource does not have are refused."),
    Extension("filter-validation", "Filter validation", "Unknown filters are refused."),
    Extension("empty-string-filtering", "Empty strings in filters", "name= finds resources without a name."),
    Extension("binding", "Port binding", "Where a port is plugged and how."),
    Extension("binding-extended", "Port bindings", "A port's bindings on several hosts."),
    Extension("provider", "Provider networks", "A network's type, physical network and id."),
    Extension("multi-provider", "Several segments", "Networks with several segments."),
    Extension("external-net", "External networks", "Networks that lead outside."),
    Extension(
        "subnet-external-network", "Subnets of external networks", "Subnets show whether their network leads outside."
    ),
    Extension("net-mtu", "MTU", "Networks show the largest packet they carry."),
    Extension("net-mtu-writable", "Writable MTU", "and it can be set."),
    Extension("port-security", "Port security", "Anti-spoofing and filtering per port and network."),
    Extension("allowed-address-pairs", "Allowed address pairs", "Further addresses that a port may use."),
    Extension("aap-reject-multicast", "No multicast pairs", "Allowed address pairs hold no multicast addresses."),
    Extension("extra_dhcp_opt", "Extra DHCP options", "DHCP options per port."),
    Extension("dns-integration", "DNS names", "Ports and networks have names."),
    Extension("dns-domain-ports", "DNS domains of ports", "A port may have a domain of its own."),
    Extension("default-subnetpools", "Default subnet pools", "Subnets from the default pool."),
    Extension("subnet-service-types", "Service types of subnets", "Subnets kept for kinds of ports."),
    Extension("port-security-groups-filtering", "Ports by security group", "security_groups filters ports."),
    Extension("ip-substring-filtering", "Ports by part of an address", "ip_address_substr filters ports."),
    Extension("network_availability_zone", "Zones of networks", "Where a network's services run."),
    Extension("port-mac-address-regenerate", "New MAC", "A port set to no MAC gets a new one."),
    Extension("ip_allocation", "Address allocation", "How a port got its addresses."),
    Extension("l2_adjacency", "L2 adjacency", "Whether a network is one layer-2 domain."),
    Extension("uplink-status-propagation", "Uplink status", "A virtual function follows its uplink."),
    Extension("data-plane-status", "Data plane status", "The state of the underlying data plane."),
    Extension("tag-ports-during-bulk-creation", "Tags at creation", "Ports can be created with tags."),
)


def listed(extensions: Iterable[Extension]) -> list[dict[str, Any]]:
    unique = {extension.alias: extension for extension in extensions}
    return [
        {"alias": e.alias, "name": e.name, "description": e.description, "updated": e.updated, "links": []}
        for e in unique.values()
    ]
