"""What of a router moves between hosts that hold it ready: all, or of a distributed one what is at one place. Pure."""

from __future__ import annotations

from neutrino.agent.l3.dvr.central import moving_central
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.ha import Moving, moving_router
from neutrino.model.routing import FloatingIp, Router


def moving_part(router: Router, options: L3Options) -> Moving | None:
    """None where nothing does."""
    return moving_central(router, options) if router.distributed else moving_router(router, options)


def translated_here(router: Router, *, active: bool) -> frozenset[FloatingIp]:
    """The floating IPs that are a host's: all where it is active, of a distributed router those of ports there."""
    floating_ips = router.floating_ips if router.gateway is not None else ()
    return frozenset(each for each in floating_ips if active or (router.distributed and each.host))
