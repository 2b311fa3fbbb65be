"""Ports of routers in the database: read, created, moved and deleted as parts of a router's change.

The ports are ordinary ports, bound and recorded by the core plugin. Everything that one request changes is collected in
`Writes`, in the order in which one transaction writes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.routers import port_layout as layout
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.routers.port_layout import Address, PortTarget, RouterAgent, RouterPort
from neutrino.features.router.tables import router_l3_agents, router_ports
from neutrino.model import device_owners
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, Read, read, read_together
from neutrino.server.db.session import Stale
from neutrino.server.db.sql import Row
from neutrino.server.ipam.allocation import Allocator
from neutrino.server.ml2.driver_api import VIF_FAILED
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Writes, pending_statement
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.values import service_port
from neutrino.server.ml2.views import reading_subnets, subnets_of

VIF_DISTRIBUTED: Final = "distributed"
_PORTS = Lookup(
    sa.select(
        router_ports.c.port_id,
        router_ports.c.port_type,
        t.ports.c.network_id,
        t.ports.c.host,
        t.ports.c.vif_type,
        t.ip_allocations.c.subnet_id,
        t.ip_allocations.c.ip_address,
        t.subnets.c.cidr,
    )
    .select_from(
        router_ports.join(t.ports, t.ports.c.id == router_ports.c.port_id)
        .outerjoin(t.ip_allocations, t.ip_allocations.c.port_id == t.ports.c.id)
        .outerjoin(t.subnets, t.subnets.c.id == t.ip_allocations.c.subnet_id)
    )
    .where(router_ports.c.router_id == sa.bindparam("router"))
    .order_by(router_ports.c.port_id, t.ip_allocations.c.ip_address),
    lambda rows: _router_ports(rows),  # defined below
)
_AGENTS = Lookup(
    sa.select(router_l3_agents.c.agent_id, t.agents.c.host, router_l3_agents.c.ha_port_id, router_l3_agents.c.ha_state)
    .select_from(router_l3_agents.join(t.agents))
    .where(router_l3_agents.c.router_id == sa.bindparam("router"))
    .order_by(router_l3_agents.c.agent_id),
    lambda rows: tuple(RouterAgent(*row) for row in rows),
)


def _router_ports(rows: Sequence[Row]) -> tuple[RouterPort, ...]:
    ports: dict[str, RouterPort] = {}
    for port_id, port_type, network_id, host, vif_type, subnet_id, ip_address, cidr in rows:
        port = ports.get(port_id) or RouterPort(port_id, port_type, network_id, host, vif_type, ())
        added = () if subnet_id is None else (Address(subnet_id, ip_address, cidr),)
        ports[port_id] = replace(port, addresses=(*port.addresses, *added))
    return tuple(ports.values())


def read_ports(connection: Connection, router_id: str) -> tuple[RouterPort, ...]:
    return read(connection, _PORTS(router=router_id))


def read_agents(connection: Connection, router_id: str) -> tuple[RouterAgent, ...]:
    return read(connection, _AGENTS(router=router_id))


@dataclass(frozen=True)
class RouterInputs:
    """What changes of a router depend on."""

    router: Object
    ports: tuple[RouterPort, ...]
    agents: tuple[RouterAgent, ...]


def reading_router(
    router_id: str,
) -> tuple[Read[Object | None], Read[tuple[RouterPort, ...]], Read[tuple[RouterAgent, ...]]]:
    """A router, its ports and its agents, to be read together with other things."""
    return router_view.VIEW.reading(router_id), _PORTS(router=router_id), _AGENTS(router=router_id)


def read_router(connection: Connection, router_id: str, revision: int | None = None) -> RouterInputs:
    """A router with its ports and agents, read at once."""
    loaded, ports, agents = read_together(connection, *reading_router(router_id))
    return RouterInputs(router_view.VIEW.found(router_id, loaded, revision), ports, agents)


@dataclass(frozen=True)
class RouterPorts:
    networks: Networks
    ports: Ports

    # --- single ports ---------------------------------------------------------------------------------------------

    def create(
        self,
        connection: Connection,
        router: Values,
        network_id: str,
        target: PortTarget,
        fixed_ips: Sequence[Values] | None = None,
        *,
        project_id: str = "",
        name: str = "",
        network: Object | None = None,
        subnets: Sequence[Object] | None = None,
    ) -> tuple[Writes, Object]:
        """A new port of the router; without `fixed_ips` it gets addresses like any port.

        `network` and its `subnets`, if they are known.
        """
        if network is None or subnets is None:
            reading = self.networks.view.reading(network_id)
            loaded, siblings = read_together(connection, reading, reading_subnets([network_id]))
            network, subnets = self.networks.view.found(network_id, loaded), siblings
        values = service_port(network_id, project_id, router["id"], target.type, target.host, name)
        if fixed_ips is not None:
            values["fixed_ips"] = [dict(fixed) for fixed in fixed_ips]
        created = self.ports.prepare_create(connection, values, network, subnets)
        port = dict(created.context.current)
        return (created, *_owned(router, port["id"], target)), port

    def update(self, connection: Connection, port_id: str, values: Object, *, rebind: bool = False) -> Writes:
        before, network = self._loaded(connection, port_id)
        if values.get("binding:host_id"):  # on a routed network a gateway gets its addresses with its host
            addresses = self.ports.addresses_on_host(connection, before, {**before, **values}, lenient=True)
            values = {**values, **addresses}
        updated = self.ports.prepare_update(connection, before, values, network, rebind=rebind)
        return (updated,) if updated is not None else ()

    def adopt(self, connection: Connection, router: Values, port: Object, target: PortTarget) -> Writes:
        """Turn an existing port of the project into an interface of the router."""
        network = self.networks.view.get(connection, port["network_id"])
        values = {"device_id": router["id"], "device_owner": target.type, "binding:host_id": target.host}
        updated = self.ports.prepare_update(connection, port, values, network, bump=1)
        assert updated is not None, "its device_id changes"
        return (updated, *_owned(router, port["id"], target))

    def readdress(self, connection: Connection, port_id: str, fixed_ips: Sequence[Values]) -> Writes:
        """Give a port other addresses; it keeps those that fit."""
        before, network = self._loaded(connection, port_id)
        fixed = self.ports.addresses_after(connection, before, before, fixed_ips)
        updated = self.ports.prepare_update(connection, before, {"fixed_ips": fixed}, network)
        return (updated,) if updated is not None else ()

    def delete(self, connection: Connection, port_id: str) -> tuple[Writes, Object]:
        before, network = self._loaded(connection, port_id)
        return (self.ports.prepare_delete(before, network),), before

    def _loaded(self, connection: Connection, port_id: str) -> tuple[Object, Object]:
        """A port of the router, and its network."""
        try:
            port = self.ports.view.get(connection, port_id)
            return port, self.networks.view.get(connection, port["network_id"])
        except errors.NotFound:  # deleted since the router's ports were read: read them again
            raise Stale from None

    # --- the whole layout -----------------------------------------------------------------------------------------

    def reconcile(
        self,
        connection: Connection,
        router: Values,
        ports: Sequence[RouterPort],
        agents: Sequence[RouterAgent],
        *,
        rebind: bool = False,
    ) -> Writes:
        """Give the router the ports of its layout; `rebind`: retry ports whose binding has failed."""
        plan = layout.plan_ports(router, ports, agents)
        routed = {subnet_id for port in ports if port.is_interface for subnet_id in port.subnet_ids}
        writes: Writes = ()
        for port in plan.delete:
            writes += self.delete(connection, port.id)[0]
        for port_id, target in plan.move.items():
            writes += self._move(connection, port_id, target)
        for interface in plan.add_snat_for:
            writes += self._add_snat(connection, router, interface, ports, agents)
        for port in plan.trim_snat:
            kept = [address.fixed_ip for address in port.addresses if address.subnet_id in routed]
            writes += self.update(connection, port.id, {"fixed_ips": kept})
        for agent in plan.add_ha_port_for:
            writes += self._add_ha_port(connection, router, agent)
        # Ports that move are bound anyway; a second update of one, prepared from the same revision, would be stale.
        changed = {port.id for port in plan.delete} | set(plan.move)
        for port in ports:
            if rebind and port.vif_type == VIF_FAILED and port.host and port.id not in changed:
                writes += self.update(connection, port.id, {}, rebind=True)
        return writes

    def _move(self, connection: Connection, port_id: str, target: PortTarget) -> Writes:
        moved = self.update(connection, port_id, {"device_owner": target.type, "binding:host_id": target.host})
        # Also in `router_ports`: plans go by it, not by the port's device_owner.
        retype = sa.update(router_ports).where(router_ports.c.port_id == port_id).values(port_type=target.type)
        return (*moved, pending_statement(retype), *_marked_distributed(port_id, target))

    def _add_snat(
        self,
        connection: Connection,
        router: Values,
        interface: RouterPort,
        ports: Sequence[RouterPort],
        agents: Sequence[RouterAgent],
    ) -> Writes:
        """The port by which the SNAT host sends and receives on the interface's subnets: the interface is on every host."""
        on = interface.subnet_ids
        snat = next((port for port in ports if port.type == device_owners.SNAT and on & port.subnet_ids), None)
        if snat is None:
            current = next((port.host for port in ports if port.type == device_owners.GATEWAY), "")
            target = PortTarget(device_owners.SNAT, layout.central_host(agents, current))
            fixed_ips = [{"subnet_id": subnet_id} for subnet_id in sorted(on)]
            return self.create(connection, router, interface.network_id, target, fixed_ips)[0]
        kept = [address.fixed_ip for address in snat.addresses if address.subnet_id in on]
        missing = on - snat.subnet_ids
        subnets = [s for s in subnets_of(connection, [snat.network_id])[snat.network_id] if s["id"] in missing]
        allocator = Allocator(connection)
        new = [allocator.any_of(subnet) for subnet in subnets]
        return self.update(connection, snat.id, {"fixed_ips": [*kept, *new]})

    def _add_ha_port(self, connection: Connection, router: Values, agent: RouterAgent) -> Writes:
        name = f"HA port tenant {router['project_id']}"
        target = PortTarget(device_owners.HA_PORT, agent.host)
        writes, port = self.create(connection, router, router["ha_network_id"], target, name=name)
        placed = (
            sa.update(router_l3_agents)
            .where(router_l3_agents.c.router_id == router["id"], router_l3_agents.c.agent_id == agent.agent_id)
            .values(ha_port_id=port["id"])
        )
        return (*writes, pending_statement(placed))


def _owned(router: Values, port_id: str, target: PortTarget) -> Writes:
    """Record whose port it is: `device_owner` alone does not prove it, as clients may clear it."""
    owned = sa.insert(router_ports).values(router_id=router["id"], port_id=port_id, port_type=target.type)
    return (pending_statement(owned), *_marked_distributed(port_id, target))


def _marked_distributed(port_id: str, target: PortTarget) -> Writes:
    if target.host != layout.EVERY_HOST or target.type != device_owners.DVR_INTERFACE:
        return ()
    return (pending_statement(sa.update(t.ports).where(t.ports.c.id == port_id).values(vif_type=VIF_DISTRIBUTED)),)
