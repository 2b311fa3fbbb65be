"""Declarations of resources: `CORE` are those that `GET /v2.0` lists, `EXTENSIONS` the aliases of the core."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import PORT
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.api.resources.subnetpool import SUBNETPOOL

CORE = (NETWORK, SUBNET, SUBNETPOOL, PORT)
# Alias, name and description. Plugins declare the extensions of their own resources.
_EXTENSIONS = (
    ("project-id", "project_id field enabled", "Resources have project_id in addition to tenant_id."),
    ("standard-attr-timestamp", "Resource timestamps", "created_at and updated_at."),
    ("standard-attr-revisions", "Resource revision numbers", "revision_number counts the changes of an object."),
    ("standard-attr-description", "standard-attr-description", "Resources have a description."),
    ("revision-if-match", "If-Match constraints based on revision_number", "A change can depend on a revision."),
    ("pagination", "Pagination support", "Lists by limit and marker, with links."),
    ("sorting", "Sorting support", "Lists by sort_key and sort_dir."),
    ("sort-key-validation", "Sort keys validation", "Unknown sort keys are refused."),
    ("filter-validation", "Filter parameters validation", "Unknown filters are refused."),
    ("empty-string-filtering", "Empty String Filtering Extension", "name= finds resources without a name."),
    ("binding", "Port Binding", "The host and VIF details of a port."),
    ("binding-extended", "Port Bindings Extended", "A port's bindings on several hosts."),
    ("provider", "Provider Network", "Type, physical network and segmentation id of a network."),
    ("multi-provider", "Multi Provider Network", "Networks with several segments."),
    ("external-net", "Neutron external network", "External networks."),
    (
        "subnet-external-network",
        "Subnet belongs to an external network",
        "Subnets show whether their network is external.",
    ),
    (
        "network-cascade-delete",
        "Network Cascade Deletion Extension",
        "DELETE of a network with cascade=true deletes all that is in it.",
    ),
    ("net-mtu", "Network MTU", "Networks show their MTU."),
    ("net-mtu-writable", "Network MTU (writable)", "The MTU of a network can be set."),
    ("port-security", "Port Security", "Anti-spoofing and filtering per port and network."),
    ("allowed-address-pairs", "Allowed Address Pairs", "Further addresses that a port may use."),
    (
        "aap-reject-multicast",
        "Allowed address pairs reject multicast extension",
        "Allowed address pairs contain no multicast addresses.",
    ),
    ("extra_dhcp_opt", "Neutron Extra DHCP options", "DHCP options per port."),
    ("default-subnetpools", "Default Subnetpools", "Subnets from the default pool."),
    ("subnet-service-types", "Subnet service types", "Subnets reserved for device owners."),
    ("port-security-groups-filtering", "Port filtering on security groups", "security_groups filters ports."),
    ("ip-substring-filtering", "IP address substring filtering", "ip_address_substr filters ports."),
    ("project-default-networks", "Default network for project", "Networks can be marked as defaults of their project."),
    ("network_availability_zone", "Network Availability Zone", "The availability zones of a network."),
    ("port-mac-address-regenerate", "Neutron Port MAC address regenerate", "A null mac_address generates a new one."),
    ("ip_allocation", "IP Allocation", "How a port got its addresses."),
    ("l2_adjacency", "L2 Adjacency", "Whether a network is one layer-2 domain."),
    ("uplink-status-propagation", "Uplink status propagation extension", "The link state of a VF follows its uplink."),
    (
        "uplink-status-propagation-updatable",
        "Uplink status propagation updatable extension",
        "propagate_uplink_status of a port can be changed.",
    ),
    ("port-device-profile", "Port device profile", "Cyborg's device profile of a port."),
    ("port-hardware-offload-type", "Port hardware offload", "The hardware offload that a port asks for."),
    ("port-hints", "Port hints", "Settings of a port for the switch of its host."),
    ("port-hint-ovs-tx-steering", "Port hint: Open vSwitch Tx steering", "How Open vSwitch spreads packets to a port."),
    ("port-mac-override", "Neutron Port MAC address override", "A direct-physical port has the MAC of its card."),
    ("port-numa-affinity-policy", "Port NUMA affinity policy", "How Nova places an instance near the NIC of a port."),
    ("port-numa-affinity-policy-socket", 'Port NUMA affinity policy "socket"', "The NUMA affinity policy socket."),
    ("port-trusted-vif", "Port trusted vif", "Whether the VF of a port is trusted."),
    ("data-plane-status", "Port data plane status extension", "The state of the underlying data plane."),
    ("tag-ports-during-bulk-creation", "Tag Ports During Bulk Creation", "Ports can be created with tags."),
)
EXTENSIONS = tuple(Extension(*words) for words in _EXTENSIONS)
