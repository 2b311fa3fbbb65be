"""The service plugin `trunk`: trunks with VLAN subports."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.trunk import TRUNK
from neutrino.server.services import Services
from neutrino.server.trunks.trunks import Trunks

EXTENSIONS = (
    Extension("trunk", "Trunk Extension", "Ports that carry the traffic of further ports with VLAN tags."),
    Extension("trunk-details", "Trunk port details", "A trunk's parent port shows its subports."),
)


@dataclass(frozen=True)
class TrunkPlugin:
    collections: Sequence[tuple[Any, ...]]
    extensions: Sequence[Extension] = EXTENSIONS


def build(services: Services) -> TrunkPlugin:
    core = services.core
    trunks = Trunks(services.db, services.quotas, core.operations, core.ports, core.cascade)
    return TrunkPlugin(((TRUNK, trunks),))
