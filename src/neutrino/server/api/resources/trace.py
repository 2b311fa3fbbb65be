"""Packet traces: created, answered, and not stored. `server/trace/` computes them."""

from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Resource, creatable
from neutrino.server.api.resources.common import PROTOCOLS

EXTERNAL = "external"
VERDICTS = ("delivered", "dropped", "unknown")
MIN_SIZE, MAX_SIZE = 20, 65535  # bytes of an IP packet: a header alone, and the most that its length field allows


def parse_protocol(value: object) -> str:
    """A protocol by name, in lower case, or by number."""
    if isinstance(value, str) and value.lower() in PROTOCOLS:
        return value.lower()
    try:
        return str(t.Integer(0, 255).parse(value))
    except (t.Invalid, t.Unconvertible):
        raise t.Invalid(f"'{value}' is neither a protocol number (0 to 255) nor in {sorted(PROTOCOLS)}") from None


_PROTOCOL = t.Parsed(parse_protocol, {"anyOf": [{"type": "string"}, {"type": "integer"}]})
_ADDRESS = t.Nullable(t.IpAddress())
_PORT = t.Nullable(t.Integer(1, 65535))
_BYTE = t.Nullable(t.Integer(0, 255))
_VERDICT = t.OneOf(VERDICTS)
_LIST = t.ListOf(t.AnyObject())

TRACE = Resource(
    name="trace",
    verbs=frozenset({"create"}),
    attributes=(
        creatable("source", t.Nullable(t.OneOf((EXTERNAL,))), default=None),
        creatable("source_port_id", t.UUID_OR_NONE, default=None),
        creatable("source_address", _ADDRESS, default=None),
        creatable("source_mac", t.Nullable(t.Mac()), default=None),
        creatable("destination_port_id", t.UUID_OR_NONE, default=None),
        creatable("destination_address", _ADDRESS, default=None),
        creatable("protocol", _PROTOCOL, default="icmp"),
        creatable("source_port", _PORT, default=None),
        creatable("destination_port", _PORT, default=None),
        creatable("icmp_type", _BYTE, default=None),
        creatable("icmp_code", _BYTE, default=None),
        creatable("ip_version", t.Nullable(t.OneOf((4, 6))), default=None),
        creatable("packet_size", t.Nullable(t.Integer(MIN_SIZE, MAX_SIZE)), default=None),
        creatable("flows", t.Bool(), default=False),
        Attribute("verdict", _VERDICT),
        Attribute("cause", t.Text()),
        Attribute("summary", t.Text(None)),
        Attribute("steps", _LIST),
        Attribute("return_verdict", t.Nullable(_VERDICT)),
        Attribute("return_cause", t.Text()),
        Attribute("return_steps", _LIST),
        Attribute("fixes", t.AnyObject()),
        Attribute("agreement", t.Nullable(t.Bool())),
        Attribute("differences", _LIST),
        Attribute("drift", _LIST),
        Attribute("lag", _LIST),
        Attribute("hosts", t.AnyObject()),
    ),
)
