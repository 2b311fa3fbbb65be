"""Prefix delegation: IPv6 prefixes that a server outside delegates to a router for its subnets.

The host of the router requests a prefix and reports it. The subnet, its gateway and all addresses on it are renumbered in
one transaction, on the condition that the router has not changed: a gateway or interface that is removed at the same time
wins. The request that removes either of them also gives the subnet its provisional prefix back. So no subnet keeps a prefix
that is not routed, even if the host is lost.
"""

import ipaddress
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.routers.port_layout import RouterPort
from neutrino.features.router.routers.router_ports import read_ports
from neutrino.features.router.routers.rules import check_overlap
from neutrino.features.router.routers.view import GATEWAY_ROUTERS
from neutrino.features.router.tables import router_l3_agents, router_ports, routers
from neutrino.model import agents as words
from neutrino.model.device_owners import INTERFACES, SNAT
from neutrino.model.objects import Object
from neutrino.model.routing import ACTIVE
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import changed, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.delegated import PROVISIONAL, addressing, is_delegated, is_on, renumbered, usable_prefix
from neutrino.server.ipam.subnet_rules import check_overlap as check_siblings
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.operations import Operations, PendingWrite, Writes
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.subnets import Subnets
from neutrino.server.ml2.views import PORTS, SUBNETS, stored, subnets_of

LOG = logging.getLogger(__name__)
ROUNDS = 3  # ports created meanwhile with an address of the old prefix are renumbered in the next round
# The router that is the subnet's gateway, if this host has the router's gateway port.
_ROUTER = (
    sa.select(routers.c.id, routers.c.revision_number, routers.c.gw_network_id)
    .select_from(
        GATEWAY_ROUTERS.join(router_l3_agents, router_l3_agents.c.router_id == routers.c.id).join(
            t.agents, t.agents.c.id == router_l3_agents.c.agent_id
        )
    )
    .where(
        t.subnets.c.id == sa.bindparam("subnet"),
        t.subnets.c.prefix_delegated,
        routers.c.gw_network_id.is_not(None),
        router_ports.c.port_type.in_(INTERFACES),
        t.agents.c.agent_type == words.L3,
        t.agents.c.host == sa.bindparam("on_host"),
        sa.or_(sa.not_(routers.c.ha), router_l3_agents.c.ha_state == ACTIVE),
    )
)


@dataclass(frozen=True)
class PrefixDelegation:
    db: Database
    operations: Operations
    subnets: Subnets
    ports: Ports

    def set_prefix(self, host: str, subnet_id: str, text: str) -> bool:
        """Store the prefix that a host reports for a subnet (the provisional one: none); whether it changed."""
        cidr = usable_prefix(text)
        if cidr is None:
            LOG.warning("host %s reports an unusable prefix for subnet %s: %.100r", host, subnet_id, text)
            return False
        rounds = 0
        while rounds < ROUNDS and self._renumber(host, subnet_id, cidr):
            rounds += 1
        return rounds > 0

    @retried
    def _renumber(self, host: str, subnet_id: str, cidr: str) -> bool:
        with self.db.read() as connection:
            found = connection.execute(_ROUTER, {"subnet": subnet_id, "on_host": host}).first()
            router = None if found is None else found._asdict()
            subnet = SUBNETS.load(connection, subnet_id)
            if router is None or subnet is None:
                return False  # stale report: the host does not, or no longer, serve the router of the subnet
            if subnet["cidr"] != cidr and (problem := self._problem(connection, router, subnet, cidr)):
                LOG.warning("subnet %s does not get prefix %s of host %s: %s", subnet_id, cidr, host, problem)
                return False
            steps = self._renumbered(connection, [subnet], cidr)
        if not steps:
            return False
        with self.operations.write([], steps) as tx:
            # Stale if an interface or the gateway was removed since: then the prefix must not be stored.
            update_row(tx, routers, router, {})
            tx.after_commit(self.notify, steps)
        LOG.info("subnet %s has prefix %s, delegated to host %s", subnet_id, cidr, host)
        return True

    def _problem(self, connection: Connection, router: Object, subnet: Object, cidr: str) -> str:
        """Why the subnet cannot have the prefix, if so."""
        if cidr == PROVISIONAL:
            return ""
        siblings = subnets_of(connection, [subnet["network_id"]])[subnet["network_id"]]
        outside = subnets_of(connection, [router["gw_network_id"]])[router["gw_network_id"]]
        try:
            check_siblings(ipaddress.ip_network(cidr), [s for s in siblings if s["id"] != subnet["id"]])
            ports = read_ports(connection, router["id"])
            others = [replace(p, addresses=tuple(a for a in p.addresses if a.subnet_id != subnet["id"])) for p in ports]
            check_overlap(others, [{**subnet, "cidr": cidr}], outside)
        except errors.BadRequest as error:
            return error.message
        return ""

    def release(self, connection: Connection, ports: Collection[RouterPort], subnet_ids: Collection[str]) -> Writes:
        """Give subnets that lose their router, or whose router loses its gateway, the provisional prefix.

        `ports` of the router are deleted or readdressed by the same request, and are left to it.
        """
        if not subnet_ids:
            return ()
        delegated = [s for s in SUBNETS.load_in(connection, "id", sorted(subnet_ids)) if is_delegated(s)]
        without = {port.id for port in ports}
        return self._renumbered(connection, delegated, PROVISIONAL, without) if delegated else ()

    def release_all(self, connection: Connection, ports: Sequence[RouterPort]) -> Writes:
        """The router loses its gateway, and with it all prefixes; its interfaces stay."""
        routed = {subnet_id for port in ports if port.is_interface for subnet_id in port.subnet_ids}
        return self.release(connection, [port for port in ports if port.type == SNAT], routed)

    # --- renumbering ----------------------------------------------------------------------------------------------

    def _renumbered(
        self, connection: Connection, subnets: Sequence[Object], cidr: str, without: Collection[str] = ()
    ) -> Writes:
        """The writes that give the subnets this prefix, and every port on them an address there.

        None if they have it already. `without`: ports that the caller's write changes itself.
        """
        ids = [subnet["id"] for subnet in subnets]
        addresses = connection.execute(
            sa.select(t.ip_allocations.c.port_id, t.ip_allocations.c.ip_address).where(
                t.ip_allocations.c.subnet_id.in_(ids)
            )
        )
        elsewhere = {row.port_id for row in addresses if not is_on(row.ip_address, cidr)} - set(without)
        own = [self._subnet(connection, subnet, cidr) for subnet in subnets if subnet["cidr"] != cidr]
        ports = [self._port(connection, port, ids, cidr) for port in PORTS.load_in(connection, "id", sorted(elsewhere))]
        return (*own, *(pending for pending in ports if pending is not None))

    def _port(
        self, connection: Connection, port: Object, subnet_ids: Collection[str], cidr: str
    ) -> PendingWrite | None:
        fixed = [
            {**one, "ip_address": renumbered(one["ip_address"], cidr)} if one["subnet_id"] in subnet_ids else one
            for one in port["fixed_ips"]
        ]
        network = self.subnets.networks.view.get(connection, port["network_id"])
        return self.ports.prepare_update(connection, port, {"fixed_ips": fixed}, network)

    def _subnet(self, connection: Connection, before: Object, cidr: str) -> PendingWrite:
        now = changed(before, {**before, **addressing(cidr)})
        network = self.subnets.networks.view.get(connection, before["network_id"])

        def write(tx: Transaction) -> None:
            update_row(tx, t.subnets, before, stored(now))
            self.subnets.extensions.store("subnet", tx, now, before)

        return PendingWrite(DriverContext("update", "subnet", now, before, network=network), write)

    def notify(self, writes: Sequence[PendingWrite]) -> None:
        """After the commit: notify of ports with new addresses."""
        for context in (pending.context for pending in writes):
            if context.kind == "port" and context.operation == "update" and context.original is not None:
                self.ports.notify(dict(context.original), dict(context.current))
