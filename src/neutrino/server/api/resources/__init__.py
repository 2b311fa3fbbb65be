"""Every resource of the core, in the order in which they are listed."""

from neutrino.server.api.resources.agent import AGENT, AVAILABILITY_ZONE
from neutrino.server.api.resources.flavor import FLAVOR, FLAVOR_SERVICE_PROFILE, SERVICE_PROFILE, SERVICE_PROVIDER
from neutrino.server.api.resources.floatingip import FLOATINGIP, FLOATINGIP_POOL, PORT_FORWARDING
from neutrino.server.api.resources.network import NETWORK, NETWORK_IP_AVAILABILITY
from neutrino.server.api.resources.port import BINDING, PORT
from neutrino.server.api.resources.rbac_policy import RBAC_POLICY
from neutrino.server.api.resources.router import CONNTRACK_HELPER, ROUTER
from neutrino.server.api.resources.security_group import ADDRESS_GROUP, SECURITY_GROUP, SECURITY_GROUP_RULE
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.api.resources.subnetpool import ADDRESS_SCOPE, SUBNETPOOL

CORE = (NETWORK, SUBNET, SUBNETPOOL, PORT)
RESOURCES = (
    *CORE,
    BINDING,
    ADDRESS_SCOPE,
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
    ADDRESS_GROUP,
    RBAC_POLICY,
    AGENT,
    AVAILABILITY_ZONE,
    NETWORK_IP_AVAILABILITY,
    ROUTER,
    CONNTRACK_HELPER,
    FLOATINGIP,
    PORT_FORWARDING,
    FLOATINGIP_POOL,
    FLAVOR,
    SERVICE_PROFILE,
    FLAVOR_SERVICE_PROFILE,
    SERVICE_PROVIDER,
)
