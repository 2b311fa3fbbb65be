"""Local IPs and their associations with ports: what requests may do, and what happens when a port changes.

The address of a local IP is that of a port, which is given or created with the local IP. A port that a local IP has the
address of cannot be deleted on its own, and keeps the address. A port that is created with a local IP is the project's:
quota and policy rules of ports apply to it. The host of an associated port translates the address to that port;
deleting the port deletes its associations by their foreign key.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.local_ip.tables import associations, local_ips
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.catalog import AlsoCreated
from neutrino.server.api.resources.port import PORT
from neutrino.server.collection import ChildCollection, Collection, one_by_one
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row, exists, fresh
from neutrino.server.db.reads import RowsLookup, read
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.host_limits import check_number
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.ml2.ports.values import service_port
from neutrino.server.ml2.views import PORTS, subnets_of
from neutrino.server.quota.quotas import Quotas

OWNER = "network:local_ip"


class LocalIPNotFound(errors.NotFound):
    template = "There is no local IP {id}."


class LocalIPInUse(errors.InUse):
    template = "Local IP {id} is associated with ports."


class LocalIPNoIP(errors.InvalidInput):
    template = "Port {port_id} has no fixed IP."


class LocalIPRequestedIPNotFound(errors.InvalidInput):
    template = "Port {port_id} does not have the address {ip}."


class LocalIPNoRequestedIP(errors.InvalidInput):
    template = "Port {port_id} has several addresses: {attribute} has to be one of them."


class LocalIPPortOrNetworkRequired(errors.InvalidInput):
    template = "A local IP needs a local_port_id or a network_id."


class LocalIPAssociationNotFound(errors.NotFound):
    template = "The local IP is not associated with port {id}."


LOCAL_IPS = View(local_ips, hidden=("tags", "owns_port"), not_found=LocalIPNotFound)
_HAS_PORT = local_ips.c.local_port_id == sa.bindparam("port", type_=sa.String)
_ADDRESSES = RowsLookup(sa.select(local_ips.c.local_ip_address, local_ips.c.owns_port).where(_HAS_PORT))
_NO_STATUS = sa.update(t.ports).where(t.ports.c.id == sa.bindparam("port")).values(status="N/A")


def refuse(message: str) -> errors.BadRequest:
    return errors.BadRequest(resource="local_ip", msg=message)


class LocalIps(Collection):
    def __init__(self, db: Database, operations: Operations, networks: Networks, ports: Ports, quotas: Quotas) -> None:
        super().__init__(db, LOCAL_IPS)
        self.operations, self.networks, self.ports = operations, networks, ports
        self._port_quotas = quotas

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
                port = _port(connection, context, values["local_port_id"], "local_ip")
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
            tx.insert(local_ips, [as_row(local_ips, new)])
        return new

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(
            several, lambda values: self.create(context, values), lambda key: self.delete(admin_context(), key, None)
        )

    def _own_port(self, connection: Connection, context: Context, new: Object) -> PendingWrite:
        if "network_id" not in new:
            raise LocalIPPortOrNetworkRequired()
        network_id = new["network_id"]
        network = self.networks.view.get(connection, network_id, context.project_id, everyone=context.is_admin)
        subnets = subnets_of(connection, [network_id])[network_id]
        if not any(subnet["ip_version"] == 4 for subnet in subnets):
            raise refuse(f"network {network_id} has no IPv4 subnet")
        port = service_port(network_id, new["project_id"], new["id"], OWNER, "")
        # An instance may get the port, whatever its owner is now: it must not be an unfiltered one then.
        port |= {"port_security_enabled": network["port_security_enabled"], **_chosen(new)}
        limits = self._port_quotas.limits(connection, "port", [new])
        return self.ports.prepare_create(connection, port, network, subnets, limits)

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = LOCAL_IPS.get(connection, key, revision=revision, more=("owns_port",))
            if exists(connection, associations.c.local_ip_id == key):
                raise LocalIPInUse(id=key)
            further: list[PendingWrite] = []
            if before["owns_port"]:
                port = self.ports.view.get(connection, before["local_port_id"])
                network = self.networks.view.get(connection, before["network_id"])
                further.append(self.ports.prepare_delete(port, network))
        with self.operations.write([], further) as tx:
            # An association that was made since makes this fail on its foreign key, and it is decided again.
            delete_row(tx, local_ips, before)


def _port(connection: Connection, context: Context, port_id: str, resource: str) -> Object:
    """A port that the caller sees; `resource`: of the request that is refused if there is none."""
    port = PORTS.load(connection, port_id, context.project_id, everyone=context.is_admin, more=_OF_PORT)
    if port is None:
        raise errors.BadRequest(resource=resource, msg=f"there is no port {port_id}")
    return port


def chosen_address(port: Object, requested: str | None, attribute: str) -> str:
    """The address of a port that a request names, or its only one."""
    addresses = [fixed["ip_address"] for fixed in port["fixed_ips"]]
    if not addresses:
        raise LocalIPNoIP(port_id=port["id"])
    if requested is not None:
        if requested not in addresses:
            raise LocalIPRequestedIPNotFound(port_id=port["id"], ip=requested)
        return requested
    if len(addresses) > 1:
        raise LocalIPNoRequestedIP(port_id=port["id"], attribute=attribute)
    return str(addresses[0])


def _chosen(values: Object) -> Object:
    address = values.get("local_ip_address")
    return {"fixed_ips": [{"ip_address": address}]} if address is not None else {}


def _check_no_gateway(connection: Connection, network_id: str, address: str) -> None:
    if any(subnet["gateway_ip"] == address for subnet in subnets_of(connection, [network_id])[network_id]):
        raise refuse(f"{address} is the gateway of a subnet of network {network_id}")


def _first_ipv4(port: Object) -> str:
    return str(next(fixed["ip_address"] for fixed in port["fixed_ips"] if ":" not in fixed["ip_address"]))


# --- associations -----------------------------------------------------------------------------------------------------

# The rule that hides the host is that of the port, and depends on the port's owner.
_OF_PORT = ("project_id", "network:project_id")


def _of_local_ip(column: sa.Column[str]) -> sa.ScalarSelect[str]:
    return sa.select(column).where(local_ips.c.id == associations.c.local_ip_id).scalar_subquery()


def _of_port(column: sa.Column[str]) -> sa.ScalarSelect[str]:
    its_network = t.ports.join(t.networks, t.networks.c.id == t.ports.c.network_id)
    return (
        sa.select(column).select_from(its_network).where(t.ports.c.id == associations.c.fixed_port_id).scalar_subquery()
    )


ASSOCIATIONS = View(
    associations,
    computed={
        "local_ip_address": _of_local_ip(local_ips.c.local_ip_address),
        "host": _of_port(t.ports.c.host),
        "project_id": _of_port(t.ports.c.project_id),
        "network:project_id": _of_port(t.networks.c.project_id),
        "ext_parent:project_id": _of_local_ip(local_ips.c.project_id),
    },
    scope=sa.true(),  # the caller has to see the local IP
    key="fixed_port_id",
    hidden=("ext_parent:project_id", *_OF_PORT),
    not_found=LocalIPAssociationNotFound,
)


class PortAssociations(ChildCollection):
    def __init__(self, db: Database) -> None:
        super().__init__(db, ASSOCIATIONS, associations.c.local_ip_id, LOCAL_IPS)

    def changed(self, before: Object | None, values: Object) -> Object:
        return values  # without an id of its own; there are no updates

    def check(
        self, connection: Connection, context: Context, parent: Object, before: Object | None, after: Object | None
    ) -> None:
        if after is None:
            return
        local_ip_id, port_id = parent["id"], after["fixed_port_id"]
        port = _port(connection, context, port_id, "local_ip_port_association")
        if port["network_id"] != parent["network_id"]:  # there the address may be anyone's
            networks = f"port {port_id} is on network {port['network_id']}, the local IP on {parent['network_id']}"
            raise errors.BadRequest(resource="local_ip_port_association", msg=networks)
        after["fixed_ip"] = chosen_address(port, after["fixed_ip"], "fixed_ip")
        # Of two requests for the same port, one fails on the primary key, and finds this.
        if exists(connection, associations.c.local_ip_id == local_ip_id, associations.c.fixed_port_id == port_id):
            raise errors.Conflict(f"Local IP {local_ip_id} is associated with port {port_id} already.")
        check_number(connection, associations.c.fixed_port_id, [port_id], "Port", "local IPs")
        after |= {"host": port["binding:host_id"], **{name: port[name] for name in _OF_PORT}}
        after["local_ip_address"] = parent["local_ip_address"]

    def also_write(self, tx: Transaction, parent: Object, before: Object | None, after: Object | None) -> None:
        tx.record("port", (after or before or {})["fixed_port_id"])


# --- hooks of ports ---------------------------------------------------------------------------------------------------


def check_port_delete(connection: Connection, port: Object) -> None:
    """Refuse to delete a port that a local IP has the address of."""
    raise errors.ServicePortInUse(port_id=port["id"], reason="a local IP has its address")


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """A port is deleted because a mechanism driver failed to create it: so is the local IP that it was created for."""
    if before is not None and after is not None:
        _check_port_update(connection, before, after)
    if before is None or after is not None or before["device_owner"] != OWNER:
        return None
    rows = LOCAL_IPS.load_where(connection, local_ips.c.local_port_id == before["id"])
    return (lambda tx: delete_row(tx, local_ips, rows[0])) if rows else None


def _check_port_update(connection: Connection, before: Object, after: Object) -> None:
    """A released address may become another port's, and the own port of a local IP must not be an instance's."""
    left = {fixed["ip_address"] for fixed in after["fixed_ips"]}
    released = [f["ip_address"] for f in before["fixed_ips"] if f["ip_address"] not in left]
    is_taken = before["device_owner"] == OWNER != after["device_owner"]
    if not released and not is_taken:
        return
    for row in read(connection, _ADDRESSES(port=before["id"])):
        if row.local_ip_address in released:
            raise errors.ServicePortInUse(port_id=before["id"], reason="a local IP has its address")
        if is_taken and row.owns_port:
            raise errors.ServicePortInUse(port_id=before["id"], reason="it was created for a local IP")
