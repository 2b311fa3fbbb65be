"""What an operator can do about each cause of a drop."""

from collections.abc import Mapping
from typing import Final

from neutrino.model.trace import Cause

ADVICE: Final[Mapping[str, str]] = {
    Cause.PORT_ADMIN_DOWN: "openstack port set --enable PORT",
    Cause.NETWORK_ADMIN_DOWN: "openstack network set --enable NETWORK",
    Cause.PORT_UNBOUND: "the port has no host: start its instance, or set --host",
    Cause.BINDING_FAILED: "no L2 agent of the port's host can bind it: check its bridge mappings and tunnels",
    Cause.PORT_NOT_WIRED: "the host has not wired the port: see `openstack network agent show`, and the agent's log",
    Cause.NO_DEVICE: "the instance has no device on the switch of its host: check that it runs, and Nova's log",
    Cause.ADDRESS_SPOOFED: "use an address of the port, or add it to the port's allowed address pairs",
    Cause.DHCP_SERVER_GUARD: "disable port security on the port if the instance is meant to be a DHCP server",
    Cause.RA_GUARD: "disable port security on the port if the instance is meant to be a router",
    Cause.SECURITY_GROUP_EGRESS: "add an egress rule to a security group of the sending port",
    Cause.SECURITY_GROUP_INGRESS: "add an ingress rule to a security group of the receiving port",
    Cause.FIREWALL_GROUP: "change the rules of the firewall group's policy, or their order",
    Cause.PACKET_TOO_BIG: "send smaller packets, or raise the MTU of the network",
    Cause.NO_SUCH_ADDRESS: "no port of the network has this address: check the address",
    Cause.NO_TUNNEL: "check local_ip and tunnel_types of both hosts' agents",
    Cause.NO_PHYSICAL_NETWORK: "map the physical network in bridge_mappings of the host's agent",
    Cause.NO_ROUTER: "add the subnet to a router, and check its gateway_ip",
    Cause.NO_ROUTE: "add an interface, a gateway or an extra route to the router",
    Cause.ROUTER_ADMIN_DOWN: "openstack router set --enable ROUTER",
    Cause.ROUTER_NOT_SCHEDULED: "no L3 agent serves the router: check `openstack network agent list --router ROUTER`",
    Cause.ROUTER_NOT_ACTIVE: "no host is active for the HA router: check keepalived in the logs of its L3 agents",
    Cause.ADDRESS_SCOPE: "the networks are in different address scopes: use a floating IP, or subnets of one scope",
    Cause.NO_FLOATING_IP: "create a floating IP or a port forwarding for the port",
    Cause.FLOATING_IP_DOWN: "the floating IP is not active: check the L3 agent that serves its router",
    Cause.VPN_DOWN: "`openstack vpn ipsec site connection show` has its status; the log of charon is on the gateway's host",
    Cause.NO_NDP_PROXY: "create an NDP proxy for the port's address, or disable enable_ndp_proxy of the router",
    Cause.TTL_EXPIRED: "the routes form a loop: check extra routes of the routers on the path",
    Cause.HOST_DOWN: "start the agent of the host, or the host itself: `neutrino status` lists the hosts",
    Cause.DATAPLANE_DOWN: "start Open vSwitch on the host: `neutrino doctor` there names the cause",
    Cause.HOST_TIMEOUT: "check the agent of the host and its connection to the server; then trace again",
    Cause.DRIFT: "`neutrino agent verify` on the host lists what the agent repairs; remove foreign rules and flows",
    Cause.LAG: "wait until the host has applied the changes, then trace again; `neutrino status` shows the lag",
}
