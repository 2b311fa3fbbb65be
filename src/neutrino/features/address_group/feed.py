"""Address groups as hosts get them: those that rules of security groups refer to."""

from collections.abc import Iterable, Iterator

import msgspec
from sqlalchemy.engine import Connection

from neutrino.features.address_group.tables import address_groups
from neutrino.model.kinds import KINDS
from neutrino.model.state import AddressGroup, SecurityGroup
from neutrino.server.feed.declarations import Feed, Reference
from neutrino.server.feed.fanout import ServedKind, SharedObjects
from neutrino.server.feed.readers.rows import Ids, build, read_rows, select

_addresses = msgspec.json.Decoder(frozenset[str])
_GROUPS = select(AddressGroup, address_groups, address_groups.c.addresses)


def read_address_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, AddressGroup]]:
    for row in read_rows(connection, _GROUPS, address_groups.c.id, ids):
        yield row.id, build(AddressGroup, row, addresses=_addresses.decode(row.addresses))


def _of_rules(group: SecurityGroup) -> Iterable[str]:
    return filter(None, (rule.remote_address_group_id for rule in group.rules))


_KIND = KINDS["address_group"]
FEED = Feed(
    kinds=(ServedKind(_KIND, SharedObjects, source="address_group", read=read_address_groups),),
    references=(Reference("address_group", "security_group", _of_rules),),
)
