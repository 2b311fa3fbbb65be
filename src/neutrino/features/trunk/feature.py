"""Trunks with VLAN subports."""

from neutrino.features.trunk import takeover
from neutrino.features.trunk.details import PORT_ATTRIBUTES
from neutrino.features.trunk.feed import FEED
from neutrino.features.trunk.followers import Followers, refuse_unknown
from neutrino.features.trunk.resources import TRUNK
from neutrino.features.trunk.status import TrunkStatus
from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.features.trunk.trace import read_part
from neutrino.features.trunk.trunks import Trunks, refuse_port_deletion
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature, HostReports
from neutrino.server.ml2.cascade import Cascade
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.deprecated import tag_rules
from neutrino.server.policy.rules import ADMIN_OR_MEMBER, ADMIN_OR_READER, crud, tags
from neutrino.server.services import ResourcePlugin, Services


def build(services: Services) -> ResourcePlugin:
    core = services.core
    followers = Followers(core.ports)
    collection = Trunks(services.db, services.quotas, core.operations, core.ports, followers, services.allows)
    core.ports.host_hooks.append(followers.with_parent)
    # First: a parent may be a router's interface too, and the trunk references it.
    core.cascade.services.insert(0, Cascade(collection.release, replaces=refuse_port_deletion))
    return ResourcePlugin(collections=((TRUNK, collection),))


FEATURES = (
    Feature(
        name="trunk",
        neutron_plugin="neutron.services.trunk.plugin.TrunkPlugin",
        extensions=(
            Extension("trunk", "Trunk Extension", "Ports that carry the traffic of further ports with VLAN tags."),
            Extension("trunk-details", "Trunk port details", "A trunk's parent port shows its subports."),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        policy={
            **crud("trunk", ADMIN_OR_MEMBER, ADMIN_OR_READER),
            **tags("trunk", ADMIN_OR_MEMBER, ADMIN_OR_READER),
            **dict.fromkeys(("add_subports", "remove_subports"), ADMIN_OR_MEMBER),
            "get_subports": ADMIN_OR_READER,
        },
        deprecated_policy={
            "rule:admin_or_owner": "get_trunk update_trunk delete_trunk add_subports remove_subports",
            "rule:regular_user": "create_trunk get_subports",
        },
        earlier_policy_names=tag_rules("trunk", "trunks"),
        quotas={"trunk": -1},
        port_attributes=(PORT_ATTRIBUTES,),
        ports=(
            PortUse(
                columns=(trunks.c.port_id, trunk_subports.c.port_id),
                check_delete=refuse_port_deletion,
                on_bind=refuse_unknown,
            ),
        ),
        feed=FEED,
        trace=(read_part,),
        host_reports=lambda services: HostReports(statuses={"trunk": TrunkStatus(services.db).take}),
    ),
)
