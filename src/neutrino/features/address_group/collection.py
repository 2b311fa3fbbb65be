"""Address groups: named lists of CIDRs that security group rules refer to.

A group's revision counts each added or removed address, as in Neutron: a new group with two addresses is at revision 2.
"""

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from neutrino.features.address_group.tables import address_groups
from neutrino.model.addresses import parse_network
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists, fresh
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import shareable_view
from neutrino.server.quota.quotas import Quotas

KIND = "address_group"
MAX_ADDRESSES = 1000  # in one request


class AddressGroupNotFound(errors.NotFound):
    template = "There is no address group {id}."


class AddressGroupInUse(errors.InUse):
    template = "Security group rules refer to address group {address_group_id}."


class AddressesNotFound(errors.NotFound):
    template = "Address group {address_group_id} does not have {addresses}."


class AddressesAlreadyExist(errors.BadRequest):
    template = "Address group {address_group_id} has {addresses} already."


VIEW = shareable_view(address_groups, AddressGroupNotFound, hidden=("tags",))


class AddressGroups(Collection):
    def __init__(self, db: Database, quotas: Quotas, max_addresses: int) -> None:
        super().__init__(db, VIEW, quotas)
        self._max_addresses = max_addresses

    def new(self, context: Context, values: Object) -> Object:
        addresses = values.get("addresses") or []
        self._check_size(addresses)
        return fresh({**values, "addresses": addresses, "shared": False}, revision=len(addresses))

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        # A rule that refers to it later makes the transaction fail on its foreign key, and it is decided again.
        rules, templates = t.security_group_rules.c, t.default_security_group_rules.c
        if any(exists(connection, c.remote_address_group_id == before["id"]) for c in (rules, templates)):
            raise AddressGroupInUse(address_group_id=before["id"])

    # --- addresses ------------------------------------------------------------------------------------------------

    @retried
    def add_addresses(self, context: Context, key: str, body: object) -> Object:
        asked = parse_addresses(body)
        with self.db.read() as connection:
            before = self.load(connection, context, key, None)
        known = set(before["addresses"])
        twice = [address for address in asked if address in known]
        if twice:
            raise AddressesAlreadyExist(addresses=", ".join(twice), address_group_id=key)
        together = [*before["addresses"], *asked]
        self._check_size(together)
        return self._with_addresses(before, together, len(asked))

    @retried
    def remove_addresses(self, context: Context, key: str, body: object) -> Object:
        asked = parse_addresses(body)
        with self.db.read() as connection:
            before = self.load(connection, context, key, None)
        known, gone = set(before["addresses"]), set(asked)
        missing = [address for address in asked if address not in known]
        if missing:
            raise AddressesNotFound(addresses=", ".join(missing), address_group_id=key)
        left = [address for address in before["addresses"] if address not in gone]
        return self._with_addresses(before, left, len(asked))

    # --- their parts ----------------------------------------------------------------------------------------------

    def _check_size(self, addresses: Sequence[str]) -> None:
        if len(addresses) > self._max_addresses:
            reason = f"an address group has at most {self._max_addresses}, not {len(addresses)}"
            raise errors.InvalidInput(f"Invalid input for addresses: {reason}.")

    def _with_addresses(self, before: Object, addresses: list[str], changes: int) -> Object:
        after = {**before, "addresses": addresses}
        return {KIND: self.write_change(before, after, changes) if changes else before}


def parse_addresses(body: object) -> list[str]:
    """The addresses of an action's body as CIDRs, each once; a single address is a network of its own."""
    addresses = body.get("addresses") if isinstance(body, dict) else None
    if not isinstance(addresses, list):
        raise errors.HTTPBadRequest("The body needs a list of CIDRs under 'addresses'.")
    if len(addresses) > MAX_ADDRESSES:
        raise errors.HTTPBadRequest(f"Invalid input for addresses: at most {MAX_ADDRESSES} are accepted at once.")
    return list(dict.fromkeys(_parse_address(address) for address in addresses))


def _parse_address(address: object) -> str:
    try:
        if not isinstance(address, str):
            raise ValueError
        return str(parse_network(address))
    except ValueError:
        raise errors.AddrFormatError(address=address) from None
