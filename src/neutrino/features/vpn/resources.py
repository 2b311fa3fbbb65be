"""VPN as a service, below `/v2.0/vpn/`: policies, services, endpoint groups and IPsec site connections."""

import ipaddress
import re

from neutrino.features.vpn.errors import (
    IKEPolicyNotFound,
    IPsecPolicyNotFound,
    IPsecSiteConnectionNotFound,
    VPNEndpointGroupNotFound,
    VPNServiceNotFound,
)
from neutrino.model.objects import Object
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, NAME, PROJECT

BI_DIRECTIONAL = "bi-directional"
INITIATORS = (BI_DIRECTIONAL, "response-only")
# Without sha1 and 3des, which Neutron's extension vpn-no-sha1-3des removes.
AUTH_ALGORITHMS = ("sha256", "sha384", "sha512", "aes-xcbc", "aes-cmac")
KEY_SIZES = (128, 192, 256)
ENCRYPTION_ALGORITHMS = (
    *(f"aes-{size}" for size in KEY_SIZES),
    *(f"aes-{size}-{mode}-{tag}" for mode in ("ccm", "gcm") for tag in (8, 12, 16) for size in KEY_SIZES),
    *(f"aes-{size}-ctr" for size in KEY_SIZES),
)
PFS_GROUPS = tuple(f"group{number}" for number in (2, 5, *range(14, 32)))
TRANSFORM_PROTOCOLS = ("esp", "ah", "ah-esp")
DPD_ACTIONS = ("hold", "clear", "disabled", "restart", "restart-by-peer")
CIDR, SUBNET = "cidr", "subnet"
ENDPOINT_TYPES = (CIDR, "network", "router", SUBNET, "vlan")
STATUSES = ("ACTIVE", "DOWN", "BUILD", "ERROR", "PENDING_CREATE", "PENDING_UPDATE", "PENDING_DELETE")
MAX_CIDRS = 100  # of a connection: each pair of a local subnet and a peer's CIDR is a security association
MAX_ENDPOINTS = 100


def parse_cidr(value: object) -> str:
    """A CIDR as Neutron takes and shows it: as it is given, also with host bits; IPv4 in its usual text only."""
    t.Cidr().parse(value)
    text = str(value)
    if re.search(r"\s", text) or (":" not in text and str(ipaddress.ip_interface(text)) != text):
        raise t.Invalid(f"'{text}' is not a valid IP subnet: a CIDR such as 10.0.0.0/24 is needed")
    return text


def parse_list(of: t.ListOf[str]) -> t.Parsed[list[str]]:
    """A list; a single value is a list of one, and null is an empty one."""

    def parse(value: object) -> list[str]:
        if isinstance(value, str):
            value = [value]
        return of.parse(value)

    return t.Parsed(parse, of)


def parse_word(value: object) -> str:
    """An identity or an address of a peer: it ends in the log of a daemon."""
    text = t.Text().parse(value)
    if not text.isprintable():
        raise t.Invalid("it has a character that cannot be printed")
    return text


def parse_psk(value: object) -> str:
    """A pre-shared key. Its errors are without the value: messages end in logs."""
    try:
        return t.Text(min=1).parse(value)
    except t.Invalid:
        raise t.Invalid("a pre-shared key is a string of 1 to 255 characters") from None


def _dictionary(**keys: t.Type[object]) -> t.Parsed[Object]:
    """A dictionary whose keys are optional; null is an empty one."""
    record = t.Record(optional=keys)
    schema = {"anyOf": [record.schema(), {"type": "null"}]}
    return t.Parsed(lambda value: {} if value is None else record.parse(value), schema)


def _choice(name: str, values: tuple[str, ...], default: str) -> Attribute:
    return writable(name, t.OneOf(values), default=default, filter=True)


_WORD = t.Parsed(parse_word, t.Text())
_DESCRIPTION = writable("description", t.Text(), default="", filter=True)
_IDENTITY = (ID, NAME, PROJECT, _DESCRIPTION)
_ADMIN_STATE_UP = writable("admin_state_up", t.Bool(), default=True, filter=True)
_STATUS = Attribute("status", t.Text(16), filter=True, filter_as=t.OneOf(STATUSES))
_ENDPOINTS = t.ListOf(t.Text(), nullable=True, max_items=MAX_ENDPOINTS, unique=False)
_COUNT = t.Integer(0, refuse=t.Invalid)
_LIFETIME = _dictionary(units=t.OneOf(("seconds",)), value=t.Integer(60, refuse=t.Invalid))
_DPD = _dictionary(action=t.OneOf(DPD_ACTIONS), interval=_COUNT, timeout=_COUNT)
_CRYPTOGRAPHY = (
    _choice("auth_algorithm", AUTH_ALGORITHMS, "sha256"),
    _choice("encryption_algorithm", ENCRYPTION_ALGORITHMS, "aes-128"),
    _choice("pfs", PFS_GROUPS, "group5"),
    writable("lifetime", _LIFETIME, default={}),
)

IKE_POLICY = Resource(
    name="ikepolicy",
    collection="ikepolicies",
    path="vpn/ikepolicies",
    quota=True,
    not_found=IKEPolicyNotFound,
    attributes=(
        *_IDENTITY,
        *_CRYPTOGRAPHY,
        _choice("phase1_negotiation_mode", ("main", "aggressive"), "main"),
        _choice("ike_version", ("v1", "v2"), "v1"),
    ),
)

IPSEC_POLICY = Resource(
    name="ipsecpolicy",
    collection="ipsecpolicies",
    path="vpn/ipsecpolicies",
    quota=True,
    not_found=IPsecPolicyNotFound,
    attributes=(
        *_IDENTITY,
        *_CRYPTOGRAPHY,
        _choice("transform_protocol", TRANSFORM_PROTOCOLS, "esp"),
        _choice("encapsulation_mode", ("tunnel", "transport"), "tunnel"),
    ),
)

ENDPOINT_GROUP = Resource(
    name="endpoint_group",
    path="vpn/endpoint-groups",
    quota=True,
    not_found=VPNEndpointGroupNotFound,
    attributes=(
        Attribute("id", t.Uuid(), filter=True),
        writable("name", t.Name(), default="", filter=True, filter_as=t.Text()),
        creatable("project_id", t.Text(), filter=True),
        _DESCRIPTION,
        creatable("type", t.OneOf(ENDPOINT_TYPES), default=REQUIRED, filter=True),
        creatable("endpoints", parse_list(_ENDPOINTS), default=[]),
    ),
)

VPN_SERVICE = Resource(
    name="vpnservice",
    path="vpn/vpnservices",
    quota=True,
    not_found=VPNServiceNotFound,
    attributes=(
        *_IDENTITY,
        creatable("router_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("subnet_id", t.UUID_OR_NONE, default=None, filter=True),
        creatable("flavor_id", t.UUID_OR_NONE, default=None, filter=True),
        _ADMIN_STATE_UP,
        Attribute("external_v4_ip", t.IpAddress(), shown_null=True, filter=True),
        Attribute("external_v6_ip", t.IpAddress(), shown_null=True, filter=True),
        _STATUS,
    ),
)

IPSEC_SITE_CONNECTION = Resource(
    name="ipsec_site_connection",
    path="vpn/ipsec-site-connections",
    quota=True,
    not_found=IPsecSiteConnectionNotFound,
    attributes=(
        *_IDENTITY,
        creatable("vpnservice_id", t.Uuid(), default=REQUIRED, filter=True),
        creatable("ikepolicy_id", t.Uuid(), default=REQUIRED, filter=True),
        creatable("ipsecpolicy_id", t.Uuid(), default=REQUIRED, filter=True),
        writable("peer_address", _WORD, default=REQUIRED, filter=True),
        writable("peer_id", _WORD, default=REQUIRED, filter=True),
        writable("local_id", _WORD, default="", filter=True),
        writable(
            "peer_cidrs",
            parse_list(t.ListOf(t.Parsed(parse_cidr, t.Cidr()), nullable=True, max_items=MAX_CIDRS)),
            default=[],
        ),
        writable("local_ep_group_id", t.UUID_OR_NONE, default=None, filter=True),
        writable("peer_ep_group_id", t.UUID_OR_NONE, default=None, filter=True),
        writable("psk", t.Parsed(parse_psk, t.Text(min=1)), default=REQUIRED, filter=True, secret=True),
        writable("mtu", t.Integer(0), default=1500, filter=True),
        _choice("initiator", INITIATORS, BI_DIRECTIONAL),
        writable("dpd", _DPD, default={}),
        _ADMIN_STATE_UP,
        Attribute("route_mode", t.Text(16), filter=True, filter_as=t.OneOf(("static",))),
        Attribute("auth_mode", t.Text(16), filter=True, filter_as=t.OneOf(("psk",))),
        _STATUS,
    ),
)
