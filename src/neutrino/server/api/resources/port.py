"""Ports and their bindings."""

import ipaddress
from typing import Any

import msgspec

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Action, Attribute, Parent, Resource, creatable, writable
from neutrino.server.api.resources.common import (
    ADMIN_STATE_UP,
    ID,
    MAX_FIXED_IPS,
    MAX_TAGS,
    NAME_ATTRIBUTE,
    PROJECT,
    STANDARD_BUT_TAGS,
    STATUS,
    STATUSES,
    TAG_FILTERS,
)
from neutrino.server.api.resources.dhcp_options import EXTRA_DHCP_OPTS
from neutrino.server.api.types import (
    AnyObject,
    Bool,
    DnsName,
    Invalid,
    IpAddress,
    Key,
    ListOf,
    Mac,
    Nullable,
    OneOf,
    Parsed,
    Record,
    Text,
    Unconvertible,
    Uuid,
)

VNIC_TYPES = (
    *("normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "smart-nic", "vdpa"),
    *("accelerator-direct", "accelerator-direct-physical", "remote-managed"),
)
PROFILE_MAX = 4095
MAX_ADDRESS_PAIRS = 1000  # of one request; the limit of a port is the option max_allowed_address_pair
# `others`: Octavia sends further keys.
FIXED_IP = Record(
    {"subnet_id": Key(Uuid(), required=False), "ip_address": Key(IpAddress(), required=False)}, others=True
)


def parse_fixed_ips(value: Any) -> list[dict[str, Any]]:
    """Requested addresses: by address, by subnet, or both."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Invalid(f"'{value}' is not a list of fixed IPs")
    fixed = [FIXED_IP.parse(item) for item in value]
    addresses = [f["ip_address"] for f in fixed if "ip_address" in f]
    if len(set(addresses)) != len(addresses):
        raise Invalid("a fixed IP address is given twice")
    return fixed


FIXED_IPS = Parsed(parse_fixed_ips, ListOf(FIXED_IP, nullable=True).schema(), max_items=MAX_FIXED_IPS)


def parse_pair_address(value: Any) -> str:
    """An address or a CIDR, kept as written."""
    try:
        if not isinstance(value, str) or "%" in value:
            raise ValueError
        network = ipaddress.ip_network(value.strip(), strict=False)
    except ValueError:
        raise Invalid(f"'{value}' is not a valid IP address or CIDR") from None
    if network.is_multicast:
        raise Invalid(f"'{value}' is a multicast address")
    return value.strip()


def parse_address_pairs(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Invalid(f"'{value}' is not a list of address pairs")
    pairs: list[dict[str, Any]] = []
    seen = set()
    for item in value:
        if not isinstance(item, dict):
            raise Invalid(f"'{item}' is not an address pair")
        unknown = set(item) - {"ip_address", "mac_address"}
        if unknown:
            raise Invalid(f"it has keys it should not have: {', '.join(sorted(map(str, unknown)))}")
        if "ip_address" not in item:
            raise errors.AllowedAddressPairsMissingIP()
        pair: dict[str, Any] = {"ip_address": parse_pair_address(item["ip_address"])}
        if item.get("mac_address") is not None:
            pair["mac_address"] = Mac().parse(item["mac_address"])
        key = pair["ip_address"], pair.get("mac_address")
        if key in seen:
            raise errors.DuplicateAddressPairInRequest(
                mac_address=pair.get("mac_address"), ip_address=pair["ip_address"]
            )
        seen.add(key)
        pairs.append(pair)
    return pairs


_PAIR = Record({"ip_address": Key(Text(64)), "mac_address": Key(Mac(), required=False)})
ADDRESS_PAIRS = Parsed(parse_address_pairs, ListOf(_PAIR, nullable=True).schema(), max_items=MAX_ADDRESS_PAIRS)


def parse_mac_or_new(value: Any) -> str | None:
    """A MAC address, or null for a generated one."""
    return None if value is None else Mac(group=True).parse(value)


def parse_profile(value: Any) -> dict[str, Any]:
    """Binding profile: data about the device for the host. The size is limited because any service may write it."""
    profile = AnyObject().parse(value)
    if len(msgspec.json.encode(profile)) > PROFILE_MAX:
        raise Unconvertible(f"it is larger than {PROFILE_MAX} bytes")
    return profile


PROFILE = Parsed(parse_profile, AnyObject().schema())


def parse_tags(value: Any) -> list[str]:
    return sorted(ListOf(Text(255)).parse(value))


def _binding(name: str, type_: Any, **rest: Any) -> Attribute:
    return Attribute(f"binding:{name}", type_, guarded=True, **rest)


PORT = Resource(
    name="port",
    collection="ports",
    quota=True,
    tagged=True,
    not_found=errors.PortNotFound,
    belongs_to="network_id",
    extra_filters=TAG_FILTERS,
    attributes=(
        ID,
        NAME_ATTRIBUTE,
        creatable("network_id", Uuid(), default=REQUIRED, searchable=True),
        PROJECT,
        writable(
            "mac_address",
            Parsed(parse_mac_or_new, {"anyOf": [Mac().schema(), {"type": "null"}]}),
            searchable=True,
            filter_as=Mac(group=True),
            guarded=True,
        ),
        ADMIN_STATE_UP,
        STATUS,
        writable("device_id", Text(255), default="", searchable=True, guarded=True),
        writable("device_owner", Text(255), default="", searchable=True, guarded=True),
        writable("fixed_ips", FIXED_IPS, filter=True, guarded=True),
        writable("port_security_enabled", Bool(), guarded=True),
        writable("security_groups", ListOf(Uuid(), nullable=True, max_items=100), filter=True),
        writable("allowed_address_pairs", ADDRESS_PAIRS, guarded=True),
        writable("extra_dhcp_opts", EXTRA_DHCP_OPTS, default=None),
        _binding("vnic_type", OneOf(VNIC_TYPES), post=True, put=True, default="normal"),
        _binding("host_id", Nullable(Text(255)), post=True, put=True, filter=True),
        _binding("profile", PROFILE, post=True, put=True),
        _binding("vif_type", Text(64)),
        _binding("vif_details", AnyObject()),
        writable("dns_name", DnsName(), default=""),
        writable("dns_domain", DnsName(domain=True), default=""),
        Attribute("dns_assignment", ListOf(AnyObject())),
        Attribute("qos_policy_id", Nullable(Uuid())),
        Attribute("qos_network_policy_id", Nullable(Uuid())),
        Attribute("ip_allocation", Text(16), filter=True, sort=True),
        creatable("propagate_uplink_status", Bool(), default=True),
        Attribute("data_plane_status", OneOf((None, "ACTIVE", "DOWN")), put=True, guarded=True),
        Attribute("numa_affinity_policy", Nullable(Text(64))),
        Attribute("device_profile", Nullable(Text(255))),
        Attribute("hints", Nullable(AnyObject()), guarded=True),
        Attribute("trusted", Nullable(Bool()), guarded=True),
        Attribute("resource_request", Nullable(AnyObject()), guarded=True),
        *STANDARD_BUT_TAGS,
        creatable("tags", Parsed(parse_tags, ListOf(Text(255)).schema(), max_items=MAX_TAGS), default=[], guarded=True),
    ),
)

BINDING = Resource(
    name="binding",
    collection="bindings",
    parent=Parent("port", "ports"),
    key="host",
    owned=False,
    bulk=False,
    actions=(Action("activate", policy="activate"),),
    not_found=errors.PortBindingNotFound,
    attributes=(
        writable("host", Text(255, min=1), default=REQUIRED, filter=True),
        Attribute("vif_type", Text(64), filter=True),
        Attribute("vif_details", AnyObject()),
        writable("vnic_type", OneOf(VNIC_TYPES), default="normal", filter=True),
        writable("profile", PROFILE),
        Attribute("status", Text(16), filter=True, filter_as=STATUSES),
        creatable("project_id", Text(255)),
    ),
)
