"""Reports of hosts about routers: status of floating IPs, HA states, delegated prefixes.

A host may report only about routers that are scheduled to its own L3 agent, and about floating IPs of distributed routers
whose port is bound to it; other reports change nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database

FLOATING_IP: Final = "floatingip"
ROUTER: Final = "router"
SUBNET: Final = "subnet"
_f, _b, _a, _p, _r = t.floatingips.c, t.router_l3_agents.c, t.agents.c, t.ports.c, t.routers.c


@dataclass(frozen=True)
class RouterReports:
    db: Database
    # None without the router plugin.
    set_ha_states: Callable[[str, dict[str, str]], int] | None = None  # of a host: states by router
    set_prefix: Callable[[str, str, str], bool] | None = None  # of a host: a subnet and its prefix

    def set_status(self, host: str, kind: str, key: str, status: str) -> bool:
        """Store a reported status; whether it changed."""
        if kind == FLOATING_IP:
            return self.db.retrying(lambda: self._set_floating_ip(host, key, status))
        if kind == ROUTER and self.set_ha_states is not None:
            return self.set_ha_states(host, {key: status}) > 0
        if kind == SUBNET and self.set_prefix is not None:
            return self.set_prefix(host, key, status)
        return False

    def _set_floating_ip(self, host: str, key: str, status: str) -> bool:
        with self.db.transaction() as tx:
            row = tx.execute(sa.select(_f.status, _f.router_id, _f.revision_number).where(_f.id == key)).first()
            if row is None or row.status == status or row.router_id is None:
                return False
            if not any(tx.execute(query).first() for query in (_serves(host, row.router_id), _distributed(host, key))):
                return False
            # Stale report if the floating IP has moved since: its new host reports again. The revision identifies the
            # association that hosts report about, so the status itself does not raise it.
            same = sa.and_(_f.id == key, _f.revision_number == row.revision_number)
            return bool(tx.execute(sa.update(t.floatingips).where(same).values(status=status)).rowcount)


def _serves(host: str, router_id: str) -> sa.Select[tuple[str]]:
    """Whether the L3 agent of the host has the router."""
    placed = sa.select(_b.agent_id).join(t.agents, _a.id == _b.agent_id)
    return placed.where(_b.router_id == router_id, _a.host == host, _a.agent_type == words.L3)


def _distributed(host: str, key: str) -> sa.Select[tuple[str]]:
    """Whether the floating IP is one of a distributed router, with its port on the host."""
    return (
        sa.select(_f.id)
        .join(t.ports, _p.id == _f.port_id)
        .join(t.routers, _r.id == _f.router_id)
        .where(_f.id == key, _p.host == host, _r.distributed.is_(True))
    )
