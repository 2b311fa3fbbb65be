"""The extensions of the L2 role, in order: the built-in features, then those of third parties that are configured.

The order is that of their tables, and of precedence: of two conflicting contributions the first one counts, and the other
is reported with the names of both.
"""

from oslo_config import cfg

from neutrino.agent.config import load_extensions
from neutrino.agent.l2.extension_api import L2Extension
from neutrino.agent.l2.flows.arp import Responder, SpoofingGuard
from neutrino.agent.l2.flows.dvr import Dvr
from neutrino.agent.l2.flows.firewall import Firewall
from neutrino.agent.l2.flows.integration import DhcpCopies, Physical, Switching
from neutrino.agent.l2.flows.tunnel import Tunnels
from neutrino.errors import RefusedToStart

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
    found: list[L2Extension] = [*BUILT_IN, *load_extensions(ENTRY_POINTS, conf.agent.extensions, conf)]
    names = [extension.name for extension in found]
    for name in names:
        if names.count(name) > 1:
            raise RefusedToStart(f"[agent] extensions: there are two extensions called {name!r}")
    return tuple(found)
