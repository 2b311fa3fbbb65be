"""Renumbering: a subnet gets another prefix, and every port on it an address there, in one write."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.objects import changed, update_row
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.delegated import addressing, is_on, renumbered
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.drivers import Extensions
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.views import PORTS, stored

Object = dict[str, Any]
_a = t.ip_allocations.c


class Renumbering:
    def __init__(
        self,
        networks: Networks,
        ports: Ports,
        extensions: Extensions,
        notify: Callable[[Object | None, Object | None], None],
    ) -> None:
        self._networks = networks
        self._ports = ports
        self._extensions = extensions
        self._notify = notify

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
            self._subnet(subnet, cidr, self._networks.load(connection, subnet["network_id"]))
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
        network = self._networks.load(connection, port["network_id"])
        return self._ports.prepare_update(connection, port, {"fixed_ips": fixed}, network)

    def _subnet(self, before: Object, cidr: str, network: Object) -> PendingWrite:
        now = changed(before, {**before, **addressing(cidr)})

        def write(tx: Transaction) -> None:
            update_row(tx, t.subnets, before, stored(now))
            self._extensions.store("subnet", tx, now, before)

        return PendingWrite(DriverContext("update", "subnet", now, before, network=network), write)

    def notify(self, steps: Sequence[PendingWrite]) -> None:
        """After the commit: notify of ports with new addresses."""
        for context in (pending.context for pending in steps):
            if context.kind == "port" and context.operation == "update" and context.original is not None:
                self._notify(dict(context.original), dict(context.current))
