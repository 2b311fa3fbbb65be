"""Tap mirrors: create, update, delete. Copies of a port's packets go through a tunnel to a collector outside the cloud."""

from collections.abc import Sequence
from ipaddress import ip_address

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.taas.errors import TapMirrorNotFound, TapMirrorToHost, TapMirrorTunnelConflict
from neutrino.features.taas.resources import TUNNEL_IDS
from neutrino.features.taas.status import HIDDEN
from neutrino.features.taas.tables import tap_mirror_tunnels, tap_mirrors
from neutrino.features.taas.taps import check_owner, delete_rows, record_ports
from neutrino.model import agents
from neutrino.model.addresses import tunnel_address_fault
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.host_limits import check_number
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.ml2.views import PORTS

MIRRORS = View(tap_mirrors, hidden=HIDDEN, not_found=TapMirrorNotFound)


class TapMirrors(Collection):
    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        tunnels = [row for mirror in objects for row in _tunnels(mirror)]
        _check_distinct(tunnels)
        for mirror in objects:
            check_owner(mirror, PORTS.get_visible(connection, context, mirror["port_id"]))
        _check_unused(connection, context, tunnels)
        _check_collectors(connection, objects)
        port_ids = [mirror["port_id"] for mirror in objects]
        check_number(connection, tap_mirrors.c.port_id, port_ids, "Port", "tap mirrors")

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            # Of two requests for the same tunnel id, one fails on the primary key, and is refused when it is decided again.
            tx.insert(tap_mirror_tunnels, _tunnels(after))
        if before is None or after is None:
            record_ports(tx, [mirror["port_id"] for mirror in (before, after) if mirror is not None])


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
            raise TapMirrorTunnelConflict(tunnel_id=row["tunnel_id"])
        seen.add(row["tunnel_id"])


def _check_unused(connection: Connection, context: Context, tunnels: Sequence[Object]) -> None:
    """Refuse tunnel ids of mirrors that the caller sees, as Neutron does: collectors tell projects apart by address."""
    of_tunnels = tap_mirror_tunnels.c
    taken = sa.select(of_tunnels.tunnel_id).where(of_tunnels.tunnel_id.in_([row["tunnel_id"] for row in tunnels]))
    if not context.is_admin:
        taken = taken.where(of_tunnels.project_id.in_(sorted({row["project_id"] for row in tunnels})))
    tunnel_id = connection.execute(taken.order_by(of_tunnels.tunnel_id).limit(1)).scalar()
    if tunnel_id is not None:
        raise TapMirrorTunnelConflict(tunnel_id=tunnel_id)


def _check_collectors(connection: Connection, mirrors: Sequence[Object]) -> None:
    """Refuse the tunnel addresses of hosts: with the id of a network, an instance's packets would get into that network."""
    switches = sa.select(t.agents.c.configurations).where(t.agents.c.agent_type == agents.OVS)
    reported = (decode(text).get(agents.TUNNELING_IP) for text in connection.execute(switches).scalars())
    hosts = {ip_address(address) for address in reported if address and not tunnel_address_fault(address)}
    for mirror in mirrors:
        if ip_address(mirror["remote_ip"]) in hosts:
            raise TapMirrorToHost(remote_ip=mirror["remote_ip"])


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """With a port that is deleted, its tap mirrors are."""
    if before is None or after is not None:
        return None
    mirrors = MIRRORS.load_where(connection, tap_mirrors.c.port_id == before["id"])
    return lambda tx: delete_rows(tx, tap_mirrors, mirrors)
