"""What hosts say of the routers that they serve: floating IPs that work, who of an HA router's hosts is active, and which
prefixes were delegated to them for their subnets.

A host speaks for the routers that are scheduled to its own agent; what it says of others changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database

FLOATING_IP: Final = "floatingip"
ROUTER: Final = "router"
SUBNET: Final = "subnet"
_STATUSES: Final = ("ACTIVE", "DOWN", "ERROR")
_HA_STATES: Final = ("active", "standby", "unknown")
_f, _ra, _a = t.floatingips.c, t.router_l3_agents.c, t.agents.c


class RouterStatuses:
    """`set_ha_states` takes a host's word for whether it is active, and has the routers' ports follow; `set_prefix` that
    for the prefix of a subnet, and has the addresses on it follow."""

    def __init__(
        self,
        db: Database,
        set_ha_states: Callable[[str, dict[str, str]], int] | None = None,
        set_prefix: Callable[[str, str, str], bool] | None = None,
    ) -> None:
        self._db = db
        self._set_ha_states = set_ha_states
        self._set_prefix = set_prefix

    def set_status(self, host: str, kind: str, key: str, status: str) -> bool:
        """Whether it was news."""
        if kind == FLOATING_IP and status in _STATUSES:
            return self._floating_ip(host, key, status)
        if kind == ROUTER and status in _HA_STATES and self._set_ha_states is not None:
            return self._set_ha_states(host, {key: status}) > 0
        if kind == SUBNET and self._set_prefix is not None:
            return self._set_prefix(host, key, status)
        return False

    def _floating_ip(self, host: str, key: str, status: str) -> bool:
        def attempt() -> bool:
            with self._db.transaction() as tx:
                row = tx.execute(sa.select(_f.status, _f.router_id, _f.revision_number).where(_f.id == key)).first()
                if row is None or row.status == status or row.router_id is None:
                    return False
                serves = _agent_of(host).where(_ra.router_id == row.router_id)
                if tx.execute(serves).first() is None and tx.execute(_distributed_on(host, key)).first() is None:
                    return False
                # On the condition that it is still what the host speaks of: one that has moved since is told anew.
                same = sa.and_(_f.id == key, _f.revision_number == row.revision_number)
                # A status is no change of what hosts are told, so the revision stays: it says which association is meant.
                return bool(tx.execute(sa.update(t.floatingips).where(same).values(status=status)).rowcount)

        return self._db.retrying(attempt)


def _distributed_on(host: str, key: str) -> sa.Select[tuple[str]]:
    """A floating IP of a distributed router whose port is on this host."""
    return (
        sa.select(_f.id)
        .join(t.ports, t.ports.c.id == _f.port_id)
        .join(t.routers, t.routers.c.id == _f.router_id)
        .where(_f.id == key, t.ports.c.host == host, t.routers.c.distributed.is_(True))
    )


def _agent_of(host: str) -> sa.Select[tuple[str, str | None]]:
    return (
        sa.select(_ra.agent_id, _ra.ha_state)
        .join(t.agents, _a.id == _ra.agent_id)
        .where(_a.host == host, _a.agent_type == words.L3)
    )
