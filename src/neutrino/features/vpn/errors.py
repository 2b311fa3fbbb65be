"""Errors of VPN services: names, statuses and some sentences are those of Neutron, because clients match on them."""

from neutrino.server.errors import BadRequest, InUse, InvalidInput, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class VPNServiceNotFound(NotFound): template = "VPNService {id} could not be found."
class IPsecSiteConnectionNotFound(NotFound): template = "ipsec_site_connection {id} not found."
class IKEPolicyNotFound(NotFound): template = "IKEPolicy {id} could not be found."
class IPsecPolicyNotFound(NotFound): template = "IPsecPolicy {id} could not be found."
class VPNEndpointGroupNotFound(NotFound): template = "Endpoint group {id} could not be found."
class IKEPolicyInUse(InUse): template = "IKEPolicy {id} has IPsec site connections, and can't be updated or deleted."
class IPsecPolicyInUse(InUse):
    template = "IPsecPolicy {id} has IPsec site connections, and can't be updated or deleted."
class VPNServiceInUse(InUse): template = "VPNService {id} is still in use."
class EndpointGroupInUse(BadRequest): template = "Endpoint group {id} is in use and cannot be deleted."
class SubnetInUseByVPNService(InUse): template = "Subnet {subnet_id} is used by VPNService {vpnservice_id}."
class SubnetInUseByEndpointGroup(InUse): template = "Subnet {subnet_id} is used by endpoint group {group_id}."
class SubnetInUseByIPsecSiteConnection(InUse):
    template = "Subnet {subnet_id} is used by ipsec site connection {ipsec_site_connection_id}."
class SubnetIsNotConnectedToRouter(BadRequest): template = "Subnet {subnet_id} is not connected to Router {router_id}."
class RouterIsNotExternal(BadRequest): template = "Router {router_id} has no external network gateway set."
class ExternalNetworkHasNoSubnet(BadRequest):
    template = "Router's {router_id} external network has no {ip_version} subnet."
class VPNPeerAddressNotResolved(InvalidInput): template = "peer_address: {peer_address} cannot be resolved{why}."
class IPsecSiteConnectionDpdIntervalValueError(InvalidInput):
    template = "ipsec_site_connection {attr} is equal to or less than dpd_interval."
class IPsecSiteConnectionMtuError(InvalidInput):
    template = "ipsec_site_connection MTU {mtu} is too small for ipv{version}."
class MissingEndpointForEndpointGroup(BadRequest): template = "No endpoints specified for endpoint group '{group}'."
class InvalidEndpointInEndpointGroup(InvalidInput):
    template = "endpoints: '{endpoint}' is invalid for group type '{group_type}': {why}."
class NonExistingSubnetInEndpointGroup(InvalidInput): template = "Subnet {subnet} in endpoint group does not exist."
class WrongEndpointGroupType(BadRequest):
    template = "Endpoint group {which} type is '{group_type}' and should be '{expected}'."
class InvalidEndpointGroup(BadRequest):
    template = "Endpoint group {which} cannot be specified, when VPN Service has subnet specified."
class MissingRequiredEndpointGroup(BadRequest):
    template = "Missing endpoint group {which} for IPSec site-to-site connection."
class MissingPeerCidrs(BadRequest): template = "Missing peer CIDRs for IPsec site-to-site connection."
class PeerCidrsInvalid(BadRequest): template = "Peer CIDRs cannot be specified, when using endpoint groups."
class MixedIPVersionsForPeerCidrs(BadRequest): template = "Peer CIDRs do not have the same IP version."
class MixedIPVersionsForIPSecEndpoints(BadRequest):
    template = "Endpoints in group {group} do not have the same IP version, as an IPsec site connection requires."
class MixedIPVersionsForIPSecConnection(BadRequest):
    template = "IP versions are not compatible between peer and local endpoints."
class IpsecValidationFailure(BadRequest):
    template = "IPSec does not support {resource} attribute {key} with value '{value}'."
# fmt: on
