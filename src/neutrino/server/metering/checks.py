"""Validation of metering label rules. Pure."""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from neutrino.server import errors
from neutrino.server.api.resources.metering import PREFIXES

Rule = Mapping[str, Any]


def check_rule(rule: Rule) -> None:
    """Refuse a rule whose prefixes, each valid by itself, contradict each other."""
    given = [name for name in PREFIXES if rule[name] is not None]
    if not given:
        raise errors.Invalid(f"At least one of {', '.join(PREFIXES)} must be given.")
    if "remote_ip_prefix" in given and len(given) > 1:
        raise errors.Invalid("remote_ip_prefix cannot be combined with source_ip_prefix or destination_ip_prefix.")
    if len({ipaddress.ip_interface(rule[name]).version for name in given}) > 1:
        raise errors.InvalidInput(error_message=f"{' and '.join(given)} are of different IP versions")


def check_overlap(rule: Rule, others: Iterable[Rule]) -> None:
    """Refuse a remote prefix that overlaps with that of another rule of the label, direction and kind."""
    prefix = rule["remote_ip_prefix"]
    if prefix is None:
        return
    network = ipaddress.ip_interface(prefix).network
    for other in others:
        if other["remote_ip_prefix"] is None or any(other[name] != rule[name] for name in ("direction", "excluded")):
            continue
        theirs = ipaddress.ip_interface(other["remote_ip_prefix"]).network
        if network.version == theirs.version and network.overlaps(theirs):
            raise errors.MeteringLabelRuleOverlaps(remote_ip_prefix=prefix)
