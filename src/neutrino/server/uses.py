"""How features depend on objects of other features: declared by `Feature`, asked by the feature that has the object."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server.access.sharing import Users
from neutrino.server.context import Context
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.errors import ApiError
from neutrino.server.securitygroups.checks import Rule

Write = Callable[[Transaction], object]


@dataclass(frozen=True)
class AgreedWrite:
    """A write that another service has to agree to. It is asked before the transaction, while no connection is held."""

    ask: Callable[[], object]  # may refuse the change
    write: Write

    def __call__(self, tx: Transaction) -> object:
        return self.write(tx)


GroupDeletion = Callable[[Transaction, str], None]  # called in the transaction that deletes a group, by its id
SubnetCheck = Callable[[Connection, str], None]  # refuses the deletion of a subnet, by its id


@dataclass(frozen=True)
class UnusedPorts:
    """Ports of a feature that do not keep their network from being deleted, and rows to write before they are."""

    ports: Sequence[NamedRow]  # rows with id, project_id and revision_number
    write: Callable[[Transaction], None]


@dataclass(frozen=True)
class NetworkUse:
    """Objects of a feature that need a network."""

    check_create: Callable[[Connection, Object], None] = lambda connection, network: None  # refuses a new network
    write_create: Callable[[Transaction, Object], None] = lambda tx, network: None  # in the transaction that creates it
    # Its unused ports on a network that is deleted, or becomes an internal one.
    find_unused: Callable[[Connection, Object], UnusedPorts | None] = lambda connection, network: None
    # Who needs the network, by its id, without having a port on it: for the error of a refused deletion.
    users: Callable[[Connection, str], Sequence[str]] = lambda connection, network_id: ()
    # Called with a network before and after an update, when all else is decided; may refuse it, or return rows to write.
    changes: Callable[[Connection, Context, Object, Object], Write | None] = lambda *about: None
    # Of external networks: columns of the projects that use them, and of the networks, with conditions.
    external_users: Users = ()


@dataclass(frozen=True)
class RuleRemote:
    """Objects of a feature that rules of security groups refer to."""

    of: Callable[[Rule], str | None]  # the id that a rule has of such an object
    column: sa.Column[str]  # the ids of these objects, in a table with their projects
    not_found: type[ApiError]


@dataclass(frozen=True)
class RouterUse:
    """Objects of a feature that need a router."""

    # Refuses to delete the router, or to remove its gateway.
    check_release: Callable[[Connection, str], None] = lambda connection, router_id: None
    # Refuses to remove its interface on a subnet.
    check_interface: Callable[[Connection, str, str], None] = lambda connection, router_id, subnet_id: None
    # In the transaction that removes an interface, with the id of its port.
    write_interface_removal: Callable[[Transaction, str], None] = lambda tx, port_id: None
    # Refuses values that a request gives a gateway or a floating IP in place of the earlier ones.
    check_values: Callable[[Connection, Context, Values, Values], None] = lambda *about: None
    # Columns network_id and host: hosts that need a port of their own on an external network, for distributed routers.
    gateway_hosts: sa.Select[tuple[str, str]] | None = None


@dataclass(frozen=True)
class FlavorUse:
    """Objects of a feature that have a flavor."""

    service_type: str
    providers: Sequence[str]  # the first is the default
    column: sa.Column[str]  # that refers to flavors
