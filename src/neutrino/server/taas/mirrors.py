"""Tap mirrors: create, update, delete. Copies of a port's packets go through a tunnel to a collector outside the cloud."""

from collections.abc import Sequence
from ipaddress import ip_address

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.resources.taas import TUNNEL_IDS
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row
from neutrino.server.db.reads import Lookup, first, read
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.feed.reports.rules import tunnel_address
from neutrino.server.host_limits import check_number
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.quota.quotas import Quotas
from neutrino.server.taas.taps import REVISION, Taps, changed_ports, check_owner, new_object, own_port
from neutrino.server.taas.views import MIRRORS

_a, _m, _t = t.agents.c, t.tap_mirrors.c, t.tap_mirror_tunnels.c


class TapMirrors(Taps):
    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, MIRRORS, quotas)

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        made = [new_object(values) for values in several]
        tunnels = [row for mirror in made for row in _tunnels(mirror)]
        _check_distinct(tunnels)
        with self.db.read() as connection:
            for mirror in made:
                check_owner(mirror, own_port(connection, context, mirror["port_id"]))
            _check_unused(connection, context, tunnels)
            _check_collectors(connection, made)
            check_number(connection, _m.port_id, (each["port_id"] for each in made), "Port", "tap mirrors")
            limits = self._quotas.limits(connection, "tap_mirror", made)
        rows = [{**as_row(t.tap_mirrors, each), "revision_number": 0} for each in made]
        with self.db.transaction() as tx:
            tx.insert(t.tap_mirrors, rows, limits)
            # Of two requests for the same tunnel id, one fails on the primary key, and is refused when it is decided again.
            tx.insert(t.tap_mirror_tunnels, tunnels)
            changed_ports(tx, (each["port_id"] for each in made))
        return made

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
        with self.db.transaction() as tx:
            delete_row(tx, t.tap_mirrors, before)
            changed_ports(tx, [before["port_id"]])


def _tunnels(mirror: Object) -> list[Object]:
    """The rows of a mirror's tunnel ids. Two directions may have the same one."""
    possible = TUNNEL_IDS[mirror["mirror_type"]]
    for direction, tunnel_id in mirror["directions"].items():
        if tunnel_id not in possible:
            reason = f"directions: {direction} of a mirror of type {mirror['mirror_type']} is at most {possible[-1]}"
            raise errors.InvalidInput(error_message=reason)
    numbers = sorted({*mirror["directions"].values()})
    return [{"project_id": mirror["project_id"], "tunnel_id": one, "tap_mirror_id": mirror["id"]} for one in numbers]


def _check_distinct(tunnels: Sequence[Object]) -> None:
    seen: set[int] = set()
    for row in tunnels:
        if row["tunnel_id"] in seen:
            raise errors.TapMirrorTunnelConflict(tunnel_id=row["tunnel_id"])
        seen.add(row["tunnel_id"])


def _check_unused(connection: Connection, context: Context, tunnels: Sequence[Object]) -> None:
    """Refuse tunnel ids of mirrors that the caller sees, as Neutron does: collectors tell projects apart by address."""
    taken = sa.select(_t.tunnel_id).where(_t.tunnel_id.in_([row["tunnel_id"] for row in tunnels]))
    if not context.is_admin:
        taken = taken.where(_t.project_id.in_(sorted({row["project_id"] for row in tunnels})))
    found = connection.execute(taken.order_by(_t.tunnel_id).limit(1)).scalar()
    if found is not None:
        raise errors.TapMirrorTunnelConflict(tunnel_id=found)


def _check_collectors(connection: Connection, mirrors: Sequence[Object]) -> None:
    """Refuse the tunnel addresses of hosts: with the id of a network, an instance's packets would get into that network."""
    switches = sa.select(_a.configurations).where(_a.agent_type == words.OVS)
    reported = (msgspec.json.decode(each).get(words.TUNNELING_IP) for each in connection.execute(switches).scalars())
    hosts = {ip_address(each) for each in reported if each and not tunnel_address(each)}
    for mirror in mirrors:
        if ip_address(mirror["remote_ip"]) in hosts:
            raise errors.TapMirrorToHost(remote_ip=mirror["remote_ip"])


_MIRRORED = Lookup(sa.select(_m.id).where(_m.port_id == sa.bindparam("port", type_=sa.String)), first)


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """A hook of ports: with a port that is deleted, its tap mirrors are."""
    if before is None or after is not None:
        return None
    if read(connection, _MIRRORED(port=before["id"])) is None:  # as most ports
        return None
    mirrors = MIRRORS.load_where(connection, _m.port_id == before["id"])
    if not mirrors:
        return None

    def write(tx: Transaction) -> None:
        keys = [mirror["id"] for mirror in mirrors]
        tx.change(sa.delete(t.tap_mirrors).where(_m.id.in_(keys)), rows=len(keys))
        for mirror in mirrors:
            tx.log(t.tap_mirrors, mirror, deleted=True)
            tx.use("tap_mirror", mirror["project_id"], -1)

    return write
