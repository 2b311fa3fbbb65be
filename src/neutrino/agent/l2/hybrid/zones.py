"""Conntrack zones: each filtered port has its own, so that its firewall judges by its own rules alone.

Two ports of one network on a host, with one zone between them, would see each other's connections as theirs: a packet that
the sender's rules let out would be known to the receiver before its rules were asked. The kernel's rules are the only
memory of who has which zone. Numbers below belong to the switch, which uses local VLANs as zones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from neutrino.agent.l2.hybrid import names
from neutrino.dataplane.iptables.api import Tables

FIRST, LAST = 4097, 65535
_ZONE = re.compile(r"--physdev-in (?P<device>\S+) .*-j CT --zone (?P<zone>\d+)")


def read_zones(tables: Tables) -> dict[str, int]:
    """Tap, to the zone that the rules of a family give to its packets."""
    found = (_ZONE.search(rule.text) for rule in tables.get("raw", {}).get(names.PREROUTING, ()))
    return {match["device"]: int(match["zone"]) for match in found if match and match["device"].startswith("tap")}


def allocate(port_ids: Iterable[str], held: Mapping[str, int]) -> dict[str, int]:
    """A zone for every port: the one it has, or the lowest that nobody has."""
    ports = sorted(port_ids)
    zones: dict[str, int] = {}
    taken: set[int] = set()
    for port_id in ports:
        zone = held.get(names.tap(port_id), 0)
        if FIRST <= zone <= LAST and zone not in taken:
            zones[port_id] = zone
            taken.add(zone)
    free = (zone for zone in range(FIRST, LAST + 1) if zone not in taken)
    return {port_id: zones[port_id] if port_id in zones else next(free) for port_id in ports}
