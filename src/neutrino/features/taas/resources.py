"""Tap services, tap flows and tap mirrors, below `/v2.0/taas/`: copies of a port's packets for a monitor."""

import re
from ipaddress import ip_address

from neutrino.features.taas.errors import TapFlowNotFound, TapMirrorNotFound, TapServiceNotFound
from neutrino.server.api import types
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, IDENTITY, PROJECT

IN, OUT, BOTH = DIRECTIONS = ("IN", "OUT", "BOTH")
GRE, ERSPAN = "gre", "erspanv1"
# The tunnel ids that fit a tunnel's header: a GRE key, and the index of ERSPAN version 1.
TUNNEL_IDS = {GRE: range(2**32), ERSPAN: range(2**20)}
STATUSES = ("ACTIVE", "DOWN", "ERROR")
VLANS = range(4096)
MAX_FILTER = 1024  # characters
_RANGES = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", re.ASCII)


def parse_vlan_filter(value: object) -> str | None:
    """VLAN ids and ranges of them, such as `9,18-20`; the id of untagged frames is 0."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_FILTER or not _RANGES.fullmatch(value):
        raise types.Invalid(f"'{str(value)[:64]}' is not a list of VLAN ids and ranges")
    for part in value.split(","):
        first, _, last = part.partition("-")
        ends = int(first), int(last or first)
        if not all(end in VLANS for end in ends) or ends[0] > ends[1]:
            raise types.Invalid(f"'{part}' is not a VLAN id or range of ids between {VLANS[0]} and {VLANS[-1]}")
    return value


def parse_directions(value: object) -> dict[str, int]:
    """Tunnel ids by direction. Which ids there are depends on the type of the mirror, and is checked with it."""
    tunnel_ids: dict[str, int] = _DIRECTIONS.parse(value)
    if not tunnel_ids:
        raise types.Invalid(f"it needs one of {', '.join(DIRECTIONS)}")
    if BOTH in tunnel_ids and len(tunnel_ids) > 1:
        raise types.Invalid(f"{BOTH} cannot be combined with another direction")
    return tunnel_ids


def parse_collector(value: object) -> str:
    """An address that packets are routed to: the copies leave from the host, not from the instance."""
    text: str = _ADDRESS.parse(value)
    address = ip_address(text)
    kinds = ("is_loopback", "is_link_local", "is_multicast", "is_reserved", "is_unspecified")
    if any(getattr(address, kind) for kind in kinds):
        raise types.Invalid(f"'{text}' is not the address of a collector")
    return text


_ADDRESS = types.IpAddress()
_TUNNEL_ID = types.Integer(0, TUNNEL_IDS[GRE][-1], refuse=types.Invalid)
_DIRECTIONS = types.Record(optional=dict.fromkeys(DIRECTIONS, _TUNNEL_ID))
_FILTER = types.Parsed(parse_vlan_filter, {"anyOf": [{"type": "string", "maxLength": MAX_FILTER}, {"type": "null"}]})
_DESCRIPTION = writable("description", types.Text(1024), default="", searchable=True)
_STATUS = Attribute("status", types.Text(16), filter=True, filter_as=types.OneOf(STATUSES), sort=True)


def _port(name: str) -> Attribute:
    return creatable(name, types.Uuid(), default=REQUIRED, searchable=True)


TAP_SERVICE = Resource(
    name="tap_service",
    path="taas/tap_services",
    quota=True,
    not_found=TapServiceNotFound,
    attributes=(*IDENTITY, _DESCRIPTION, _port("port_id"), _STATUS),
)

TAP_FLOW = Resource(
    name="tap_flow",
    path="taas/tap_flows",
    quota=True,
    not_found=TapFlowNotFound,
    attributes=(
        ID,
        writable("name", types.Text(), default="", searchable=True),  # the only names that Neutron does not restrict
        PROJECT,
        _DESCRIPTION,
        creatable("tap_service_id", types.Uuid(), default=REQUIRED, searchable=True),
        _port("source_port"),
        creatable("direction", types.OneOf(DIRECTIONS), default=REQUIRED, searchable=True),
        creatable("vlan_filter", _FILTER, default=None, searchable=True),
        _STATUS,
    ),
)

TAP_MIRROR = Resource(
    name="tap_mirror",
    path="taas/tap_mirrors",
    quota=True,
    not_found=TapMirrorNotFound,
    attributes=(
        *IDENTITY,
        _DESCRIPTION,
        _port("port_id"),
        creatable("directions", types.Parsed(parse_directions, _DIRECTIONS), default=REQUIRED),
        creatable("remote_ip", types.Parsed(parse_collector, _ADDRESS), default=REQUIRED, searchable=True),
        creatable("mirror_type", types.OneOf((ERSPAN, GRE)), default=REQUIRED, searchable=True),
    ),
)
