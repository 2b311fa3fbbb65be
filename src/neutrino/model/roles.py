"""Roles of the host agent. Which kinds a role receives: `kinds.py`; which reports it may send: `server/feed/reports/`."""

from collections.abc import Mapping
from typing import Final

from neutrino.model import agents

L2, DHCP, L3, METADATA, BGP, SRIOV = "l2", "dhcp", "l3", "metadata", "bgp", "sriov"
ROLES: Final = (L2, DHCP, L3, METADATA, BGP, SRIOV)
USUAL: Final = (L2, DHCP, L3, METADATA)
"""The roles of a host that does everything by itself. BGP needs peers and FRR, SR-IOV needs cards, which few have."""
LEAST: Final = (L2, METADATA)
"""The roles of a compute host, and the default of a new credential: DHCP and L3 see other tenants' objects."""

AGENT_TYPES: Final[Mapping[str, str]] = {
    agents.OVS: L2,
    agents.NIC_SWITCH: SRIOV,
    agents.DHCP: DHCP,
    agents.L3: L3,
    agents.METADATA: METADATA,
    agents.BGP: BGP,
}
"""The role of each agent type of the API; a closed list."""


def parse_roles(text: str) -> tuple[str, ...]:
    """Parse roles separated by commas; ValueError for others, or for none."""
    named = {word.strip() for word in text.split(",")} - {""}
    unknown = sorted(named - set(ROLES))
    if unknown or not named:
        what = f"there is no role {', '.join(unknown)}" if unknown else "at least one role is needed"
        raise ValueError(f"{what}: the roles are {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in named)
