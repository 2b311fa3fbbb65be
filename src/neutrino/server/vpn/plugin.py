"""The service plugin `vpnaas`: VPN services, their policies, endpoint groups and IPsec site connections."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources import vpn as resources
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.vpn.connections import IpsecSiteConnections
from neutrino.server.vpn.endpoint_groups import EndpointGroups, check_subnet_unused
from neutrino.server.vpn.policies import IkePolicies, IpsecPolicies
from neutrino.server.vpn.services import VpnServices

EXTENSIONS = (
    Extension("vpnaas", "VPN service", "IPsec tunnels between routers and other sites."),
    Extension("vpn-endpoint-groups", "VPN Endpoint Groups", "Groups of subnets or CIDRs that a tunnel connects."),
    Extension("vpn-aes-ccm-gcm", "VPN support for AES CCM, GCM modes", "Further algorithms and groups of policies."),
    Extension("vpn-aes-ctr", "VPN support for AES CTR mode", "AES CTR as encryption algorithm of policies."),
    Extension("vpn-no-sha1-3des", "VPN remove deprecated sha1 and 3des", "Policies without SHA-1 and 3DES."),
    Extension("vpn-flavors", "VPN Service Flavor Extension", "VPN services have a flavor."),
)


def build(services: Services) -> ResourcePlugin:
    db, quotas = services.db, services.quotas
    connections = IpsecSiteConnections(db, quotas, resolves_names=services.conf.resolve_vpn_peer_names)
    services.core.networks.subnet_checks.append(check_subnet_unused)
    return ResourcePlugin(
        EXTENSIONS,
        (
            (resources.IKE_POLICY, IkePolicies(db, quotas)),
            (resources.IPSEC_POLICY, IpsecPolicies(db, quotas)),
            (resources.ENDPOINT_GROUP, EndpointGroups(db, quotas)),
            (resources.VPN_SERVICE, VpnServices(db, quotas)),
            (resources.IPSEC_SITE_CONNECTION, connections),
        ),
    )
