"""Two hosts that are active for one HA router at once, as when the network between them is broken. Pure.

Each host knows whether it is active itself; the server tells who said so last. When a router moves, both may be so for a
moment: only what lasts is a conflict. The host that had the router before sees it, as the server points elsewhere.
"""

from __future__ import annotations

from neutrino.model.routing import Router

LASTING = 10.0  # seconds


class Conflicts:
    def __init__(self, host: str, lasting: float = LASTING) -> None:
        self._host = host
        self._lasting = lasting
        self._since: dict[str, float] = {}

    def look(self, router: Router, *, active: bool, now: float) -> tuple[str, float | None]:
        """What is wrong, and after how many seconds to look again, if so."""
        elsewhere = router.ha.active_host if router.ha is not None else ""
        if not active or elsewhere in ("", self._host):
            self.forget(router.id)
            return "", None
        since = self._since.setdefault(router.id, now)
        if now - since < self._lasting:
            return "", self._lasting - (now - since)
        return f"is active here and on {elsewhere} at once: the hosts do not hear each other on their HA network", None

    def forget(self, router_id: str) -> None:
        self._since.pop(router_id, None)
