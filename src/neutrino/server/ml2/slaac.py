"""Addresses of ports on SLAAC subnets: a guest forms them from the prefix and its MAC, on each such subnet of its network.

A new port gets them with the subnets that its request has read, a new subnet gives them to the ports that its request has
read. Of a port and a subnet created at the same time neither request sees the other. So each looks again after its commit:
the later one sees both, and adds the missing address (`complete`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode, update_row
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import Condition, NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam import routed
from neutrino.server.ipam.allocation import ROUTER_OWNERS
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address
from neutrino.server.ml2.ports.internal_names import NameFor, holds
from neutrino.server.ml2.views import subnets_of

_IPV6_SUBNETS = RowsLookup(
    sa.select(t.subnets.c.id, t.subnets.c.ip_version, t.subnets.c.ipv6_address_mode, t.subnets.c.ipv6_ra_mode).where(
        t.subnets.c.network_id == sa.bindparam("network"), t.subnets.c.ip_version == 6
    )
)


def ports_to_address(connection: Connection, subnet: Object, siblings: Sequence[Object]) -> Sequence[NamedRow]:
    """Ports of the network that get an address on a new subnet, which is a SLAAC subnet.

    On a routed network only ports with addresses on the same segment: the others do not receive its RAs.
    """
    if not is_auto_address(subnet):
        return ()
    here: list[Condition] = []
    if subnet["segment_id"] is not None:
        same = [s["id"] for s in siblings if s["segment_id"] == subnet["segment_id"]]
        here = [t.ports.c.id.in_(sa.select(t.ip_allocations.c.port_id).where(t.ip_allocations.c.subnet_id.in_(same)))]
    columns = (
        t.ports.c.id,
        t.ports.c.mac_address,
        t.ports.c.fixed_ips,
        t.ports.c.dns_assignment,
        t.ports.c.dns_name,
        t.ports.c.revision_number,
    )
    return connection.execute(
        sa.select(*columns, t.ports.c.device_owner).where(
            t.ports.c.network_id == subnet["network_id"],
            t.ports.c.ip_allocation != routed.NONE,
            t.ports.c.device_owner.not_in(ROUTER_OWNERS),
            *here,
        )
    ).all()


def add_addresses(tx: Transaction, subnet: Object, ports: Sequence[NamedRow], name_for: NameFor) -> None:
    for port in ports:
        fixed = {"subnet_id": subnet["id"], "ip_address": eui64(subnet["cidr"], port.mac_address)}
        tx.insert(t.ip_allocations, [{**fixed, "port_id": port.id, "network_id": subnet["network_id"]}])
        names = decode(port.dns_assignment)
        dns_name = port.dns_name if holds(port.dns_name, names) else ""  # on the network it is another project's
        store(tx, port, [*decode(port.fixed_ips), fixed], [*names, name_for(dns_name, fixed["ip_address"])])


def store(tx: Transaction, port: NamedRow, fixed_ips: list[Object], names: list[Object]) -> None:
    # Stale if another request changed the port's addresses meanwhile: ours would overwrite them.
    update_row(tx, t.ports, port._asdict(), {"fixed_ips": fixed_ips, "dns_assignment": names})


@dataclass(frozen=True)
class SlaacAddresses:
    """Completes addresses after a commit."""

    db: Database
    name_for: NameFor

    def watch(self, tx: Transaction, network_id: str, known: Collection[str]) -> None:
        """A transaction writes addresses of ports that were decided with these subnets: check for others after it."""

        def check(rows: Sequence[NamedRow]) -> None:
            for row in rows:
                if row.id not in known and is_auto_address(row._asdict()):
                    self.complete(network_id, row.id)

        tx.read_after_commit(_IPV6_SUBNETS(network=network_id), check)

    @retried
    def complete(self, network_id: str, subnet_id: str) -> None:
        """Give ports that lack it their address on a subnet."""
        with self.db.read() as connection:
            subnets = subnets_of(connection, [network_id])[network_id]
            subnet = next((s for s in subnets if s["id"] == subnet_id), None)
            if subnet is None:  # deleted meanwhile
                return
            siblings = [s for s in subnets if s["id"] != subnet_id]
            ports = [port for port in ports_to_address(connection, subnet, siblings) if _lacks(port, subnet)]
        if ports:
            with self.db.transaction() as tx:
                add_addresses(tx, subnet, ports, self.name_for)


def _lacks(port: NamedRow, subnet: Object) -> bool:
    """Whether the port may have an address on the subnet, by its owner, and has none."""
    types = subnet["service_types"]
    is_for_owner = not types or port.device_owner in types
    return is_for_owner and not any(fixed["subnet_id"] == subnet["id"] for fixed in decode(port.fixed_ips))
