"""Actions on the gateways of a router: add_, update_ and remove_external_gateways."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neutrino.features.router.resources import GATEWAYS
from neutrino.features.router.routers import gateways
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.routers.port_layout import RouterPort
from neutrino.features.router.routers.router_ports import read_ports
from neutrino.features.router.routers.routers import Routers
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.types import parse_attribute
from neutrino.server.context import Context
from neutrino.server.db.session import Database, retried

Plan = Callable[[str, Sequence[RouterPort], Sequence[gateways.Info]], list[gateways.Wanted]]


@dataclass(frozen=True)
class ExternalGateways:
    db: Database
    routers: Routers

    def add_external_gateways(self, context: Context, key: str, body: object) -> Object:
        return self._change(context, key, _gateways_in(body), gateways.with_added)

    def update_external_gateways(self, context: Context, key: str, body: object) -> Object:
        return self._change(context, key, _gateways_in(body), gateways.with_replaced)

    def remove_external_gateways(self, context: Context, key: str, body: object) -> Object:
        return self._change(context, key, _gateways_in(body), gateways.with_removed)

    @retried
    def _change(self, context: Context, key: str, infos: Sequence[gateways.Info], plan: Plan) -> Object:
        """Planned from the gateways of each attempt, so that those of a concurrent request are not lost."""
        with self.db.read() as connection:
            before = router_view.VIEW.get(connection, key)
            ports = read_ports(connection, key)
            wanted = plan(key, gateways.gateway_ports(before, ports), infos)
            decision = self.routers.decide_gateways(connection, context, before, before, ports, wanted)
            decision = self.routers.with_ndp_proxy(connection, before, decision, {})
        return {"router": self.routers.write_update(before, decision)}


def _gateways_in(body: object) -> list[Object]:
    """The gateways of a request."""
    router = body.get("router") if isinstance(body, dict) else None
    if not isinstance(router, dict) or set(router) != {"external_gateways"}:
        raise errors.HTTPBadRequest('The body has to name gateways: {"router": {"external_gateways": [...]}}.')
    infos: list[Object] = parse_attribute("external_gateways", GATEWAYS, router["external_gateways"])
    return infos
