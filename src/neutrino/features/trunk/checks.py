"""Which ports may be the parent or a subport of a trunk. Reads only; what changes before the write makes it fail."""

from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.trunk.errors import (
    DuplicateSubPort,
    ParentPortInUse,
    SubPortMtuGreaterThanTrunkPortMtu,
    TrunkPortInUse,
)
from neutrino.features.trunk.resources import INHERIT, VLAN, VLANS, parse_subports
from neutrino.features.trunk.views import parents_among, subports_among
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.api import types as at
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.view import View
from neutrino.server.ml2.views import NETWORKS
from neutrino.server.query import Query

Allows = Callable[[Context, str, Values], bool]
SEES_VLAN = "get_network:provider:segmentation_id"
_NETWORKS = sa.select(t.networks.c.id, t.networks.c.mtu, t.networks.c.network_type, t.networks.c.segmentation_id)


def asked_subports(body: object) -> list[Object]:
    """The subports of an action's body."""
    value = body.get("sub_ports") if isinstance(body, dict) else None
    try:
        return parse_subports(value)
    except (at.Invalid, at.Unconvertible) as error:
        raise errors.InvalidInput(f"Invalid input for sub_ports: {str(error)[:1000]}.") from None


def visible_ports(connection: Connection, context: Context, view: View, ids: Sequence[str]) -> dict[str, Object]:
    """The ports with these ids that the caller may see."""
    if not ids:
        return {}
    asked = Query({"id": tuple(dict.fromkeys(ids))}, fields=view.stored, everyone=context.is_admin)
    return {port["id"]: view.decoded(port) for port in view.many(connection, asked, context.project_id)}


def check_parent(connection: Connection, ports: Mapping[str, Object], port_id: str) -> Object:
    if subports_among(connection, [port_id]):
        raise TrunkPortInUse(port_id=port_id)
    if parents_among(connection, [port_id]):
        raise ParentPortInUse(port_id=port_id)
    if port_id not in ports:
        raise errors.PortNotFound(id=port_id)
    if ports[port_id]["binding:host_id"]:  # its device is plugged already, and not into a bridge of the trunk
        raise ParentPortInUse(port_id=port_id)
    return ports[port_id]


def check_subports(
    connection: Connection, parent: Object, ports: Mapping[str, Object], asked: Sequence[Object]
) -> list[Object]:
    """The subports to add, each with its segmentation type and id."""
    ids = [one["port_id"] for one in asked]
    networks = _networks(connection, [parent, *(ports[key] for key in ids if key in ports)])
    parents, subports = parents_among(connection, ids), subports_among(connection, ids)
    out: list[Object] = []
    for one in asked:
        key, port = one["port_id"], ports.get(one["port_id"])
        if key == parent["id"]:
            raise ParentPortInUse(port_id=key)
        if port is not None:
            _check_mtu(port, networks[port["network_id"]], parent, networks[parent["network_id"]])
        network = None if port is None else networks[port["network_id"]]
        found = {"port_id": key, **_segmentation(one, network)}
        if key in subports:
            raise TrunkPortInUse(port_id=key)
        if key in parents:
            raise ParentPortInUse(port_id=key)
        if port is None:
            raise errors.PortNotFound(id=key)
        if port["device_id"]:
            raise errors.PortInUse(port_id=key, device_id=port["device_id"])
        out.append(found)
    return out


def check_inherited(
    connection: Connection, context: Context, allows: Allows, ports: Mapping[str, Object], asked: Sequence[Object]
) -> None:
    """Refuse to inherit the VLAN of a network whose VLAN the policy hides from the caller: the trunk would show it."""
    inheriting = {one["port_id"] for one in asked if one.get("segmentation_type") == INHERIT}
    for network_id in sorted({ports[key]["network_id"] for key in inheriting if key in ports}):
        network = NETWORKS.show(connection, network_id, project=context.project_id, everyone=True) or {}
        if not allows(context, SEES_VLAN, network):
            raise errors.PolicyNotAuthorized(rule=SEES_VLAN)


def check_unique(trunk_id: str, subports: Sequence[Object]) -> None:
    """All subports of a trunk together: an inherited VLAN may equal another one."""
    seen = set()
    for one in subports:
        key = one["segmentation_type"], one["segmentation_id"]
        if key in seen:
            raise DuplicateSubPort(segmentation_type=key[0], segmentation_id=key[1], trunk_id=trunk_id)
        seen.add(key)


def _networks(connection: Connection, ports: Sequence[Object]) -> dict[str, NamedRow]:
    ids = sorted({port["network_id"] for port in ports})
    return {row.id: row for row in connection.execute(_NETWORKS.where(t.networks.c.id.in_(ids)))}


def _check_mtu(port: Object, network: NamedRow, parent: Object, parent_network: NamedRow) -> None:
    if network.mtu > parent_network.mtu:  # a tagged packet of this size does not fit into the parent's device
        raise SubPortMtuGreaterThanTrunkPortMtu(
            port_id=port["id"], port_mtu=network.mtu, trunk_id=parent["id"], trunk_mtu=parent_network.mtu
        )


def _segmentation(asked: Object, network: NamedRow | None) -> Object:
    type_, number = asked.get("segmentation_type"), asked.get("segmentation_id")
    if type_ == INHERIT and network is not None:  # of a port that does not exist, the error is another one
        type_, number = network.network_type, network.segmentation_id
        if number is None:  # flat, local, or several segments
            raise _invalid(f"the network of subport {asked['port_id']} has no segmentation ID to inherit")
    elif type_ == INHERIT:
        return {}
    if type_ is None or number is None:
        raise _invalid(f"subport {asked['port_id']} lacks segmentation_type and segmentation_id")
    try:
        number = at.Integer().parse(number)
    except (at.Invalid, at.Unconvertible) as error:
        raise _invalid(f"segmentation_id: {error}") from None
    if type_ != VLAN:
        raise _invalid(f"unknown segmentation_type '{str(type_)[:64]}'")
    if number not in VLANS:
        raise _invalid(f"segmentation ID '{number}' is not in range")
    return {"segmentation_type": type_, "segmentation_id": number}


def _invalid(reason: str) -> errors.InvalidInput:
    return errors.InvalidInput(f"Invalid input for sub_ports: {reason}.")
