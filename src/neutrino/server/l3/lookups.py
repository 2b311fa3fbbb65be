"""Objects that a request refers to, if the caller may see them."""

from typing import Any

from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.ml2.views import NETWORKS, PORTS, SUBNETS

Object = dict[str, Any]


def visible_subnet(connection: Connection, context: Context, key: str) -> Object:
    found = SUBNETS.show(connection, key, project=context.project_id, everyone=context.is_admin)
    if found is None:
        raise errors.SubnetNotFound(id=key)
    return SUBNETS.decoded(found)


def visible_port(connection: Connection, context: Context, key: str) -> Object:
    found = PORTS.show(connection, key, project=context.project_id, everyone=context.is_admin)
    if found is None:
        raise errors.PortNotFound(id=key)
    return PORTS.decoded(found)


def check_external(connection: Connection, context: Context, key: str, resource: str) -> None:
    """Refuse a network that the caller does not see, or that is not external."""
    names = ("id", "router:external")
    found = NETWORKS.show(connection, key, project=context.project_id, everyone=context.is_admin, fields=names)
    if found is None:
        raise errors.NetworkNotFound(id=key)
    if not found["router:external"]:
        raise errors.BadRequest(resource=resource, msg=f"network {key} is not an external one")
