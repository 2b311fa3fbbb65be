"""Problems of API objects, and of packets between them: ids of the latter are the causes of a trace."""

from typing import Final

from neutrino.diagnosis.problems import NOTE, Problem, declared

OBJECT_ERROR = Problem(
    "object-error", "Its host could not apply it.", "The problems of the host's agents state the cause."
)

# --- ports ------------------------------------------------------------------------------------------------------------

PORT_ADMIN_DOWN = Problem(
    "port-admin-down",
    "The port is disabled, so it neither sends nor receives.",
    "Run openstack port set --enable PORT.",
)
NETWORK_ADMIN_DOWN = Problem(
    "network-admin-down",
    "The network is disabled, so its ports neither send nor receive.",
    "Run openstack network set --enable NETWORK.",
)
PORT_UNBOUND = Problem("port-unbound", "The port has no host.", "Start its instance, or run openstack port set --host.")
BINDING_FAILED = Problem(
    "binding-failed",
    "No driver could connect the port on its host, so its instance has no network.",
    "Check that the host's L2 agent is alive and has a mapping or tunnel type for the network, "
    "then set the port's host again (openstack port set --host).",
)
PORT_NOT_WIRED = Problem(
    "port-not-wired",
    "The port is bound, and its host has not reported it as up.",
    "If its instance runs, look at openstack network agent show and at the log of the host's agent.",
    NOTE,  # ports of instances that are stopped are not wired either
)
NO_DEVICE = Problem(
    "no-device",
    "The instance has no device on the switch of its host.",
    "Check that the instance runs, and Nova's log.",
)
ADDRESS_SPOOFED = Problem(
    "address-spoofed",
    "Port security drops packets from addresses that the port does not have.",
    "Use an address of the port, or add it to the port's allowed address pairs.",
)
DHCP_SERVER_GUARD = Problem(
    "dhcp-server-guard",
    "Port security drops DHCP replies of instances.",
    "Disable port security on the port if the instance is meant to be a DHCP server.",
)
RA_GUARD = Problem(
    "ra-guard",
    "Port security drops router advertisements of instances.",
    "Disable port security on the port if the instance is meant to be a router.",
)
SECURITY_GROUP_EGRESS = Problem(
    "security-group-egress",
    "No security group of the sending port allows the packet.",
    "Add an egress rule to a security group of the sending port.",
)
SECURITY_GROUP_INGRESS = Problem(
    "security-group-ingress",
    "No security group of the receiving port allows the packet.",
    "Add an ingress rule to a security group of the receiving port.",
)
PACKET_TOO_BIG = Problem(
    "packet-too-big",
    "The packet is larger than the MTU, and may not be fragmented.",
    "Send smaller packets, or raise the MTU of the network.",
)

# --- networks ---------------------------------------------------------------------------------------------------------

NETWORK_WITHOUT_DHCP = Problem(
    "network-without-dhcp",
    "Its instances get no address by DHCP.",
    "Start an agent with the role dhcp (in a zone of the network's hints), "
    "or place it: openstack network agent add network --dhcp.",
)
NETWORK_OF_DISABLED_AGENTS = Problem(
    "network-agents-disabled",
    "An agent that is disabled does not serve its networks: instances get no address by DHCP.",
    "Enable one of the agents (openstack network agent set --enable AGENT), or place the network on another one: "
    "openstack network agent add network --dhcp.",
)
NO_SUCH_ADDRESS = Problem("no-such-address", "No port of the network has this address.", "Check the address.")
NO_TUNNEL = Problem(
    "no-tunnel",
    "There is no tunnel from one host to the other.",
    "Check local_ip and tunnel_types of both hosts' agents.",
)
NETWORK_LOCAL = Problem(
    "network-local",
    "The network is of type local: its packets do not leave the host of the sender.",
    "Run both instances on one host, or use a network of another type, such as vxlan or vlan.",
)
NO_PHYSICAL_NETWORK = Problem(
    "no-physical-network",
    "The host has no bridge for the physical network.",
    "Map the physical network in bridge_mappings of the host's agent.",
)

# --- routers ----------------------------------------------------------------------------------------------------------

NO_ROUTER = Problem(
    "no-router",
    "No gateway in the sender's subnet leads to the destination.",
    "Add the subnet to a router, and check its gateway_ip.",
)
NO_ROUTE = Problem(
    "no-route",
    "The router has no route to the destination.",
    "Add an interface, a gateway or an extra route to the router.",
)
ROUTER_ADMIN_DOWN = Problem(
    "router-admin-down", "The router is disabled, so it routes nothing.", "Run openstack router set --enable ROUTER."
)
ROUTER_NOT_SCHEDULED = Problem(
    "router-not-scheduled",
    "It routes nothing: its networks are not connected.",
    "Start or enable an agent with the role l3 whose agent_mode fits the router; neutrino db verify gives the reason, "
    "openstack network agent list --router ROUTER its agents.",
)
ROUTER_OF_DISABLED_AGENTS = Problem(
    "router-agents-disabled",
    "An agent that is disabled does not serve its routers: the networks of this one are not connected.",
    "Enable one of the agents (openstack network agent set --enable AGENT), or place the router on another one: "
    "openstack network agent add router --l3.",
)
ROUTER_NOT_ACTIVE = Problem(
    "router-not-active",
    "It routes nothing until an instance becomes active.",
    "Check that its hosts reach each other on the HA network, and keepalived's log on them.",
)
ROUTER_ACTIVE_TWICE = Problem("router-active-twice", "Its addresses are on two hosts.", ROUTER_NOT_ACTIVE.fix)
ADDRESS_SCOPE = Problem(
    "address-scope",
    "The networks are in different address scopes, between which nothing is routed.",
    "Use a floating IP, or subnets of one scope.",
)
NO_FLOATING_IP = Problem(
    "no-floating-ip",
    "No floating IP or port forwarding leads from outside to the port.",
    "Create a floating IP or a port forwarding for the port.",
)
FLOATING_IP_DOWN = Problem(
    "floating-ip-down", "The floating IP is not active.", "Check the L3 agent that serves its router."
)
NO_NDP_PROXY = Problem(
    "no-ndp-proxy",
    "The router has NDP proxies, and none is for the port's address.",
    "Create an NDP proxy for the port's address, or disable enable_ndp_proxy of the router.",
)
NO_NEIGHBOUR = Problem(
    "no-neighbour",
    "The next hop on the external network does not answer ARP or neighbour solicitations.",
    "Check that the machine or gateway with this address is up, and that the physical network, its VLAN and the switch "
    "port carry the host's packets: tcpdump on the host's uplink shows the questions.",
)
NOT_REACHED = Problem(
    "not-reached",
    "The sender's routes lead elsewhere than to the destination's port.",
    "Connect both networks by one router or by extra routes, or use a floating IP of the destination.",
)
NEXT_HOP = Problem(
    "next-hop",
    "A route leads to an instance, and whether that forwards the packet is not known here.",
    "Look into the instance: its routes, its firewall and net.ipv4.ip_forward; "
    "its port needs allowed address pairs for what it forwards.",
)
NO_ROUTE_BACK = Problem(
    "no-route-back",
    "The packet leaves with its own source, and whether the outside has a route back to it is not known here.",
    "Check that the external network's gateway has a route to the subnet by the router's external address, "
    "or announce it by BGP; with enable_snat, IPv4 sources are translated.",
)
TTL_EXPIRED = Problem("ttl-expired", "The routes form a loop.", "Check extra routes of the routers on the path.")

PROBLEMS: Final = declared(globals())
