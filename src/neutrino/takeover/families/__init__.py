"""The families of the core, and the order of all."""

from collections.abc import Sequence
from functools import cache
from graphlib import TopologicalSorter

from neutrino.server import features
from neutrino.takeover.families import access, agents, networks, ports, security_groups, subnets
from neutrino.takeover.family import Family, Shown

CORE: Sequence[Family] = (
    *agents.FAMILIES,
    *networks.FAMILIES,
    *subnets.FAMILIES,
    *security_groups.FAMILIES,
    *ports.FAMILIES,
    *access.FAMILIES,
)


@cache
def families() -> tuple[Family, ...]:
    """All families, each after those that it refers to."""
    known = {one.name: one for one in (*CORE, *(one for feature in features.installed() for one in feature.takeover))}
    order = TopologicalSorter({name: one.after for name, one in known.items()}).static_order()
    return tuple(known[name] for name in order)


def collections() -> list[Shown]:
    """The collections of the API that show what is imported."""
    return [shown for family in families() for shown in family.shown]
