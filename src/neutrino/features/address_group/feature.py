"""Address groups: named lists of CIDRs that security group rules refer to."""

from oslo_config import cfg

from neutrino.features.address_group import takeover
from neutrino.features.address_group.collection import MAX_ADDRESSES, AddressGroupNotFound, AddressGroups
from neutrino.features.address_group.feed import FEED
from neutrino.features.address_group.tables import address_groups
from neutrino.features.address_group.trace import read_part
from neutrino.server.access.sharing import SHARED, Shareable
from neutrino.server.api import types
from neutrino.server.api.definition import Attribute, Extension, Resource, creatable
from neutrino.server.api.resources.common import IDENTITY, standard
from neutrino.server.db.tables import security_group_rules
from neutrino.server.features import Feature
from neutrino.server.policy.rules import ADMIN, ADMIN_OR_MEMBER, READER, any_of, crud
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.uses import RuleRemote

ADDRESS_GROUP = Resource(
    name="address_group",
    not_found=AddressGroupNotFound,
    quota=True,
    foreign_is_hidden=True,
    actions=("add_addresses", "remove_addresses"),
    bodies=dict.fromkeys(
        ("add_addresses", "remove_addresses"),
        types.object_schema(address_group=types.object_schema(addresses=types.CIDRS)),
    ),
    attributes=(
        *IDENTITY,
        creatable("addresses", types.ListOf(types.Cidr(), nullable=True, max_items=MAX_ADDRESSES)),
        Attribute("shared", types.Bool()),
        *standard(tags=None),
    ),
)


def build(services: Services) -> ResourcePlugin:
    groups = AddressGroups(services.db, services.quotas, services.conf.max_address_group_addresses)
    return ResourcePlugin(collections=((ADDRESS_GROUP, groups),))


FEATURES = (
    Feature(
        name="address_group",
        always=True,
        extensions=(
            Extension("address-group", "Address group", "Lists of CIDRs for the rules of security groups."),
            Extension(
                "security-groups-remote-address-group",
                "Remote address group id field for security group rules",
                "Rules for the addresses of an address group.",
            ),
            Extension("rbac-address-group", "Add address_group type to RBAC", "Address groups can be shared."),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        policy={
            "shared_address_groups": "field:address_groups:shared=True",
            **crud("address_group", ADMIN_OR_MEMBER, any_of(ADMIN, READER, "rule:shared_address_groups")),
            **dict.fromkeys(("add_addresses", "remove_addresses"), ADMIN_OR_MEMBER),
        },
        deprecated_policy={
            "rule:admin_or_owner": "update_address_group delete_address_group add_addresses remove_addresses",
            "rule:regular_user": "create_address_group",
            "rule:admin_or_owner or rule:shared_address_groups": "get_address_group",
        },
        # Neutron's default: it bounds the flows that a project costs its hosts.
        quotas={"address_group": 10},
        options={
            None: [
                cfg.IntOpt(
                    "max_address_group_addresses",
                    default=1000,
                    min=1,
                    help="The most addresses of an address group: each is a flow, or several, on every host that has a "
                    "port whose rules name the group.",
                )
            ]
        },
        group_rules=(RuleRemote(lambda rule: rule.remote_address_group_id, address_groups.c.id, AddressGroupNotFound),),
        shared=(
            Shareable(
                kind="address_group",
                table=address_groups,
                users=lambda: {
                    SHARED: [(security_group_rules.c.project_id, security_group_rules.c.remote_address_group_id)]
                },
            ),
        ),
        feed=FEED,
        trace=(read_part,),
    ),
)
