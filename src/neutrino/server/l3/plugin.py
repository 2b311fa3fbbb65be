"""The router plugin: routers, floating IPs and what belongs to them. It only names the verbs; the parts do the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neutrino.server.api.resources.floatingip import FLOATINGIP, FLOATINGIP_POOL, PORT_FORWARDING
from neutrino.server.api.resources.router import CONNTRACK_HELPER, ROUTER
from neutrino.server.api.routes import Route
from neutrino.server.context import Context
from neutrino.server.hosts.registry import Report
from neutrino.server.l3.extensions import EXTENSIONS
from neutrino.server.l3.floating_ips.floating_ips import FloatingIps
from neutrino.server.l3.floating_ips.port_forwardings import PortForwardings
from neutrino.server.l3.routers.conntrack_helpers import ConntrackHelpers
from neutrino.server.l3.routers.interfaces import Interfaces
from neutrino.server.l3.routers.routers import Routers
from neutrino.server.l3.scheduling.agents import L3Agents
from neutrino.server.l3.scheduling.dvr import DvrHosts
from neutrino.server.l3.scheduling.scheduler import L3Scheduler
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import Query

Object = dict[str, Any]


class RouterPlugin:
    resources = (ROUTER, FLOATINGIP, PORT_FORWARDING, CONNTRACK_HELPER, FLOATINGIP_POOL)
    extensions = EXTENSIONS

    def __init__(
        self,
        routers: Routers,
        interfaces: Interfaces,
        floating_ips: FloatingIps,
        port_forwardings: PortForwardings,
        conntrack_helpers: ConntrackHelpers,
        scheduler: L3Scheduler,
        agents: L3Agents,
        dvr: DvrHosts,
        companions: Sequence[Any],
    ) -> None:
        """`companions`: plugins that come along with this one."""
        self.companions = companions
        self.dvr = dvr
        self.routers = routers
        self.interfaces = interfaces
        self.floating_ips = floating_ips
        self.port_forwardings = port_forwardings
        self.conntrack_helpers = conntrack_helpers
        self.scheduler = scheduler
        self._agents = agents

    def routes(self, authorizer: Authorizer) -> list[Route]:
        """Paths that do not speak in the envelopes of resources."""
        return self._agents.routes(authorizer)

    # --- what hosts report ----------------------------------------------------------------------------------------

    def reported(self, report: Report) -> int:
        return self.scheduler.reported(report)

    def agent_enabled(self, agent_type: str, host: str) -> None:
        self._agents.enabled(agent_type, host)

    def agent_leaving(self, agent_id: str) -> None:
        self.scheduler.release(agent_id)

    @property
    def has_failover(self) -> bool:
        """Whether routers are taken from dead agents; the server then asks for it every so often."""
        return self.scheduler.has_failover

    def reschedule_dead(self) -> Sequence[str]:
        """What was moved, in words."""
        moved = self.scheduler.reschedule_dead()
        return [f"Router {router_id} left an L3 agent, which is dead, for another" for router_id in moved]

    # --- routers --------------------------------------------------------------------------------------------------

    def get_routers(self, context: Context, query: Query) -> list[Object]:
        return self.routers.index(context, query)

    def get_router(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        return self.routers.show(context, key, fields, everyone)

    def create_router(self, context: Context, values: Object) -> Object:
        return self.routers.create(context, values)

    def create_router_bulk(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return self.routers.create_several(context, several)

    def update_router(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        return self.routers.update(context, key, values, revision)

    def delete_router(self, context: Context, key: str, revision: int | None) -> None:
        self.routers.delete(context, key, revision)

    def add_router_interface(self, context: Context, key: str, body: Any) -> Object:
        return self.interfaces.add(context, key, body)

    def remove_router_interface(self, context: Context, key: str, body: Any) -> Object:
        return self.interfaces.remove(context, key, body)

    def add_extraroutes(self, context: Context, key: str, body: Any) -> Object:
        return self.routers.add_routes(context, key, body)

    def remove_extraroutes(self, context: Context, key: str, body: Any) -> Object:
        return self.routers.remove_routes(context, key, body)

    # --- floating IPs ---------------------------------------------------------------------------------------------

    def get_floatingips(self, context: Context, query: Query) -> list[Object]:
        return self.floating_ips.index(context, query)

    def get_floatingip(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        return self.floating_ips.show(context, key, fields, everyone)

    def create_floatingip(self, context: Context, values: Object) -> Object:
        return self.floating_ips.create(context, values)

    def create_floatingip_bulk(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return self.floating_ips.create_several(context, several)

    def update_floatingip(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        return self.floating_ips.update(context, key, values, revision)

    def delete_floatingip(self, context: Context, key: str, revision: int | None) -> None:
        self.floating_ips.delete(context, key, revision)

    def get_floatingip_pools(self, context: Context, query: Query) -> list[Object]:
        return self.floating_ips.pools(context, query)

    # --- port forwardings -----------------------------------------------------------------------------------------

    def floatingip_port_forwarding_target(self, context: Context, floatingip_id: str, request: Any) -> Object:
        return self.floating_ips.owner(context, floatingip_id)

    def get_floatingip_port_forwardings(self, context: Context, floatingip_id: str, query: Query) -> list[Object]:
        return self.port_forwardings.index(context, floatingip_id, query)

    def get_floatingip_port_forwarding(
        self, context: Context, floatingip_id: str, key: str, fields: Sequence[str] | None, everyone: bool
    ) -> Object | None:
        self.floating_ips.owner(context, floatingip_id)
        return self.port_forwardings.show(floatingip_id, key, fields)

    def create_floatingip_port_forwarding(self, context: Context, floatingip_id: str, values: Object) -> Object:
        return self.port_forwardings.create(context, floatingip_id, values)

    def update_floatingip_port_forwarding(
        self, context: Context, floatingip_id: str, key: str, values: Object, revision: int | None
    ) -> Object:
        return self.port_forwardings.update(context, floatingip_id, key, values)

    def delete_floatingip_port_forwarding(
        self, context: Context, floatingip_id: str, key: str, revision: int | None
    ) -> None:
        self.port_forwardings.delete(context, floatingip_id, key)

    # --- conntrack helpers ----------------------------------------------------------------------------------------

    def router_conntrack_helper_target(self, context: Context, router_id: str, request: Any) -> Object:
        return self.routers.owner(context, router_id)

    def get_router_conntrack_helpers(self, context: Context, router_id: str, query: Query) -> list[Object]:
        return self.conntrack_helpers.index(context, router_id, query)

    def get_router_conntrack_helper(
        self, context: Context, router_id: str, key: str, fields: Sequence[str] | None, everyone: bool
    ) -> Object | None:
        self.routers.owner(context, router_id)
        return self.conntrack_helpers.show(router_id, key, fields)

    def create_router_conntrack_helper(self, context: Context, router_id: str, values: Object) -> Object:
        return self.conntrack_helpers.create(context, router_id, values)

    def update_router_conntrack_helper(
        self, context: Context, router_id: str, key: str, values: Object, revision: int | None
    ) -> Object:
        return self.conntrack_helpers.update(context, router_id, key, values)

    def delete_router_conntrack_helper(self, context: Context, router_id: str, key: str, revision: int | None) -> None:
        self.conntrack_helpers.delete(context, router_id, key)
