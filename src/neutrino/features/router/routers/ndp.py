"""`enable_ndp_proxy` of routers: whether a router answers neighbour solicitations for addresses behind it.

It needs an external gateway with an IPv6 address on a network with an IPv6 address scope: an address is only reachable
untranslated within one scope. A router without gateway has it off.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router import errors
from neutrino.features.router.tables import ndp_proxies
from neutrino.model.objects import Values
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists

_INVALID = "The router has no external gateway or the external gateway port has no IPv6 address or IPv6 address scope"


def is_enabled_on_create(
    connection: Connection, router_id: str, requested: bool | None, network_id: str | None, *, default: bool
) -> bool:
    """Whether a new router with a gateway on this network has it enabled; a request that cannot be met is refused."""
    if network_id is None:
        if requested:
            raise errors.RouterGatewayNotValid(router_id=router_id, reason="the request has no external_gateway_info")
        return False
    if requested is False or not (requested or default):
        return False
    supported = _is_supported(connection, network_id)
    if requested and not supported:
        reason = (
            f"The external network {network_id} don't support IPv6 ndp proxy, the network has no IPv6 subnets or has "
            "no IPv6 address scope"
        )
        raise errors.RouterGatewayNotValid(router_id=router_id, reason=reason)
    return supported


def is_enabled_on_update(
    connection: Connection,
    before: Values,
    after: Values,
    gateway_ips: Sequence[Values],
    values: Values,
    *,
    default: bool,
) -> bool:
    """Whether a router has it enabled after an update; `gateway_ips` are the addresses of its gateway then.

    Not requested, it stays, unless the gateway is another one: then it is the default, if that gateway supports it.
    """
    router_id, requested = before["id"], values.get("enable_ndp_proxy")
    old, new = before["gw_network_id"], after["gw_network_id"]
    if old not in (None, new) and exists(connection, ndp_proxies.c.router_id == router_id):
        raise errors.RouterGatewayInUseByNDPProxy(router_id=router_id)
    if new is None:
        if requested:
            reason = "The router's external gateway will be unset" if old is not None else _INVALID
            raise errors.RouterGatewayNotValid(router_id=router_id, reason=reason)
        return False
    if requested is None and old == new:
        if before["enable_ndp_proxy"] and not _has_ipv6(gateway_ips):
            raise errors.RouterIPv6GatewayInUse(router_id=router_id)
        return bool(before["enable_ndp_proxy"])
    wanted = (before["enable_ndp_proxy"] or default) if requested is None else requested
    supported = bool(wanted) and _has_ipv6(gateway_ips) and _is_supported(connection, new)
    if requested and not supported:
        raise errors.RouterGatewayNotValid(router_id=router_id, reason=_INVALID)
    return supported


def check_interface_unused(connection: Connection, router_id: str, subnet_id: str) -> None:
    """Refuse to remove an interface by which a proxied address is reached."""
    proxied = (
        ndp_proxies.c.router_id == router_id,
        ndp_proxies.c.port_id == t.ip_allocations.c.port_id,
        ndp_proxies.c.ip_address == t.ip_allocations.c.ip_address,
    )
    if exists(connection, *proxied, t.ip_allocations.c.subnet_id == subnet_id):
        raise errors.RouterInterfaceInUseByNDPProxy(router_id=router_id, subnet_id=subnet_id)


def ipv6_scope(connection: Connection, network_id: str) -> str | None:
    """The IPv6 address scope of a network."""
    return connection.execute(sa.select(t.networks.c.ipv6_address_scope).where(t.networks.c.id == network_id)).scalar()


def _is_supported(connection: Connection, network_id: str) -> bool:
    has_ipv6 = exists(connection, t.subnets.c.network_id == network_id, t.subnets.c.ip_version == 6)
    return has_ipv6 and ipv6_scope(connection, network_id) is not None


def _has_ipv6(fixed_ips: Iterable[Values]) -> bool:
    return any(":" in fixed["ip_address"] for fixed in fixed_ips)
