"""Which floating IPs work on this host, as the server is told: each once, until that may have changed."""

from __future__ import annotations

from typing import Protocol

from neutrino.agent.l3.moving import translated_here
from neutrino.model.routing import FloatingIp, Router

KIND = "floatingip"


class Teller(Protocol):
    def status(self, kind: str, key: str, status: str) -> None: ...


class FloatingStatuses:
    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._working: dict[str, frozenset[FloatingIp]] = {}  # by router, those that were told of

    def works(self, router: Router, *, active: bool) -> None:
        """The router is made; which went with it is the server's to know."""
        here = translated_here(router, active=active)
        for floating_ip in here - self._working.get(router.id, frozenset()):
            self._teller.status(KIND, floating_ip.id, "ACTIVE")
        self._working[router.id] = here

    def fails(self, router: Router, made: Router | None, *, active: bool) -> None:
        """Those that were not made before do not work; whether the others still do is not known, so nothing is said.

        Once the router is right those that failed are told of again.
        """
        failed = translated_here(router, active=active) - frozenset(made.floating_ips if made is not None else ())
        for floating_ip in failed:
            self._teller.status(KIND, floating_ip.id, "ERROR")
        self._working[router.id] = self._working.get(router.id, frozenset()) - failed

    def forget(self, router_id: str) -> None:
        self._working.pop(router_id, None)
