"""Declarations of resources: `CORE` are those that `GET /v2.0` lists, `EXTENSIONS` the aliases of the core."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import PORT
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.api.resources.subnetpool import SUBNETPOOL

CORE = (NETWORK, SUBNET, SUBNETPOOL, PORT)
# Plugins declare the extensions of their own resources.
EXTENSIONS = (
    Extension("project-id", "project_id field enabled", "Resources have project_id in addition to tenant_id."),
    Extension("standard-attr-timestamp", "Resource timestamps", "created_at and updated_at."),
    Extension(
        "standard-attr-revisions", "Resource revision numbers", "revision_number counts the changes of an object."
    ),
    Extension("standard-attr-description", "standard-attr-description", "Resources have a description."),
    Extension(
        "revision-if-match", "If-Match constraints based on revision_number", "A change can depend on a revision."
    ),
    Extension("pagination", "Pagination support", "Lists by limit and marker, with links."),
    Extension("sorting", "Sorting support", "Lists by sort_key and sort_dir."),
    Extension("sort-key-validation", "Sort keys validation", "Unknown sort keys are refused."),
    Extension("filter-validation", "Filter parameters validation", "Unknown filters are refused."),
    Extension("empty-string-filtering", "Empty String Filtering Extension", "name= finds resources without a name."),
    Extension("binding", "Port Binding", "The host and VIF details of a port."),
    Extension("binding-extended", "Port Bindings Extended", "A port's bindings on several hosts."),
    Extension("provider", "Provider Network", "Type, physical network and segmentation id of a network."),
    Extension("multi-provider", "Multi Provider Network", "Networks with several segments."),
    Extension("external-net", "Neutron external network", "External networks."),
    Extension(
        "subnet-external-network",
        "Subnet belongs to an external network",
        "Subnets show whether their network is external.",
    ),
    Extension("net-mtu", "Network MTU", "Networks show their MTU."),
    Extension("net-mtu-writable", "Network MTU (writable)", "The MTU of a network can be set."),
    Extension("port-security", "Port Security", "Anti-spoofing and filtering per port and network."),
    Extension("allowed-address-pairs", "Allowed Address Pairs", "Further addresses that a port may use."),
    Extension(
        "aap-reject-multicast",
        "Allowed address pairs reject multicast extension",
        "Allowed address pairs contain no multicast addresses.",
    ),
    Extension("extra_dhcp_opt", "Neutron Extra DHCP options", "DHCP options per port."),
    Extension("dns-integration", "DNS Integration", "DNS names of ports and networks."),
    Extension("dns-domain-ports", "dns_domain for ports", "The DNS domain of a port."),
    Extension("default-subnetpools", "Default Subnetpools", "Subnets from the default pool."),
    Extension("subnet-service-types", "Subnet service types", "Subnets reserved for device owners."),
    Extension("port-security-groups-filtering", "Port filtering on security groups", "security_groups filters ports."),
    Extension("ip-substring-filtering", "IP address substring filtering", "ip_address_substr filters ports."),
    Extension("network_availability_zone", "Network Availability Zone", "The availability zones of a network."),
    Extension(
        "port-mac-address-regenerate", "Neutron Port MAC address regenerate", "A null mac_address generates a new one."
    ),
    Extension("ip_allocation", "IP Allocation", "How a port got its addresses."),
    Extension("l2_adjacency", "L2 Adjacency", "Whether a network is one layer-2 domain."),
    Extension(
        "uplink-status-propagation", "Uplink status propagation extension", "The link state of a VF follows its uplink."
    ),
    Extension("data-plane-status", "Port data plane status extension", "The state of the underlying data plane."),
    Extension("tag-ports-during-bulk-creation", "Tag Ports During Bulk Creation", "Ports can be created with tags."),
)
