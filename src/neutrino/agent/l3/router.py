"""All that a router is on this host, rendered from the router alone. Pure."""

from __future__ import annotations

import dataclasses

from neutrino.agent.l3.names import AGENT_GATEWAY, EXTERNAL, plugged
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.devices import ports, render_namespace
from neutrino.agent.l3.parts.ipv6 import render_ipv6
from neutrino.agent.l3.parts.nat import render_nat
from neutrino.agent.namespaces import DesiredNamespace
from neutrino.agent.plugging import Plug
from neutrino.dataplane.nft.api import Table
from neutrino.model.routing import Router, RouterInterface


@dataclasses.dataclass(frozen=True)
class DesiredRouter:
    namespace: DesiredNamespace
    nat: Table
    plugs: tuple[Plug, ...]
    ipv6: Table | None = None

    @property
    def switch_ports(self) -> frozenset[str]:
        return frozenset(plug.name for plug in self.plugs)


def render_router(router: Router, options: L3Options) -> DesiredRouter:
    return DesiredRouter(
        namespace=render_namespace(router, options),
        nat=render_nat(router, metadata_port=options.metadata_port),
        plugs=tuple(_plugs(router, options)),
        ipv6=render_ipv6(router, metadata_port=options.metadata_port),
    )


def _plugs(router: Router, options: L3Options) -> list[Plug]:
    return [render_plug(name, interface, options) for name, interface in sorted(ports(router).items())]


def render_plug(name: str, interface: RouterInterface, options: L3Options) -> Plug:
    return Plug(
        bridge=(name.startswith((EXTERNAL, AGENT_GATEWAY)) and options.external_bridge) or options.integration_bridge,
        name=plugged(name) if options.veth else name,
        port_id=interface.id,
        mac=interface.mac_address.lower(),
        internal=not options.veth,
    )
