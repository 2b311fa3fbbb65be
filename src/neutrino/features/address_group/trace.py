"""Address groups in a trace: rules of security groups that name one match its addresses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from neutrino.features.address_group.feed import read_address_groups
from neutrino.model.state import AddressGroup, Rule
from neutrino.server.trace.feature_part import Reached, TracePart
from neutrino.server.trace.steps.walk import contains
from neutrino.server.trace.values import Snapshot


@dataclass(frozen=True)
class TracedAddressGroups(TracePart):
    groups: Mapping[str, AddressGroup] = field(default_factory=dict)  # that rules of the trace refer to, by id

    def with_rules(self, connection: Connection, snapshot: Snapshot) -> "TracedAddressGroups":
        rules = (rule for group in snapshot.security_groups.values() for rule in group.rules)
        ids = sorted({rule.remote_address_group_id for rule in rules if rule.remote_address_group_id})
        return TracedAddressGroups(dict(read_address_groups(connection, ids)))

    def is_remote(self, rule: Rule, address: str) -> bool:
        group = self.groups.get(rule.remote_address_group_id or "")
        return group is not None and any(contains(prefix, address) for prefix in group.addresses)


def read_part(_connection: Connection, _reached: Reached) -> TracedAddressGroups:
    return TracedAddressGroups()
