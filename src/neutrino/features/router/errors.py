"""Errors of routers, floating IPs and what belongs to them, as clients know them."""

from neutrino.server.errors import AgentNotFound, BadRequest, Conflict, InUse, InvalidInput, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class RouterNotFound(NotFound): template = "There is no router {id}."
class RouterInUse(InUse): template = "Router {router_id} is in use: {reason}."
class RouterInterfaceNotFound(NotFound): template = "Router {router_id} has no interface with port {port_id}."
class RouterInterfaceNotFoundForSubnet(NotFound):
    template = "Router {router_id} has no interface on subnet {subnet_id}."
class RouterInterfaceInUseByFloatingIP(InUse):
    template = "The interface on subnet {subnet_id} cannot be removed: floating IPs need it."
class RouterInterfaceInUseByRoute(InUse):
    template = "The interface on subnet {subnet_id} cannot be removed: nexthops of routes are on it."
class FloatingIPRouterConflict(Conflict):
    template = "Router {router_id} has no gateway on network {net_id}, where the floating IP is."
class RouterExternalGatewayInUseByFloatingIp(InUse):
    template = "The gateway of router {router_id} on network {net_id} cannot be removed: floating IPs use it."
class UnableToMatchGateways(BadRequest): template = "external_gateways of router {router_id}: {reason}."
class UnableToRemoveGateways(BadRequest): template = "external_gateways of router {router_id}: {reason}."
class InvalidRoutes(InvalidInput): template = "Invalid routes of the router: {reason}."
class SubnetMismatchForPort(BadRequest): template = "Port {port_id} has no address on subnet {subnet_id}."
class DeviceIDNotOwnedByTenant(Conflict): template = "device_id {device_id} is a router of another project."
class FloatingIPNotFound(NotFound): template = "There is no floating IP {id}."
class FloatingIPPortAlreadyAssociated(InUse):
    template = "{fixed_ip} of port {port_id} has a floating IP of network {net_id} already."
class ExternalGatewayForFloatingIPNotFound(NotFound):
    template = "Port {port_id} is unreachable: no router connects subnet {subnet_id} to network {external_network_id}."
class ExternalIpAddressExhausted(BadRequest): template = "Network {net_id} has no free IPv4 address."
class FipAssociated(InUse):
    template = "Port {port_id} has a floating IP of another project: only an administrator can remove it."
class PortForwardingNotFound(NotFound): template = "There is no port forwarding {id}."
class FipInUseByPortForwarding(InUse): template = "Floating IP {id} has port forwardings."
class PortHasBindingFloatingIP(InUse):
    template = "Port {port_id} has a floating IP of its own, {floating_ip_address}: no port forwarding can lead to it."
class PortHasPortForwarding(BadRequest):
    template = "Port {port_id} has port forwardings: on a distributed router it cannot have a floating IP too."
class ConntrackHelperNotFound(NotFound): template = "There is no conntrack helper {id}."
class ConntrackHelperNotAllowed(BadRequest): template = "Conntrack helper {helper} is not allowed."
class InvalidProtocolForHelper(BadRequest):
    template = "Conntrack helper {helper} does not support {protocol}: it supports {supported_protocols}."
class NDPProxyNotFound(NotFound): template = "NDP proxy {id} could not be found."
class RouterGatewayInUseByNDPProxy(Conflict):
    template = "The external gateway of router {router_id} cannot be removed: NDP proxies use it."
class RouterInterfaceInUseByNDPProxy(Conflict):
    template = "Subnet {subnet_id} cannot be removed from router {router_id}: NDP proxies use it."
class AddressScopeConflict(Conflict):
    template = (
        "The IPv6 address scope {ext_address_scope} of the external network is not that of the internal network, "
        "{internal_address_scope}."
    )
class RouterGatewayNotValid(Conflict): template = "Can not enable ndp proxy on router {router_id}, {reason}."
class RouterNDPProxyNotEnable(Conflict):
    template = "enable_ndp_proxy of router {router_id} must be true before it can have NDP proxies."
class PortUnreachableRouter(Conflict): template = "Port {port_id} does not reach router {router_id} by an IPv6 subnet."
class InvalidAddress(BadRequest): template = "ip_address {address} is invalid, reason: {reason}."
class RouterIPv6GatewayInUse(Conflict):
    template = "The gateway of router {router_id} must keep an IPv6 address: enable_ndp_proxy is true."
class NeutronDbObjectDuplicateEntry(Conflict):
    template = "Router {router_id} already has an NDP proxy of address {ip_address}."
class RouterHostedByL3Agent(Conflict): template = "Router {router_id} is already on L3 agent {agent_id}."
class RouterNotHostedByL3Agent(Conflict): template = "Router {router_id} is not on L3 agent {agent_id}."
class RouterL3AgentMismatch(Conflict):
    template = "Router {router_id} is distributed: agent {agent_id} of mode legacy cannot serve it."
class DVRL3CannotAssignToDvrAgent(Conflict):
    template = "An agent of mode dvr serves the routers that its host needs: routers cannot be added to it."
class DVRL3CannotRemoveFromDvrAgent(Conflict):
    template = "An agent of mode dvr serves the routers that its host needs: routers cannot be removed from it."
class DuplicatedHANetwork(Conflict): template = "Project {project_id} already has a network for its HA routers."
class NoVRIDAvailable(Conflict): template = "All 255 VRRP ids of the project's HA network are taken."
class AutoAllocationFailure(Conflict): template = "The topology could not be created: {reason}."
class InvalidL3Agent(AgentNotFound):
    template = "Agent {id} cannot serve the router: it is not an L3 agent, is down, or is reserved for other routers."
# fmt: on
