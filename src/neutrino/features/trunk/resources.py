"""Trunks: a parent port, and subports whose packets an instance sends and receives on it with VLAN tags."""

from neutrino.features.trunk.errors import TrunkNotFound
from neutrino.model.objects import Object
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable
from neutrino.server.api.resources.common import ADMIN_STATE_UP, IDENTITY, standard

VLAN, INHERIT = "vlan", "inherit"
VLANS = range(1, 4095)
MAX_SUBPORTS = 500  # of one request, as many ports as a bulk request creates; a trunk has up to one for each VLAN
DOWN, BUILD, ACTIVE, DEGRADED, ERROR = STATUSES = ("DOWN", "BUILD", "ACTIVE", "DEGRADED", "ERROR")


def parse_subports(value: object) -> list[Object]:
    """Subports as they were asked for: each port once, with both segmentation attributes or, to inherit them, the type.

    Which types and ids there are is checked later, since these errors have another type; so is a port without either
    attribute, which is enough to remove it.
    """
    if not isinstance(value, list):
        raise t.Invalid(f"'{value}' is not a list")
    t.check_length(value, MAX_SUBPORTS)
    out: list[Object] = []
    for item in value:
        if not isinstance(item, dict):
            raise t.Invalid(f"'{item}' is not a dictionary")
        if "port_id" not in item:
            raise t.Invalid("a valid port UUID must be specified")
        subport = {"port_id": t.Uuid().parse(item["port_id"])}
        type_, number = item.get("segmentation_type"), item.get("segmentation_id")
        if type_ != INHERIT and (type_ or number is not None):
            if not type_ or number is None:
                raise t.Invalid(f"subport '{subport['port_id']}' lacks segmentation_type or segmentation_id")
            subport["segmentation_id"] = number
        out.append(subport | ({"segmentation_type": type_} if type_ else {}))
    if twice := t.first_duplicate(one["port_id"] for one in out):
        raise t.Invalid(f"non unique UUID for subport: '{twice}'")
    numbered = ((str(one["segmentation_type"]), str(one["segmentation_id"])) for one in out if "segmentation_id" in one)
    if twice := t.first_duplicate(numbered):
        raise t.Invalid(f"segmentation ID '{twice[1]}' is not unique")
    return out


SUBPORT = t.Record(
    {"port_id": t.Uuid()},
    {"segmentation_type": t.OneOf((VLAN, INHERIT)), "segmentation_id": t.Integer(VLANS[0], VLANS[-1])},
    others=True,
)
SUBPORTS = t.ListOf(SUBPORT, max_items=MAX_SUBPORTS)

TRUNK = Resource(
    name="trunk",
    quota=True,
    tagged=True,
    actions=("add_subports", "remove_subports"),
    bodies=dict.fromkeys(("add_subports", "remove_subports"), t.object_schema(sub_ports=SUBPORTS.schema())),
    lookups=("get_subports",),
    answers={"get_subports": t.object_schema(sub_ports=t.array_schema(SUBPORT.schema()))},
    not_found=TrunkNotFound,
    attributes=(
        *IDENTITY,
        ADMIN_STATE_UP,
        creatable("port_id", t.Uuid(), default=REQUIRED, searchable=True),
        Attribute("status", t.Text(16), filter=True, filter_as=t.OneOf(STATUSES), sort=True),
        creatable("sub_ports", t.Parsed(parse_subports, SUBPORTS), default=[]),
        *standard(),
    ),
)
