"""The roles of an agent, and what each of them may say and be told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from neutrino.model import agents

L2, DHCP, L3, METADATA = "l2", "dhcp", "l3", "metadata"
ROLES: Final = (L2, DHCP, L3, METADATA)
LEAST: Final = (L2, METADATA)
"""What a compute host needs; a host that serves DHCP or routers of any tenant is named as such."""

AGENT_TYPES: Final[Mapping[str, str]] = {
    agents.OVS: L2,
    agents.NIC_SWITCH: L2,
    agents.DHCP: DHCP,
    agents.L3: L3,
    agents.METADATA: METADATA,
}
"""The role that an agent of the API is: there are no other types."""


class UnknownRole(ValueError):
    """A role that no agent has."""


def parse_roles(text: str) -> tuple[str, ...]:
    """Roles separated by commas, in their order; UnknownRole for others, or for none."""
    named = {word.strip() for word in text.split(",")} - {""}
    unknown = sorted(named - set(ROLES))
    if unknown or not named:
        what = f"there is no role {', '.join(unknown)}" if unknown else "at least one role is needed"
        raise UnknownRole(f"{what}: the roles are {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in named)
