"""Interfaces of a router: its ports on the subnets between which it routes, added and removed by subnet or by port."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import (
    RouterInterfaceInUseByFloatingIP,
    RouterInterfaceInUseByRoute,
    RouterInterfaceNotFound,
    RouterInterfaceNotFoundForSubnet,
    SubnetMismatchForPort,
)
from neutrino.features.router.port_callbacks import is_in_use
from neutrino.features.router.resources import ROUTER
from neutrino.features.router.routers import rules
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.routers.gateways import gateway_ports
from neutrino.features.router.routers.ndp import check_interface_unused
from neutrino.features.router.routers.port_layout import Address, PortTarget, RouterPort, interface_target
from neutrino.features.router.routers.prefix_delegation import PrefixDelegation
from neutrino.features.router.routers.router_ports import RouterPorts, read_agents, read_ports, read_router
from neutrino.features.router.scheduling.scheduler import L3Scheduler
from neutrino.features.router.tables import floatingips, port_forwardings, router_ports, routers
from neutrino.model.device_owners import INTERFACES
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.access.sharing import SHARED
from neutrino.server.api.cascade import Permit, Removed
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists, update_row
from neutrino.server.db.session import Database, Stale, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.cascade import Release
from neutrino.server.ml2.operations import NO_EVENT, PendingWrite, Writes
from neutrino.server.ml2.views import SUBNETS, subnets_of
from neutrino.server.uses import RouterUse

REMOVE = "remove_router_interface"


@dataclass(frozen=True)
class _InterfaceChange:
    """An interface that is added or removed: its port and subnets, and the router's ports after the change."""

    writes: Writes
    port: Object
    subnets: Sequence[Object]
    ports: tuple[RouterPort, ...]


@dataclass(frozen=True)
class _State:
    """A router as it was read for a new interface."""

    router: Object
    ports: tuple[RouterPort, ...]
    target: PortTarget  # of the interface
    external_subnets: Sequence[Object]


@dataclass(frozen=True)
class Interfaces:
    db: Database
    ports: RouterPorts
    scheduler: L3Scheduler
    delegation: PrefixDelegation
    uses: Sequence[RouterUse] = ()

    # --- adding ---------------------------------------------------------------------------------------------------

    @retried
    def add_router_interface(self, context: Context, router_id: str, body: object) -> Object:
        port_id, subnet_id = rules.interface_of(body)
        with self.db.read() as connection:
            inputs = read_router(connection, router_id)
            router, ports = inputs.router, inputs.ports
            outside = sorted({port.network_id for port in gateway_ports(router, ports)})
            external = [s for several in subnets_of(connection, outside).values() for s in several] if outside else []
            # The first interface may make an agent necessary: assigned now, so that the port is bound to its host.
            assigned = self.scheduler.assign(connection, router, inputs.agents)
            current = next((port.host for port in ports if port.host), "")
            state = _State(router, ports, interface_target(router, assigned.agents, current), external)
            if port_id is not None:
                change = self._add_port(connection, context, state, port_id)
            else:
                assert subnet_id is not None
                change = self._add_subnet(connection, context, state, subnet_id)
            others = self.ports.reconcile(connection, router, change.ports, assigned.agents)
        self.scheduler.commit(router, assigned.writes + change.writes + others, assigned)
        return _answer(router_id, change.port, [s["id"] for s in change.subnets], change.subnets[-1]["id"])

    def _add_subnet(self, connection: Connection, context: Context, state: _State, subnet_id: str) -> _InterfaceChange:
        """An interface with the subnet's gateway address."""
        router, ports = state.router, state.ports
        subnet = SUBNETS.get(connection, subnet_id, context.project_id, everyone=context.is_admin)
        if subnet["gateway_ip"] is None:
            raise rules.refuse(f"subnet {subnet_id} has no gateway_ip, which would be the router's")
        if subnet["project_id"] != context.project_id and not context.is_admin:
            # Sharing with all is for instances; routing takes an RBAC policy for the project.
            policy = (
                t.rbac_policies.c.object_id == subnet["network_id"],
                t.rbac_policies.c.action == SHARED,
                t.rbac_policies.c.target_project == context.project_id,
            )
            if not exists(connection, *policy):
                raise rules.refuse(f"subnet {subnet_id} belongs to another project")
        rules.check_modes(subnet)
        rules.check_overlap(ports, [subnet], state.external_subnets)
        address = Address(subnet_id, subnet["gateway_ip"], subnet["cidr"])
        network_id, owner = subnet["network_id"], state.target.type
        ipv6 = next((p for p in ports if p.type == owner and p.network_id == network_id and rules.has_ipv6(p)), None)
        if subnet["ip_version"] == 6 and ipv6 is not None:  # one port announces all IPv6 prefixes of a network
            fixed_ips = [one.fixed_ip for one in (*ipv6.addresses, address)]
            writes = self.ports.readdress(connection, ipv6.id, fixed_ips)
            grown = replace(ipv6, addresses=(*ipv6.addresses, address))
            port = dict(writes[0].context.current)
            return _InterfaceChange(writes, port, [subnet], tuple(grown if p is ipv6 else p for p in ports))
        try:
            writes, port = self.ports.create(
                connection, router, network_id, state.target, [address.fixed_ip], project_id=router["project_id"]
            )
        except errors.IpAddressAlreadyAllocated:
            # A concurrent request may have added the same interface: then the answer is about the router, not the address.
            if not exists(
                connection, routers.c.id == router["id"], routers.c.revision_number == router["revision_number"]
            ):
                raise Stale from None
            raise
        return _InterfaceChange(writes, port, [subnet], (*ports, _as_router_port(port, state.target, [subnet])))

    def _add_port(self, connection: Connection, context: Context, state: _State, port_id: str) -> _InterfaceChange:
        """An existing port of the project becomes an interface."""
        port = self.ports.ports.view.get(connection, port_id, context.project_id, everyone=context.is_admin)
        rules.check_adoptable(port, in_use=is_in_use(connection, port_id))
        if not port["fixed_ips"]:
            raise rules.refuse(f"port {port_id} has no address")
        known = {s["id"]: s for s in subnets_of(connection, [port["network_id"]])[port["network_id"]]}
        subnets = [known[fixed["subnet_id"]] for fixed in port["fixed_ips"]]
        for subnet in subnets:
            rules.check_modes(subnet)
        rules.check_one_ipv6_port(state.ports, port)
        rules.check_overlap(state.ports, subnets, state.external_subnets)
        if sum(subnet["ip_version"] == 4 for subnet in subnets) > 1:
            raise rules.refuse(f"port {port_id} has several IPv4 addresses")
        if not context.is_admin:
            rules.check_within_pools(port, subnets, context.project_id)
        writes = self.ports.adopt(connection, state.router, port, state.target)
        return _InterfaceChange(writes, port, subnets, (*state.ports, _as_router_port(port, state.target, subnets)))

    # --- removing -------------------------------------------------------------------------------------------------

    @retried
    def remove_router_interface(self, context: Context, router_id: str, body: object) -> Object:
        port_id, subnet_id = rules.interface_of(body, removal=True)
        with self.db.read() as connection:
            inputs = read_router(connection, router_id)
            router, ports = inputs.router, inputs.ports
            if port_id is None and subnet_id is not None:
                SUBNETS.get(connection, subnet_id, context.project_id, everyone=context.is_admin)
            interface = _find_interface(ports, router_id, port_id, subnet_id)
            # By port all its addresses are removed, by subnet that one: an IPv6 port stays with its other prefixes.
            removed = [a for a in interface.addresses if port_id is not None or a.subnet_id == subnet_id]
            for address in removed:
                _check_unused(connection, router, address)
                check_interface_unused(connection, router_id, address.subnet_id)
                for use in self.uses:
                    use.check_interface(connection, router_id, address.subnet_id)
            change = self._remove(connection, ports, interface, removed)
            others = self.ports.reconcile(connection, router, change.ports, inputs.agents)
            released = self.delegation.release(connection, ports, [s["id"] for s in change.subnets])
        self.scheduler.commit(router, change.writes + others + released)
        self.delegation.notify(released)
        ids = [subnet["id"] for subnet in change.subnets]
        return _answer(router_id, change.port, ids, ids[0] if ids else None)

    def _remove(
        self, connection: Connection, ports: Sequence[RouterPort], interface: RouterPort, removed: Sequence[Address]
    ) -> _InterfaceChange:
        subnets = [{"id": address.subnet_id} for address in removed]
        left = tuple(address for address in interface.addresses if address not in removed)
        if left:
            writes = self.ports.readdress(connection, interface.id, [address.fixed_ip for address in left])
            after = tuple(replace(interface, addresses=left) if p is interface else p for p in ports)
            return _InterfaceChange(writes, dict(writes[0].context.current), subnets, after)
        writes, port = self.ports.delete(connection, interface.id)
        writes = (self._write_uses(interface.id), *writes)
        return _InterfaceChange(writes, port, subnets, tuple(p for p in ports if p is not interface))

    def _write_uses(self, port_id: str) -> PendingWrite:
        """What references the port is written before its row is deleted."""

        def write(tx: Transaction) -> None:
            for use in self.uses:
                use.write_interface_removal(tx, port_id)

        return PendingWrite(NO_EVENT, write)

    # --- with their network -----------------------------------------------------------------------------------------

    def release(self, connection: Connection, network: Object, permit: Permit) -> Release:
        """Remove all interfaces on a network that is deleted, as a part of that write."""
        on_network = t.ports.c.network_id == network["id"], router_ports.c.port_type.in_(INTERFACES)
        routers_there = (
            sa.select(router_ports.c.router_id)
            .join(t.ports, t.ports.c.id == router_ports.c.port_id)
            .where(*on_network)
            .distinct()
        )
        router_ids = sorted(connection.execute(routers_there).scalars())
        parts = [self._release(connection, router_id, network["id"], permit) for router_id in router_ids]
        return Release([w for part in parts for w in part.writes], [r for part in parts for r in part.removed])

    def _release(self, connection: Connection, router_id: str, network_id: str, permit: Permit) -> Release:
        router = router_view.VIEW.load(connection, router_id)
        if router is None:  # deleted since
            raise Stale
        ports = read_ports(connection, router_id)
        here = [port for port in ports if port.is_interface and port.network_id == network_id]
        permit(Removed(ROUTER, router, REMOVE))
        for address in (address for port in here for address in port.addresses):
            _check_unused(connection, router, address)
            check_interface_unused(connection, router_id, address.subnet_id)
            for use in self.uses:
                use.check_interface(connection, router_id, address.subnet_id)
        writes: Writes = (PendingWrite(NO_EVENT, lambda tx: update_row(tx, routers, router, {})),)
        removed = []
        for interface in here:
            deleted, port = self.ports.delete(connection, interface.id)
            writes += (self._write_uses(interface.id), *deleted)
            ids = [address.subnet_id for address in interface.addresses]
            answer = _answer(router_id, port, ids, ids[0] if ids else None)
            removed.append(Removed(ROUTER, router, REMOVE, answer))
        left = [port for port in ports if port not in here]
        # Delegated prefixes are not released, as their subnets are deleted.
        return Release(
            writes + self.ports.reconcile(connection, router, left, read_agents(connection, router_id)), removed
        )


def _find_interface(
    ports: Sequence[RouterPort], router_id: str, port_id: str | None, subnet_id: str | None
) -> RouterPort:
    """The interface that a request to remove one names."""
    interfaces = [port for port in ports if port.is_interface]
    if port_id is None:
        assert subnet_id is not None
        interface = next((port for port in interfaces if subnet_id in port.subnet_ids), None)
        if interface is None:
            raise RouterInterfaceNotFoundForSubnet(router_id=router_id, subnet_id=subnet_id)
        return interface
    interface = next((port for port in interfaces if port.id == port_id), None)
    if interface is None:
        raise RouterInterfaceNotFound(router_id=router_id, port_id=port_id)
    if subnet_id is not None and subnet_id not in interface.subnet_ids:
        raise SubnetMismatchForPort(port_id=port_id, subnet_id=subnet_id)
    return interface


def _as_router_port(port: Object, target: PortTarget, subnets: Sequence[Object]) -> RouterPort:
    cidrs = {subnet["id"]: subnet["cidr"] for subnet in subnets}
    addresses = tuple(Address(f["subnet_id"], f["ip_address"], cidrs[f["subnet_id"]]) for f in port["fixed_ips"])
    return RouterPort(port["id"], target.type, port["network_id"], target.host, "", addresses)


def _answer(router_id: str, port: Object, subnet_ids: list[str], subnet_id: str | None) -> Object:
    return {
        "id": router_id,
        "project_id": port["project_id"],
        "tenant_id": port["project_id"],
        "port_id": port["id"],
        "network_id": port["network_id"],
        "subnet_id": subnet_id,
        "subnet_ids": subnet_ids,
    }


def _check_unused(connection: Connection, router: Object, address: Address) -> None:
    """Refuse to remove an address behind which are floating IPs' ports or the nexthop of a route."""
    here = t.ip_allocations.c.subnet_id == address.subnet_id
    floating = (
        here,
        t.ip_allocations.c.port_id == floatingips.c.port_id,
        t.ip_allocations.c.ip_address == floatingips.c.fixed_ip_address,
    )
    forwarded = (
        here,
        t.ip_allocations.c.port_id == port_forwardings.c.internal_port_id,
        t.ip_allocations.c.ip_address == port_forwardings.c.internal_ip_address,
    )
    of_router = floatingips.c.router_id == router["id"]
    if exists(connection, of_router, *floating) or exists(
        connection, of_router, port_forwardings.c.floatingip_id == floatingips.c.id, *forwarded
    ):
        raise RouterInterfaceInUseByFloatingIP(router_id=router["id"], subnet_id=address.subnet_id)
    if rules.has_nexthop_in(router["routes"], address.cidr):
        raise RouterInterfaceInUseByRoute(router_id=router["id"], subnet_id=address.subnet_id)
