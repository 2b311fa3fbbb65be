"""A router's gateway: the one port by which it reaches an external network, set, changed and cleared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.l3.device_owners import GATEWAY
from neutrino.server.l3.lookups import check_external
from neutrino.server.l3.routers.port_layout import Place
from neutrino.server.l3.routers.router_ports import NOTHING, Part, RouterPorts
from neutrino.server.l3.routers.rules import check_overlap, check_routes, refuse
from neutrino.server.l3.routers.state import RouterPort
from neutrino.server.ml2.subnet_view import subnets_of

Object = dict[str, Any]
_f = t.floatingips.c


@dataclass(frozen=True)
class Wish:
    """What a request says of the gateway, checked: the network it is on (None: no gateway), and its addresses."""

    network_id: str | None
    subnets: Sequence[Object] = ()
    fixed_ips: Sequence[Mapping[str, Any]] = ()
    enable_snat: bool = True


class Gateways:
    def __init__(self, ports: RouterPorts, enable_snat_by_default: bool) -> None:
        self._ports = ports
        self._snat = enable_snat_by_default

    def wish(self, connection: Connection, context: Context, info: Mapping[str, Any] | None) -> Wish:
        if not info:
            return Wish(None, enable_snat=self._snat)
        network_id, fixed = info["network_id"], info.get("external_fixed_ips") or ()
        check_external(connection, context, network_id, "router")
        subnets = subnets_of(connection, [network_id])[network_id]
        gateways = {subnet["gateway_ip"] for subnet in subnets}
        for address in fixed:
            if address.get("ip_address") in gateways - {None}:
                raise refuse(f"{address['ip_address']} is the gateway of the external network itself")
        return Wish(network_id, subnets, fixed, info.get("enable_snat", self._snat))

    def values(self, wish: Wish) -> Object:
        """The router's columns when the wish is met, but for the port's id."""
        return {"gw_network_id": wish.network_id, "enable_snat": wish.enable_snat}

    def check(
        self, connection: Connection, router: Mapping[str, Any], ports: Sequence[RouterPort], wish: Wish, routes: Any
    ) -> None:
        """Refuse a change that floating IPs, routes or the router's own subnets stand in the way of."""
        inside = [port for port in ports if port.type != GATEWAY]
        if router["gw_port_id"] is not None and router["gw_network_id"] != wish.network_id:
            check_unused(connection, router)
        if wish.network_id is not None and router["gw_network_id"] != wish.network_id:
            check_overlap(inside, wish.subnets)
        if routes:
            cidrs = [a.cidr for port in inside for a in port.addresses] + [s["cidr"] for s in wish.subnets]
            check_routes(routes, cidrs, [a.ip_address for port in inside for a in port.addresses])

    def part(
        self, connection: Connection, router: Mapping[str, Any], wish: Wish, host: str
    ) -> tuple[Part, str | None, Sequence[Object] | None]:
        """The gateway port's part of the change, its id afterwards, and its addresses where they are new."""
        same = router["gw_port_id"] is not None and router["gw_network_id"] == wish.network_id
        if same:
            if not wish.fixed_ips:
                return NOTHING, router["gw_port_id"], None
            part = self._ports.readdress(connection, router["gw_port_id"], wish.fixed_ips)
            fixed = part.steps[0].context.current["fixed_ips"] if part.steps else None
            return part, router["gw_port_id"], fixed
        part = NOTHING
        if router["gw_port_id"] is not None:
            part += self._ports.take(connection, router["gw_port_id"])[0]
        if wish.network_id is None:
            return part, None, []
        made, port = self._ports.make(
            connection,
            router,
            wish.network_id,
            Place(GATEWAY, host),
            wish.fixed_ips or None,
            subnets=wish.subnets,
        )
        return part + made, port["id"], port["fixed_ips"]


def check_unused(connection: Connection, router: Mapping[str, Any]) -> None:
    """A gateway through which floating IPs are reached stays."""
    used = connection.execute(sa.select(_f.id).where(_f.router_id == router["id"]).limit(1)).first()
    if used is not None:
        raise errors.RouterExternalGatewayInUseByFloatingIp(router_id=router["id"], net_id=router["gw_network_id"])
