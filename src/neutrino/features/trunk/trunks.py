"""Trunks: the API."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.trunk import checks, errors, followers
from neutrino.features.trunk.resources import DOWN, ERROR, TRUNK
from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.features.trunk.views import TRUNK_OF_PORT, TRUNKS, subports_of
from neutrino.model.objects import Object
from neutrino.server.access import sharing
from neutrino.server.api.cascade import Permit, Removed
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh
from neutrino.server.db.reads import read
from neutrino.server.db.session import Database, Stale, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.cascade import Release
from neutrino.server.ml2.operations import NO_EVENT, Operations, PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.quota.quotas import Quotas

KIND, REMOVE = "trunk", "remove_subports"


class Trunks(Collection):
    needed = ("generation",)

    def __init__(
        self,
        db: Database,
        quotas: Quotas,
        operations: Operations,
        ports: Ports,
        subport_bindings: followers.Followers,
        allows: checks.Allows,
    ) -> None:
        super().__init__(db, TRUNKS, quotas)
        self._limits = quotas.limits
        self._operations = operations
        self._ports = ports
        self._allows = allows
        self._followers = subport_bindings

    # --- the trunk ------------------------------------------------------------------------------------------------

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        made: list[Object] = []
        with self.db.read() as connection:
            wanted = [key for item in items for key in (item["port_id"], *(s["port_id"] for s in item["sub_ports"]))]
            ports = checks.visible_ports(connection, context, self._ports.view, wanted)
            for item in items:
                checks.check_inherited(connection, context, self._allows, ports, item["sub_ports"])
                parent = checks.check_parent(connection, ports, item["port_id"])
                subports = checks.check_subports(connection, parent, ports, item["sub_ports"])
                made.append(fresh({**item, "sub_ports": subports, "status": DOWN}, revision=0))
                checks.check_unique(made[-1]["id"], subports)
            _refuse_repeated(made)
            members = [ports[one["port_id"]] for trunk in made for one in trunk["sub_ports"]]
            moved = self._followers.bound(connection, members, "", "")  # the parent is not bound
            limits = self._limits(connection, KIND, made)
        with self._operations.write([], moved) as tx:
            for trunk in made:
                followers.new_trunk(tx, ports[trunk["port_id"]])
            for port in members:
                followers.new_subport(tx, port)
            tx.insert(trunks, [as_row(trunks, {**trunk, "generation": 0, "failed_host": ""}) for trunk in made], limits)
            tx.insert(trunk_subports, [_row(trunk["id"], one) for trunk in made for one in trunk["sub_ports"]])
            for trunk in made:
                tx.after_commit(self._operations.announce, "trunk", "create", trunk, trunk["sub_ports"])
        return made

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self.load(connection, context, key, revision)
            _check_managed(before)
            if self._ports.view.get(connection, before["port_id"])["binding:host_id"]:
                raise errors.TrunkInUse(trunk_id=key)
            released = self._followers.released(connection, [one["port_id"] for one in before["sub_ports"]])
        with self._operations.write([], released) as tx:
            self._delete(tx, before)

    def _delete(self, tx: Transaction, before: Object) -> None:
        followers.claim(tx, before["id"], before["generation"])
        sharing.delete_object(tx, trunks, before)
        tx.after_commit(self._operations.announce, "trunk", "delete", before, before["sub_ports"])

    # --- its subports ---------------------------------------------------------------------------------------------

    @retried
    def add_subports(self, context: Context, key: str, body: object) -> Object:
        asked = checks.asked_subports(body)
        with self.db.read() as connection:
            before = self.load(connection, context, key, None)
            parent = self._ports.view.get(connection, before["port_id"])
            ports = checks.visible_ports(connection, context, self._ports.view, [one["port_id"] for one in asked])
            checks.check_inherited(connection, context, self._allows, ports, asked)
            added = checks.check_subports(connection, parent, ports, asked)
            _check_managed(before)
            if before["status"] == ERROR:
                raise errors.TrunkInErrorState(trunk_id=key)
            together = [*before["sub_ports"], *added]
            checks.check_unique(key, together)
            new, host = [ports[one["port_id"]] for one in added], parent["binding:host_id"]
            bound = self._followers.bound(connection, new, key, host)
        with self._operations.write([], bound) as tx:
            followers.claim(tx, key, before["generation"])
            for port in new:
                followers.new_subport(tx, port)
            tx.insert(trunk_subports, [_row(key, one) for one in added])
            tx.log(trunks, before, changed={"sub_ports": (before["sub_ports"], together)})
            tx.after_commit(self._operations.announce, "subports", "create", before, added)
        return self._after(key)

    @retried
    def remove_subports(self, context: Context, key: str, body: object) -> Object:
        asked = checks.asked_subports(body)
        with self.db.read() as connection:
            before = self.load(connection, context, key, None)
            _check_managed(before)
            members = {one["port_id"] for one in before["sub_ports"]}
            gone = [one["port_id"] for one in asked]
            for port_id in gone:
                if port_id not in members:
                    raise errors.SubPortNotFound(port_id=port_id, trunk_id=key)
            released = self._followers.released(connection, gone)
        with self._operations.write([], released) as tx:
            followers.claim(tx, key, before["generation"])
            for port_id in gone:
                tx.change(
                    sa.delete(trunk_subports).where(
                        trunk_subports.c.port_id == port_id, trunk_subports.c.trunk_id == key
                    )
                )
            left = [one for one in before["sub_ports"] if one["port_id"] not in gone]
            tx.log(trunks, before, changed={"sub_ports": (before["sub_ports"], left)})
            removed = [one for one in before["sub_ports"] if one["port_id"] in gone]
            tx.after_commit(self._operations.announce, "subports", "delete", before, removed)
        return self._after(key)

    def get_subports(self, context: Context, key: str) -> Object:
        with self.db.read() as connection:
            return {"sub_ports": subports_of(connection, [key])[key]}

    # --- with a network -------------------------------------------------------------------------------------------

    def release(self, connection: Connection, network: Object, permit: Permit) -> Release:
        """The trunks with ports on a network that is deleted: of a parent the trunk is, of a subport its membership.

        A parent may be bound here: its device loses the port anyway. Subports on other networks stay as ports.
        """
        on_network = sa.select(t.ports.c.id).where(t.ports.c.network_id == network["id"])
        parents = connection.execute(sa.select(trunks.c.id).where(trunks.c.port_id.in_(on_network))).scalars()
        rows = connection.execute(
            sa.select(trunk_subports.c.trunk_id, trunk_subports.c.port_id).where(
                trunk_subports.c.port_id.in_(on_network)
            )
        ).all()
        members: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            members[row.trunk_id].add(row.port_id)
        deleted = sorted(parents)
        parts = [self._release_trunk(connection, key, members[key], permit) for key in deleted]
        others = sorted(members.keys() - set(deleted))
        parts += [self._release_subports(connection, key, members[key], permit) for key in others]
        return Release([w for part in parts for w in part.writes], [r for part in parts for r in part.removed])

    def _release_trunk(self, connection: Connection, key: str, here: set[str], permit: Permit) -> Release:
        before = self._get_again(connection, key)
        removed = Removed(TRUNK, before)
        permit(removed)
        _check_managed(before)
        elsewhere = [one["port_id"] for one in before["sub_ports"] if one["port_id"] not in here]

        released = self._followers.released(connection, elsewhere)
        return Release([PendingWrite(NO_EVENT, lambda tx: self._delete(tx, before)), *released], [removed])

    def _release_subports(self, connection: Connection, key: str, here: set[str], permit: Permit) -> Release:
        before = self._get_again(connection, key)
        left = [one for one in before["sub_ports"] if one["port_id"] not in here]
        removed = Removed(TRUNK, before, REMOVE, _shown({**before, "sub_ports": left}))
        permit(removed)
        _check_managed(before)

        def write(tx: Transaction) -> None:
            followers.claim(tx, key, before["generation"])
            gone = sa.delete(trunk_subports).where(
                trunk_subports.c.trunk_id == key, trunk_subports.c.port_id.in_(sorted(here))
            )
            tx.change(gone, rows=len(here))
            tx.log(trunks, before, changed={"sub_ports": (before["sub_ports"], left)})
            members = [one for one in before["sub_ports"] if one["port_id"] in here]
            tx.after_commit(self._operations.announce, "subports", "delete", before, members)

        return Release([PendingWrite(NO_EVENT, write)], [removed])

    # --- parts ----------------------------------------------------------------------------------------------------

    def _get_again(self, connection: Connection, key: str) -> Object:
        try:
            return TRUNKS.get(connection, key, more=self._more)
        except errors.TrunkNotFound:  # deleted since its id was read
            raise Stale from None

    def _after(self, key: str) -> Object:
        """The trunk as it is now: binding its subports has changed its status."""
        with self.db.read() as connection:
            return TRUNKS.get(connection, key, more=("sub_ports",))


def _row(trunk_id: str, subport: Object) -> Object:
    return {"trunk_id": trunk_id, **subport}


def _shown(trunk: Object) -> Object:
    return {name: value for name, value in trunk.items() if name != "generation"}


def _check_managed(trunk: Object) -> None:
    if not trunk["admin_state_up"]:
        raise errors.TrunkDisabled(trunk_id=trunk["id"])


def _refuse_repeated(several: Iterable[Object]) -> None:
    """Refuse a bulk request with a port in two of its trunks."""
    parents, subports = set[str](), set[str]()
    for trunk in several:
        members = {one["port_id"] for one in trunk["sub_ports"]}
        if trunk["port_id"] in parents | subports:
            raise errors.ParentPortInUse(port_id=trunk["port_id"])
        if taken := sorted(members & (parents | subports)):
            raise errors.TrunkPortInUse(port_id=taken[0])
        parents.add(trunk["port_id"])
        subports |= members


def refuse_port_deletion(connection: Connection, port: Object) -> None:
    row = next(iter(read(connection, TRUNK_OF_PORT(port=port["id"]))), None)
    if row is not None:
        error = errors.PortInUseAsTrunkParent if row.is_parent else errors.PortInUseAsSubPort
        raise error(port_id=port["id"], trunk_id=row.trunk_id)
