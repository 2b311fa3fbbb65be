"""External gateway of a router: the port by which it reaches an external network, set, changed and cleared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.l3.lookups import check_external
from neutrino.server.l3.routers.port_layout import GATEWAY, PortTarget, RouterPort
from neutrino.server.l3.routers.router_ports import NOTHING, RouterPorts, RouterWrites
from neutrino.server.l3.routers.rules import check_overlap, check_routes, refuse
from neutrino.server.ml2.views import subnets_of

Object = dict[str, Any]
_f = t.floatingips.c


@dataclass(frozen=True)
class GatewayRequest:
    """The checked `external_gateway_info` of a request; without a network: no gateway."""

    network_id: str | None
    subnets: Sequence[Object] = ()
    fixed_ips: Sequence[Mapping[str, Any]] = ()
    enable_snat: bool = True

    @property
    def router_values(self) -> Object:
        """The columns of the router, but for the gateway port's id."""
        return {"gw_network_id": self.network_id, "enable_snat": self.enable_snat}


@dataclass(frozen=True)
class GatewayChange:
    """The gateway port after a request; `fixed_ips` is None where they stay."""

    writes: RouterWrites
    port_id: str | None
    fixed_ips: Sequence[Object] | None


@dataclass(frozen=True)
class Gateways:
    ports: RouterPorts
    enable_snat_by_default: bool

    def request(self, connection: Connection, context: Context, info: Mapping[str, Any] | None) -> GatewayRequest:
        if not info:
            return GatewayRequest(None, enable_snat=self.enable_snat_by_default)
        network_id, fixed = info["network_id"], info.get("external_fixed_ips") or ()
        check_external(connection, context, network_id, "router")
        subnets = subnets_of(connection, [network_id])[network_id]
        gateways = {subnet["gateway_ip"] for subnet in subnets} - {None}
        for address in fixed:
            if address.get("ip_address") in gateways:
                raise refuse(f"{address['ip_address']} is the gateway of the external network itself")
        return GatewayRequest(network_id, subnets, fixed, info.get("enable_snat", self.enable_snat_by_default))

    def check(
        self,
        connection: Connection,
        router: Mapping[str, Any],
        ports: Sequence[RouterPort],
        request: GatewayRequest,
        routes: Sequence[Mapping[str, str]],
    ) -> None:
        """Refuse a change that would break floating IPs or routes, or whose subnets overlap with the router's."""
        inside = [port for port in ports if port.type != GATEWAY]
        if router["gw_network_id"] != request.network_id:
            # Floating IPs are addresses of the old network: without its gateway they are unreachable.
            if router["gw_port_id"] is not None:
                check_unused(connection, router)
            if request.network_id is not None:
                check_overlap(inside, request.subnets)
        if routes:
            cidrs = [a.cidr for port in inside for a in port.addresses] + [s["cidr"] for s in request.subnets]
            check_routes(routes, cidrs, [a.ip_address for port in inside for a in port.addresses])

    def change(
        self, connection: Connection, router: Mapping[str, Any], request: GatewayRequest, host: str
    ) -> GatewayChange:
        """From the router's current gateway to the requested one, on a host."""
        port_id = router["gw_port_id"]
        if port_id is not None and router["gw_network_id"] == request.network_id:
            if not request.fixed_ips:
                return GatewayChange(NOTHING, port_id, None)
            writes = self.ports.readdress(connection, port_id, request.fixed_ips)
            return GatewayChange(writes, port_id, writes.contexts[0].current["fixed_ips"] if writes.ports else None)
        removed = self.ports.delete(connection, port_id)[0] if port_id is not None else NOTHING
        if request.network_id is None:
            return GatewayChange(removed, None, [])
        created, port = self.ports.create(
            connection,
            router,
            request.network_id,
            PortTarget(GATEWAY, host),
            request.fixed_ips or None,
            subnets=request.subnets,
        )
        return GatewayChange(removed + created, port["id"], port["fixed_ips"])


def check_unused(connection: Connection, router: Mapping[str, Any]) -> None:
    """Refuse to remove a gateway through which floating IPs are reached."""
    used = connection.execute(sa.select(_f.id).where(_f.router_id == router["id"]).limit(1)).first()
    if used is not None:
        raise errors.RouterExternalGatewayInUseByFloatingIp(router_id=router["id"], net_id=router["gw_network_id"])
