"""Binding: which driver wires a port on its host, and on which of the network's segments.

It is tried before the transaction opens, by what the host's agents last reported. A driver either binds a segment,
answers that it serves it and that the next level is bound on other segments (a top-of-rack switch above a vSwitch), or has
nothing to say. When none binds, the port is `binding_failed`, which tells Nova to try another host.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND, Bound, Continue, PortToBind

LOG = logging.getLogger(__name__)
MAX_LEVELS = 10


@dataclass(frozen=True)
class Binding:
    """The outcome, as the port shows it."""

    vif_type: str = VIF_UNBOUND
    vif_details: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[Mapping[str, Any], ...] = ()
    agent_wires: bool = False

    @property
    def is_bound(self) -> bool:
        return self.vif_type not in (VIF_UNBOUND, VIF_FAILED)


UNBOUND = Binding()
FAILED = Binding(VIF_FAILED)


def bind(port: PortToBind, drivers: Sequence[Any]) -> Binding:
    return _bind_level(port, drivers, ()) or FAILED


def _bind_level(port: PortToBind, drivers: Sequence[Any], above: tuple[Mapping[str, Any], ...]) -> Binding | None:
    if len(above) >= MAX_LEVELS:
        LOG.warning("port %s: no binding within %s levels", port.port.get("id"), MAX_LEVELS)
        return None
    for driver in drivers:
        bind_port = getattr(driver, "bind_port", None)
        if bind_port is None or _would_repeat(driver.name, port, above):
            continue
        try:
            answer = bind_port(port)
        except Exception:
            LOG.exception("port %s: driver %s failed to bind it", port.port.get("id"), driver.name)
            continue
        if isinstance(answer, Bound):
            level = {"level": len(above), "driver": driver.name, "segment_id": answer.segment.id}
            return Binding(answer.vif_type, dict(answer.vif_details), (*above, level), answer.agent_wires)
        if isinstance(answer, Continue):
            level = {"level": len(above), "driver": driver.name, "segment_id": answer.segment.id}
            deeper = _bind_level(replace(port, segments=answer.next_segments), drivers, (*above, level))
            if deeper is not None:
                return deeper
    return None


def _would_repeat(driver: str, port: PortToBind, above: tuple[Mapping[str, Any], ...]) -> bool:
    """A driver that already serves one of these segments further up would go round in a circle."""
    here = {segment.id for segment in port.segments}
    return any(level["driver"] == driver and level["segment_id"] in here for level in above)
