"""Prefixes that somebody outside delegates to a router for its subnets.

The host on which the router is asks for them and says what it got; the subnet, its gateway and all addresses on it follow
in one transaction, which passes the router's row: an interface or a gateway that goes at the same time is not overtaken.
When either has gone, the subnet is back at its provisional prefix, in the transaction that took it away. So no subnet has
a prefix that nobody routes, whatever becomes of the host.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database
from neutrino.server.ipam.delegated import PROVISIONAL, is_delegated, usable_prefix
from neutrino.server.ipam.subnet_rules import check_overlap as check_siblings
from neutrino.server.l3.device_owners import INTERFACES, SNAT
from neutrino.server.l3.routers.port_layout import ACTIVE
from neutrino.server.l3.routers.router_ports import NOTHING, Part
from neutrino.server.l3.routers.rules import check_overlap
from neutrino.server.l3.routers.state import RouterPort, read_ports
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.renumbering import Renumbering
from neutrino.server.ml2.subnet_view import VIEW, subnets_of

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
ROUNDS = 3  # ports that were made meanwhile, with an address on the old prefix, are seen in the next
_r, _rp, _b, _g, _a, _s = (
    t.routers.c,
    t.router_ports.c,
    t.router_l3_agents.c,
    t.agents.c,
    t.ip_allocations.c,
    t.subnets.c,
)
# The router that is the subnet's gateway, if this host is where it reaches the outside.
_ROUTER = (
    sa.select(_r.id, _r.revision_number, _r.gw_network_id)
    .select_from(
        t.subnets.join(t.ip_allocations, sa.and_(_a.subnet_id == _s.id, _a.ip_address == _s.gateway_ip))
        .join(t.router_ports, _rp.port_id == _a.port_id)
        .join(t.routers, _r.id == _rp.router_id)
        .join(t.router_l3_agents, _b.router_id == _r.id)
        .join(t.agents, _g.id == _b.agent_id)
    )
    .where(
        _s.id == sa.bindparam("subnet"),
        _s.prefix_delegated,
        _r.gw_network_id.is_not(None),
        _rp.port_type.in_(INTERFACES),
        _g.agent_type == words.L3,
        _g.host == sa.bindparam("on_host"),
        sa.or_(sa.not_(_r.ha), _b.ha_state == ACTIVE),
    )
)


class Delegations:
    def __init__(self, db: Database, operations: Operations, renumbering: Renumbering) -> None:
        self._db = db
        self._operations = operations
        self._renumbering = renumbering

    # --- what hosts say -------------------------------------------------------------------------------------------

    def set_prefix(self, host: str, subnet_id: str, text: str) -> bool:
        """A host has this prefix for a subnet, or, with the provisional one, has none any more; whether it was news."""
        cidr = usable_prefix(text)
        if cidr is None:
            LOG.warning("host %s has a prefix for subnet %s that is none: %.100r", host, subnet_id, text)
            return False
        rounds = 0
        while rounds < ROUNDS and self._db.retrying(lambda: self._settle(host, subnet_id, cidr)):
            rounds += 1
        return rounds > 0

    def _settle(self, host: str, subnet_id: str, cidr: str) -> bool:
        with self._db.read() as connection:
            found = connection.execute(_ROUTER, {"subnet": subnet_id, "on_host": host}).first()
            router = None if found is None else found._asdict()
            subnet = VIEW.load(connection, subnet_id)
            if router is None or subnet is None:
                return False  # not, or no longer, this host's to say
            if subnet["cidr"] != cidr and (problem := self._problem(connection, router, subnet, cidr)):
                LOG.warning("subnet %s does not get %s, which host %s has for it: %s", subnet_id, cidr, host, problem)
                return False
            steps = self._renumbering.steps(connection, [subnet], cidr)
        if not steps:
            return False

        with self._operations.write([step.context for step in steps]) as tx:
            stamp = update_row(tx, t.routers, router, {})
            for step in steps:
                step.write(tx)
            tx.record("router", router["id"], stamp["revision_number"])
        LOG.info("subnet %s has the prefix %s by host %s", subnet_id, cidr, host)
        self._renumbering.told(steps)
        return True

    def _problem(self, connection: Connection, router: Any, subnet: Object, cidr: str) -> str:
        """Why the subnet cannot have the prefix, if so."""
        if cidr == PROVISIONAL:
            return ""
        siblings = subnets_of(connection, [subnet["network_id"]])[subnet["network_id"]]
        outside = subnets_of(connection, [router["gw_network_id"]])[router["gw_network_id"]]
        try:
            check_siblings(ipaddress.ip_network(cidr), [s for s in siblings if s["id"] != subnet["id"]])
            others = _without(read_ports(connection, router["id"]), subnet["id"])
            check_overlap(others, [{**subnet, "cidr": cidr}], outside)
        except errors.BadRequest as error:
            return error.message
        return ""

    # --- what goes ------------------------------------------------------------------------------------------------

    def released(self, connection: Connection, ports: Collection[RouterPort], subnet_ids: Collection[str]) -> Part:
        """Subnets from which the router is being taken, or the router's gateway from it, lose their prefix.

        `ports` are those of the router that the change takes away or gives other addresses itself.
        """
        if not subnet_ids:
            return NOTHING
        found = [s for s in VIEW.load_in(connection, "id", sorted(subnet_ids)) if is_delegated(s)]
        without = {port.id for port in ports}
        return Part(steps=self._renumbering.steps(connection, found, PROVISIONAL, without) if found else ())

    def without_gateway(self, connection: Connection, ports: Sequence[RouterPort]) -> Part:
        """A router loses its gateway, and with it all prefixes; its interfaces stay."""
        routed = {a.subnet_id for port in ports if port.type in INTERFACES for a in port.addresses}
        return self.released(connection, [port for port in ports if port.type == SNAT], routed)

    def told(self, steps: Sequence[PendingWrite]) -> None:
        """After a commit."""
        self._renumbering.told(steps)


def _without(ports: Sequence[RouterPort], subnet_id: str) -> list[RouterPort]:
    """The router's ports as if it were not on the subnet."""
    return [replace(p, addresses=tuple(a for a in p.addresses if a.subnet_id != subnet_id)) for p in ports]
