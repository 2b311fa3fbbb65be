"""Flavors of routers and VPN services, their service profiles, and the list of service providers.

There is one implementation of routers, so a flavor is stored with a router and changes nothing about it; the API is there
for clients that set flavors or list providers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources import flavor as resources
from neutrino.server.api.resources.flavor import L3_ROUTER_NAT
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, encode, exists, new_id
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.query import Query
from neutrino.server.uses import FlavorUse
from neutrino.server.view_collection import ViewCollection

_c, _sp, _b, _r = t.flavors.c, t.service_profiles.c, t.flavor_service_profiles.c, t.routers.c
FLAVORS = View(t.flavors, scope=sa.true(), not_found=errors.FlavorNotFound)
PROFILES = View(t.service_profiles, scope=sa.true(), not_found=errors.ServiceProfileNotFound)
PROVIDERS = ("single_node", "ha", "dvr", "dvrha")


def check_flavor(connection: Connection, key: str, service_type: str = L3_ROUTER_NAT) -> None:
    """Refuse a flavor for a new router that does not exist, is not for routers, or is disabled; or of another service."""
    row = connection.execute(sa.select(_c.service_type, _c.enabled).where(_c.id == key)).first()
    if row is None or row.service_type != service_type:
        raise errors.FlavorNotFound(id=key)
    if not row.enabled:
        raise errors.FlavorDisabled()


class Flavors:
    """Plugin of the resources below, offered together with the router plugin."""

    extensions = (
        Extension("flavors", "Neutron Service Flavors", "Flavors of services, and the profiles behind them."),
        Extension("l3-flavors", "Router Flavor Extension", "Routers have a flavor."),
        Extension("router-service-type", "Router Service Type", "Routers have the id of a service type."),
        Extension("service-type", "Neutron Service Type Management", "The providers of services."),
    )

    def __init__(self, db: Database, providers: Sequence[FlavorUse], used_by: Sequence[sa.Column[str]]) -> None:
        self.collections = (
            (resources.FLAVOR, FlavorCollection(db, used_by)),
            (resources.SERVICE_PROFILE, ServiceProfiles(db, PROFILES)),
            (resources.FLAVOR_SERVICE_PROFILE, FlavorServiceProfiles(db)),
            (resources.SERVICE_PROVIDER, ServiceProviders(providers)),
        )


class FlavorCollection(ViewCollection):
    def __init__(self, db: Database, used_by: Sequence[sa.Column[str]]) -> None:
        """`used_by`: the columns that refer to flavors, of routers and of features."""
        super().__init__(db, FLAVORS)
        self._used_by = used_by

    @retried
    def create(self, context: Context, values: Object) -> Object:
        return _write_flavor(self.db, None, {"id": new_id(), **values})

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = FLAVORS.get(connection, key)
            self._check_unused(connection, key)
        return _write_flavor(self.db, before, {**before, **values})

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        _delete(self.db, FLAVORS, key, self._check_unused)

    def _check_unused(self, connection: Connection, flavor_id: str) -> None:
        if any(exists(connection, column == flavor_id) for column in self._used_by):
            raise errors.FlavorInUse(flavor_id=flavor_id)


class ServiceProfiles(ViewCollection):
    @retried
    def create(self, context: Context, values: Object) -> Object:
        _check_profile(values)
        profile = {"id": new_id(), **values}
        with self.db.transaction() as tx:
            tx.insert(t.service_profiles, [as_row(t.service_profiles, profile)])
        return profile

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = PROFILES.get(connection, key)
            if values.keys() & {"driver", "metainfo"}:
                _check_unbound(connection, key)
        after = {**before, **values}
        _check_profile(after)
        row = as_row(t.service_profiles, after)
        with self.db.transaction() as tx:
            tx.change(sa.update(t.service_profiles).where(_sp.id == key).values(row))
        return after

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        _delete(self.db, PROFILES, key, _check_unbound)


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
        _write_flavor(self.db, flavor, {**flavor, "service_profiles": [*flavor["service_profiles"], key]})
        return {"id": key}

    @retried
    def delete(self, context: Context, flavor_id: str, key: str, revision: int | None) -> None:
        flavor = self._flavor(flavor_id)
        if key not in flavor["service_profiles"]:
            raise errors.FlavorServiceProfileBindingNotFound(fl_id=flavor_id, sp_id=key)
        left = [profile for profile in flavor["service_profiles"] if profile != key]
        _write_flavor(self.db, flavor, {**flavor, "service_profiles": left})

    def _flavor(self, key: str) -> Object:
        with self.db.read() as connection:
            return FLAVORS.get(connection, key)


@dataclass(frozen=True)
class ServiceProviders:
    uses: Sequence[FlavorUse] = ()

    def index(self, context: Context, query: Query) -> list[Object]:
        if query.marker is not None:  # all providers are one page, whatever the limit: there is no next one
            return []
        rows = [{"service_type": L3_ROUTER_NAT, "name": name, "default": name == PROVIDERS[0]} for name in PROVIDERS]
        rows += [{"service_type": use.service_type, "name": use.provider, "default": True} for use in self.uses]
        return rows if query.fields is None else [{n: row[n] for n in query.fields if n in row} for row in rows]


def _check_unbound(connection: Connection, profile_id: str) -> None:
    if exists(connection, _b.service_profile_id == profile_id):
        raise errors.ServiceProfileInUse(sp_id=profile_id)


def _check_profile(values: Mapping[str, Any]) -> None:
    if not values["driver"] and not values["metainfo"]:
        raise errors.ServiceProfileEmpty()


def _write_flavor(db: Database, before: Object | None, after: Object) -> Object:
    """Write a flavor and the rows of its profiles; an existing one on the condition that its profiles are as read."""
    profiles = after["service_profiles"]
    if profiles:
        with db.read() as connection:
            for profile in profiles:
                PROFILES.get(connection, profile)
    row = as_row(t.flavors, after)
    with db.transaction() as tx:
        if before is None:
            tx.insert(t.flavors, [row])
        else:
            as_read = sa.and_(_c.id == after["id"], _c.service_profiles == encode(before["service_profiles"]))
            tx.change(sa.update(t.flavors).where(as_read).values(row))
            # All rows anew: the list above is the truth, and a flavor has few profiles.
            tx.write(sa.delete(t.flavor_service_profiles).where(_b.flavor_id == after["id"]))
        tx.insert(t.flavor_service_profiles, [{"flavor_id": after["id"], "service_profile_id": p} for p in profiles])
    return after


def _delete(db: Database, view: View, key: str, check: Callable[[Connection, str], None]) -> None:
    with db.read() as connection:
        check(connection, key)
    with db.transaction() as tx:
        if not tx.execute(sa.delete(view.table).where(view.key == key)).rowcount:
            raise view.not_found(id=key)
