"""Local IPs: one address of a network that each host translates to a port of its own."""

from neutrino.diagnosis.problems import Problem
from neutrino.features.local_ip import collection, tables, takeover
from neutrino.features.local_ip.collection import (
    LocalIPAssociationNotFound,
    LocalIPNotFound,
    LocalIps,
    PortAssociations,
)
from neutrino.features.local_ip.feed import FEED
from neutrino.features.local_ip.trace import read_part
from neutrino.server.api import types
from neutrino.server.api.definition import REQUIRED, Attribute, Extension, Resource, creatable
from neutrino.server.api.resources.common import IDENTITY, standard
from neutrino.server.features import Feature
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.rules import ADMIN_OR_MEMBER, ADMIN_OR_READER, PARENT_MEMBER, PARENT_READER, crud
from neutrino.server.services import ResourcePlugin, Services

TRANSLATE, PASSTHROUGH = "translate", "passthrough"
_ADDRESS = types.Nullable(types.IpAddress())

LOCAL_IP = Resource(
    name="local_ip",
    not_found=LocalIPNotFound,
    attributes=(
        *IDENTITY,
        creatable("local_port_id", types.Uuid(), searchable=True),
        creatable("network_id", types.Uuid(), searchable=True),
        creatable("local_ip_address", _ADDRESS, searchable=True),
        creatable("ip_mode", types.OneOf((TRANSLATE, PASSTHROUGH)), default=TRANSLATE, searchable=True),
        *standard(tags=None),
    ),
)

PORT_ASSOCIATION = Resource(
    name="port_association",
    path="port_associations",
    parent=LOCAL_IP,
    parent_path="local_ips",  # where the collection of the parents is local-ips: as in Neutron
    key="fixed_port_id",
    verbs=frozenset({"index", "show", "create", "delete"}),
    not_found=LocalIPAssociationNotFound,
    attributes=(
        Attribute("local_ip_id", types.Uuid()),
        Attribute("local_ip_address", types.IpAddress(), filter=True, sort=True),
        creatable("fixed_port_id", types.Uuid(), default=REQUIRED, searchable=True),
        creatable("fixed_ip", _ADDRESS, default=None, searchable=True),
        Attribute("host", types.Text(), filter=True, sort=True),
        creatable("project_id", types.Text(), visible=False),
    ),
)


def build(services: Services) -> ResourcePlugin:
    db, core = services.db, services.core
    local_ips = LocalIps(db, core.operations, core.networks, core.ports, services.quotas)
    return ResourcePlugin(collections=((LOCAL_IP, local_ips), (PORT_ASSOCIATION, PortAssociations(db))))


FEATURES = (
    Feature(
        name="local_ip",
        neutron_plugin="neutron.services.local_ip.local_ip_plugin.LocalIPPlugin",
        extensions=(Extension("local_ip", "Local IP", "Addresses that each host translates to a port of its own."),),
        takeover=takeover.FAMILIES,
        build=build,
        policy={
            **crud("local_ip", ADMIN_OR_MEMBER, ADMIN_OR_READER),
            "create_local_ip_port_association": PARENT_MEMBER,
            "get_local_ip_port_association": PARENT_READER,
            "get_local_ip_port_association:host": "rule:get_port:binding:host_id",
            "delete_local_ip_port_association": PARENT_MEMBER,
        },
        deprecated_policy={
            "rule:admin_or_owner": "get_local_ip update_local_ip delete_local_ip",
            "rule:regular_user": "create_local_ip",
            "rule:admin_or_ext_parent_owner": """
                create_local_ip_port_association get_local_ip_port_association delete_local_ip_port_association
            """,
        },
        ports=(
            PortUse(
                columns=(tables.local_ips.c.local_port_id,),
                check_delete=collection.check_port_delete,
                changes=collection.port_changes,
            ),
        ),
        feed=FEED,
        trace=(read_part,),
        problems=(
            Problem(
                "no-local-ip",
                "The address is a local IP, and no port on the sender's host is associated with it.",
                "Run openstack local ip association create LOCAL-IP PORT with a port on that host.",
            ),
        ),
    ),
)
