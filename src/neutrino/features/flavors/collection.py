"""Flavors of routers and VPN services, their service profiles, and the list of service providers.

The driver of a flavor's first service profile decides the kind of a router (`features/router/providers.py`).
VPN services have one implementation: their flavor is stored with them and changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.flavors import errors
from neutrino.features.flavors.tables import flavor_service_profiles, flavors, service_profiles
from neutrino.model.objects import Object
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, encode, exists
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.query import Query
from neutrino.server.uses import FlavorUse

FLAVORS = View(flavors, scope=sa.true(), not_found=errors.FlavorNotFound)
PROFILES = View(service_profiles, scope=sa.true(), not_found=errors.ServiceProfileNotFound)


def check_flavor(connection: Connection, key: str, service_type: str) -> None:
    """Refuse a flavor for a new object that does not exist, is not for this type of service, or is disabled."""
    row = connection.execute(sa.select(flavors.c.service_type, flavors.c.enabled).where(flavors.c.id == key)).first()
    if row is None or row.service_type != service_type:
        raise errors.FlavorNotFound(id=key)
    if not row.enabled:
        raise errors.FlavorDisabled()


def driver_of(connection: Connection, key: str, known: Iterable[str]) -> str:
    """The driver of a flavor's first service profile: it decides which of the known ones serves an object."""
    flavor = FLAVORS.get(connection, key)
    if not flavor["service_profiles"]:
        raise errors.FlavorServiceProfileBindingNotFound(f"Flavor {key} has no service profile: add one with a driver.")
    profile = PROFILES.get(connection, flavor["service_profiles"][0])
    if not profile["enabled"]:
        raise errors.ServiceProfileDisabled(sp_id=profile["id"])
    driver = str(profile["driver"])
    if driver not in (drivers := tuple(known)):
        raise errors.ServiceProfileDriverNotFound(driver=driver, sp_id=profile["id"], known=", ".join(drivers))
    return driver


class Flavors(Collection):
    def __init__(self, db: Database, used_by: Sequence[sa.Column[str]]) -> None:
        """`used_by`: the columns that refer to flavors, of routers and of features."""
        super().__init__(db, FLAVORS)
        self._used_by = used_by

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for flavor in objects:
            _check_profiles(connection, flavor)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if any(exists(connection, column == before["id"]) for column in self._used_by):
            raise errors.FlavorInUse(flavor_id=before["id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            _insert_profiles(tx, after)

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = FLAVORS.get(connection, key)
            self.check_delete(connection, context, before)
        return _update_flavor(self.db, before, values)


class ServiceProfiles(Collection):
    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for profile in objects:
            _check_profile(profile)

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        if values.keys() & {"driver", "metainfo"}:
            with self.db.read() as connection:
                self.check_delete(connection, context, PROFILES.get(connection, key))
        return super().update(context, key, values, revision)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        _check_profile(after)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if exists(connection, flavor_service_profiles.c.service_profile_id == before["id"]):
            raise errors.ServiceProfileInUse(sp_id=before["id"])


@dataclass(frozen=True)
class FlavorServiceProfiles:
    """The service profiles of a flavor: a row of their own each, and a list in the flavor's row."""

    db: Database

    @retried
    def create(self, context: Context, flavor_id: str, values: Object) -> Object:
        key = values["id"]
        flavor = self._flavor(flavor_id)
        if key in flavor["service_profiles"]:
            raise errors.FlavorServiceProfileBindingExists(fl_id=flavor_id, sp_id=key)
        _update_flavor(self.db, flavor, {"service_profiles": [*flavor["service_profiles"], key]})
        return {"id": key}

    @retried
    def delete(self, context: Context, flavor_id: str, key: str, revision: int | None) -> None:
        flavor = self._flavor(flavor_id)
        if key not in flavor["service_profiles"]:
            raise errors.FlavorServiceProfileBindingNotFound(fl_id=flavor_id, sp_id=key)
        left = [profile for profile in flavor["service_profiles"] if profile != key]
        _update_flavor(self.db, flavor, {"service_profiles": left})

    def _flavor(self, key: str) -> Object:
        with self.db.read() as connection:
            return FLAVORS.get(connection, key)


@dataclass(frozen=True)
class ServiceProviders:
    uses: Sequence[FlavorUse]

    def index(self, context: Context, query: Query) -> list[Object]:
        if query.marker is not None:  # all providers are one page, whatever the limit: there is no next one
            return []
        rows: list[Object] = [
            {"service_type": use.service_type, "name": name, "default": name == use.providers[0]}
            for use in self.uses
            for name in use.providers
        ]
        return rows if query.fields is None else [{n: row[n] for n in query.fields if n in row} for row in rows]


def _check_profile(profile: Object) -> None:
    if not profile["driver"] and not profile["metainfo"]:
        raise errors.ServiceProfileEmpty()


def _check_profiles(connection: Connection, flavor: Object) -> None:
    for profile in flavor["service_profiles"]:
        PROFILES.get(connection, profile)


def _insert_profiles(tx: Transaction, flavor: Object) -> None:
    rows = [{"flavor_id": flavor["id"], "service_profile_id": profile} for profile in flavor["service_profiles"]]
    tx.insert(flavor_service_profiles, rows)


def _update_flavor(db: Database, before: Object, values: Object) -> Object:
    """Update a flavor and the rows of its profiles, on the condition that its profiles are as read."""
    after = {**before, **values}
    with db.read() as connection:
        _check_profiles(connection, after)
    as_read = flavors.c.id == after["id"], flavors.c.service_profiles == encode(before["service_profiles"])
    with db.transaction() as tx:
        tx.change(sa.update(flavors).where(*as_read).values(as_row(flavors, after)))
        # All rows anew: the list above is the truth, and a flavor has few profiles.
        tx.write(sa.delete(flavor_service_profiles).where(flavor_service_profiles.c.flavor_id == after["id"]))
        _insert_profiles(tx, after)
    return after
