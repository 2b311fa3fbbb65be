"""Addresses that hosts form themselves: ports get one when a SLAAC subnet comes to their network, and lose it with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.clock import now
from neutrino.server.db.objects import decode, encode
from neutrino.server.db.session import Stale
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.allocation import ROUTER_OWNERS
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address

Object = Mapping[str, Any]
NameFor = Callable[[str, str], dict[str, str]]
_p = t.ports.c


class AutoAddresses:
    def __init__(self, name_for: NameFor) -> None:
        """`name_for(dns_name, address)` is what a port's dns_assignment says of an address."""
        self._name_for = name_for

    def ports_to_address(self, connection: Connection, subnet: Object) -> Sequence[Any]:
        """The network's ports that take an address on a new subnet: all but the routers'."""
        if not is_auto_address(subnet):
            return ()
        return connection.execute(
            sa.select(_p.id, _p.mac_address, _p.fixed_ips, _p.dns_assignment, _p.dns_name, _p.revision_number).where(
                _p.network_id == subnet["network_id"],
                _p.ip_allocation != "none",
                _p.device_owner.not_in(ROUTER_OWNERS),
            )
        ).all()

    def add(self, tx: Transaction, subnet: Object, ports: Sequence[Any]) -> None:
        for port in ports:
            address = eui64(subnet["cidr"], port.mac_address)
            tx.execute(
                sa.insert(t.ip_allocations).values(
                    subnet_id=subnet["id"], ip_address=address, port_id=port.id, network_id=subnet["network_id"]
                )
            )
            fixed = [*decode(port.fixed_ips), {"subnet_id": subnet["id"], "ip_address": address}]
            names = [*decode(port.dns_assignment), self._name_for(port.dns_name, address)]
            self._store(tx, port, fixed, names)

    def remove(self, tx: Transaction, subnet: Object, ports: Sequence[Any]) -> None:
        tx.execute(
            sa.delete(t.ip_allocations).where(
                t.ip_allocations.c.subnet_id == subnet["id"],
                t.ip_allocations.c.port_id.in_([port.id for port in ports]),
            )
        )
        for port in ports:
            gone = {f["ip_address"] for f in decode(port.fixed_ips) if f["subnet_id"] == subnet["id"]}
            fixed = [f for f in decode(port.fixed_ips) if f["subnet_id"] != subnet["id"]]
            names = [n for n in decode(port.dns_assignment) if n["ip_address"] not in gone]
            self._store(tx, port, fixed, names)

    def _store(self, tx: Transaction, port: Any, fixed: list[Any], names: list[Any]) -> None:
        done = tx.execute(
            sa.update(t.ports)
            .where(_p.id == port.id, _p.revision_number == port.revision_number)
            .values(
                fixed_ips=encode(fixed),
                dns_assignment=encode(names),
                updated_at=now(),
                revision_number=_p.revision_number + 1,
            )
        )
        if done.rowcount != 1:
            raise Stale
        tx.record("port", port.id, port.revision_number + 1)
