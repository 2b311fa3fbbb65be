"""Error classes of the API: one per `type` that clients parse, with its HTTP status and message template.

`api/app.py` renders an error as `{"NeutronError": {"type", "message", "detail"}}`; the type is the class name.
Names, statuses and some sentences are those of Neutron, because clients match on them.
"""


class ApiError(Exception):
    """An error with its HTTP status. It is raised with the fields of its `template` as keywords, or with a message."""

    status = 500
    template = "Unexpected error."
    retry_after: int | None = None  # seconds: nothing was executed, and the client may repeat the request

    def __init__(self, message: str | None = None, /, **values: object) -> None:
        self.message = message if message is not None else self.template.format(**values)
        super().__init__(self.message)

    @property
    def type(self) -> str:
        return type(self).__name__


# The rest is a table: a class per line, so that mypy checks every use and `except` clause by name.
# fmt: off
class BadRequest(ApiError): status = 400; template = "The {resource} request was refused: {msg}."
class Unauthorized(ApiError): status = 401
class Forbidden(ApiError): status = 403
class NotFound(ApiError): status = 404
class Conflict(ApiError): status = 409

# --- the HTTP layer -------------------------------------------------------------------------------------------------
class HTTPBadRequest(BadRequest): template = "The request is malformed."
class HTTPNotFound(NotFound): template = "There is no such resource."
class HTTPRequestEntityTooLarge(ApiError): status = 413; template = "The request body is larger than {limit} bytes."
class HTTPUnsupportedMediaType(ApiError):
    status = 415; template = "Content type {content_type!r} is not supported: send application/json."
class HTTPServiceUnavailable(ApiError):
    status = 503; retry_after = 1; template = "The server is busy and did not execute the request: try again."
class DatabaseUnreachable(HTTPServiceUnavailable):
    template = "The server cannot reach its database and did not execute the request: try again."
class DatabaseNotWritable(HTTPServiceUnavailable):
    retry_after = 30; template = "The server's database cannot be written, as {reason}; the request was not executed."
class CloudFrozen(ApiError):  # not a kind of the above: it lasts minutes
    status = 503; retry_after = 30
    template = "The networking service is being replaced and changes nothing until that is completed: try again later."
class DatabaseOutcomeUnknown(ApiError):  # not a kind of the above: the request may have been executed
    status = 503
    template = (
        "The server lost its database while it executed the request, which may be executed or not: read the object "
        "before you try again."
    )
class RevisionNumberConstraintFailed(ApiError):
    status = 412; template = "The object is at revision {current}, not {expected} as If-Match requires."
class Invalid(BadRequest): template = "The request contradicts itself."
class InvalidInput(BadRequest): template = "The input was refused: {error_message}."
class NotAuthorized(Forbidden): template = "Only an administrator may see this."
class PolicyNotAuthorized(Forbidden): template = "The policy does not allow {rule}."
class InUse(Conflict): template = "The resource is in use."
class TooManyOfObject(Conflict): template = "{kind} {id} can have at most {most} {what}."

# --- networks -------------------------------------------------------------------------------------------------------
class NetworkNotFound(NotFound): template = "There is no network {id}."
class NetworkInUse(InUse):  # clients parse the second sentence
    template = "Network {id} cannot be deleted. There are one or more ports still in use on the network: {ports}."
class NetworkMTUSubnetConflict(Conflict):
    template = "MTU {mtu} is too small for the subnets of network {id}: they need {least} or more."
class VlanIdInUse(InUse): template = "VLAN {vlan_id} of {physical_network} belongs to another network."
class TunnelIdInUse(InUse): template = "Tunnel id {tunnel_id} is not free."
class FlatNetworkInUse(InUse): template = "Another flat network has physical network {physical_network}."
class NoNetworkAvailable(Conflict): template = "No free segment is left for project networks."
class SegmentsSetInConjunctionWithProviders(BadRequest):
    template = "Give either segments or the provider attributes, not both."
class SegmentsContainDuplicateEntry(BadRequest): template = "segments contains a duplicate entry."
class VlanTransparencyDriverError(BadRequest): template = "Backend does not support VLAN Transparency."
class VlanQinqDriverError(BadRequest): template = "Backend does not support VLAN QinQ."
class SegmentNotFound(NotFound): template = "There is no segment {id}."
class InvalidSharedSetting(Conflict):
    template = "shared of network {network} cannot be changed: other projects have ports on it."
class ExternalNetworkInUse(InUse):
    template = "router:external of network {id} cannot be changed: routers or floating IPs use it."
class DefaultExternalNetworkExists(Conflict): template = "Another external network is the default: {net_id}."
class AvailabilityZoneNotFound(NotFound): template = "No agent is in availability zone {availability_zone}."

# --- subnets and addresses ------------------------------------------------------------------------------------------
class SubnetNotFound(NotFound): template = "There is no subnet {id}."
class SubnetInUse(InUse): template = "Subnet {id} is in use: {reason}."
class InvalidAllocationPool(BadRequest):
    template = "{pool} is not an allocation pool: it must run from a lower to a higher address of the subnet."
class OutOfBoundsAllocationPool(BadRequest): template = "Allocation pool {pool} reaches outside of {cidr}."
class OverlappingAllocationPools(Conflict): template = "Allocation pools {pool_1} and {pool_2} of {cidr} overlap."
class GatewayConflictWithAllocationPools(InUse): template = "gateway_ip {gateway} lies in allocation pool {pool}."
class GatewayIpInUse(InUse): template = "gateway_ip {gateway} cannot be changed: router port {port} has this address."
class DNSNameServersExhausted(BadRequest): template = "dns_nameservers of {subnet}: at most {quota} are allowed."
class HostRoutesExhausted(BadRequest): template = "host_routes of {subnet}: at most {quota} are allowed."
class InvalidSubnetServiceType(InvalidInput): template = "service_types: {service_type} is not a device_owner."
class InvalidInputSubnetServiceType(InvalidInput): template = "service_types: {service_type} is not a string."
class SubnetsNotAllAssociatedWithSegments(BadRequest):
    template = "Either all subnets of network {network_id} have a segment_id, or none."
class SubnetCantAssociateToDynamicSegment(BadRequest): template = "segment_id: {segment_id} is a dynamic segment."
class SubnetSegmentAssociationChangeNotAllowed(BadRequest):
    template = "segment_id of a subnet that has a segment cannot be changed."
class NoUpdateSubnetWhenMultipleSegmentsOnNetwork(BadRequest):
    template = "segment_id can be set only while network {network_id} has a single segment."
class NetworkIdsDontMatch(BadRequest): template = "segment_id: {segment_id} is not a segment of network {network_id}."
class HostConnectedToMultipleSegments(Conflict):
    template = "Host {host} is connected to several segments of network {network_id}, and should be to one."
class HostNotConnectedToAnySegment(Conflict):
    template = "Host {host} is not connected to any segment of network {network_id}."
class HostNotCompatibleWithFixedIps(Conflict):
    template = "Host {host} is not connected to the segment of the addresses of port {port_id}."
class FixedIpsSubnetsNotOnSameSegment(BadRequest): template = "fixed_ips: the subnets are not on one segment."
class IpAddressGenerationFailure(Conflict): template = "Network {net_id} has no free address left for this port."
class IpAddressAlreadyAllocated(Conflict): template = "{ip} of subnet {subnet_id} belongs to another port."
class InvalidIpForNetwork(BadRequest): template = "{ip_address} is not a host address on any subnet of the network."
class InvalidIpForSubnet(BadRequest): template = "{ip_address} is not a host address on the subnet given with it."
class AllocationOnAutoAddressSubnet(InvalidInput):
    template = "{ip} was refused: hosts form their own addresses on subnet {subnet_id}."
class SubnetPoolNotFound(NotFound): template = "There is no subnet pool {id}."
class SubnetPoolDeleteError(BadRequest): template = "The subnet pool cannot be deleted: {reason}."
class SubnetPoolQuotaExceeded(Conflict): template = "The project's quota in the subnet pool (default_quota) is used up."
class SubnetAllocationError(Conflict): template = "The subnet cannot be allocated from the pool: {reason}."
class MinPrefixSubnetAllocationError(BadRequest):
    template = "A /{prefixlen} is larger than the pool allows: its min_prefixlen is {min_prefixlen}."
class MaxPrefixSubnetAllocationError(BadRequest):
    template = "A /{prefixlen} is smaller than the pool allows: its max_prefixlen is {max_prefixlen}."
class EmptySubnetPoolPrefixList(BadRequest): template = "A subnet pool needs at least one prefix in prefixes."
class PrefixVersionMismatch(BadRequest): template = "All prefixes of a subnet pool must be of one IP version."
class IllegalSubnetPoolPrefixBounds(BadRequest):
    template = "{prefix_type} {prefixlen} contradicts {base_prefix_type} {base_prefixlen}."
class IllegalSubnetPoolPrefixUpdate(BadRequest): template = "prefixes cannot be changed: {msg}."
class IllegalSubnetPoolIpVersionAssociationToAddressScope(BadRequest):
    template = "Address scope {address_scope_id} is for IPv{ip_version}, subnet pool {subnetpool_id} is not."
class IllegalSubnetPoolUpdate(BadRequest): template = "The subnet pool cannot be changed: {reason}."
class NetworkSubnetPoolAffinityError(BadRequest):
    template = "A network's subnets of one IP version must all come from one pool, or none from a pool."
class NetworkAddressScopeAffinityError(BadRequest):
    template = "A network's subnets of one IP version must be in one address scope."
class AddressScopePrefixConflict(Conflict):
    template = "Another subnet pool of the address scope overlaps with these prefixes."
class AddressScopeNotFound(NotFound): template = "There is no address scope {id}."
class AddressScopeInUse(InUse): template = "Address scope {id} still has subnet pools."
class AddressScopeUpdateError(BadRequest): template = "Address scope {id} cannot be changed: {reason}."

# --- ports ----------------------------------------------------------------------------------------------------------
class PortNotFound(NotFound): template = "There is no port {id}."
class PortInUse(InUse): template = "Port {port_id} is in use already, by device {device_id}."
class MacAddressInUse(InUse): template = "mac_address {mac_address} belongs to another port of network {network_id}."
class ServicePortInUse(Conflict): template = "Port {port_id} belongs to a service and is deleted with it: {reason}."
class PortBound(InUse): template = "Port {port_id} is bound as {vif_type}: its MAC address cannot be changed."
class PortSecurityAndIPRequiredForSecurityGroups(BadRequest):
    template = "security_groups need port security, which is off on this port."
class PortSecurityPortHasSecurityGroup(InUse):
    template = "port_security_enabled cannot be turned off while the port has security_groups."
class AddressPairAndPortSecurityRequired(Conflict):
    template = "allowed_address_pairs need port security, which is off on this port."
class AllowedAddressPairsMissingIP(InvalidInput): template = "Each of allowed_address_pairs needs an ip_address."
class DuplicateAddressPairInRequest(InvalidInput):
    template = "allowed_address_pairs has {mac_address} with {ip_address} twice."
class AllowedAddressPairExhausted(BadRequest): template = "A port has at most {quota} allowed_address_pairs."
class PortBindingNotFound(NotFound): template = "Port {port_id} has no binding on {host}."
class PortBindingAlreadyActive(Conflict): template = "Port {port_id}'s binding on {host} is already active."
class PortBindingAlreadyExists(Conflict): template = "Port {port_id} has a binding on {host} already."
class PortBindingError(Conflict): template = "No driver could bind port {port_id} on {host}."

# --- security groups ------------------------------------------------------------------------------------------------
class SecurityGroupNotFound(NotFound): template = "There is no security group {id}."
class SecurityGroupInUse(InUse): template = "Security group {id} is in use: {reason}."
class SecurityGroupDefaultAlreadyExists(InUse):
    template = "The name 'default' is reserved for the default security group, which is created automatically."
class SecurityGroupCannotUpdateDefault(InUse): template = "The default security group cannot be renamed."
class SecurityGroupCannotRemoveDefault(InUse): template = "Only an administrator can delete a default security group."
class SecurityGroupConflict(Conflict): template = "The security groups cannot be used: {reason}."
class SecurityGroupRuleNotFound(NotFound): template = "There is no security group rule {id}."
class SecurityGroupRuleExists(InUse): template = "The security group already has this rule: {rule_id}."
class DuplicateSecurityGroupRuleInPost(InUse): template = "The request contains the same security group rule twice."
class SecurityGroupInvalidPortRange(InvalidInput):
    template = "A port range needs both ends: port_range_min must be <= port_range_max."
class SecurityGroupInvalidPortValue(InvalidInput): template = "Invalid value for port {port}: it is not a port number."
class SecurityGroupInvalidProtocolForPort(InvalidInput):
    template = "Protocol {protocol} has no ports: a port range can be given for {protocols} only."
class SecurityGroupProtocolRequiredWithPorts(InvalidInput): template = "A port range needs a protocol."
class SecurityGroupMissingIcmpType(InvalidInput):
    template = "ICMP code {value} needs a type: ICMP type (port-range-min) is missing."
class SecurityGroupInvalidIcmpValue(InvalidInput):
    template = "Invalid value for ICMP {field} ({attr}): {value} is not from 0 to 255."
class SecurityGroupEthertypeConflictWithProtocol(InvalidInput):
    template = "Protocol {protocol} does not exist over {ethertype}."
class SecurityGroupRuleInvalidEtherType(InvalidInput):
    template = "'{ethertype}' is not an ethertype that rules can have: {values}."
class SecurityGroupRuleInvalidProtocol(InvalidInput):
    template = "'{protocol}' is neither a protocol number (0 to 255) nor one of the names {values}."
class SecurityGroupRuleParameterConflict(InvalidInput):
    template = "Conflicting value ethertype: {cidr} is not a prefix of an {ethertype} rule."
class SecurityGroupMultipleRemoteEntites(InvalidInput):  # the API's own spelling
    template = "A rule has at most one remote: a prefix, a security group or an address group."
class SecurityGroupNotSingleGroupRules(InvalidInput):
    template = "All rules of one request must belong to one security group."
class SecurityGroupRulesNotSingleProject(InvalidInput):
    template = "All rules of one request must belong to one project."
class DefaultSecurityGroupRuleNotFound(NotFound): template = "There is no default security group rule {id}."
class DefaultSecurityGroupRuleExists(InUse): template = "There is this default security group rule already: {rule_id}."
class SecurityGroupDefaultStatefulnessNotFound(NotFound):
    template = "There is no setting {id} of the default statefulness of security groups."
class SecurityGroupDefaultStatefulnessAlreadyExists(Conflict):
    template = "There is a default statefulness of security groups already, for project {project_id}."
class InvalidCIDR(BadRequest): template = "{input!r} is not a CIDR."
class AddrFormatError(BadRequest): template = "{address!r} is not a CIDR."

# --- access, quotas, tags -------------------------------------------------------------------------------------------
class RbacPolicyNotFound(NotFound): template = "There is no RBAC policy {id}."
class RbacPolicyInUse(Conflict): template = "The RBAC policy on {object_id} is in use: {details}"
class DuplicateRbacPolicy(Conflict): template = "The same RBAC policy already exists."
class InvalidActionForType(InvalidInput):
    template = "Invalid action '{action}' for object type '{object_type}'. Valid actions: {valid_actions}."
class OverQuota(Conflict): template = "The project's quota is used up for: {overs}."
class QuotaMissingTenant(BadRequest): template = "The request has no project: its token is not scoped to one."
class TenantQuotaNotFound(NotFound): template = "Project {tenant_id} has no quotas of its own."
class TagNotFound(NotFound): template = "The resource has no tag {tag}."


# --- hosts ----------------------------------------------------------------------------------------------------------
class TooManyTraces(HTTPServiceUnavailable):
    template = "This server process computes {what} already, the most at once: try again in a few seconds."
class AgentNotFound(NotFound): template = "There is no agent {id}."
class InvalidDHCPAgent(AgentNotFound):
    template = "Agent {id} cannot serve DHCP: it is not a DHCP agent, or its admin state is down."
class NetworkHostedByDHCPAgent(Conflict): template = "DHCP agent {agent_id} already serves network {network_id}."
class NetworkNotHostedByDhcpAgent(Conflict): template = "DHCP agent {agent_id} does not serve network {network_id}."
# A postcommit failed; a create has been undone.
class MechanismDriverError(Conflict): template = "{method} failed in mechanism drivers: {drivers}."
class ExtensionDriverError(Conflict): template = "{method} failed in extension driver {driver}."
# fmt: on
