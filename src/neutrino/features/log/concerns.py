"""Which logs concern a firewall group: its own, those of its ports, and those of all groups of its project."""

import sqlalchemy as sa

from neutrino.features.firewall.tables import firewall_groups, group_ports
from neutrino.features.log.tables import logs
from neutrino.features.log.types import FIREWALL_GROUP

_MEMBERS = (
    sa.select(group_ports.c.port_id)
    .where(group_ports.c.firewall_group_id == firewall_groups.c.id)
    .correlate(firewall_groups)
)
CONCERNS = sa.and_(
    logs.c.resource_type == FIREWALL_GROUP,
    sa.or_(
        logs.c.firewall_group_id == firewall_groups.c.id,
        sa.and_(logs.c.firewall_group_id.is_(None), logs.c.target_id.in_(_MEMBERS)),
        sa.and_(
            logs.c.firewall_group_id.is_(None),
            logs.c.target_id.is_(None),
            logs.c.project_id == firewall_groups.c.project_id,
        ),
    ),
)
