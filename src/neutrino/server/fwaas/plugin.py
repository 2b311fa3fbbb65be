"""The service plugin `firewall_v2`: firewall rules, policies and groups, composed from the configuration."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.firewall import FIREWALL_GROUP, FIREWALL_POLICY, FIREWALL_RULE
from neutrino.server.fwaas.auto_association import AutoAssociation
from neutrino.server.fwaas.default_groups import DefaultGroups
from neutrino.server.fwaas.default_rules import default_rules
from neutrino.server.fwaas.groups import FirewallGroups
from neutrino.server.fwaas.policies import FirewallPolicies
from neutrino.server.fwaas.rules import FirewallRules
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.services import ResourcePlugin, Services

EXTENSIONS = (
    Extension("fwaas_v2", "FWaaS v2", "Firewall groups on routers and ports, with ordered rules."),
    Extension(
        "standard-attr-fwaas-v2",
        "Standard Attribute FWaaS v2 Extension",
        "Firewall objects have a description, timestamps, revisions and tags.",
    ),
)


def build(services: Services) -> ResourcePlugin:
    db, quotas, conf = services.db, services.quotas, services.conf
    defaults = DefaultGroups(db, default_rules(conf))
    if conf.auto_associate_default_firewall_group:
        joining = AutoAssociation(defaults).port_changes
        services.core.ports.uses.append(PortUse(changes=joining))  # of ports that are bound, not of deleted ones
    return ResourcePlugin(
        EXTENSIONS,
        (
            (FIREWALL_RULE, FirewallRules(db, quotas, defaults.ensure_for_list)),
            (FIREWALL_POLICY, FirewallPolicies(db, quotas, defaults.ensure_for_list)),
            (FIREWALL_GROUP, FirewallGroups(db, quotas, defaults)),
        ),
    )
