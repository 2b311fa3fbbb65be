"""Ports and their bindings."""

from typing import Any

import msgspec

from neutrino.model.addresses import parse_network
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ADMIN_STATE_UP, IDENTITY, MAX_TAGS, STATUS, STATUSES, standard
from neutrino.server.api.resources.dhcp_options import EXTRA_DHCP_OPTS

VNIC_TYPES = (
    *("normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "smart-nic", "vdpa"),
    *("accelerator-direct", "accelerator-direct-physical", "remote-managed"),
)
COMPUTE_OWNER = "compute:"  # how `device_owner` of an instance's port begins; an availability zone follows
NUMA_POLICIES = ("required", "preferred", "legacy", "socket")
PROFILE_MAX = 4095  # as in Neutron
MAX_FIXED_IPS = 100
MAX_ADDRESS_PAIRS = 1000  # of one request; the limit of a port is the option max_allowed_address_pair
# `others`: Octavia sends further keys.
FIXED_IP = t.Record(optional={"subnet_id": t.Uuid(), "ip_address": t.IpAddress()}, others=True)


def parse_fixed_ips(value: object) -> list[Object]:
    """Requested addresses: by address, by subnet, or both."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise t.Invalid(f"'{value}' is not a list of fixed IPs")
    fixed = [FIXED_IP.parse(item) for item in value]
    addresses = [f["ip_address"] for f in fixed if "ip_address" in f]
    if len(set(addresses)) != len(addresses):
        raise t.Invalid("a fixed IP address is given twice")
    return fixed


FIXED_IPS = t.Parsed(parse_fixed_ips, t.ListOf(FIXED_IP, nullable=True, max_items=MAX_FIXED_IPS))


def parse_pair_address(value: object) -> str:
    """An address or a CIDR, kept as written."""
    try:
        if not isinstance(value, str):
            raise ValueError
        network = parse_network(value.strip())
    except ValueError:
        raise t.Invalid(f"'{value}' is not a valid IP address or CIDR") from None
    if network.is_multicast:
        raise t.Invalid(f"'{value}' is a multicast address")
    return value.strip()


def parse_address_pairs(value: object) -> list[Object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise t.Invalid(f"'{value}' is not a list of address pairs")
    pairs: list[Object] = []
    for item in value:
        if not isinstance(item, dict):
            raise t.Invalid(f"'{item}' is not an address pair")
        pair = _PAIR_TO_PARSE.parse(item)
        if "ip_address" not in pair:
            raise errors.AllowedAddressPairsMissingIP()
        pairs.append({name: part for name, part in pair.items() if part is not None})
    if twice := t.first_duplicate(pairs):
        raise errors.DuplicateAddressPairInRequest(mac_address=twice.get("mac_address"), ip_address=twice["ip_address"])
    return pairs


_PAIR = t.Record({"ip_address": t.Text(64)}, {"mac_address": t.Mac()})
# Without a required key: a missing address has an error of its own.
_PAIR_TO_PARSE = t.Record(
    optional={"ip_address": t.Parsed(parse_pair_address, t.Text(64)), "mac_address": t.Nullable(t.Mac())}
)
ADDRESS_PAIRS = t.Parsed(parse_address_pairs, t.ListOf(_PAIR, nullable=True, max_items=MAX_ADDRESS_PAIRS))


def parse_profile(value: object) -> Object:
    """Binding profile: data about the device for the host. The size is limited because any service may write it."""
    profile = t.AnyObject().parse(value)
    if len(msgspec.json.encode(profile)) > PROFILE_MAX:
        raise t.Unconvertible(f"it is larger than {PROFILE_MAX} bytes")
    return profile


PROFILE = t.Parsed(parse_profile, t.AnyObject())


# Settings for the switch of the host: by switch, then by table column and key. Unknown ones are refused, as in Neutron.
_TX_STEERING = t.Record(optional={"tx-steering": t.OneOf(("thread", "hash"))})
HINTS = t.Record(optional={"openvswitch": t.Record(optional={"other_config": _TX_STEERING})})


def parse_tags(value: object) -> list[str]:
    return sorted(t.ListOf(t.Text()).parse(value))


_TAGS = t.Parsed(parse_tags, t.ListOf(t.Text(), max_items=MAX_TAGS))


def _binding(name: str, type_: t.Type[object], **rest: Any) -> Attribute:
    return Attribute(f"binding:{name}", type_, guarded=True, **rest)


PORT = Resource(
    name="port",
    quota=True,
    tagged=True,
    not_found=errors.PortNotFound,
    belongs_to="network_id",
    attributes=(
        *IDENTITY,
        creatable("network_id", t.Uuid(), default=REQUIRED, searchable=True),
        writable("mac_address", t.Nullable(t.Mac(group=True)), searchable=True, guarded=True),  # null: generate one
        ADMIN_STATE_UP,
        STATUS,
        writable("device_id", t.Text(), default="", searchable=True, guarded=True),
        writable("device_owner", t.Text(), default="", searchable=True, guarded=True),
        writable("fixed_ips", FIXED_IPS, filter=True, guarded=True),
        writable("port_security_enabled", t.Bool(), guarded=True),
        writable("security_groups", t.ListOf(t.Uuid(), nullable=True, max_items=100), filter=True),
        writable("allowed_address_pairs", ADDRESS_PAIRS, guarded=True),
        writable("extra_dhcp_opts", EXTRA_DHCP_OPTS, default=None),
        _binding("vnic_type", t.OneOf(VNIC_TYPES), post=True, put=True, default="normal"),
        _binding("host_id", t.Nullable(t.Text()), post=True, put=True, filter=True),
        _binding("profile", PROFILE, post=True, put=True),
        _binding("vif_type", t.Text(64)),
        _binding("vif_details", t.AnyObject()),
        writable("dns_name", t.DnsName(), default=""),
        writable("dns_domain", t.DnsName(domain=True), default=""),
        Attribute("dns_assignment", t.ListOf(t.AnyObject())),
        Attribute("ip_allocation", t.Text(16), filter=True, sort=True),
        writable("propagate_uplink_status", t.Bool(), default=True),
        Attribute("data_plane_status", t.OneOf((None, "ACTIVE", "DOWN")), put=True, guarded=True),
        writable("numa_affinity_policy", t.OneOf((*NUMA_POLICIES, None)), default=None),
        creatable("device_profile", t.Nullable(t.Text()), default=None),
        writable("hints", t.Nullable(HINTS), default=None, shown_null=True, guarded=True),
        writable("trusted", t.Bool(), shown_null=True, guarded=True),
        creatable("hardware_offload_type", t.OneOf(("switchdev",)), shown_null=True, guarded=True),
        *standard(tags=creatable("tags", _TAGS, default=[], guarded=True)),
    ),
)

BINDING = Resource(
    name="binding",
    parent=PORT,
    key="host",
    actions=("activate",),
    not_found=errors.PortBindingNotFound,
    attributes=(
        writable("host", t.Text(255, min=1), default=REQUIRED, filter=True),
        Attribute("vif_type", t.Text(64), filter=True),
        Attribute("vif_details", t.AnyObject()),
        writable("vnic_type", t.OneOf(VNIC_TYPES), default="normal", filter=True),
        writable("profile", PROFILE),
        Attribute("status", t.Text(16), filter=True, filter_as=STATUSES),
        creatable("project_id", t.Text()),
    ),
)
