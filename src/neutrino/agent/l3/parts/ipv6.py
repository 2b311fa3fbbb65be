"""The table of a router for IPv6: metadata and address scopes. Nothing is translated but the metadata address. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from neutrino.agent.l3.parts.metadata import metadata_chains
from neutrino.agent.l3.parts.nat import internal_devices
from neutrino.agent.l3.parts.scopes import render_scopes
from neutrino.dataplane.nft.api import Chain, Hook, Table
from neutrino.model.routing import Router, RouterInterface

_FILTER = 0


def render_ipv6(
    router: Router, *, metadata_port: int = 0, inside: Mapping[str, RouterInterface] | None = None
) -> Table | None:
    """`inside` as in `nat`. None where no internal device has IPv6: the host may have none either."""
    inside = internal_devices(router) if inside is None else inside
    if not any(each.version == 6 for interface in inside.values() for each in interface.addresses):
        return None
    between = Chain("between", tuple(render_scopes(router, inside, 6, snat=False)), Hook("filter", "forward", _FILTER))
    return Table(family="ip6", chains=(*metadata_chains(router, metadata_port), between))
