"""Address groups on a database: adding and removing CIDRs, and rules that refer to a group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neutrino.features.address_group.collection import (
    AddressesAlreadyExist,
    AddressesNotFound,
    AddressGroupInUse,
    AddressGroupNotFound,
    AddressGroups,
)
from neutrino.features.address_group.feature import ADDRESS_GROUP
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.catalog import serve
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.query import Query, Sort
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.groups import SecurityGroups
from neutrino.server.services import ResourcePlugin
from tests.support.databases import prepared_sqlite
from tests.support.security_groups import ALICE, BOB, at_once, logged, make_group, make_plugin, make_rule, parsed, share


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    db = Database(prepared_sqlite(tmp_path / "neutrino.db"), sqlite_durable=False)
    yield db
    db.close()


@pytest.fixture
def plugin(db: Database) -> SecurityGroups:
    return make_plugin(db)


@pytest.fixture
def addresses(db: Database) -> AddressGroups:
    return AddressGroups(db, Quotas(db, {}), 1000)


def make(addresses: AddressGroups, context: Context = ALICE, /, **given: Any) -> Object:
    return addresses.create(context, parsed(ADDRESS_GROUP, [given], context)[0])


def test_plugin_has_a_method_for_every_verb(addresses: AddressGroups) -> None:
    served = serve([ResourcePlugin(collections=((ADDRESS_GROUP, addresses),))])[0]
    assert served.create_several is not None
    assert set(served.actions) == {"add_addresses", "remove_addresses"}


def test_a_group_is_shown_as_created(addresses: AddressGroups, db: Database) -> None:
    made = make(addresses, name="ag", addresses=["10.0.0.5/24", "192.0.2.7/32"])
    assert made["addresses"] == ["10.0.0.0/24", "192.0.2.7/32"]
    assert (made["revision_number"], made["shared"], made["description"]) == (2, False, "")
    found = addresses.show(ALICE, made["id"], None, False)
    decoded = msgspec.json.decode(msgspec.json.encode(found))
    assert decoded == {name: made[name] for name in decoded}
    assert set(decoded) == {*ADDRESS_GROUP.visible, "tenant_id"}
    assert logged(db, made["id"]) == [False]
    assert make(addresses)["revision_number"] == 0


def test_addresses_are_added_and_removed(addresses: AddressGroups, db: Database) -> None:
    key = make(addresses, addresses=["10.0.0.0/24", "2001:db8::/64"])["id"]
    body = {"addresses": ["198.51.100.7/24", "192.0.2.7", "192.0.2.7/32"]}
    changed = addresses.add_addresses(ALICE, key, body)["address_group"]
    assert changed["addresses"] == ["10.0.0.0/24", "2001:db8::/64", "198.51.100.0/24", "192.0.2.7/32"]
    assert changed["revision_number"] == 4
    changed = addresses.remove_addresses(ALICE, key, {"addresses": ["10.0.0.0/24", "192.0.2.7/32"]})["address_group"]
    assert changed["addresses"] == ["2001:db8::/64", "198.51.100.0/24"]
    assert changed["revision_number"] == 6
    assert logged(db, key) == [False, False, False]
    assert addresses.add_addresses(ALICE, key, {"addresses": []})["address_group"]["revision_number"] == 6


@pytest.mark.parametrize(
    ("action", "body", "refusal"),
    [
        ("add_addresses", {"addresses": ["192.0.2.0/24", "10.0.0.9/24"]}, AddressesAlreadyExist),
        ("remove_addresses", {"addresses": ["10.0.0.0/24", "203.0.113.0/24"]}, AddressesNotFound),
        ("add_addresses", {"addresses": ["nope"]}, errors.AddrFormatError),
        ("add_addresses", {"addresses": ["fe80::1%eth0"]}, errors.AddrFormatError),
        ("remove_addresses", {"addresses": [7]}, errors.AddrFormatError),
        ("add_addresses", {"addresses": "10.0.0.0/24"}, errors.HTTPBadRequest),
        ("add_addresses", {}, errors.HTTPBadRequest),
        ("add_addresses", ["10.0.0.0/24"], errors.HTTPBadRequest),
    ],
)
def test_refused(addresses: AddressGroups, action: str, body: Any, refusal: type[errors.ApiError]) -> None:
    key = make(addresses, addresses=["10.0.0.0/24"])["id"]
    with pytest.raises(refusal):
        getattr(addresses, action)(ALICE, key, body)
    found = addresses.show(ALICE, key, ("addresses", "revision_number"), False)
    assert msgspec.json.decode(msgspec.json.encode(found)) == {"addresses": ["10.0.0.0/24"], "revision_number": 1}


def test_update_and_list(addresses: AddressGroups, db: Database) -> None:
    key = make(addresses, name="a")["id"]
    make(addresses, BOB, name="b")
    changed = addresses.update(ALICE, key, {"name": "c"}, 0)
    assert (changed["name"], changed["revision_number"]) == ("c", 1)
    assert addresses.index(ALICE, Query(fields=("name", "shared"))) == [{"name": "c", "shared": False}]
    share(db, key, "*")
    listed = addresses.index(BOB, Query(fields=("name", "shared"), sorts=(Sort("name"),)))
    assert listed == [{"name": "b", "shared": False}, {"name": "c", "shared": True}]


def test_delete(addresses: AddressGroups, plugin: SecurityGroups, db: Database) -> None:
    key = make(addresses)["id"]
    group = make_group(plugin)["id"]
    rule = make_rule(plugin, group, remote_address_group_id=key)
    assert rule["remote_address_group_id"] == key
    with pytest.raises(AddressGroupInUse):
        addresses.delete(ALICE, key, None)
    plugin.delete(ALICE, group, None)
    addresses.delete(ALICE, key, None)
    assert logged(db, key)[-1] is True
    with pytest.raises(AddressGroupNotFound):
        addresses.delete(ALICE, key, None)


def test_rules_refer_to_groups_of_their_project(addresses: AddressGroups, plugin: SecurityGroups) -> None:
    foreign = make(addresses, BOB)["id"]
    with pytest.raises(AddressGroupNotFound):
        make_rule(plugin, make_group(plugin)["id"], remote_address_group_id=foreign)


def test_concurrent_additions_are_not_lost(addresses: AddressGroups) -> None:
    key = make(addresses)["id"]
    at_once(lambda n: [addresses.add_addresses(ALICE, key, {"addresses": [f"10.{n}.{i}.0/24"]}) for i in range(3)])
    found = addresses.show(ALICE, key, ("addresses", "revision_number"), False)
    decoded = msgspec.json.decode(msgspec.json.encode(found))
    assert (len(decoded["addresses"]), decoded["revision_number"]) == (24, 24)
