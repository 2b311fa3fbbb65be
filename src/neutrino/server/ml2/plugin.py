"""The core plugin: networks, subnets and ports by ML2's drivers. It only puts its parts together and names the verbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import BINDING, PORT
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.port_bindings import PortBindings
from neutrino.server.ml2.ports import Ports
from neutrino.server.ml2.provisioning import Provisioning
from neutrino.server.ml2.renumbering import Renumbering
from neutrino.server.ml2.subnets import Subnets
from neutrino.server.query import Query

Object = dict[str, Any]


class Ml2Plugin:
    resources = (NETWORK, SUBNET, PORT, BINDING)
    extensions: Sequence[Extension] = ()

    def __init__(
        self,
        db: Database,
        operations: Operations,
        networks: Networks,
        subnets: Subnets,
        ports: Ports,
        bindings: PortBindings,
        provisioning: Provisioning,
        renumbering: Renumbering,
    ) -> None:
        self._db = db
        self.operations = operations
        self.networks = networks
        self.subnets = subnets
        self.ports = ports
        self.bindings = bindings
        self.provisioning = provisioning
        self.renumbering = renumbering

    # --- networks -------------------------------------------------------------------------------------------------

    def get_networks(self, context: Context, query: Query) -> list[Object]:
        return self.networks.index(context, query)

    def get_network(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        return self.networks.show(context, key, fields, everyone)

    def create_network(self, context: Context, values: Object) -> Object:
        return self.networks.create(context, [values])[0]

    def create_network_bulk(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return self.networks.create(context, several)

    def update_network(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        return self.networks.update(context, key, values, revision)

    def delete_network(self, context: Context, key: str, revision: int | None) -> None:
        self.networks.delete(context, key, revision)

    # --- subnets --------------------------------------------------------------------------------------------------

    def get_subnets(self, context: Context, query: Query) -> list[Object]:
        return self.subnets.index(context, query)

    def get_subnet(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        return self.subnets.show(context, key, fields, everyone)

    def subnet_target(self, context: Context, values: Object) -> Object:
        return self.networks.owner(context, values["network_id"], everyone=True)

    def create_subnet(self, context: Context, values: Object) -> Object:
        return self.subnets.create(context, values)

    def create_subnet_bulk(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return self.subnets.create_several(context, several)

    def update_subnet(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        return self.subnets.update(context, key, values, revision)

    def delete_subnet(self, context: Context, key: str, revision: int | None) -> None:
        self.subnets.delete(context, key, revision)

    # --- ports ----------------------------------------------------------------------------------------------------

    def get_ports(self, context: Context, query: Query) -> Iterator[Object]:
        return self.ports.index(context, query)

    def get_port(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        return self.ports.show(context, key, fields, everyone)

    def port_target(self, context: Context, values: Object) -> Object:
        sees_all = context.is_admin or "service" in context.roles
        return self.networks.owner(context, values["network_id"], everyone=sees_all)

    def create_port(self, context: Context, values: Object) -> Object:
        return self.ports.create(context, [values])[0]

    def create_port_bulk(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return self.ports.create(context, several)

    def update_port(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        return self.ports.update(context, key, values, revision)

    def delete_port(self, context: Context, key: str, revision: int | None) -> None:
        self.ports.delete(context, key, revision)

    # --- bindings -------------------------------------------------------------------------------------------------

    def port_binding_target(self, context: Context, port_id: str, request: Any) -> Object:
        return self.bindings.target(port_id, request)

    def get_port_bindings(self, context: Context, port_id: str, query: Query) -> list[Object]:
        return self.bindings.index(context, port_id, query)

    def get_port_binding(
        self, context: Context, port_id: str, host: str, fields: Sequence[str] | None, everyone: bool
    ) -> Object:
        return self.bindings.show(port_id, host, fields)

    def create_port_binding(self, context: Context, port_id: str, values: Object) -> Object:
        return self.bindings.create(context, port_id, values)

    def update_port_binding(
        self, context: Context, port_id: str, host: str, values: Object, revision: int | None
    ) -> Object:
        return self.bindings.update(context, port_id, host, values)

    def delete_port_binding(self, context: Context, port_id: str, host: str, revision: int | None) -> None:
        self.bindings.delete(context, port_id, host)

    def activate(self, context: Context, port_id: str, host: str, body: Object) -> Object:
        return self.bindings.activate(context, port_id, host)
