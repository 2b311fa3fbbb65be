"""Firewalls (FWaaS v2): groups with ordered rules, on ports of instances and interfaces of routers."""

from neutrino.diagnosis.problems import Problem
from neutrino.features.firewall import takeover
from neutrino.features.firewall.auto_association import AutoAssociation
from neutrino.features.firewall.default_groups import DefaultGroups
from neutrino.features.firewall.feed import FEED
from neutrino.features.firewall.groups import FirewallGroups
from neutrino.features.firewall.options import OPTIONS, default_rules
from neutrino.features.firewall.policies import FirewallPolicies
from neutrino.features.firewall.resources import FIREWALL_GROUP, FIREWALL_POLICY, FIREWALL_RULE
from neutrino.features.firewall.rules import FirewallRules
from neutrino.features.firewall.status import FirewallStatus
from neutrino.features.firewall.trace import read_part
from neutrino.features.firewall.views import POLICIES, RULES
from neutrino.server import features
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature, HostReports
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.rules import ADMIN, ADMIN_OR_MEMBER, READER, any_of, crud, setting, tags
from neutrino.server.services import ResourcePlugin, Services

COLLECTIONS = {resource.name: resource.collection for resource in (FIREWALL_GROUP, FIREWALL_POLICY, FIREWALL_RULE)}


def build(services: Services) -> ResourcePlugin:
    db, quotas, conf = services.db, services.quotas, services.conf
    defaults = DefaultGroups(db, default_rules(conf))
    deletions = [each for feature in features.enabled(conf) for each in feature.firewall_groups]
    joining = PortUse(changes=AutoAssociation(defaults).port_changes)  # of ports that are bound, not of deleted ones
    return ResourcePlugin(
        collections=(
            (FIREWALL_RULE, FirewallRules(db, RULES, quotas, defaults.ensure)),
            (FIREWALL_POLICY, FirewallPolicies(db, POLICIES, quotas, defaults.ensure)),
            (FIREWALL_GROUP, FirewallGroups(db, quotas, defaults, deletions)),
        ),
        ports=(joining,) if conf.auto_associate_default_firewall_group else (),
    )


def _policy(name: str, collection: str) -> dict[str, str]:
    shared = f"shared_{collection}"
    reader = any_of(ADMIN, READER, f"rule:{shared}")
    return {
        shared: f"field:{collection}:shared=True",
        **crud(name, ADMIN_OR_MEMBER, reader),
        **tags(name, ADMIN_OR_MEMBER, reader),
        **setting(name, {"shared": ADMIN}, ("create", "update", "delete")),
    }


FEATURES = (
    Feature(
        name="firewall_v2",
        neutron_plugin="neutron_fwaas.services.firewall.fwaas_plugin_v2.FirewallPluginV2",
        requires=("router",),
        extensions=(
            Extension("fwaas_v2", "FWaaS v2", "Firewall groups on routers and ports, with ordered rules."),
            Extension(
                "standard-attr-fwaas-v2",
                "Standard Attribute FWaaS v2 Extension",
                "Firewall objects have a description, timestamps, revisions and tags.",
            ),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        policy={rule: check for names in COLLECTIONS.items() for rule, check in _policy(*names).items()}
        | dict.fromkeys(("insert_rule", "remove_rule"), ADMIN_OR_MEMBER),
        deprecated_policy={
            "rule:admin_or_owner": "insert_rule remove_rule "
            + " ".join(f"update_{name} delete_{name}" for name in COLLECTIONS),
            "rule:regular_user": " ".join(f"create_{name}" for name in COLLECTIONS),
            **{f"rule:admin_or_owner or rule:shared_{several}": f"get_{one}" for one, several in COLLECTIONS.items()},
        },
        # Neutron's defaults: they bound the nft elements and flows that a project costs its hosts.
        quotas={"firewall_group": 10, "firewall_policy": 10, "firewall_rule": 100},
        options=OPTIONS,
        feed=FEED,
        host_reports=lambda services: HostReports(statuses={"firewall_group": FirewallStatus(services.db).take}),
        trace=(read_part,),
        problems=(
            Problem(
                "firewall-group",
                "A firewall group of an instance's port or of a router does not allow the packet.",
                "Change the rules of the firewall group's policy, or their order.",
            ),
        ),
    ),
)
