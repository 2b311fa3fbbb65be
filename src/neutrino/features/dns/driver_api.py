"""Contract of external DNS drivers: what a driver is given, what it may raise.

A driver is a class offered by an entry point of `neutrino.external_dns_drivers`, created with the server's `conf` and named
by `external_dns_driver`. It is called by one thread of each API worker, never by a request.
"""

from typing import NamedTuple, Protocol


class RecordSet(NamedTuple):
    """A name with one type of records. It belongs to one project: other projects do not share it."""

    project_id: str
    zone: str  # the DNS domain of the port, network or floating IP, with a dot at its end
    name: str  # fully qualified, with a dot at its end
    type: str  # A or AAAA


class Unreachable(Exception):
    """The DNS service does not answer: the update may or may not have been made, and others would fail too."""


class Refused(Exception):
    """The DNS service answers that this update cannot be made; nothing was changed."""


class ForeignRecords(Refused):
    """The name has records that this server has not published; they are left alone."""

    def __init__(self, record_set: RecordSet, found: str) -> None:
        super().__init__(f"{record_set.name} has records of others, which stay: {found}")


class Incomplete(Exception):
    """The record set is as wanted, but something that belongs to it, such as PTR records, is not: repeat it later."""


class DnsDriver(Protocol):
    def replace(
        self,
        record_set: RecordSet,
        addresses: frozenset[str],
        ours: frozenset[str],
        private: frozenset[str] = frozenset(),
    ) -> None:
        """Make the record set contain exactly these addresses; with none, remove it.

        `ours`: addresses that this server may have published there before. If there are others, raise ForeignRecords and
        change nothing; to remove is then to remove only ours. Equal calls may be repeated.

        `private`: those of the addresses that are on a network with prefixes of a project's choice. They get no PTR
        records: the same address may be another's, outside of that network.
        """
