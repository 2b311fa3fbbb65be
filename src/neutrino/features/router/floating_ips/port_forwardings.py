"""Port forwardings: single ports, or ranges, of a floating IP, each translated to a port of some instance.

A floating IP with port forwardings is associated with no port itself; its router is that of the first forwarding's port.
Forwardings are written on the floating IP's revision, so two requests cannot forward the same external port.
"""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import (
    ExternalGatewayForFloatingIPNotFound,
    FloatingIPPortAlreadyAssociated,
    PortForwardingNotFound,
    PortHasBindingFloatingIP,
)
from neutrino.features.router.floating_ips import floating_ips
from neutrino.features.router.floating_ips.floating_ips import bump_routers, revision_of, router_between
from neutrino.features.router.tables import floatingips, port_forwardings
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.collection import ChildCollection, child_view
from neutrino.server.context import Context
from neutrino.server.db.changed_values import changed_values
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import UNLIMITED, Transaction
from neutrino.server.ml2.views import PORTS
from neutrino.server.quota.quotas import Quotas

QUOTA = "port_forwarding"
RANGES = (("external_port", "external_port_range"), ("internal_port", "internal_port_range"))
SHOWN_IN_FLOATING_IP = ("id", "internal_ip_address", "protocol", "internal_port", "external_port", "internal_port_id")
VIEW = child_view(port_forwardings.c.floatingip_id, floatingips, PortForwardingNotFound)


def refuse(message: str) -> errors.BadRequest:
    return errors.BadRequest(resource="port_forwarding", msg=message)


class PortForwardings(ChildCollection):
    def __init__(self, db: Database, quotas: Quotas, max_shifted: int) -> None:
        """`max_shifted`: the most ports of a range with other internal ports; hosts expand these port by port."""
        super().__init__(db, VIEW, port_forwardings.c.floatingip_id, floating_ips.VIEW)
        self._quotas = quotas
        self._max_shifted = max_shifted

    def changed(self, before: Object | None, values: Object) -> Object:
        given = {name: value for name, value in values.items() if name != "project_id"}
        return _with_ranges(super().changed(before, given), given)

    def check(
        self, connection: Connection, context: Context, parent: Object, before: Object | None, after: Object | None
    ) -> None:
        if after is None:
            parent["router"] = revision_of(connection, parent["router_id"])
            return
        other_port = before is None or before["internal_port_id"] != after["internal_port_id"]
        self._check(connection, parent, after, other_port=other_port)
        router = _router_of(connection, context, parent, after)
        parent["router"] = ((router.id, router.revision_number),)
        parent["limit"] = self._quotas.limit(connection, QUOTA, parent["project_id"]) if before is None else UNLIMITED

    def also_write(self, tx: Transaction, parent: Object, before: Object | None, after: Object | None) -> None:
        key, project_id = (after or before or {})["id"], parent["project_id"]
        listed = {one["id"]: one for one in parent["port_forwardings"]}
        changed = changed_values(before or {}, after or {})
        tx.log(port_forwardings, {"id": key, "project_id": project_id}, deleted=after is None, changed=changed)
        if after is None:
            listed.pop(key, None)
            tx.use(QUOTA, project_id, -1)
            update_row(tx, floatingips, parent, floating_ips.with_forwardings(parent, list(listed.values())))
        else:
            listed[key] = _in_floating_ip(after)
            values = {"port_forwardings": list(listed.values()), "router_id": parent["router"][0][0]}
            update_row(tx, floatingips, parent, values)
        if before is None:
            tx.use(QUOTA, project_id, 1, parent["limit"])
        # Only the first forwarding makes it a floating IP of the router: that is a change of the router. The others are
        # logged for the hosts.
        bump_routers(tx, parent["router"], bump=1 if parent["router_id"] is None else 0)

    def _check(self, connection: Connection, floating_ip: Object, new: Object, *, other_port: bool) -> None:
        _check_ranges(new, self._max_shifted)
        _check_collisions(connection, floating_ip["id"], new)
        if other_port:
            _check_no_floating_ip(connection, new)
        if floating_ip["port_id"] is not None:
            raise FloatingIPPortAlreadyAssociated(
                fixed_ip=floating_ip["fixed_ip_address"],
                port_id=floating_ip["port_id"],
                net_id=floating_ip["floating_network_id"],
            )


# --- rules ------------------------------------------------------------------------------------------------------------


def _router_of(connection: Connection, context: Context, floating_ip: Object, new: Object) -> NamedRow:
    """The router from the internal port to the floating IP's network; all forwardings of one have the same."""
    port = PORTS.get(connection, new["internal_port_id"], context.project_id, everyone=context.is_admin)
    ipv4 = [f for f in port["fixed_ips"] if ":" not in f["ip_address"]]
    fixed = next((f for f in ipv4 if f["ip_address"] == new["internal_ip_address"]), None)
    if fixed is None:
        raise refuse(f"port {port['id']} does not have the IPv4 address {new['internal_ip_address']}")
    try:
        router = router_between(connection, fixed["subnet_id"], floating_ip["floating_network_id"], port["id"])
    except ExternalGatewayForFloatingIPNotFound as error:
        raise refuse(error.message.rstrip(".")) from None
    if floating_ip["router_id"] not in (None, router.id):
        raise refuse(
            f"floating IP {floating_ip['id']} is on router {floating_ip['router_id']}, but port {port['id']} is not"
        )
    return router


def _with_ranges(values: Values, given: Values) -> Object:
    """Both forms of both sides: the range, and the single port of a range of one. The form that was given counts."""
    new = dict(values)
    for single, several in RANGES:
        if given.get(several) is not None or (given.get(single) is None and new.get(several)):
            first, last = new[several].split(":")
        elif given.get(single) is not None:
            first = last = str(new[single])
        else:
            raise refuse(f"{single} or {several} is needed")
        if given.get(several) and given.get(single) and (first, last) != (str(given[single]),) * 2:
            raise refuse(f"{single} and {several} contradict each other")
        new[several] = f"{first}:{last}"
        new[single] = int(first) if first == last else None
    return new


def _ends(port_range: str) -> tuple[int, int]:
    first, last = port_range.split(":")
    return int(first), int(last)


def _check_ranges(new: Object, max_shifted: int) -> None:
    """Internal ports: one, or as many as external ones; other numbers than the external ones only in a short range."""
    inside, outside = _ends(new["internal_port_range"]), _ends(new["external_port_range"])
    if inside[0] == inside[1]:
        return
    number = outside[1] - outside[0] + 1
    if inside[1] - inside[0] + 1 != number:
        raise refuse("internal_port_range has to be one port, or as many as external_port_range")
    if inside != outside and number > max_shifted:
        raise refuse(f"a range with other internal ports may have at most {max_shifted} ports, this one has {number}")


def _check_collisions(connection: Connection, floatingip_id: str, new: Object) -> None:
    same = sa.and_(port_forwardings.c.protocol == new["protocol"], port_forwardings.c.id != new["id"])
    inside = sa.and_(
        port_forwardings.c.internal_port_id == new["internal_port_id"],
        port_forwardings.c.internal_ip_address == new["internal_ip_address"],
    )
    for column, here in (
        ("internal_port_range", inside),
        ("external_port_range", port_forwardings.c.floatingip_id == floatingip_id),
    ):
        first, last = _ends(new[column])
        for taken in connection.execute(sa.select(port_forwardings.c[column]).where(same, here)).scalars():
            start, end = _ends(taken)
            if first <= end and start <= last:
                raise refuse(f"{column} {new[column]} collides with {taken}, which is forwarded already")


def _check_no_floating_ip(connection: Connection, new: Object) -> None:
    row = connection.execute(
        sa.select(floatingips.c.floating_ip_address).where(floatingips.c.port_id == new["internal_port_id"]).limit(1)
    ).first()
    if row is not None:
        raise PortHasBindingFloatingIP(port_id=new["internal_port_id"], floating_ip_address=row[0])


# --- rows -------------------------------------------------------------------------------------------------------------


def _in_floating_ip(forwarding: Values) -> Object:
    """The form in the floating IP: a range is shown only where there is no single port."""
    shown = {name: forwarding[name] for name in SHOWN_IN_FLOATING_IP}
    for single, several in RANGES:
        if forwarding[single] is None:
            shown[several] = forwarding[several]
    return shown
