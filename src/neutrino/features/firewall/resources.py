"""Firewall rules, policies and groups (FWaaS v2), below `/v2.0/fwaas/`."""

from neutrino.features.firewall import errors
from neutrino.model.addresses import parse_interface
from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Resource, writable
from neutrino.server.api.resources.common import TAGS

ACTIONS = ("allow", "deny", "reject")
PROTOCOL_NAMES = ("dccp", "icmp", "ipv6-icmp", "sctp", "tcp", "udp")
STATUSES = ("ACTIVE", "CREATED", "DOWN", "ERROR", "INACTIVE", "PENDING_CREATE", "PENDING_DELETE", "PENDING_UPDATE")
MAX_RULES = 1000  # of a policy: each is a line of the filter on every host with a port of its groups
MAX_PORTS = 1000  # of a group
MAX_ADDRESS = 64  # characters of an address or prefix


def parse_protocol(value: object) -> str | None:
    """A protocol by name, in lower case, or by number; null is all protocols."""
    if value is None:
        return None
    if isinstance(value, str) and value.lower() in PROTOCOL_NAMES:
        return value.lower()
    try:
        return str(t.Integer(0, 255).parse(value))
    except (t.Invalid, t.Unconvertible):
        raise t.Unconvertible(
            f"'{value}' is neither a protocol number (0 to 255) nor in {list(PROTOCOL_NAMES)}"
        ) from None


def parse_action(value: object) -> str:
    if not isinstance(value, str):
        raise t.Unconvertible(f"'{value}' is not a string")
    return str(t.OneOf(ACTIONS).parse(value.lower()))


def parse_address(value: object) -> str | None:
    """An address or a prefix, as given: prefixes may have host bits, which hosts ignore."""
    if value is None:
        return None
    try:
        # The length is the column's: a prefix length may have any number of zeros.
        if not isinstance(value, str) or len(value) > MAX_ADDRESS:
            raise ValueError
        parse_interface(value)
    except ValueError:
        raise t.Invalid(f"'{value}' is neither a valid IP address, nor is it a valid IP subnet") from None
    return value


def parse_ports(value: object) -> str | None:
    """A port, or a range such as 80:90, whose ends may be equal."""
    if value is None:
        return None
    parts = str(value).split(":") if isinstance(value, str | int) and not isinstance(value, bool) else []
    if not 1 <= len(parts) <= 2 or not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
        raise t.Invalid(f"'{value}' is neither a port nor two ports separated by a colon")
    first, last = int(parts[0]), int(parts[-1])
    if last > 65535 or first > 65535:
        raise t.Invalid(f"'{value}': a port is a number from 0 to 65535")
    if first > last:
        raise t.Invalid(f"'{value}': the first port of a range must be lower than the second")
    return str(first) if first == last else f"{first}:{last}"


_NUMBER_OR_STRING = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}
_ADDRESS = t.Parsed(parse_address, {"anyOf": [{"type": "string", "maxLength": MAX_ADDRESS}, {"type": "null"}]})
_PORTS = t.Parsed(parse_ports, _NUMBER_OR_STRING)
_UUIDS = t.ListOf(t.Uuid())

# None of these resources has sort keys in Neutron's definitions, except by the standard attributes.
_IDENTITY = (
    Attribute("id", t.Uuid(), filter=True),
    writable("name", t.Name(), default="", filter=True, filter_as=t.Text()),
    Attribute("project_id", t.Text(), post=True, filter=True),
)
_STANDARD = (
    writable("description", t.Text(), default="", filter=True),
    Attribute("created_at", t.Text(20), sort=True),
    Attribute("updated_at", t.Text(20), sort=True),
    Attribute("revision_number", t.Anything(), filter=True, filter_as=t.Integer(), sort=True),
    TAGS,
)
_SHARED = writable("shared", t.Bool(), default=False, filter=True, guarded=True)

FIREWALL_RULE = Resource(
    name="firewall_rule",
    path="fwaas/firewall_rules",
    quota=True,
    tagged=True,
    not_found=errors.FirewallRuleNotFound,
    attributes=(
        *_IDENTITY,
        Attribute("firewall_policy_id", _UUIDS, shown_null=True, filter=True, filter_as=t.Text()),
        _SHARED,
        writable(
            "protocol",
            t.Parsed(parse_protocol, _NUMBER_OR_STRING),
            default=None,
            filter=True,
            filter_as=t.OneOf((*PROTOCOL_NAMES, *map(str, range(256)))),
        ),
        writable("ip_version", t.OneOf((4, 6)), default=4, filter=True),
        writable("source_ip_address", _ADDRESS, default=None, filter=True),
        writable("destination_ip_address", _ADDRESS, default=None, filter=True),
        writable("source_port", _PORTS, default=None, filter=True),
        writable("destination_port", _PORTS, default=None, filter=True),
        writable("action", t.Parsed(parse_action, {"enum": list(ACTIONS)}), default="deny", filter=True),
        writable("enabled", t.Bool(), default=True, filter=True),
        *_STANDARD,
    ),
)


def _action_body(*properties: str) -> t.Schema:
    return {
        "type": "object",
        "properties": dict.fromkeys(properties, t.STRING),
        "required": ["firewall_rule_id"],
    }


FIREWALL_POLICY = Resource(
    name="firewall_policy",
    collection="firewall_policies",
    path="fwaas/firewall_policies",
    quota=True,
    tagged=True,
    actions=("insert_rule", "remove_rule"),
    bodies={
        "insert_rule": _action_body("firewall_rule_id", "insert_before", "insert_after"),
        "remove_rule": _action_body("firewall_rule_id"),
    },
    not_found=errors.FirewallPolicyNotFound,
    attributes=(
        *_IDENTITY,
        _SHARED,
        writable(
            "firewall_rules",
            t.ListOf(t.Uuid(), nullable=True, max_items=MAX_RULES),
            default=[],
            filter=True,
            filter_as=t.Text(),
        ),
        writable("audited", t.Bool(), default=False, filter=True),
        *_STANDARD,
    ),
)

FIREWALL_GROUP = Resource(
    name="firewall_group",
    path="fwaas/firewall_groups",
    quota=True,
    tagged=True,
    not_found=errors.FirewallGroupNotFound,
    attributes=(
        *_IDENTITY,
        _SHARED,
        writable("admin_state_up", t.Bool(), default=True, filter=True),
        Attribute("status", t.Text(16), filter=True, filter_as=t.OneOf(STATUSES)),
        writable(
            "ports",
            t.ListOf(t.Uuid(), nullable=True, max_items=MAX_PORTS),
            default=[],
            filter=True,
            filter_as=t.Text(),
        ),
        writable("ingress_firewall_policy_id", t.UUID_OR_NONE, default=None, filter=True),
        writable("egress_firewall_policy_id", t.UUID_OR_NONE, default=None, filter=True),
        *_STANDARD,
    ),
)
