"""Ports that are affected by a change of a subnet: SLAAC addresses that come and go with it, ports that block a change.

The addresses on a SLAAC subnet are formed by the guests from the prefix and their MAC. Every port of the network gets its
address when the subnet is created and loses it when the subnet is deleted, except ports of routers.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import Object, changed, decode, update_row
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.allocation import ROUTER_OWNERS
from neutrino.server.ipam.delegated import addressing, is_on, renumbered
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.extensions import Extensions
from neutrino.server.ml2.networks import AUTO_DELETED, Networks
from neutrino.server.ml2.operations import PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.views import PORTS, stored

NameFor = Callable[[str, str], dict[str, str]]  # (dns_name, address): the address's entry in a port's dns_assignment
_a, _p = t.ip_allocations.c, t.ports.c


def ports_to_address(connection: Connection, subnet: Object) -> Sequence[Any]:
    """Ports of the network that get an address on a new subnet, which is a SLAAC subnet."""
    if not is_auto_address(subnet):
        return ()
    return connection.execute(
        sa.select(_p.id, _p.mac_address, _p.fixed_ips, _p.dns_assignment, _p.dns_name, _p.revision_number).where(
            _p.network_id == subnet["network_id"], _p.ip_allocation != "none", _p.device_owner.not_in(ROUTER_OWNERS)
        )
    ).all()


def add_slaac_addresses(tx: Transaction, subnet: Object, ports: Sequence[Any], name_for: NameFor) -> None:
    for port in ports:
        fixed = {"subnet_id": subnet["id"], "ip_address": eui64(subnet["cidr"], port.mac_address)}
        tx.insert(t.ip_allocations, [{**fixed, "port_id": port.id, "network_id": subnet["network_id"]}])
        names = [*decode(port.dns_assignment), name_for(port.dns_name, fixed["ip_address"])]
        _store(tx, port, [*decode(port.fixed_ips), fixed], names)


def remove_addresses(tx: Transaction, subnet: Object, ports: Sequence[Any]) -> None:
    ids = [port.id for port in ports]
    tx.execute(sa.delete(t.ip_allocations).where(_a.subnet_id == subnet["id"], _a.port_id.in_(ids)))
    for port in ports:
        fixed_ips = decode(port.fixed_ips)
        removed = {f["ip_address"] for f in fixed_ips if f["subnet_id"] == subnet["id"]}
        names = [n for n in decode(port.dns_assignment) if n["ip_address"] not in removed]
        _store(tx, port, [f for f in fixed_ips if f["subnet_id"] != subnet["id"]], names)


def _store(tx: Transaction, port: Any, fixed_ips: list[Any], names: list[Any]) -> None:
    # Stale if another request changed the port's addresses meanwhile: ours would overwrite them.
    before = {"id": port.id, "revision_number": port.revision_number}
    update_row(tx, t.ports, before, {"fixed_ips": fixed_ips, "dns_assignment": names})


def check_gateway_unused(connection: Connection, subnet: Object) -> None:
    """Refuse another gateway while a router has the present gateway's address."""
    if subnet["gateway_ip"] is None:
        return
    holder = connection.execute(
        sa.select(_p.id).where(
            _a.port_id == _p.id,
            _a.subnet_id == subnet["id"],
            _a.ip_address == subnet["gateway_ip"],
            _p.device_owner.in_(ROUTER_OWNERS),
            _p.device_id != "",
        )
    ).scalar()
    if holder is not None:
        raise errors.GatewayIpInUse(gateway=subnet["gateway_ip"], port=holder)


def ports_on(connection: Connection, subnet: Object) -> tuple[list[Any], list[Any]]:
    """Ports that are deleted with a subnet, and ports that lose their address; refused if any other port uses it."""
    rows = connection.execute(
        sa.select(_p.id, _p.device_owner, _p.project_id, _p.revision_number, _p.fixed_ips, _p.dns_assignment)
        .where(_a.port_id == _p.id, _a.subnet_id == subnet["id"])
        .distinct()
    ).all()
    slaac = is_auto_address(subnet)
    deleted: list[Any] = []
    readdressed: list[Any] = []
    for row in rows:
        elsewhere = any(fixed["subnet_id"] != subnet["id"] for fixed in decode(row.fixed_ips))
        if row.device_owner in AUTO_DELETED:
            (readdressed if elsewhere else deleted).append(row)
        elif slaac and row.device_owner not in ROUTER_OWNERS:
            readdressed.append(row)
        else:
            raise errors.SubnetInUse(id=subnet["id"], reason=f"port {row.id} has an address from it")
    return deleted, readdressed


# --- another prefix: renumbering -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Renumbering:
    """Gives a subnet another prefix, and every port on it an address there, in one write."""

    networks: Networks
    ports: Ports
    extensions: Extensions
    notify_change: Callable[[Object | None, Object | None], None]  # with a port before and after

    def steps(
        self, connection: Connection, subnets: Sequence[Object], cidr: str, without: Collection[str] = ()
    ) -> tuple[PendingWrite, ...]:
        """The writes that give the subnets this prefix; none if they and their ports have it already.

        `without`: ports that the caller's write changes itself.
        """
        ids = [subnet["id"] for subnet in subnets]
        addresses = connection.execute(sa.select(_a.port_id, _a.ip_address).where(_a.subnet_id.in_(ids)))
        elsewhere = {row.port_id for row in addresses if not is_on(row.ip_address, cidr)} - set(without)
        own = [
            self._subnet(subnet, cidr, self.networks.load(connection, subnet["network_id"]))
            for subnet in subnets
            if subnet["cidr"] != cidr
        ]
        ports = [self._port(connection, port, ids, cidr) for port in PORTS.load_in(connection, "id", sorted(elsewhere))]
        return (*own, *(pending for pending in ports if pending is not None))

    def _port(
        self, connection: Connection, port: Object, subnet_ids: Collection[str], cidr: str
    ) -> PendingWrite | None:
        fixed = [
            {**one, "ip_address": renumbered(one["ip_address"], cidr)} if one["subnet_id"] in subnet_ids else one
            for one in port["fixed_ips"]
        ]
        network = self.networks.load(connection, port["network_id"])
        return self.ports.prepare_update(connection, port, {"fixed_ips": fixed}, network)

    def _subnet(self, before: Object, cidr: str, network: Object) -> PendingWrite:
        now = changed(before, {**before, **addressing(cidr)})

        def write(tx: Transaction) -> None:
            update_row(tx, t.subnets, before, stored(now))
            self.extensions.store("subnet", tx, now, before)

        return PendingWrite(DriverContext("update", "subnet", now, before, network=network), write)

    def notify(self, steps: Sequence[PendingWrite]) -> None:
        """After the commit: notify of ports with new addresses."""
        for context in (pending.context for pending in steps):
            if context.kind == "port" and context.operation == "update" and context.original is not None:
                self.notify_change(dict(context.original), dict(context.current))
