"""Distributed routers on hosts: which hosts need one, the hosts' own MAC addresses and ports on external networks.

A distributed router is on every host with a port of an instance, or of DHCP, on one of its subnets. That is queried from
the ports and stored nowhere. A host with floating IPs, or with instances whose addresses a BGP speaker announces, has one
port of its own on each external network (`network:floatingip_agent_gateway`), shared by all its routers. It sends routed
packets with a MAC address of its own: the MAC address of a router's interface is on every host, and switches would see
it flap between ports.
"""

import contextlib
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.tables import floatingips, routers
from neutrino.model import agents as words
from neutrino.model.device_owners import AGENT_GATEWAY
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.hosts.serving import serving
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.values import new_mac, service_port
from neutrino.server.ml2.views import PORTS, subnets_of
from neutrino.server.uses import RouterUse

# Never changed: servers of two releases must derive the same id, or a host gets two ports.
_PORT_NAMESPACE: Final = uuid.UUID("b5b0fb2a-6c37-4f0e-9d3c-0d9b1b9f6a11")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class DvrHosts:
    db: Database
    operations: Operations
    networks: Networks
    ports: Ports
    base_mac: str
    uses: Sequence[RouterUse] = ()

    @retried
    def mac_of(self, host: str) -> str:
        """The MAC address with which the host sends for distributed routers: generated once, never changed."""
        with self.db.read() as connection:
            known = connection.execute(
                sa.select(t.dvr_host_macs.c.mac_address).where(t.dvr_host_macs.c.host == host)
            ).scalar()
        if known is not None:
            return str(known)
        row = {"host": host, "mac_address": new_mac(self.base_mac)}
        with self.db.transaction() as tx:
            tx.insert(t.dvr_host_macs, [row])
            agents = sa.select(t.agents.c.id).where(t.agents.c.agent_type == words.OVS, t.agents.c.host == host)
            # Flows of all hosts match the MAC addresses of the others, which the feed sends with the agents.
            for agent_id in list(tx.execute(agents).scalars()):
                tx.record("agent", agent_id)
        return row["mac_address"]

    @retried
    def gateway_port(self, network_id: str, host: str) -> Object:
        """The host's own port on an external network, created when it is first needed."""
        with self.db.read() as connection:
            ports = PORTS.load_where(
                connection,
                t.ports.c.network_id == network_id,
                t.ports.c.device_owner == AGENT_GATEWAY,
                t.ports.c.host == host,
            )
            if ports:
                return ports[0]
            agent_id = connection.execute(
                sa.select(t.agents.c.id).where(t.agents.c.agent_type == words.L3, t.agents.c.host == host)
            ).scalar()
            if agent_id is None:
                raise errors.AgentNotFound(id=f"{words.L3} on {host}")
            network = self.networks.view.get(connection, network_id)
            subnets = subnets_of(connection, [network_id])[network_id]
            values = service_port(network_id, "", agent_id, AGENT_GATEWAY, host)
            # Derived, so that the database refuses the second of two concurrent creates.
            values["id"] = str(uuid.uuid5(_PORT_NAMESPACE, f"{network_id} {host}"))
            step = self.ports.prepare_create(connection, values, network, subnets)
        with self.operations.write([], [step]):
            pass  # only the port
        return dict(step.context.current)

    def reported(self, report: AgentReport) -> None:
        """A host with distributed routing gets its MAC address with its first report."""
        if not report.needs_everything or report.agent_type != words.OVS:
            return
        with self.db.read() as connection:
            text = connection.execute(
                sa.select(t.agents.c.configurations).where(t.agents.c.id == report.agent_id)
            ).scalar()
        if text is not None and msgspec.json.decode(text).get(words.ENABLE_DISTRIBUTED_ROUTING):
            self.mac_of(report.host)

    def settle(self) -> int:
        """Create and delete the hosts' own ports on external networks as routers there need them; how many changed."""
        with self.db.read() as connection:
            wanted = set(_wanted_gateways(connection, self.uses))
            ports = PORTS.load_where(connection, t.ports.c.device_owner == AGENT_GATEWAY)
        existing = {(port["network_id"], port["binding:host_id"]): port for port in ports}
        for network_id, host in sorted(wanted - existing.keys()):
            try:
                self.gateway_port(network_id, host)
            except errors.ApiError as error:
                LOG.warning("host %s gets no port on external network %s: %s", host, network_id, error.message)
        for key in existing.keys() - wanted:
            with contextlib.suppress(errors.NotFound):  # another server was first
                self.ports.delete(admin_context(), existing[key]["id"], None, checked=False)
        return len(wanted ^ existing.keys())


def _wanted_gateways(connection: Connection, uses: Sequence[RouterUse]) -> Iterator[tuple[str, str]]:
    """External networks with the hosts that have a floating IP of a distributed router there, or another use for a port."""
    floating = (
        sa.select(floatingips.c.floating_network_id.label("network_id"), t.ports.c.host.label("host"))
        .join(routers, sa.and_(routers.c.id == floatingips.c.router_id, routers.c.distributed.is_(True)))
        .join(t.ports, t.ports.c.id == floatingips.c.port_id)
    )
    for select in (floating, *(use.gateway_hosts for use in uses if use.gateway_hosts is not None)):
        needed = select.subquery("needed")
        on_host = sa.and_(t.agents.c.host == needed.c.host, t.agents.c.agent_type == words.L3, serving(connection))
        statement = (
            sa.select(needed.c.network_id, needed.c.host, t.agents.c.configurations).join(t.agents, on_host).distinct()
        )
        for network_id, host, configurations in connection.execute(statement):
            if msgspec.json.decode(configurations).get(words.AGENT_MODE) in words.EXTERNAL_MODES:
                yield network_id, host
