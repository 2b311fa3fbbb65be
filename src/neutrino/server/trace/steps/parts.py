"""Parts of a router: its namespaces on hosts, by the kind of router. Pure.

kind           part      host                             inside            outside
centralized    router    of its agent                     interfaces        gateways
HA             router    the active one                   interfaces        gateways
distributed    router    each with ports on its subnets   interfaces        the host's agent gateway, for floating IPs
               snat      of its agent, or the active one  SNAT interfaces   gateways
"""

import dataclasses
from dataclasses import dataclass

from neutrino.model.agents import EXTERNAL_MODES
from neutrino.model.routing import ACTIVE, FloatingIp, PortForwarding, RouterInterface
from neutrino.model.trace import Cause
from neutrino.server.trace.steps.ports import check_host
from neutrino.server.trace.steps.walk import Walk, of_router
from neutrino.server.trace.values import TracedRouter

ROUTER, SNAT = "router", "snat"


@dataclass(frozen=True, slots=True)
class Part:
    router: TracedRouter
    name: str
    host: str
    inside: tuple[RouterInterface, ...]
    outside: RouterInterface | None
    floating_ips: tuple[FloatingIp, ...] = ()
    forwardings: tuple[PortForwarding, ...] = ()
    local: bool = False  # of a distributed router, on the host of the instances: it translates only towards the outside
    further: tuple[RouterInterface, ...] = ()  # gateways after the first, in order
    came_by: RouterInterface | None = None  # of a packet from outside: the gateway, if it is not the first

    @property
    def key(self) -> tuple[str, str]:
        return self.router.id, self.name

    @property
    def gateways(self) -> tuple[RouterInterface, ...]:
        return (*((self.outside,) if self.outside is not None else ()), *self.further)

    @property
    def entrance(self) -> RouterInterface | None:
        """The gateway by which a packet from outside came."""
        return self.came_by or self.outside

    def home(self, network_id: str) -> RouterInterface | None:
        """The gateway that has the floating IPs of a network; empty: of the first gateway's network."""
        wanted = network_id or (self.outside.network_id if self.outside is not None else "")
        return next((gateway for gateway in self.gateways if gateway.network_id == wanted), None)

    def entered_by(self, network_id: str) -> "Part":
        """The part for a packet that comes from outside by the first gateway on a network."""
        return dataclasses.replace(self, came_by=self.home(network_id))


def central_part(walk: Walk, router: TracedRouter) -> Part:
    """The part with the gateway: the router itself, or the SNAT part of a distributed one."""
    base = router.router
    host = _central_host(walk, router)
    if not base.distributed:
        return Part(
            *(router, ROUTER, host, base.interfaces, base.gateway, base.floating_ips, base.port_forwardings),
            further=base.extra_gateways,
        )
    central = tuple(fip for fip in base.floating_ips if not is_local(walk, router, fip))
    return Part(
        *(router, SNAT, host, base.snat_interfaces, base.gateway, central, base.port_forwardings),
        further=base.extra_gateways,
    )


def local_part(walk: Walk, router: TracedRouter, host: str) -> Part:
    """A distributed router on the host of an instance."""
    base, subject = router.router, of_router(router)
    known = walk.snapshot.hosts.get(host)
    serves = host in router.local_hosts or host in {placement.host for placement in router.placements}
    if not serves:
        mode = known.agent_mode if known is not None and known.agent_mode else "none"
        why = f"agent_mode of its L3 agent is {mode}"
        if known is not None and known.l3_disabled:
            why = "its L3 agent is disabled (admin_state_up is false)"
        text = f"{subject.title} is distributed, and host {host} does not have it: {why}."
        public = f"{subject.title} does not serve the host of the sender."
        walk.drops("router", subject, Cause.ROUTER_NOT_SCHEDULED, text, public)
    floating = tuple(fip for fip in base.floating_ips if fip.host == host and is_local(walk, router, fip))
    return Part(router, ROUTER, host, base.interfaces, router.agent_gateways.get(host), floating, local=True)


def is_local(walk: Walk, router: TracedRouter, fip: FloatingIp) -> bool:
    """Whether a distributed router translates a floating IP on the host of its port."""
    host = walk.snapshot.hosts.get(fip.host)
    reaches = host is not None and host.agent_mode in EXTERNAL_MODES
    # Hosts reach the first gateway's network alone, and all floating IPs of an address are translated in one place.
    addresses = {floating_ip.fixed_ip_address for floating_ip in router.router.floating_ips if floating_ip.network_id}
    is_first = fip.fixed_ip_address not in addresses
    return (
        router.router.distributed
        and reaches
        and is_first
        and fip.host in router.local_hosts
        and fip.host in router.agent_gateways
    )


def check_router(walk: Walk, router: TracedRouter) -> None:
    if not router.router.admin_state_up:
        subject = of_router(router)
        text = f"{subject.title} is administratively down: admin_state_up is false."
        walk.drops("router", subject, Cause.ROUTER_ADMIN_DOWN, text)


def check_agent(walk: Walk, router: TracedRouter, host: str) -> None:
    """Whether the host's agents report; called when the packet is there."""
    subject, known = of_router(router), walk.snapshot.hosts.get(host)
    if known is not None and known.alive and not known.l3_alive:
        text = f"The L3 agent of host {host} does not report: what its routers do is not known."
        public = f"The host of {subject} does not report: what its routers do is not known."
        walk.doubts_host("host", subject, Cause.HOST_DOWN, text, public)
    else:
        check_host(walk, host, subject)


def _central_host(walk: Walk, router: TracedRouter) -> str:
    subject = of_router(router)
    if not router.placements:
        word = f"The SNAT part of {subject}" if router.router.distributed else subject.title
        text = public = f"{word} is scheduled to no L3 agent."
        if router.disabled_hosts:
            several = ", ".join(router.disabled_hosts)
            text = f"{word} is scheduled to disabled L3 agents alone (admin_state_up is false): those of {several}."
            public = f"{word} is scheduled to disabled L3 agents alone."
        walk.drops("router", subject, Cause.ROUTER_NOT_SCHEDULED, text, public)
    if not router.is_ha:
        return router.placements[0].host
    active = next((placement.host for placement in router.placements if placement.ha_state == ACTIVE), "")
    if not active:
        hosts = ", ".join(placement.host for placement in router.placements)
        text = f"{subject.title} is an HA router, and none of its hosts is active: {hosts}."
        public = f"{subject.title} is active on none of its hosts."
        walk.drops("router", subject, Cause.ROUTER_NOT_ACTIVE, text, public)
    return active
