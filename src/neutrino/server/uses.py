"""How features depend on objects of other features: declared by `Feature`, asked by the feature that has the object."""

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db.transaction import Transaction

GroupDeletion = Callable[[Transaction, str], None]  # called in the transaction that deletes a security group, by its id
SubnetCheck = Callable[[Connection, str], None]  # refuses the deletion of a subnet, by its id


@dataclass(frozen=True)
class RouterUse:
    """Objects of a feature that need a router."""

    # Refuses to delete the router, or to remove its gateway.
    check_release: Callable[[Connection, str], None] = lambda connection, router_id: None
    # Refuses to remove its interface on a subnet.
    check_interface: Callable[[Connection, str, str], None] = lambda connection, router_id, subnet_id: None
    # Columns network_id and host: hosts that need a port of their own on an external network, for distributed routers.
    gateway_hosts: sa.Select[tuple[str, str]] | None = None


@dataclass(frozen=True)
class FlavorUse:
    """Objects of a feature that have a flavor."""

    service_type: str
    provider: str
    column: sa.Column[str]  # that refers to flavors
