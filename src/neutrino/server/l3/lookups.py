"""Objects by id, or 404: of whichever project, or only if the caller may see them."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db.view import View
from neutrino.server.ml2.views import NETWORKS, PORTS, SUBNETS

Object = dict[str, Any]
NotFound = Callable[..., Exception]  # called with the id


def load(connection: Connection, view: View, key: str, not_found: NotFound) -> Object:
    """An object with decoded values, of whichever project."""
    found = view.load(connection, key)
    if found is None:
        raise not_found(id=key)
    return found


def _visible(connection: Connection, context: Context, view: View, key: str, not_found: NotFound) -> Object:
    found = view.show(connection, key, project=context.project_id, everyone=context.is_admin)
    if found is None:
        raise not_found(id=key)
    return view.decoded(found)


def visible_subnet(connection: Connection, context: Context, key: str) -> Object:
    return _visible(connection, context, SUBNETS, key, errors.SubnetNotFound)


def visible_port(connection: Connection, context: Context, key: str) -> Object:
    return _visible(connection, context, PORTS, key, errors.PortNotFound)


def check_external(connection: Connection, context: Context, key: str, resource: str) -> None:
    """Refuse a network that the caller does not see, or that is not external."""
    names = ("id", "router:external")
    found = NETWORKS.show(connection, key, project=context.project_id, everyone=context.is_admin, fields=names)
    if found is None:
        raise errors.NetworkNotFound(id=key)
    if not found["router:external"]:
        raise errors.BadRequest(resource=resource, msg=f"network {key} is not an external one")
