"""L2 population: hosts know each other's ports instead of flooding for them.

Hosts hear of each other's forwarding entries through the change log, from the ports themselves, so nothing is pushed
here. The driver stands in the configuration as it does elsewhere, and an agent's report says whether its host takes part.
"""

from __future__ import annotations

from oslo_config import cfg


class L2Population:
    name = "l2population"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass
