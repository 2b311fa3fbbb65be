"""The extensions of the L2 role, in order: the built-in features, then those of third parties that are configured.

The order is that of their tables, and of precedence: of two conflicting contributions the first one counts, and the other
is reported with the names of both.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from oslo_config import cfg

from neutrino.agent.config import RefusedToStart
from neutrino.agent.l2.extension_api import L2Extension
from neutrino.agent.l2.flows.arp import Responder, SpoofingGuard
from neutrino.agent.l2.flows.dvr import Dvr
from neutrino.agent.l2.flows.firewall import Firewall
from neutrino.agent.l2.flows.integration import DhcpCopies, Physical, Switching
from neutrino.agent.l2.flows.tunnel import Tunnels

ENTRY_POINTS = "neutrino.agent.l2_extensions"
BUILT_IN: tuple[L2Extension, ...] = (
    Switching(),
    SpoofingGuard(),
    Firewall(),
    DhcpCopies(),
    Tunnels(),
    Responder(),
    Physical(),
    Dvr(),
)


def load(conf: cfg.ConfigOpts) -> tuple[L2Extension, ...]:
    """All extensions: the built-in ones, and those of `[agent] extensions` in the order of the option."""
    known: dict[str, Callable[[], Callable[[cfg.ConfigOpts], L2Extension]]] = {
        entry.name: entry.load for entry in entry_points(group=ENTRY_POINTS)
    }
    found = [*BUILT_IN]
    for name in conf.agent.extensions:
        if name not in known:
            raise RefusedToStart(
                f"[agent] extensions: no installed package has an entry point {name} in {ENTRY_POINTS}"
            )
        try:
            extension = known[name]()(conf)
        except Exception as error:
            raise RefusedToStart(f"[agent] extensions: {name} cannot be loaded: {error}") from error
        if any(extension.name == other.name for other in found):
            raise RefusedToStart(f"[agent] extensions: there are two extensions called {extension.name!r}")
        found.append(extension)
    return tuple(found)
