"""Options of firewalls, under their names in neutron.conf, and the rules of default groups that these give."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.features.firewall.checks import check_rule
from neutrino.features.firewall.resources import ACTIONS, parse_address, parse_ports, parse_protocol
from neutrino.model.objects import Object
from neutrino.server.api.types import Invalid, Unconvertible
from neutrino.server.errors import ApiError

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


_GENERAL = [
    cfg.BoolOpt(
        "auto_associate_default_firewall_group",
        default=False,
        help="Put ports of instances into the default firewall group of their project when they are bound, unless they are "
        "in a group already.",
        deprecated_opts=[cfg.DeprecatedOpt("auto_associate_default_firewall_group", group="fwaas")],
    )
]
_DEFAULT_RULES = [
    *(option for direction in DIRECTIONS for option in _of_direction(direction)),
    cfg.StrOpt("protocol", help="Protocol of the default rules; by default all."),
    cfg.BoolOpt("shared", default=False, help="Whether the default rules are shared."),
    cfg.BoolOpt("enabled", default=True, help="Whether the default rules are enabled."),
]
OPTIONS: Mapping[str | None, Sequence[cfg.Opt]] = {None: _GENERAL, GROUP: _DEFAULT_RULES}

RULE_NAMES = tuple(f"default {direction} ipv{version}" for direction in DIRECTIONS for version in (4, 6))
DefaultRules = Mapping[tuple[str, int], Object]  # by direction and IP version


def default_rules(conf: cfg.ConfigOpts) -> DefaultRules:
    """The rules of default groups; an option with an invalid value is reported by its name."""
    options = conf[GROUP]

    def read(parse: Callable[[Any], Any], name: str) -> Any:
        try:
            return parse(options[name])
        except (Invalid, Unconvertible) as error:
            raise RefusedToStart(f"[{GROUP}] {name}: {error}") from None

    found = {}
    for direction in DIRECTIONS:
        for version in (4, 6):
            rule = {
                "name": f"default {direction} ipv{version}",
                "description": f"default {direction} rule for IPv{version}",
                "shared": options.shared,
                "enabled": options.enabled,
                "protocol": read(parse_protocol, "protocol"),
                "ip_version": version,
                "source_ip_address": read(parse_address, f"{direction}_source_ipv{version}_address"),
                "destination_ip_address": read(parse_address, f"{direction}_destination_ipv{version}_address"),
                "source_port": read(parse_ports, f"{direction}_source_port"),
                "destination_port": read(parse_ports, f"{direction}_destination_port"),
                "action": options[f"{direction}_action"],
            }
            try:
                check_rule(rule)
            except ApiError as error:
                raise RefusedToStart(f"[{GROUP}] {direction}_*: {error.message}") from None
            found[direction, version] = rule
    return found
