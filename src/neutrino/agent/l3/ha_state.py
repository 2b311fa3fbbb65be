"""The state of HA routers on this host: active or standby, as keepalived reports it, and two active hosts at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from neutrino.model.routing import Router

ACTIVE, STANDBY = "active", "standby"
_STATES = {"MASTER": ACTIVE, "BACKUP": STANDBY, "FAULT": STANDBY, "STOP": STANDBY}
CONFLICT_SECONDS = 10.0


def last_state(lines: Iterable[str]) -> str | None:
    """The state in the last line such as `INSTANCE "VR_7" MASTER 50`, which keepalived writes when it changes."""
    words = [line.split() for line in lines]
    states = [_STATES.get(each[2]) for each in words if len(each) >= 3 and each[0] == "INSTANCE"]
    return next((state for state in reversed(states) if state is not None), None)


@dataclass
class HaConflicts:
    """Detects an HA router that is active on this host and on another, as when the HA network is partitioned.

    The server records which host reported last that it is active. During a failover two hosts may both be active for a
    moment: only what lasts is a conflict. The host that was active before detects it, as the server names the other
    one.
    """

    host: str
    seconds: float = CONFLICT_SECONDS
    _since: dict[str, float] = field(default_factory=dict)  # by router

    def check(self, router: Router, *, active: bool, now: float) -> tuple[str, float | None]:
        """The problem, if there is one; and after how many seconds to check again, if so."""
        other = router.ha.active_host if router.ha is not None else ""
        if not active or other in ("", self.host):
            self.forget(router.id)
            return "", None
        since = self._since.setdefault(router.id, now)
        if now - since < self.seconds:
            return "", self.seconds - (now - since)
        return (
            f"is active here and on {other} at once: the hosts do not receive each other's VRRP advertisements, "
            "check the HA network between them",
            None,
        )

    def forget(self, router_id: str) -> None:
        self._since.pop(router_id, None)
