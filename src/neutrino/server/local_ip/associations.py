"""Associations of local IPs with ports: the host of such a port translates the address to the port.

Hosts get associations as a part of the port. Deleting the port deletes them by their foreign key.
"""

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.host_limits import check_number
from neutrino.server.local_ip import local_ips
from neutrino.server.local_ip.local_ips import chosen_address
from neutrino.server.ml2.views import PORTS
from neutrino.server.view_collection import ChildViewCollection

_a, _l, _p, _n = t.local_ip_associations.c, t.local_ips.c, t.ports.c, t.networks.c
# The rule that hides the host is that of the port, and depends on the port's owner.
_OF_PORT = ("project_id", "network:project_id")


def _of_local_ip(column: sa.Column[str]) -> sa.ScalarSelect[str]:
    return sa.select(column).where(_l.id == _a.local_ip_id).scalar_subquery()


def _of_port(column: sa.Column[str]) -> sa.ScalarSelect[str]:
    its_network = t.ports.join(t.networks, _n.id == _p.network_id)
    return sa.select(column).select_from(its_network).where(_p.id == _a.fixed_port_id).scalar_subquery()


VIEW = View(
    t.local_ip_associations,
    computed={
        "local_ip_address": _of_local_ip(_l.local_ip_address),
        "host": _of_port(_p.host),
        "project_id": _of_port(_p.project_id),
        "network:project_id": _of_port(_n.project_id),
        "ext_parent:project_id": _of_local_ip(_l.project_id),
    },
    scope=sa.true(),  # the caller has to see the local IP
    key="fixed_port_id",
    hidden=("ext_parent:project_id", *_OF_PORT),
    not_found=errors.LocalIPAssociationNotFound,
)


class PortAssociations(ChildViewCollection):
    def __init__(self, db: Database) -> None:
        super().__init__(db, VIEW, _a.local_ip_id, local_ips.VIEW)

    @retried
    def create(self, context: Context, local_ip_id: str, values: Object) -> Object:
        port_id = values["fixed_port_id"]
        with self.db.read() as connection:
            local_ip = local_ips.VIEW.get(connection, local_ip_id)
            port = PORTS.load(connection, port_id, context.project_id, everyone=context.is_admin, more=_OF_PORT)
            if port is None:
                raise errors.BadRequest(resource="local_ip_port_association", msg=f"there is no port {port_id}")
            if port["network_id"] != local_ip["network_id"]:  # there the address may be anyone's
                networks = (
                    f"port {port_id} is on network {port['network_id']}, the local IP on {local_ip['network_id']}"
                )
                raise errors.BadRequest(resource="local_ip_port_association", msg=networks)
            fixed_ip = chosen_address(port, values["fixed_ip"], "fixed_ip")
            if exists(connection, _a.local_ip_id == local_ip_id, _a.fixed_port_id == port_id):
                raise errors.Conflict(f"Local IP {local_ip_id} is associated with port {port_id} already.")
            check_number(connection, _a.fixed_port_id, [port_id], "Port", "local IPs")
        row = {"local_ip_id": local_ip_id, "fixed_port_id": port_id, "fixed_ip": fixed_ip}
        with self.db.transaction() as tx:
            # Of two requests for the same port, one fails on the primary key.
            tx.insert(t.local_ip_associations, [row])
            tx.record("port", port_id)
        of_port = {"host": port["binding:host_id"], **{name: port[name] for name in _OF_PORT}}
        return {**row, "local_ip_address": local_ip["local_ip_address"], **of_port}

    @retried
    def delete(self, context: Context, local_ip_id: str, key: str, revision: int | None) -> None:
        mine = _a.local_ip_id == local_ip_id, _a.fixed_port_id == key
        with self.db.read() as connection:
            if not exists(connection, *mine):
                raise errors.LocalIPAssociationNotFound(id=key)
        with self.db.transaction() as tx:
            tx.change(sa.delete(t.local_ip_associations).where(*mine))
            tx.record("port", key)
