"""BGP speakers and peers, as neutron-dynamic-routing has them."""

import re

from neutrino.features.bgp.errors import BgpPeerNotFound, BgpSpeakerNotFound
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import IDENTITY, IP_VERSION

NONE, MD5 = AUTH_TYPES = ("none", "md5")
MAX_PASSWORD = 80  # TCP_MD5SIG_MAXKEYLEN of Linux
_AS_NUMBER = t.Integer(1, 2**32 - 1, refuse=t.Invalid)
_PRINTABLE = re.compile(r"[!-~]+")


def parse_password(value: object) -> str | None:
    """A key of TCP MD5 signatures: it is a word of a line of bgpd's configuration."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_PASSWORD or not _PRINTABLE.fullmatch(value):
        # Without the value: messages end in logs.
        raise t.Invalid(f"a password has 1 to {MAX_PASSWORD} printable ASCII characters, and no space")
    return value


_PASSWORD = t.Parsed(parse_password, {"anyOf": [{"type": "string", "maxLength": MAX_PASSWORD}, {"type": "null"}]})

BGP_SPEAKER = Resource(
    name="bgp_speaker",
    actions=("add_bgp_peer", "remove_bgp_peer", "add_gateway_network", "remove_gateway_network"),
    lookups=("get_advertised_routes",),
    not_found=BgpSpeakerNotFound,
    attributes=(
        *IDENTITY,
        creatable("local_as", _AS_NUMBER, default=REQUIRED, searchable=True),
        IP_VERSION,
        writable("advertise_floating_ip_host_routes", t.Bool(), default=True, searchable=True),
        writable("advertise_tenant_networks", t.Bool(), default=True, searchable=True),
        Attribute("peers", t.ListOf(t.Uuid())),
        Attribute("networks", t.ListOf(t.Uuid())),
    ),
)

BGP_PEER = Resource(
    name="bgp_peer",
    not_found=BgpPeerNotFound,
    attributes=(
        *IDENTITY,
        creatable("peer_ip", t.IpAddress(), default=REQUIRED, searchable=True),
        creatable("remote_as", _AS_NUMBER, default=REQUIRED, searchable=True),
        creatable("auth_type", t.OneOf(AUTH_TYPES), default=REQUIRED, searchable=True),
        writable("password", _PASSWORD, default=None, visible=False, secret=True),
    ),
)
