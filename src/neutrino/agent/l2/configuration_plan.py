"""A plan of changes of the switch's database."""

import dataclasses
from collections.abc import Mapping

from neutrino.dataplane.ovsdb.api import Change


@dataclasses.dataclass(frozen=True)
class ConfigurationPlan:
    """Changes in order, and problems by the name of the network, host or port."""

    changes: tuple[Change, ...] = ()
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def text(self) -> str:
        return "\n".join(change.text() for change in self.changes)
