"""Cascading delete of a network: with everything on it, in one transaction, or not at all.

    what needs ports on it          released by the features that have it, which register a `Cascade`
    ports                           with what services write for each deleted port
    subnets, segments, the network  as every delete of a network

The caller needs the permission to remove each of them by a request of its own. What the services refuse to remove then
(such as an interface that floating IPs need) is refused with the same error here. Ports of a router's gateway,
of a floating IP or of another service keep the network from being deleted, as their owners are not on it.
"""

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.cascade import Permit, Removed
from neutrino.server.api.definition import Resource
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.networks import AUTO_DELETED, Networks
from neutrino.server.ml2.operations import NO_EVENT, Operations, PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.uses import DeleteCheck, PortUse, users_of
from neutrino.server.ml2.views import subnets_of

Users = Sequence[tuple[PortUse, Set[str]]]  # the ports of a network that each service has rows of


@dataclass(frozen=True)
class Release:
    """What a service writes before the ports of a network are deleted, and what it removes with that."""

    writes: Sequence[PendingWrite] = ()
    removed: Sequence[Removed] = ()


# Called with the network; asks `permit` before it decides, so that a refusal says nothing of others' objects.
PrepareRelease = Callable[[Connection, Object, Permit], Release]


@dataclass(frozen=True)
class Cascade:
    """The part of a service in the deletion of a network."""

    prepare: PrepareRelease
    replaces: DeleteCheck | None = None  # the check that refuses ports which `prepare` releases


@dataclass(eq=False)
class NetworkCascade:
    db: Database
    operations: Operations
    networks: Networks
    ports: Ports
    port: Resource
    subnet: Resource
    # Services register here; in the order of their writes, so what references ports of others comes first.
    services: list[Cascade] = field(default_factory=list)

    @retried
    def delete_cascade(self, context: Context, key: str, revision: int | None, permit: Permit) -> list[Removed]:
        with self.db.read() as connection:
            network = self.networks.view.get(connection, key, context.project_id, revision=revision)
            released = [service.prepare(connection, network, permit) for service in self.services]
            before = [pending for one in released for pending in one.writes]
            removed = [each for one in released for each in one.removed]
            gone = {str(pending.context.current["id"]) for pending in before if _deletes_port(pending.context)}
            ports = self._ports(connection, network, gone)
            subnets = subnets_of(connection, [key])[key]
            of_network = {"router:external": network["router:external"]}
            own = [
                *self._removed(network, self.port, ports),
                *self._removed(network, self.subnet, [{**subnet, **of_network} for subnet in subnets]),
            ]
            for one in own:
                permit(one)
            on_network = sa.select(t.ports.c.id).where(t.ports.c.network_id == key)
            users = list(zip(self.ports.uses, users_of(connection, self.ports.uses, on_network), strict=True))
            self._check(connection, network, ports, users)
            concerned = self._concerned(connection, context, ports, users)
            last = self.networks.prepare_delete(connection, network, gone | {port["id"] for port in ports})
        segments = last.context.segments
        contexts: list[DriverContext] = []
        with self.operations.write(contexts, [last]) as tx:
            for pending in before:
                pending.write(tx)
            for port in ports:
                if port["id"] in concerned:
                    self._write_hooks(tx, context, port, concerned[port["id"]])
                deleted = self.ports.prepare_delete(port, network)
                deleted.write(tx)
                contexts.append(deleted.context)
                tx.after_commit(self.ports.notify, port, None)
            earlier = [pending.context for pending in before if pending.context is not NO_EVENT]
            # The segments of this network are deleted before mechanism drivers are called.
            contexts[:] = [
                replace(one, segments=segments) if one.network.get("id") == key else one
                for one in (*earlier, *contexts)
            ]
        return [*removed, *own]

    def _ports(self, connection: Connection, network: Object, gone: Collection[str]) -> list[Object]:
        """The ports to delete here, without those that are deleted with every network."""
        unused = {port.id for one in self.networks.unused_ports(connection, network) for port in one.ports}
        there = self.ports.view.load_where(
            connection, t.ports.c.network_id == network["id"], t.ports.c.device_owner.not_in(AUTO_DELETED)
        )
        return sorted((p for p in there if p["id"] not in unused and p["id"] not in gone), key=lambda p: str(p["id"]))

    def _removed(self, network: Object, resource: Resource, objects: Sequence[Object]) -> list[Removed]:
        related = {"network:project_id": network["project_id"], "network:shared": network["shared"]}
        return [Removed(resource, {**one, **related}) for one in objects]

    def _concerned(
        self, connection: Connection, context: Context, ports: Sequence[Object], users: Users
    ) -> dict[str, list[PortUse]]:
        """The ports for which services write something, with these services; refused if one refuses to let a port go."""
        using = {port["id"]: [use for use, ids in users if port["id"] in ids] for port in ports}
        return {
            port["id"]: using[port["id"]]
            for port in ports
            if using[port["id"]] and self.ports.hook_writes(connection, context, port, None, using[port["id"]])
        }

    def _check(self, connection: Connection, network: Object, ports: Sequence[Object], users: Users) -> None:
        """Refuse ports that belong to a service which does not release them."""
        replaced = [service.replaces for service in self.services]
        checks = [
            (use.check_delete, ids) for use, ids in users if use.check_delete and use.check_delete not in replaced
        ]
        used = [
            port["id"]
            for port in ports
            if any(port["id"] in ids and _refuses(check, connection, port) for check, ids in checks)
        ]
        if used:
            raise errors.NetworkInUse(id=network["id"], ports=", ".join(used[:10]))

    def _write_hooks(self, tx: Transaction, context: Context, port: Object, uses: Sequence[PortUse]) -> None:
        """What services write for a deleted port.

        They decide again, in the transaction, one port after the other: two ports may share what is written for them,
        such as a tap flow from one to the other. For most ports nothing is, and the transaction reads nothing.
        """
        for pending in self.ports.hook_writes(tx.connection, context, port, None, uses):
            pending.write(tx)


def _deletes_port(context: DriverContext) -> bool:
    return (context.operation, context.kind) == ("delete", "port")


def _refuses(check: DeleteCheck, connection: Connection, port: Object) -> bool:
    try:
        check(connection, port)
    except errors.Conflict:
        return True
    return False
