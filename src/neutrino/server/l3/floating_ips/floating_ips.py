"""Floating IPs: an address of an external network, put before a port's own and moved between ports.

The address is held by a port on the external network, which is nobody's. What an association depends on (that a router
leads from the port to the external network) is the router's to change, so associating passes the router's row on the
revision that it had when the way was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.bulk import one_by_one
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, check_revision, delete_row, fresh, update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.l3 import floating_view
from neutrino.server.l3.device_owners import FLOATING
from neutrino.server.l3.floating_ips.pools import pools
from neutrino.server.l3.floating_ips.reachability import find_way
from neutrino.server.l3.lookups import check_external, visible_port
from neutrino.server.l3.routers.router_ports import port_values
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.port_view import VIEW as PORTS
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.subnet_view import subnets_of
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

Object = dict[str, Any]
Told = Callable[[Object | None, Object | None, Mapping[str, Object]], None]
DOWN: Final = "DOWN"
NOT_APPLICABLE: Final = "N/A"
DHCP_PORT: Final = "network:dhcp"
_f, _p, _r, _fw = t.floatingips.c, t.ports.c, t.routers.c, t.port_forwardings.c


@dataclass(frozen=True)
class Association:
    """What a floating IP is in front of, and the routers that have to do with it, as they were read."""

    values: Object  # port_id, fixed_ip_address, router_id
    port: Object | None = None
    routers: tuple[tuple[str, int], ...] = ()  # id and revision, to be raised


NOWHERE: Final[Object] = {"port_id": None, "fixed_ip_address": None, "router_id": None}


def refuse(message: str) -> errors.BadRequest:
    return errors.BadRequest(resource="floatingip", msg=message)


class FloatingIps:
    def __init__(
        self,
        db: Database,
        operations: Operations,
        quotas: Quotas,
        networks: Networks,
        ports: Ports,
        told: Told,
    ) -> None:
        self._db = db
        self._operations = operations
        self._quotas = quotas
        self._networks = networks
        self._ports = ports
        self._told = told

    # --- reading --------------------------------------------------------------------------------------------------

    def index(self, context: Context, query: Query) -> list[Object]:
        with self._db.read() as connection:
            return floating_view.FLOATING_IPS.many(connection, query, context.project_id)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self._db.read() as connection:
            return floating_view.FLOATING_IPS.show(
                connection, key, project=context.project_id, everyone=everyone, fields=fields
            )

    def pools(self, context: Context, query: Query) -> list[Object]:
        with self._db.read() as connection:
            return pools(connection, context, query)

    def owner(self, context: Context, key: str) -> Object:
        """What the policy may ask of a floating IP that something belongs to; who may not see it does not find it."""
        names = ("project_id",)
        with self._db.read() as connection:
            found = floating_view.VIEW.show(
                connection, key, project=context.project_id, everyone=context.is_admin, fields=names
            )
        if found is None:
            raise errors.FloatingIPNotFound(id=key)
        return {"ext_parent:project_id": found["project_id"]}

    # --- creating -------------------------------------------------------------------------------------------------

    def create(self, context: Context, values: Object) -> Object:
        def attempt() -> tuple[Object, Object | None]:
            with self._db.read() as connection:
                floating_ip = fresh({n: v for n, v in values.items() if n != "subnet_id"}, revision=0)
                step = self._outside(connection, context, values, floating_ip["id"])
                floating_ip |= {
                    "status": DOWN,
                    "floating_port_id": step.context.current["id"],
                    "floating_ip_address": _first_ipv4(step.context.current, values["floating_network_id"]),
                    "port_forwardings": [],
                    **NOWHERE,
                }
                association = self._associated(connection, context, floating_ip, values)
                floating_ip |= association.values
                limit = self._quotas.limit(connection, "floatingip", floating_ip["project_id"])

            with self._operations.write([step.context]) as tx:
                step.write(tx)
                tx.execute(_NOT_APPLICABLE, {"port": floating_ip["floating_port_id"]})
                tx.insert(t.floatingips, [as_row(t.floatingips, floating_ip)])
                raise_routers(tx, association.routers)
                tx.use("floatingip", floating_ip["project_id"], 1, limit)
            return floating_ip, association.port

        floating_ip, port = self._db.retrying(attempt)
        self._told(None, floating_ip, _by_id(port))
        return floating_view.api_floating_ip(floating_ip, port)

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(
            several, lambda values: self.create(context, values), lambda key: self.delete(admin_context(), key, None)
        )

    def _outside(self, connection: Connection, context: Context, values: Object, key: str) -> PendingWrite:
        """The port on the external network that holds the address."""
        network_id = values["floating_network_id"]
        check_external(connection, context, network_id, "floatingip")
        subnets = subnets_of(connection, [network_id])[network_id]
        if not any(subnet["ip_version"] == 4 for subnet in subnets):
            raise refuse(f"network {network_id} has no IPv4 subnet")
        network = self._networks.load(connection, network_id)
        wish = {"subnet_id": values["subnet_id"], "ip_address": values["floating_ip_address"]}
        given = {name: value for name, value in wish.items() if value is not None}
        port = port_values(network_id, "", key, FLOATING, "")
        if given:
            port["fixed_ips"] = [given]
        return self._ports.prepare_create(connection, port, network, subnets)

    # --- associating ----------------------------------------------------------------------------------------------

    def _associated(self, connection: Connection, context: Context, floating_ip: Object, values: Object) -> Association:
        """What the floating IP is in front of after a request."""
        before = _router_of(connection, floating_ip["router_id"])
        if values.get("fixed_ip_address") is not None and not values.get("port_id", floating_ip["port_id"]):
            raise refuse("fixed_ip_address says nothing without a port_id")
        port_id = values.get("port_id", floating_ip["port_id"])
        if port_id is None:
            if floating_ip["port_id"] is None:  # it may have a router for its port forwardings
                return Association({name: floating_ip[name] for name in NOWHERE})
            return Association(dict(NOWHERE), None, before)
        if "port_id" not in values and "fixed_ip_address" not in values:
            port = PORTS.load(connection, port_id)
            return Association({name: floating_ip[name] for name in NOWHERE}, port)
        port = visible_port(connection, context, port_id)
        subnet_id, address = _inside(context, port, values.get("fixed_ip_address"), floating_ip["project_id"])
        way = find_way(connection, subnet_id, floating_ip["floating_network_id"], port_id)
        _check_free(connection, floating_ip, port_id, address)
        if floating_ip["port_forwardings"]:
            raise errors.FipInUseByPortForwarding(id=floating_ip["id"])
        if way.distributed and _has_forwardings(connection, port_id):
            raise errors.PortHasPortForwarding(port_id=port_id)
        routers = dict([*before, (way.router_id, way.revision)])
        new = {"port_id": port_id, "fixed_ip_address": address, "router_id": way.router_id}
        return Association(new, port, tuple(sorted(routers.items())))

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        asked = values or {"port_id": None}  # an update that says nothing takes it off its port

        def attempt() -> tuple[Object, Object, Object | None, Mapping[str, Object]]:
            with self._db.read() as connection:
                before = floating_view.load(connection, key)
                check_revision(before, revision)
                association = self._associated(connection, context, before, asked)
                left = PORTS.load(connection, before["port_id"]) if before["port_id"] is not None else None
            after = {**before, **association.values, "description": asked.get("description", before["description"])}
            if after["port_id"] != before["port_id"] or after["fixed_ip_address"] != before["fixed_ip_address"]:
                after["status"] = DOWN  # until a host says that it is there
            if after == before and "port_id" not in asked:
                return before, before, association.port, {}
            now = changed(before, after)

            with self._operations.write([]) as tx:
                update_row(tx, t.floatingips, before, now)
                raise_routers(tx, association.routers)
            return before, now, association.port, {**_by_id(left), **_by_id(association.port)}

        before, after, port, ports = self._db.retrying(attempt)
        self._told(before, after, ports)
        return floating_view.api_floating_ip(after, port)

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete(self, context: Context, key: str, revision: int | None) -> None:
        def attempt() -> tuple[Object, Object | None]:
            with self._db.read() as connection:
                before = floating_view.load(connection, key)
                check_revision(before, revision)
                if before["port_forwardings"]:
                    raise errors.FipInUseByPortForwarding(id=key)
                outside = self._ports.load(connection, before["floating_port_id"])
                network = self._networks.load(connection, before["floating_network_id"])
                port = PORTS.load(connection, before["port_id"]) if before["port_id"] is not None else None
                routers = _router_of(connection, before["router_id"])
            step = self._ports.prepare_delete(outside, network)

            with self._operations.write([step.context]) as tx:
                forget(tx, before)
                step.write(tx)
                raise_routers(tx, routers)
            return before, port

        before, port = self._db.retrying(attempt)
        self._told(before, None, _by_id(port))


def forget(tx: Transaction, floating_ip: Mapping[str, Any]) -> None:
    """Write that a floating IP is gone; its port on the external network is the caller's to delete."""
    delete_row(tx, t.floatingips, floating_ip)
    sharing.forget(tx, floating_ip["id"])
    tx.use("floatingip", floating_ip["project_id"], -1)


def raise_routers(tx: Transaction, routers: Sequence[tuple[str, int]]) -> None:
    """What is in front of a router's ports is part of the router: it has changed too."""
    for router_id, revision in routers:
        stamp = update_row(tx, t.routers, {"id": router_id, "revision_number": revision}, {})
        tx.record("router", router_id, stamp["revision_number"])


_NOT_APPLICABLE = sa.update(t.ports).where(_p.id == sa.bindparam("port")).values(status=NOT_APPLICABLE)


def _router_of(connection: Connection, router_id: str | None) -> tuple[tuple[str, int], ...]:
    if router_id is None:
        return ()
    row = connection.execute(sa.select(_r.id, _r.revision_number).where(_r.id == router_id)).first()
    return () if row is None else ((row.id, row.revision_number),)


def _by_id(port: Object | None) -> dict[str, Object]:
    return {} if port is None else {port["id"]: port}


def _first_ipv4(port: Mapping[str, Any], network_id: str) -> str:
    found = next((f["ip_address"] for f in port["fixed_ips"] if ":" not in f["ip_address"]), None)
    if found is None:
        raise errors.ExternalIpAddressExhausted(net_id=network_id)
    return str(found)


def _inside(context: Context, port: Object, address: str | None, project_id: str) -> tuple[str, str]:
    """The subnet and the address of the port that the floating IP is for."""
    if port["project_id"] != project_id and not context.is_admin:
        raise refuse(f"port {port['id']} belongs to another project")
    if port["device_owner"] == DHCP_PORT:
        raise refuse(f"port {port['id']} serves DHCP, and nothing that could be reached from outside")
    ipv4 = [fixed for fixed in port["fixed_ips"] if ":" not in fixed["ip_address"]]
    if address is not None:
        fixed = next((fixed for fixed in ipv4 if fixed["ip_address"] == address), None)
        if fixed is None:
            raise refuse(f"port {port['id']} does not have the IPv4 address {address}")
        return fixed["subnet_id"], address
    if not ipv4:
        raise refuse(f"port {port['id']} has no IPv4 address")
    if len(ipv4) > 1:
        raise refuse(f"port {port['id']} has several IPv4 addresses: say which by fixed_ip_address")
    return ipv4[0]["subnet_id"], ipv4[0]["ip_address"]


def _check_free(connection: Connection, floating_ip: Object, port_id: str, address: str) -> None:
    """An address of a port is behind one floating IP of a network."""
    other = sa.select(_f.id).where(
        _f.port_id == port_id,
        _f.fixed_ip_address == address,
        _f.floating_network_id == floating_ip["floating_network_id"],
        _f.id != floating_ip["id"],
    )
    if connection.execute(other).first() is not None:
        raise errors.FloatingIPPortAlreadyAssociated(
            fixed_ip=address, port_id=port_id, net_id=floating_ip["floating_network_id"]
        )


def _has_forwardings(connection: Connection, port_id: str) -> bool:
    return connection.execute(sa.select(_fw.id).where(_fw.internal_port_id == port_id).limit(1)).first() is not None
