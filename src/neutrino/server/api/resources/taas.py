"""Tap services, tap flows and tap mirrors, below `/v2.0/taas/`: copies of a port's packets for a monitor."""

import re
from ipaddress import ip_address
from typing import Any

from neutrino.server import errors
from neutrino.server.api import types as t
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


def parse_vlan_filter(value: Any) -> str | None:
    """VLAN ids and ranges of them, such as `9,18-20`; the id of untagged frames is 0."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_FILTER or not _RANGES.fullmatch(value):
        raise t.Invalid(f"'{str(value)[:64]}' is not a list of VLAN ids and ranges")
    for part in value.split(","):
        first, _, last = part.partition("-")
        ends = int(first), int(last or first)
        if not all(end in VLANS for end in ends) or ends[0] > ends[1]:
            raise t.Invalid(f"'{part}' is not a VLAN id or range of ids between {VLANS[0]} and {VLANS[-1]}")
    return value


def parse_directions(value: Any) -> dict[str, int]:
    """Tunnel ids by direction. Which ids there are depends on the type of the mirror, and is checked with it."""
    found: dict[str, int] = _DIRECTIONS.parse(value)
    if not found:
        raise t.Invalid(f"it needs one of {', '.join(DIRECTIONS)}")
    if BOTH in found and len(found) > 1:
        raise t.Invalid(f"{BOTH} cannot be combined with another direction")
    return found


def parse_collector(value: Any) -> str:
    """An address that packets are routed to: the copies leave from the host, not from the instance."""
    found: str = _ADDRESS.parse(value)
    address = ip_address(found)
    kinds = ("is_loopback", "is_link_local", "is_multicast", "is_reserved", "is_unspecified")
    if any(getattr(address, kind) for kind in kinds):
        raise t.Invalid(f"'{found}' is not the address of a collector")
    return found


_ADDRESS = t.IpAddress()
_DIRECTIONS = t.Record(optional={name: t.Integer(0, TUNNEL_IDS[GRE][-1], refuse=t.Invalid) for name in DIRECTIONS})
_FILTER = t.Parsed(parse_vlan_filter, {"anyOf": [{"type": "string", "maxLength": MAX_FILTER}, {"type": "null"}]})
_DESCRIPTION = writable("description", t.Text(1024), default="", searchable=True)
_STATUS = Attribute("status", t.Text(16), filter=True, filter_as=t.OneOf(STATUSES), sort=True)


def _port(name: str) -> Attribute:
    return creatable(name, t.Uuid(), default=REQUIRED, searchable=True)


TAP_SERVICE = Resource(
    name="tap_service",
    path="taas/tap_services",
    quota=True,
    not_found=errors.TapServiceNotFound,
    attributes=(*IDENTITY, _DESCRIPTION, _port("port_id"), _STATUS),
)

TAP_FLOW = Resource(
    name="tap_flow",
    path="taas/tap_flows",
    quota=True,
    not_found=errors.TapFlowNotFound,
    attributes=(
        ID,
        writable("name", t.Text(), default="", searchable=True),  # the only names that Neutron does not restrict
        PROJECT,
        _DESCRIPTION,
        creatable("tap_service_id", t.Uuid(), default=REQUIRED, searchable=True),
        _port("source_port"),
        creatable("direction", t.OneOf(DIRECTIONS), default=REQUIRED, searchable=True),
        creatable("vlan_filter", _FILTER, default=None, searchable=True),
        _STATUS,
    ),
)

TAP_MIRROR = Resource(
    name="tap_mirror",
    path="taas/tap_mirrors",
    quota=True,
    not_found=errors.TapMirrorNotFound,
    attributes=(
        *IDENTITY,
        _DESCRIPTION,
        _port("port_id"),
        creatable("directions", t.Parsed(parse_directions, _DIRECTIONS), default=REQUIRED),
        creatable("remote_ip", t.Parsed(parse_collector, _ADDRESS), default=REQUIRED, searchable=True),
        creatable("mirror_type", t.OneOf((ERSPAN, GRE)), default=REQUIRED, searchable=True),
    ),
)
