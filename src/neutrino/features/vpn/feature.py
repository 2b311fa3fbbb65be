"""VPN services with policies, endpoint groups and connections: IPsec tunnels between routers and other sites."""

from oslo_config import cfg

from neutrino.features.flavors.resources import VPN
from neutrino.features.vpn import resources, tables, takeover, uses, views
from neutrino.features.vpn.connections import IpsecSiteConnections
from neutrino.features.vpn.endpoint_groups import EndpointGroups
from neutrino.features.vpn.facts import VPN_DOWN, add_facts
from neutrino.features.vpn.feed import FEED
from neutrino.features.vpn.policies import IkePolicies, IpsecPolicies
from neutrino.features.vpn.services import VpnServices
from neutrino.features.vpn.status import VpnStatus
from neutrino.features.vpn.trace import read_part
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature, HostReports
from neutrino.server.policy.rules import ADMIN_OR_MEMBER, crud
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.uses import FlavorUse, RouterUse

KINDS = ("ikepolicy", "ipsecpolicy", "endpoint_group", "vpnservice", "ipsec_site_connection")


def build(services: Services) -> ResourcePlugin:
    db, quotas = services.db, services.quotas
    connections = IpsecSiteConnections(db, quotas, resolves_names=services.conf.resolve_vpn_peer_names)
    return ResourcePlugin(
        collections=(
            (resources.IKE_POLICY, IkePolicies(db, views.IKE_POLICIES, quotas)),
            (resources.IPSEC_POLICY, IpsecPolicies(db, views.IPSEC_POLICIES, quotas)),
            (resources.ENDPOINT_GROUP, EndpointGroups(db, views.ENDPOINT_GROUPS, quotas)),
            (resources.VPN_SERVICE, VpnServices(db, views.SERVICES, quotas)),
            (resources.IPSEC_SITE_CONNECTION, connections),
        ),
    )


def host_reports(services: Services) -> HostReports:
    take = VpnStatus(services.db).take
    return HostReports(statuses=dict.fromkeys(("vpnservice", "ipsec_site_connection"), take))


FEATURES = (
    Feature(
        name="vpnaas",
        neutron_plugin="neutron_vpnaas.services.vpn.plugin.VPNDriverPlugin",
        requires=("router", "flavors"),
        extensions=(
            Extension("vpnaas", "VPN service", "IPsec tunnels between routers and other sites."),
            Extension(
                "vpn-endpoint-groups", "VPN Endpoint Groups", "Groups of subnets or CIDRs that a tunnel connects."
            ),
            Extension(
                "vpn-aes-ccm-gcm", "VPN support for AES CCM, GCM modes", "Further algorithms and groups of policies."
            ),
            Extension("vpn-aes-ctr", "VPN support for AES CTR mode", "AES CTR as encryption algorithm of policies."),
            Extension("vpn-no-sha1-3des", "VPN remove deprecated sha1 and 3des", "Policies without SHA-1 and 3DES."),
            Extension("vpn-flavors", "VPN Service Flavor Extension", "VPN services have a flavor."),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        # Readers do not see them: a connection has a secret, its PSK.
        policy={rule: check for kind in KINDS for rule, check in crud(kind, ADMIN_OR_MEMBER, ADMIN_OR_MEMBER).items()},
        deprecated_policy={
            "rule:admin_or_owner": " ".join(f"{verb}_{kind}" for kind in KINDS for verb in ("get", "update", "delete")),
            "rule:regular_user": " ".join(f"create_{kind}" for kind in KINDS),
        },
        quotas=dict.fromkeys(KINDS, -1),
        options={
            None: [
                cfg.BoolOpt(
                    "resolve_vpn_peer_names",
                    default=False,
                    help="Accept names as peer_address of IPsec site connections, and resolve them by the DNS servers of "
                    "this machine: clients then learn what these answer. Otherwise only addresses are accepted.",
                ),
            ]
        },
        routers=(RouterUse(uses.check_release, uses.check_interface),),
        subnets=(uses.check_subnet_delete,),
        flavors=(FlavorUse(VPN, ("strongswan",), tables.vpnservices.c.flavor_id),),
        feed=FEED,
        host_reports=host_reports,
        trace=(read_part,),
        facts=add_facts,
        problems=(VPN_DOWN,),
    ),
)
