"""Every refusal a client can get, as a class: its name is the `type` that clients of the API parse.

An error carries its HTTP status and a message that names what was wrong. The pipeline turns it into
`{"NeutronError": {"type", "message", "detail"}}`; nothing else in the server knows about HTTP.
"""

from __future__ import annotations


class ApiError(Exception):
    """A refusal. A subclass with a `template` is raised with the template's fields as keywords."""

    status = 500
    template = "An unknown error occurred."

    def __init__(self, message: str | None = None, /, **values: object) -> None:
        self.message = message if message is not None else self.template.format(**values)
        super().__init__(self.message)

    @property
    def type(self) -> str:
        return type(self).__name__


class BadRequest(ApiError):
    status = 400
    template = "Bad {resource} request: {msg}."


class Unauthorized(ApiError):
    status = 401


class Forbidden(ApiError):
    status = 403


class NotFound(ApiError):
    status = 404


class Conflict(ApiError):
    status = 409


# --- the HTTP layer -------------------------------------------------------------------------------------------------


class HTTPBadRequest(BadRequest):
    template = "The request could not be understood."


class HTTPNotFound(NotFound):
    template = "The resource could not be found."


class HTTPMethodNotAllowed(ApiError):
    status = 405
    template = "The method is not allowed for this resource."


class HTTPRequestEntityTooLarge(ApiError):
    status = 413
    template = "The request body is larger than {limit} bytes."


class HTTPUnsupportedMediaType(ApiError):
    status = 415
    template = "Content type {content_type!r} is not supported: send application/json."


class HTTPServiceUnavailable(ApiError):
    status = 503
    template = "The server is busy, the request was not carried out: try again."


class RevisionNumberConstraintFailed(ApiError):
    status = 412
    template = "Constrained to {expected}, but current revision is {current}."


class InvalidInput(BadRequest):
    template = "Invalid input for operation: {error_message}."


class PolicyNotAuthorized(Forbidden):
    template = "{rule} is disallowed by policy."


class InUse(Conflict):
    template = "The resource is in use."


# --- networks -------------------------------------------------------------------------------------------------------


class NetworkNotFound(NotFound):
    template = "Network {id} could not be found."


class NetworkInUse(InUse):
    template = (
        "Unable to complete operation on network {id}. There are one or more ports still in use on the network, "
        "id for these ports is: {ports}."
    )


class VlanIdInUse(InUse):
    template = "Unable to create the network. The VLAN {vlan_id} on physical network {physical_network} is in use."


class TunnelIdInUse(InUse):
    template = "Unable to create the network. The tunnel ID {tunnel_id} is in use or not available."


class FlatNetworkInUse(InUse):
    template = "Unable to create the flat network. Physical network {physical_network} is in use."


class NoNetworkAvailable(Conflict):
    status = 409
    template = "Unable to create the network. No tenant network is available for allocation."


class SegmentsSetInConjunctionWithProviders(BadRequest):
    template = "Segments and provider values cannot both be set."


class SegmentsContainDuplicateEntry(BadRequest):
    template = "Duplicate segment entry in request."


class InvalidSharedSetting(Conflict):
    template = "Unable to reconfigure sharing settings for network {network}. Multiple tenants are using it."


class ExternalNetworkInUse(InUse):
    template = "External network {id} cannot be updated to be made non-external, it has existing gateway ports."


class AvailabilityZoneNotFound(NotFound):
    template = "AvailabilityZone {availability_zone} could not be found."


# --- subnets and addresses ------------------------------------------------------------------------------------------


class SubnetNotFound(NotFound):
    template = "Subnet {id} could not be found."


class SubnetInUse(InUse):
    template = "Unable to complete operation on subnet {id}: {reason}."


class InvalidAllocationPool(BadRequest):
    template = "The allocation pool {pool} is not valid."


class OutOfBoundsAllocationPool(BadRequest):
    template = "The allocation pool {pool} spans beyond the subnet CIDR {cidr}."


class OverlappingAllocationPools(Conflict):
    template = "Found overlapping allocation pools: {pool_1} {pool_2} for subnet {cidr}."


class GatewayConflictWithAllocationPools(InUse):
    template = "Gateway IP {gateway} conflicts with allocation pool {pool}."


class GatewayIpInUse(InUse):
    template = "Current gateway IP {gateway} already in use by port {port}. Unable to update."


class DNSNameServersExhausted(BadRequest):
    template = "Unable to complete operation for {subnet}. The number of DNS nameservers exceeds the limit {quota}."


class HostRoutesExhausted(BadRequest):
    template = "Unable to complete operation for {subnet}. The number of host routes exceeds the limit {quota}."


class InvalidSubnetServiceType(InvalidInput):
    template = "Subnet service type {service_type} does not correspond to a valid device owner."


class InvalidInputSubnetServiceType(InvalidInput):
    template = "Subnet service type {service_type} is not a string."


class IpAddressGenerationFailure(Conflict):
    template = "No more IP addresses available on network {net_id}."


class IpAddressAlreadyAllocated(Conflict):
    template = "IP address {ip} already allocated in subnet {subnet_id}."


class InvalidIpForNetwork(BadRequest):
    template = "IP address {ip_address} is not a valid IP for any of the subnets on the specified network."


class InvalidIpForSubnet(BadRequest):
    template = "IP address {ip_address} is not a valid IP for the specified subnet."


class AllocationOnAutoAddressSubnet(InvalidInput):
    template = (
        "IPv6 address {ip} cannot be directly assigned to a port on subnet {subnet_id} as the subnet is configured "
        "for automatic addresses."
    )


class SubnetPoolNotFound(NotFound):
    template = "Subnet pool {id} could not be found."


class SubnetPoolDeleteError(BadRequest):
    template = "Unable to delete subnet pool: {reason}."


class SubnetPoolQuotaExceeded(Conflict):
    template = "Per-tenant subnet pool prefix quota exceeded."


class SubnetAllocationError(Conflict):
    template = "Failed to allocate subnet: {reason}."


class MinPrefixSubnetAllocationError(BadRequest):
    template = "Unable to allocate subnet with prefix length {prefixlen}, minimum allowed prefix is {min_prefixlen}."


class MaxPrefixSubnetAllocationError(BadRequest):
    template = "Unable to allocate subnet with prefix length {prefixlen}, maximum allowed prefix is {max_prefixlen}."


class EmptySubnetPoolPrefixList(BadRequest):
    template = "Empty subnet pool prefix list."


class PrefixVersionMismatch(BadRequest):
    template = "Cannot mix IPv4 and IPv6 prefixes in a subnet pool."


class UnsupportedMinSubnetPoolPrefix(BadRequest):
    template = "Prefix '{prefix}' not supported in IPv{version} pool."


class IllegalSubnetPoolPrefixBounds(BadRequest):
    template = "Illegal prefix bounds: {prefix_type}={prefixlen}, {base_prefix_type}={base_prefixlen}."


class IllegalSubnetPoolPrefixUpdate(BadRequest):
    template = "Illegal update to prefixes: {msg}."


class IllegalSubnetPoolAssociationToAddressScope(BadRequest):
    template = (
        "Illegal subnetpool association: subnetpool {subnetpool_id} cannot be associated with address scope "
        "{address_scope_id}."
    )


class IllegalSubnetPoolIpVersionAssociationToAddressScope(BadRequest):
    template = (
        "Illegal subnetpool association: subnetpool {subnetpool_id} cannot associate with address scope "
        "{address_scope_id} because subnetpool ip_version is not {ip_version}."
    )


class IllegalSubnetPoolUpdate(BadRequest):
    template = "Illegal subnetpool update : {reason}."


class NetworkSubnetPoolAffinityError(BadRequest):
    template = "Subnets hosted on the same network must be allocated from the same subnet pool."


class NetworkAddressScopeAffinityError(BadRequest):
    template = "Subnets hosted on the same network must belong to the same address scope."


class AddressScopePrefixConflict(Conflict):
    template = "Failed to associate address scope: subnetpools within an address scope must have unique prefixes."


class AddressScopeNotFound(NotFound):
    template = "Address scope {id} could not be found."


class AddressScopeInUse(InUse):
    template = "Unable to complete operation on address scope {id}. There are one or more subnet pools in use."


class AddressScopeUpdateError(BadRequest):
    template = "Unable to update address scope {id} : {reason}."


# --- ports ----------------------------------------------------------------------------------------------------------


class PortNotFound(NotFound):
    template = "Port {id} could not be found."


class MacAddressInUse(InUse):
    template = "Unable to complete operation for network {network_id}. The mac address {mac_address} is in use."


class MacAddressGenerationFailure(ApiError):
    status = 503
    template = "Unable to generate unique mac on network {network_id}."


class ServicePortInUse(Conflict):
    template = "Port {port_id} cannot be deleted directly via the port API: {reason}."


class PortBound(InUse):
    template = "Unable to complete operation on port {port_id}, port is already bound, port type: {vif_type}."


class PortSecurityAndIPRequiredForSecurityGroups(BadRequest):
    template = "Port security must be enabled and port must have an IP address in order to use security groups."


class PortSecurityPortHasSecurityGroup(InUse):
    template = "Port has security group associated. Cannot disable port security or IP address until it is removed."


class AddressPairAndPortSecurityRequired(Conflict):
    template = "Port Security must be enabled in order to have allowed address pairs on a port."


class AllowedAddressPairsMissingIP(InvalidInput):
    template = "AllowedAddressPair must contain ip_address."


class DuplicateAddressPairInRequest(InvalidInput):
    template = "Request contains duplicate address pair: mac_address {mac_address} ip_address {ip_address}."


class AllowedAddressPairExhausted(BadRequest):
    template = "The number of allowed address pair exceeds the maximum {quota}."


class DuplicateExtraDhcpOption(BadRequest):
    template = "Extra DHCP option {opt_name} is given more than once for IPv{ip_version}."


class PortBindingNotFound(NotFound):
    template = "Binding for port {port_id} for host {host} could not be found."


class PortBindingAlreadyActive(Conflict):
    template = "Binding for port {port_id} on host {host} is already active."


class PortBindingAlreadyExists(Conflict):
    template = "Binding for port {port_id} on host {host} already exists."


class PortBindingError(Conflict):
    template = "Binding for port {port_id} on host {host} could not be created or updated."


# --- security groups ------------------------------------------------------------------------------------------------


class SecurityGroupNotFound(NotFound):
    template = "There is no security group {id}."


class SecurityGroupInUse(InUse):
    template = "Security group {id} {reason}."


class SecurityGroupDefaultAlreadyExists(InUse):
    template = "Only a project's default security group is named so, and it is made by itself."


class SecurityGroupCannotUpdateDefault(InUse):
    template = "The default security group keeps its name."


class SecurityGroupCannotRemoveDefault(InUse):
    template = "Only an administrator can delete a default security group."


class SecurityGroupConflict(Conflict):
    template = "The security groups cannot be used so: {reason}."


class SecurityGroupRuleNotFound(NotFound):
    template = "There is no security group rule {id}."


class SecurityGroupRuleExists(InUse):
    template = "The security group has this rule already: it is {rule_id}."


class DuplicateSecurityGroupRuleInPost(InUse):
    template = "The request has the same security group rule twice."


class SecurityGroupInvalidPortRange(InvalidInput):
    template = "A port range needs both its ends, the lower one in port_range_min."


class SecurityGroupInvalidPortValue(InvalidInput):
    template = "{port} is not a port number."


class SecurityGroupInvalidProtocolForPort(InvalidInput):
    template = "Protocol {protocol} has no ports: a port range can be given for {protocols} only."


class SecurityGroupProtocolRequiredWithPorts(InvalidInput):
    template = "A port range says nothing without a protocol."


class SecurityGroupMissingIcmpType(InvalidInput):
    template = "An ICMP code ({value}, in port_range_max) needs an ICMP type, in port_range_min."


class SecurityGroupInvalidIcmpValue(InvalidInput):
    template = "{value} in {attr} is not an ICMP {field}: those are 0 to 255."


class SecurityGroupEthertypeConflictWithProtocol(InvalidInput):
    template = "Protocol {protocol} does not exist over {ethertype}."


class SecurityGroupRuleInvalidEtherType(InvalidInput):
    template = "'{ethertype}' is not an ethertype that rules can have: {values}."


class SecurityGroupRuleInvalidProtocol(InvalidInput):
    template = "'{protocol}' is neither a protocol number (0 to 255) nor one of the names {values}."


class SecurityGroupRuleParameterConflict(InvalidInput):
    template = "{cidr} is no prefix for an {ethertype} rule."


class SecurityGroupMultipleRemoteEntites(InvalidInput):  # the API's own spelling
    template = "A rule has one remote: a prefix, a security group or an address group."


class SecurityGroupNotSingleGroupRules(InvalidInput):
    template = "All rules of one request have to belong to one security group."


class SecurityGroupRulesNotSingleProject(InvalidInput):
    template = "All rules of one request have to belong to one project."


class InvalidCIDR(BadRequest):
    template = "{input!r} is not a CIDR."


class AddressGroupNotFound(NotFound):
    template = "There is no address group {address_group_id}."


class AddressGroupInUse(InUse):
    template = "Security group rules refer to address group {address_group_id}."


class AddressesNotFound(NotFound):
    template = "Address group {address_group_id} does not have {addresses}."


class AddressesAlreadyExist(BadRequest):
    template = "Address group {address_group_id} has {addresses} already."


class AddrFormatError(BadRequest):
    template = "{address!r} is not a CIDR."


# --- access, quotas, tags -------------------------------------------------------------------------------------------


class RbacPolicyNotFound(NotFound):
    template = "RBAC policy of type {object_type} with ID {id} not found."


class RbacPolicyInUse(Conflict):
    template = "RBAC policy on object {object_id} cannot be removed because other objects depend on it. {details}"


class DuplicateRbacPolicy(Conflict):
    template = "An RBAC policy already exists with those values."


class InvalidActionForType(InvalidInput):
    template = "Invalid action '{action}' for object type '{object_type}'. Valid actions: {valid_actions}."


class OverQuota(Conflict):
    template = "Quota exceeded for resources: {overs}."


class QuotaResourceUnknown(NotFound):
    template = "Unknown quota resources {unknown}."


class QuotaMissingTenant(BadRequest):
    template = "The request has no project: its token is not scoped to one."


class TenantQuotaNotFound(NotFound):
    template = "Quota for tenant {tenant_id} could not be found."


class TagNotFound(NotFound):
    template = "Tag {tag} could not be found."


# --- hosts ----------------------------------------------------------------------------------------------------------


class AgentNotFound(NotFound):
    template = "There is no agent {id}."


class InvalidDHCPAgent(AgentNotFound):
    template = "Agent {id} cannot serve DHCP: it is not a DHCP agent, or its admin state is down."


class NetworkHostedByDHCPAgent(Conflict):
    template = "DHCP agent {agent_id} already serves network {network_id}."


class NetworkNotHostedByDhcpAgent(Conflict):
    template = "DHCP agent {agent_id} does not serve network {network_id}."


class MechanismDriverError(Conflict):
    """A driver's postcommit failed; what was created has been taken back."""

    template = "{method} failed in mechanism drivers: {drivers}."
