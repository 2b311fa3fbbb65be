"""Local IPs: addresses that each host translates to an associated port of its own, and these associations."""

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable
from neutrino.server.api.resources.common import IDENTITY, standard

TRANSLATE, PASSTHROUGH = "translate", "passthrough"
_ADDRESS = t.Nullable(t.IpAddress())

LOCAL_IP = Resource(
    name="local_ip",
    not_found=errors.LocalIPNotFound,
    attributes=(
        *IDENTITY,
        creatable("local_port_id", t.Uuid(), searchable=True),
        creatable("network_id", t.Uuid(), searchable=True),
        creatable("local_ip_address", _ADDRESS, searchable=True),
        creatable("ip_mode", t.OneOf((TRANSLATE, PASSTHROUGH)), default=TRANSLATE, searchable=True),
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
    not_found=errors.LocalIPAssociationNotFound,
    attributes=(
        Attribute("local_ip_id", t.Uuid()),
        Attribute("local_ip_address", t.IpAddress(), filter=True, sort=True),
        creatable("fixed_port_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("fixed_ip", _ADDRESS, default=None, searchable=True),
        Attribute("host", t.Text(), filter=True, sort=True),
        creatable("project_id", t.Text(), visible=False),
    ),
)
