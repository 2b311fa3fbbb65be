"""The rules of default firewall groups, from the options in `[default_fwg_rules]`. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.server import errors
from neutrino.server.api.resources import firewall
from neutrino.server.api.types import Invalid, Unconvertible
from neutrino.server.fwaas.checks import check_rule
from neutrino.server.fwaas.config import DIRECTIONS, GROUP

RULE_NAMES = tuple(f"default {direction} ipv{version}" for direction in DIRECTIONS for version in (4, 6))
DefaultRules = Mapping[tuple[str, int], dict[str, Any]]  # by direction and IP version


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
                "protocol": read(firewall.parse_protocol, "protocol"),
                "ip_version": version,
                "source_ip_address": read(firewall.parse_address, f"{direction}_source_ipv{version}_address"),
                "destination_ip_address": read(firewall.parse_address, f"{direction}_destination_ipv{version}_address"),
                "source_port": read(firewall.parse_ports, f"{direction}_source_port"),
                "destination_port": read(firewall.parse_ports, f"{direction}_destination_port"),
                "action": options[f"{direction}_action"],
            }
            try:
                check_rule(rule)
            except errors.ApiError as error:
                raise RefusedToStart(f"[{GROUP}] {direction}_*: {error.message}") from None
            found[direction, version] = rule
    return found
