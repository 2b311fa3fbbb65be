"""Options of the firewall plugin, under their names in neutron.conf."""

from oslo_config import cfg

from neutrino.server.api.resources.firewall import ACTIONS

GROUP = "default_fwg_rules"
DIRECTIONS = ("ingress", "egress")
_ACTIONS = {"ingress": "deny", "egress": "allow"}


def _of_direction(direction: str) -> list[cfg.Opt]:
    addresses = [
        cfg.StrOpt(
            f"{direction}_{side}_ipv{version}_address",
            help=f"{side.capitalize()} address or prefix of the default {direction} rule for IPv{version}.",
        )
        for side in ("source", "destination")
        for version in (4, 6)
    ]
    ports = [
        cfg.StrOpt(
            f"{direction}_{side}_port", help=f"{side.capitalize()} port or range of the default {direction} rules."
        )
        for side in ("source", "destination")
    ]
    action = cfg.StrOpt(
        f"{direction}_action",
        default=_ACTIONS[direction],
        choices=ACTIONS,
        help=f"Action of the default {direction} rules.",
    )
    return [action, *addresses, *ports]


GENERAL = [  # [DEFAULT]
    cfg.BoolOpt(
        "auto_associate_default_firewall_group",
        default=False,
        help="Put ports of instances into the default firewall group of their project when they are bound, unless they are "
        "in a group already.",
        deprecated_opts=[cfg.DeprecatedOpt("auto_associate_default_firewall_group", group="fwaas")],
    )
]
DEFAULT_RULES = [
    *(option for direction in DIRECTIONS for option in _of_direction(direction)),
    cfg.StrOpt("protocol", help="Protocol of the default rules; by default all."),
    cfg.BoolOpt("shared", default=False, help="Whether the default rules are shared."),
    cfg.BoolOpt("enabled", default=True, help="Whether the default rules are enabled."),
]
