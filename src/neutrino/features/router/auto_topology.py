"""Auto-allocated topology: a default network with a router, created once per project on request.

    GET /v2.0/auto-allocated-topology/{project}    creates it if there is none; with ?fields=dry-run it only reports
    DELETE                                         deletes it            whether it could. `None`: the caller's project.

It needs a default external network and a default subnet pool. Concurrent requests create several; the first one that is
recorded stays, the others are deleted again.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from neutrino.features.router.errors import AutoAllocationFailure
from neutrino.features.router.resources import ROUTER
from neutrino.features.router.routers.interfaces import Interfaces
from neutrino.features.router.routers.routers import Routers
from neutrino.features.router.tables import auto_allocated_topologies
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Resource
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages.body import items_to_create
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.ipam import subnet_pools
from neutrino.server.policy.authorizer import Authorizer

DRY_RUN = "dry-run"


@dataclass(frozen=True)
class AutoTopology:
    db: Database
    core: Any
    routers: Routers
    interfaces: Interfaces

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def show(request: Request) -> Reply:
            project = _authorized(authorizer, request, "get_auto_allocated_topology")
            if ("fields", DRY_RUN) in request.pairs:
                self._requirements(request.context)
                network_id = "dry-run=pass"
            else:
                network_id = self._ensure(request.context, project)
            answer = {"id": network_id, "project_id": project, "tenant_id": project}
            return Reply(200, {"auto_allocated_topology": answer})

        def delete(request: Request) -> Reply:
            topology = self._find(_authorized(authorizer, request, "delete_auto_allocated_topology"))
            if topology is not None:
                self._delete_parts(request.context, topology.network_id, topology.router_id)
            return Reply(204)

        path = f"{PREFIX}/auto-allocated-topology/{{key}}"
        return [Route("GET", path, show), Route("DELETE", path, delete)]

    def _ensure(self, context: Context, project_id: str) -> str:
        """The id of the project's network."""
        topology = self._find(project_id)
        if topology is not None:
            return str(topology.network_id)
        external, pools = self._requirements(context)
        # Not one transaction: drivers take part in each step. What was created before a failed one is deleted again.
        own = {"project_id": project_id}
        network_id = _create(self.core.networks, NETWORK, context, {**own, "name": "auto_allocated_network"})
        router_id = None
        try:
            router = {**own, "name": "auto_allocated_router", "external_gateway_info": {"network_id": external}}
            router_id = _create(self.routers, ROUTER, context, router)
            for pool in pools:
                named = {**own, "name": f"auto_allocated_subnet_v{pool['ip_version']}", "network_id": network_id}
                from_pool = {"ip_version": pool["ip_version"], "subnetpool_id": pool["id"]}
                subnet_id = _create(self.core.subnets, SUBNET, context, {**named, **from_pool})
                self.interfaces.add_router_interface(context, router_id, {"subnet_id": subnet_id})
            recorded = self._record(project_id, network_id, router_id)
        except errors.ApiError as error:
            self._delete_parts(context, network_id, router_id)
            raise AutoAllocationFailure(reason=error.message.rstrip(".")) from error
        if recorded != network_id:  # a concurrent request was first
            self._delete_parts(context, network_id, router_id)
        return recorded

    @retried
    def _record(self, project_id: str, network_id: str, router_id: str | None) -> str:
        """Record these as the project's topology, unless it has one; gives the recorded network."""
        topology = self._find(project_id)
        if topology is not None:
            return str(topology.network_id)
        with self.db.transaction() as tx:
            row = {"project_id": project_id, "network_id": network_id, "router_id": router_id}
            tx.insert(auto_allocated_topologies, [row])
        return network_id

    def _delete_parts(self, context: Context, network_id: str, router_id: str | None) -> None:
        with self.db.read() as connection:
            subnets = list(
                connection.execute(sa.select(t.subnets.c.id).where(t.subnets.c.network_id == network_id)).scalars()
            )
        # In this order: a router with interfaces and a network with ports are not deleted.
        if router_id is not None:
            for subnet_id in subnets:
                with contextlib.suppress(errors.NotFound):
                    self.interfaces.remove_router_interface(context, router_id, {"subnet_id": subnet_id})
            with contextlib.suppress(errors.NotFound):
                self.routers.delete(context, router_id, None)
        with contextlib.suppress(errors.NotFound):
            self.core.networks.delete(context, network_id, None)

    def _find(self, project_id: str) -> NamedRow | None:
        with self.db.read() as connection:
            return connection.execute(
                sa.select(auto_allocated_topologies.c.network_id, auto_allocated_topologies.c.router_id).where(
                    auto_allocated_topologies.c.project_id == project_id
                )
            ).first()

    def _requirements(self, context: Context) -> tuple[str, list[Object]]:
        """The default external network and the default subnet pools."""
        with self.db.read() as connection:
            external = connection.execute(
                sa.select(t.networks.c.id)
                .where(t.networks.c.external, t.networks.c.is_default)
                .order_by(t.networks.c.id)
                .limit(1)
            ).scalar()
            defaults = [
                subnet_pools.load_default(connection, version, context.project_id, everyone=context.is_admin)
                for version in (4, 6)
            ]
        if external is None:
            raise AutoAllocationFailure(reason="there is no default external network")
        pools = [pool for pool in defaults if pool is not None]
        if not pools:
            raise AutoAllocationFailure(reason="there is no default subnet pool")
        return external, pools


def _create(collection: Any, resource: Resource, context: Context, values: Object) -> str:
    """Create an object as by a request with these values, with defaults for the others; gives its id."""
    items, _ = items_to_create(resource, {resource.name: values}, context)
    return str(collection.create(context, items[0].values)["id"])


def _authorized(authorizer: Authorizer, request: Request, rule: str) -> str:
    """The project of a request, if the caller may do this to it."""
    project = request.context.project_id if request.key == "None" else request.key
    if not project:
        raise errors.HTTPBadRequest("The caller has no project: name one in the path.")
    authorizer.require(request.context, rule, {"project_id": project, "tenant_id": project})
    return project
