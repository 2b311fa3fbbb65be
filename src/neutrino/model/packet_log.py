"""Logs of packets as hosts get them: enabled ones only."""

from typing import Annotated, Final

from neutrino.model import fields
from neutrino.model.state import Object, Port, SecurityGroup

ACCEPT, DROP, ALL = "ACCEPT", "DROP", "ALL"
KIND: Final = "log"


class PacketLog(Object, frozen=True, kw_only=True, omit_defaults=True):
    """Which ports it is for: the target; else the ports of the group; else those with a group of the project."""

    name: str = ""
    project_id: str = ""
    event: Annotated[str, fields.one_of(ACCEPT, DROP, ALL)] = ALL
    resource_id: str = ""  # a security group
    target_id: str = ""  # a port
    network_id: str = ""  # of the target

    def covers(self, event: str) -> bool:
        return self.event in (ALL, event)

    def concerns(self, port: Port, groups: list[SecurityGroup]) -> bool:
        """Whether it is for a port, given the port's groups."""
        if self.target_id:
            return self.target_id == port.id
        if self.resource_id:
            return self.resource_id in port.security_groups
        return any(group.project_id == self.project_id for group in groups)
