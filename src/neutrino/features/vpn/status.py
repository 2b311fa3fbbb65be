"""Statuses of IPsec site connections and VPN services, from the reports of the hosts that serve their routers."""

import logging
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.features.router.tables import router_l3_agents
from neutrino.features.vpn.tables import ipsec_site_connections, vpnservices
from neutrino.feed.messages import Status
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.feed.reports.rules import one_line

LOG = logging.getLogger(__name__)
_KEY, _HOST = sa.bindparam("key", type_=sa.String), sa.bindparam("on_host", type_=sa.String)
_SERVED = (
    sa.exists()
    .select_from(router_l3_agents.join(t.agents, t.agents.c.id == router_l3_agents.c.agent_id))
    .where(router_l3_agents.c.router_id == vpnservices.c.router_id, t.agents.c.host == _HOST)
    .correlate(vpnservices)
)
_TABLES = {"vpnservice": vpnservices, "ipsec_site_connection": ipsec_site_connections}
_CURRENT = {
    "vpnservice": sa.select(vpnservices.c.status).where(vpnservices.c.id == _KEY, _SERVED),
    "ipsec_site_connection": sa.select(ipsec_site_connections.c.status)
    .join(vpnservices, vpnservices.c.id == ipsec_site_connections.c.vpnservice_id)
    .where(ipsec_site_connections.c.id == _KEY, _SERVED),
}


@dataclass(frozen=True)
class VpnStatus:
    db: Database

    @retried
    def take(self, host: str, message: Status) -> bool:
        """Store the status that a host of the router reports; whether it is new."""
        with self.db.read() as connection:
            known = connection.execute(_CURRENT[message.kind], {"key": message.id, "on_host": host}).first()
        if known is None or known.status == message.status:
            return False
        if message.status == "ERROR":
            reason = one_line(message.reason)
            LOG.warning("host %s: %s %s has an error: %s", host, message.kind, message.id, reason)
        table = _TABLES[message.kind]
        with self.db.transaction() as tx:
            # Not a new revision: nothing that the API lets clients change has changed.
            tx.write(sa.update(table).where(table.c.id == message.id).values(status=message.status))
            tx.log(table, {"id": message.id}, changed={"status": (known.status, message.status)})
        return True
