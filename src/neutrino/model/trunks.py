"""Names of a trunk's bridge and patch ports in Open vSwitch, as Neutron's: os-vif plugs the parent by them. Pure."""

SUBPORT_OWNER = "trunk:subport"  # the device owner of a bound subport
BRIDGE_PREFIX = "tbr-"
PATCH_PREFIXES = ("tpi-", "tpt-", "spi-", "spt-")
_LENGTH = 15  # of a device's name, in the kernel; of a bridge's, Neutron and os-vif take one less


def trunk_bridge(trunk_id: str) -> str:
    return _name(BRIDGE_PREFIX, trunk_id)[: _LENGTH - 1]


def parent_patch(port_id: str) -> tuple[str, str]:
    """The patch of a parent port: its end in the integration bridge, and the one in the trunk's bridge."""
    return _name("tpi-", port_id), _name("tpt-", port_id)


def subport_patch(port_id: str) -> tuple[str, str]:
    """The same for a subport."""
    return _name("spi-", port_id), _name("spt-", port_id)


def _name(prefix: str, key: str) -> str:
    return f"{prefix}{key}"[:_LENGTH]
