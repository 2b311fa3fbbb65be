"""L2 population: hosts get forwarding entries for each other's ports instead of flooding.

The feed derives the entries from the ports and sends them to the hosts that report `l2_population`, so this driver does
nothing. It exists because operators have it in `mechanism_drivers`.
"""

from oslo_config import cfg


class L2Population:
    name = "l2population"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass
