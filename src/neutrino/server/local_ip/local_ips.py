"""Local IPs: create, update, delete. The address is that of a port, which is given or created with the local IP.

A port that a local IP has the address of cannot be deleted on its own, and keeps the address. A port that is created with a
local IP is the project's: quota and policy rules of ports apply to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.catalog import AlsoCreated
from neutrino.server.api.resources.port import PORT
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.compiled import kept
from neutrino.server.db.objects import as_row, delete_row, exists, fresh
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.ports.collection import Ports, Write
from neutrino.server.ml2.ports.values import service_port
from neutrino.server.ml2.views import PORTS, subnets_of
from neutrino.server.quota.quotas import Quotas
from neutrino.server.view_collection import one_by_one

OWNER = "network:local_ip"
VIEW = View(t.local_ips, hidden=("tags", "owns_port"), not_found=errors.LocalIPNotFound)
_c, _a, _p = t.local_ips.c, t.local_ip_associations.c, t.ports.c
OF_PORT = kept(sa.select(_c.id).where(_c.local_port_id == sa.bindparam("port", type_=sa.String)))
_ADDRESSES = kept(
    sa.select(_c.local_ip_address, _c.owns_port).where(_c.local_port_id == sa.bindparam("port", type_=sa.String))
)
_NO_STATUS = sa.update(t.ports).where(_p.id == sa.bindparam("port")).values(status="N/A")


def refuse(message: str) -> errors.BadRequest:
    return errors.BadRequest(resource="local_ip", msg=message)


@dataclass(frozen=True)
class LocalIps:
    db: Database
    operations: Operations
    networks: Networks
    ports: Ports
    quotas: Quotas

    def also_creates(self, context: Context, values: Object) -> list[AlsoCreated]:
        """The local IP's own port, as if the client had created it: with the address only if the request names one."""
        if "local_port_id" in values or "network_id" not in values:
            return []
        network = self.networks.policy_target(context, values["network_id"], everyone=context.is_admin)
        return [AlsoCreated(PORT, {"network_id": values["network_id"], **_chosen(values)}, network)]

    @retried
    def create(self, context: Context, values: Object) -> Object:
        new = fresh(values, revision=0)
        own_port: PendingWrite | None = None
        with self.db.read() as connection:
            if "local_port_id" in values:
                port = _visible_port(connection, context, values["local_port_id"])
                address = chosen_address(port, values.get("local_ip_address"), "local_ip_address")
            else:
                own_port = self._own_port(connection, context, new)
                port = dict(own_port.context.current)
                address = _first_ipv4(port)
            _check_no_gateway(connection, port["network_id"], address)
        new |= {
            "local_port_id": port["id"],
            "network_id": port["network_id"],
            "local_ip_address": address,
            "owns_port": own_port is not None,
        }
        with self.operations.write([own_port.context] if own_port else []) as tx:
            if own_port is not None:
                own_port.write(tx)
                # The port only holds the address and is never bound: as in Neutron it has no status.
                tx.write(_NO_STATUS, {"port": port["id"]})
            tx.insert(t.local_ips, [as_row(t.local_ips, new)])
        return new

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(
            several, lambda values: self.create(context, values), lambda key: self.delete(admin_context(), key, None)
        )

    def _own_port(self, connection: Connection, context: Context, new: Object) -> PendingWrite:
        if "network_id" not in new:
            raise errors.LocalIPPortOrNetworkRequired()
        network_id = new["network_id"]
        network = self.networks.view.get(connection, network_id, context.project_id, everyone=context.is_admin)
        subnets = subnets_of(connection, [network_id])[network_id]
        if not any(subnet["ip_version"] == 4 for subnet in subnets):
            raise refuse(f"network {network_id} has no IPv4 subnet")
        port = service_port(network_id, new["project_id"], new["id"], OWNER, "")
        # An instance may get the port, whatever its owner is now: it must not be an unfiltered one then.
        port |= {"port_security_enabled": network["port_security_enabled"], **_chosen(new)}
        limits = self.quotas.limits(connection, "port", [new])
        return self.ports.prepare_create(connection, port, network, subnets, limits)

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = VIEW.get(connection, key, revision=revision, more=("owns_port",))
            if exists(connection, _a.local_ip_id == key):
                raise errors.LocalIPInUse(id=key)
            further: list[PendingWrite] = []
            if before["owns_port"]:
                port = self.ports.view.get(connection, before["local_port_id"])
                network = self.networks.view.get(connection, before["network_id"])
                further.append(self.ports.prepare_delete(port, network))
        with self.operations.write([], further) as tx:
            # An association that was made since makes this fail on its foreign key, and it is decided again.
            delete_row(tx, t.local_ips, before)


def _visible_port(connection: Connection, context: Context, port_id: str) -> Object:
    port = PORTS.load(connection, port_id, context.project_id, everyone=context.is_admin)
    if port is None:
        raise refuse(f"there is no port {port_id}")
    return port


def chosen_address(port: Object, requested: str | None, attribute: str) -> str:
    """The address of a port that a request names, or its only one."""
    addresses = [fixed["ip_address"] for fixed in port["fixed_ips"]]
    if not addresses:
        raise errors.LocalIPNoIP(port_id=port["id"])
    if requested is not None:
        if requested not in addresses:
            raise errors.LocalIPRequestedIPNotFound(port_id=port["id"], ip=requested)
        return requested
    if len(addresses) > 1:
        raise errors.LocalIPNoRequestedIP(port_id=port["id"], attribute=attribute)
    return str(addresses[0])


def _chosen(values: Object) -> Object:
    address = values.get("local_ip_address")
    return {"fixed_ips": [{"ip_address": address}]} if address is not None else {}


def _check_no_gateway(connection: Connection, network_id: str, address: str) -> None:
    if any(subnet["gateway_ip"] == address for subnet in subnets_of(connection, [network_id])[network_id]):
        raise refuse(f"{address} is the gateway of a subnet of network {network_id}")


def _first_ipv4(port: Object) -> str:
    return str(next(fixed["ip_address"] for fixed in port["fixed_ips"] if ":" not in fixed["ip_address"]))


# --- hooks of ports ---------------------------------------------------------------------------------------------------


def check_port_delete(connection: Connection, port: Object) -> None:
    if connection.execute(OF_PORT, {"port": port["id"]}).first() is not None:
        raise errors.ServicePortInUse(port_id=port["id"], reason="a local IP has its address")


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """A port is deleted because a mechanism driver failed to create it: so is the local IP that it was created for."""
    if before is not None and after is not None:
        _check_port_update(connection, before, after)
    if before is None or after is not None or before["device_owner"] != OWNER:
        return None
    rows = VIEW.load_where(connection, _c.local_port_id == before["id"])
    return (lambda tx: delete_row(tx, t.local_ips, rows[0])) if rows else None


def _check_port_update(connection: Connection, before: Object, after: Object) -> None:
    """A released address may become another port's, and the own port of a local IP must not be an instance's."""
    kept = {fixed["ip_address"] for fixed in after["fixed_ips"]}
    released = [f["ip_address"] for f in before["fixed_ips"] if f["ip_address"] not in kept]
    is_taken = before["device_owner"] == OWNER != after["device_owner"]
    if not released and not is_taken:
        return
    for row in connection.execute(_ADDRESSES, {"port": before["id"]}):
        if row.local_ip_address in released:
            raise errors.ServicePortInUse(port_id=before["id"], reason="a local IP has its address")
        if is_taken and row.owns_port:
            raise errors.ServicePortInUse(port_id=before["id"], reason="it was created for a local IP")
