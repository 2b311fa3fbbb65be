"""Networks, and how many of their addresses are in use."""

from msgspec import UNSET

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ADMIN_STATE_UP, IDENTITY, STATUS, shared, standard, zone_hints
from neutrino.server.api.resources.dhcp_options import EXTRA_DHCP_OPTS

_SEGMENT = t.Record(
    optional={
        "provider:network_type": t.Text(32),
        "provider:physical_network": t.Nullable(t.Text(64)),
        "provider:segmentation_id": t.Nullable(t.Integer()),
    }
)


def parse_segments(value: object) -> object:
    """The segments of a network that has several; each has the provider attributes of a single one."""
    if not isinstance(value, list) or not value:
        raise t.Invalid(f"'{value}' is not a list of segments")
    omitted = {"provider:network_type": UNSET, "provider:physical_network": None, "provider:segmentation_id": None}
    full = [omitted | _SEGMENT.parse(segment) for segment in value]
    if t.first_duplicate(full) is not None:
        raise errors.SegmentsContainDuplicateEntry()
    return full


def _provider(name: str, type_: t.Type[object], filter_as: t.Type[object] | None = None) -> Attribute:
    return writable(f"provider:{name}", type_, filter=True, filter_as=filter_as, guarded=True)


_SEGMENTS = t.Parsed(parse_segments, t.ListOf(_SEGMENT, min_items=1, max_items=100))
_NETWORK_TYPES = t.OneOf(("local", "flat", "vlan", "vxlan", "gre", "geneve"))


NETWORK = Resource(
    name="network",
    quota=True,
    tagged=True,
    not_found=errors.NetworkNotFound,
    attributes=(
        *IDENTITY,
        Attribute("subnets", t.ListOf(t.Uuid()), default=[]),
        ADMIN_STATE_UP,
        STATUS,
        shared(put=True),
        writable("router:external", t.Bool(), default=False, filter=True, guarded=True),
        writable("is_default", t.Bool(), default=False, searchable=True, guarded=True),
        writable("project_default", t.Bool(), default=False),  # a mark for the project's users
        writable("mtu", t.Integer(min=0), default=0, searchable=True, guarded=True),
        writable("port_security_enabled", t.Bool(), default=True, guarded=True),
        writable("dns_domain", t.DnsName(domain=True), default=""),
        Attribute("availability_zones", t.ListOf(t.Text())),
        zone_hints(sort=True),
        Attribute("ipv4_address_scope", t.UUID_OR_NONE),
        Attribute("ipv6_address_scope", t.UUID_OR_NONE),
        Attribute("l2_adjacency", t.Bool()),
        writable("extra_dhcp_opts", EXTRA_DHCP_OPTS, default=None),
        creatable("ha", t.Bool(), default=False, visible=False, guarded=True),
        _provider("network_type", t.Text(32), _NETWORK_TYPES),
        _provider("physical_network", t.Nullable(t.Text(64))),
        _provider("segmentation_id", t.Nullable(t.Integer())),
        writable("segments", _SEGMENTS, guarded=True),
        *standard(),
    ),
)

NETWORK_IP_AVAILABILITY = Resource(
    name="network_ip_availability",
    collection="network_ip_availabilities",
    key="network_id",
    verbs=frozenset({"index", "show"}),
    not_found=errors.NetworkNotFound,
    hidden=errors.HTTPNotFound,
    attributes=(
        Attribute("network_id", t.Uuid(), filter=True, sort=True),
        Attribute("network_name", t.Text(), filter=True),
        Attribute("project_id", t.Text(), filter=True),
        Attribute("total_ips", t.Integer(min=0, max=2**129)),
        Attribute("used_ips", t.Integer(min=0, max=2**129)),
        Attribute("subnet_ip_availability", t.ListOf(t.AnyObject())),
        Attribute("ip_availability_details", t.AnyObject()),
        Attribute("ip_version", t.OneOf((4, 6)), visible=False, filter=True),
    ),
)
