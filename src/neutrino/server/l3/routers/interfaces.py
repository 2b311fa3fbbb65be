"""A router's interfaces: ports on the subnets between which it routes, added and removed by subnet or by port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.access.sharing import SHARED
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, Stale
from neutrino.server.l3 import router_view
from neutrino.server.l3.device_owners import INTERFACES, interface_owner
from neutrino.server.l3.lookups import visible_port, visible_subnet
from neutrino.server.l3.port_callbacks import is_kept
from neutrino.server.l3.routers import rules
from neutrino.server.l3.routers.port_layout import Place, interface_place
from neutrino.server.l3.routers.prefix_delegation import Delegations
from neutrino.server.l3.routers.router_ports import Part, RouterPorts
from neutrino.server.l3.routers.state import Address, RouterPort, Serving, read_ports
from neutrino.server.l3.scheduling.scheduler import L3Scheduler
from neutrino.server.ml2.subnet_view import subnets_of

Object = dict[str, Any]
_f, _fw, _a, _r = t.floatingips.c, t.port_forwardings.c, t.ip_allocations.c, t.rbac_policies.c
_c = t.routers.c


@dataclass(frozen=True)
class _Change:
    """An interface that comes or goes: its part, the port and its subnets, and the router's ports afterwards."""

    part: Part
    port: Object
    subnets: Sequence[Object]
    ports: tuple[RouterPort, ...]


class Interfaces:
    def __init__(self, db: Database, ports: RouterPorts, scheduler: L3Scheduler, delegations: Delegations) -> None:
        self._db = db
        self._ports = ports
        self._scheduler = scheduler
        self._delegations = delegations

    # --- adding ---------------------------------------------------------------------------------------------------

    def add(self, context: Context, router_id: str, body: Any) -> Object:
        port_id, subnet_id = rules.interface_of(body)

        def attempt() -> Object:
            with self._db.read() as connection:
                router = router_view.load(connection, router_id)
                ports = read_ports(connection, router_id)
                outside = subnets_of(connection, [g])[g] if (g := router["gw_network_id"]) else []
                placed = self._scheduler.place(connection, router)
                if port_id is not None:
                    change = self._by_port(connection, context, router, ports, outside, placed.agents, port_id)
                else:
                    assert subnet_id is not None
                    change = self._by_subnet(connection, context, router, ports, outside, placed.agents, subnet_id)
                others = self._ports.conform(connection, router, change.ports, placed.agents)
            self._scheduler.commit(router, placed.part + change.part + others)
            return _answer(router_id, change.port, [s["id"] for s in change.subnets], change.subnets[-1]["id"])

        answer = self._db.retrying(attempt)
        self._scheduler.status(router_id)
        return answer

    def _by_subnet(
        self,
        connection: Connection,
        context: Context,
        router: Object,
        ports: tuple[RouterPort, ...],
        outside: Sequence[Object],
        agents: Sequence[Serving],
        subnet_id: str,
    ) -> _Change:
        subnet = visible_subnet(connection, context, subnet_id)
        if subnet["gateway_ip"] is None:
            raise rules.refuse(f"subnet {subnet_id} has no gateway_ip, which would be the router's")
        if subnet["project_id"] != context.project_id and not context.is_admin:
            _check_shared_with(connection, subnet, context.project_id)
        rules.check_modes(subnet)
        rules.check_overlap(ports, [subnet], outside)
        fixed = {"subnet_id": subnet_id, "ip_address": subnet["gateway_ip"]}
        address = Address(subnet_id, subnet["gateway_ip"], subnet["cidr"])
        owner = interface_owner(router)
        there = next(
            (p for p in ports if p.type == owner and p.network_id == subnet["network_id"] and rules.has_ipv6(p)), None
        )
        if subnet["ip_version"] == 6 and there is not None:  # one port announces all prefixes of a network
            has = [{"subnet_id": a.subnet_id, "ip_address": a.ip_address} for a in there.addresses]
            part = self._ports.readdress(connection, there.id, [*has, fixed])
            grown = replace(there, addresses=(*there.addresses, address))
            port = dict(part.steps[0].context.current)
            return _Change(part, port, [subnet], tuple(grown if p is there else p for p in ports))
        place = interface_place(router, agents, _host_of(ports))
        try:
            part, port = self._ports.make(
                connection, router, subnet["network_id"], place, [fixed], project_id=router["project_id"]
            )
        except errors.IpAddressAlreadyAllocated:
            _check_unchanged(connection, router)  # else it may be the router itself that has just got it
            raise
        return _Change(part, port, [subnet], (*ports, _as_router_port(port, place, [subnet])))

    def _by_port(
        self,
        connection: Connection,
        context: Context,
        router: Object,
        ports: tuple[RouterPort, ...],
        outside: Sequence[Object],
        agents: Sequence[Serving],
        port_id: str,
    ) -> _Change:
        port = visible_port(connection, context, port_id)
        rules.check_adoptable(port, kept=is_kept(connection, port_id))
        if not port["fixed_ips"]:
            raise rules.refuse(f"port {port_id} has no address")
        known = {s["id"]: s for s in subnets_of(connection, [port["network_id"]])[port["network_id"]]}
        subnets = [known[fixed["subnet_id"]] for fixed in port["fixed_ips"]]
        for subnet in subnets:
            rules.check_modes(subnet)
        rules.check_one_ipv6_port(ports, port)
        rules.check_overlap(ports, subnets, outside)
        if sum(subnet["ip_version"] == 4 for subnet in subnets) > 1:
            raise rules.refuse(f"port {port_id} has several IPv4 addresses")
        if not context.is_admin:
            rules.check_within_pools(port, subnets, context.project_id)
        place = interface_place(router, agents, _host_of(ports))
        part = self._ports.adopt(connection, router, port, place)
        return _Change(part, port, subnets, (*ports, _as_router_port(port, place, subnets)))

    # --- removing -------------------------------------------------------------------------------------------------

    def remove(self, context: Context, router_id: str, body: Any) -> Object:
        port_id, subnet_id = rules.interface_of(body, removal=True)

        def attempt() -> Object:
            with self._db.read() as connection:
                router = router_view.load(connection, router_id)
                ports = read_ports(connection, router_id)
                if port_id is not None:
                    change = self._whole_port(connection, router, ports, port_id, subnet_id)
                else:
                    assert subnet_id is not None
                    change = self._off_subnet(connection, context, router, ports, subnet_id)
                agents = self._scheduler.place(connection, router, work=False).agents
                others = self._ports.conform(connection, router, change.ports, agents)
                released = self._delegations.released(connection, ports, [s["id"] for s in change.subnets])
            self._scheduler.commit(router, change.part + others + released)
            self._delegations.told(released.steps)
            ids = [subnet["id"] for subnet in change.subnets]
            return _answer(router_id, change.port, ids, ids[0] if ids else None)

        return self._db.retrying(attempt)

    def _whole_port(
        self,
        connection: Connection,
        router: Object,
        ports: tuple[RouterPort, ...],
        port_id: str,
        subnet_id: str | None,
    ) -> _Change:
        found = next((p for p in ports if p.id == port_id and p.type in INTERFACES), None)
        if found is None:
            raise errors.RouterInterfaceNotFound(router_id=router["id"], port_id=port_id)
        if subnet_id is not None and all(a.subnet_id != subnet_id for a in found.addresses):
            raise errors.SubnetMismatchForPort(port_id=port_id, subnet_id=subnet_id)
        for address in found.addresses:
            _check_unused(connection, router, address)
        part, port = self._ports.take(connection, port_id)
        subnets = [{"id": a.subnet_id} for a in found.addresses]
        return _Change(part, port, subnets, tuple(p for p in ports if p is not found))

    def _off_subnet(
        self,
        connection: Connection,
        context: Context,
        router: Object,
        ports: tuple[RouterPort, ...],
        subnet_id: str,
    ) -> _Change:
        subnet = visible_subnet(connection, context, subnet_id)
        found = next(
            (p for p in ports if p.type in INTERFACES and any(a.subnet_id == subnet_id for a in p.addresses)), None
        )
        if found is None:
            raise errors.RouterInterfaceNotFoundForSubnet(router_id=router["id"], subnet_id=subnet_id)
        (address,) = (a for a in found.addresses if a.subnet_id == subnet_id)
        _check_unused(connection, router, address)
        left = tuple(a for a in found.addresses if a.subnet_id != subnet_id)
        if left:
            kept = [{"subnet_id": a.subnet_id, "ip_address": a.ip_address} for a in left]
            part = self._ports.readdress(connection, found.id, kept)
            shrunk = replace(found, addresses=left)
            port = dict(part.steps[0].context.current)
            return _Change(part, port, [subnet], tuple(shrunk if p is found else p for p in ports))
        part, port = self._ports.take(connection, found.id)
        return _Change(part, port, [subnet], tuple(p for p in ports if p is not found))


def _host_of(ports: Sequence[RouterPort]) -> str:
    return next((port.host for port in ports if port.host), "")


def _as_router_port(port: Object, place: Place, subnets: Sequence[Object]) -> RouterPort:
    cidrs = {subnet["id"]: subnet["cidr"] for subnet in subnets}
    addresses = tuple(Address(f["subnet_id"], f["ip_address"], cidrs[f["subnet_id"]]) for f in port["fixed_ips"])
    return RouterPort(port["id"], place.type, port["network_id"], place.host, "", addresses)


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


def _check_unchanged(connection: Connection, router: Object) -> None:
    """What was found out about a router that has changed meanwhile is found out anew."""
    revision = connection.execute(sa.select(_c.revision_number).where(_c.id == router["id"])).scalar()
    if revision != router["revision_number"]:
        raise Stale


def _check_shared_with(connection: Connection, subnet: Object, project_id: str | None) -> None:
    """A network shared with all is for instances; who may route it is named by an RBAC policy."""
    policy = sa.select(_r.id).where(
        _r.object_id == subnet["network_id"], _r.action == SHARED, _r.target_project == project_id
    )
    if connection.execute(policy.limit(1)).first() is None:
        raise rules.refuse(f"subnet {subnet['id']} belongs to another project")


def _check_unused(connection: Connection, router: Object, address: Address) -> None:
    """An interface stays while floating IPs reach their ports through it, or routes have their nexthop there."""
    here = _a.subnet_id == address.subnet_id
    whole = sa.select(_f.id).where(
        _f.router_id == router["id"],
        sa.exists(sa.select(_a.port_id).where(here, _a.port_id == _f.port_id, _a.ip_address == _f.fixed_ip_address)),
    )
    forwarded = sa.select(_fw.id).where(
        _fw.floatingip_id.in_(sa.select(_f.id).where(_f.router_id == router["id"])),
        sa.exists(
            sa.select(_a.port_id).where(
                here, _a.port_id == _fw.internal_port_id, _a.ip_address == _fw.internal_ip_address
            )
        ),
    )
    if any(connection.execute(statement.limit(1)).first() is not None for statement in (whole, forwarded)):
        raise errors.RouterInterfaceInUseByFloatingIP(router_id=router["id"], subnet_id=address.subnet_id)
    if rules.has_nexthop_in(router["routes"], address.cidr):
        raise errors.RouterInterfaceInUseByRoute(router_id=router["id"], subnet_id=address.subnet_id)
