"""The calls of all extension drivers, and the attributes that they add to networks, subnets and ports (`driver_api`).

Values of added attributes are JSON in a table per resource, one row per object and attribute; a foreign key deletes them
with the object. Views read them with subqueries of the same statement, so showing and listing objects takes no further
query.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from msgspec import UNSET

from neutrino.model.objects import Object, Values
from neutrino.server.api.definition import REQUIRED, Attribute, Resource
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode
from neutrino.server.db.sql import Condition, Expression
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.policy.rules import ADMIN

TABLES = {"network": t.network_attributes, "subnet": t.subnet_attributes, "port": t.port_attributes}


class Extensions:
    """All extension drivers, in the order of the configuration."""

    def __init__(self, drivers: Sequence[Any]) -> None:
        self.drivers = drivers
        self._by_kind: dict[str, dict[str, Attribute]] = {kind: {} for kind in TABLES}
        rules: dict[str, str] = {}
        for driver in drivers:
            for kind, attributes in (driver.extend_resources() if hasattr(driver, "extend_resources") else {}).items():
                if kind not in TABLES:
                    raise ValueError(f"{type(driver).__name__} extends {kind!r}, which is not one of {sorted(TABLES)}")
                for attribute in attributes:
                    if attribute.name in self._by_kind[kind]:
                        raise ValueError(f"two extension drivers add {attribute.name!r} to {kind}s")
                    self._by_kind[kind][attribute.name] = attribute
                    if attribute.guarded:
                        rules |= {f"{action}_{kind}:{attribute.name}": ADMIN for action in ("create", "update")}
            rules |= getattr(driver, "policy_rules", {})
        self.policy_rules: Mapping[str, str] = rules
        self.extensions = [e for driver in drivers for e in getattr(driver, "extensions", ())]

    def resource(self, resource: Resource) -> Resource:
        """The definition with the added attributes."""
        added = self._by_kind[resource.name]
        for name in added.keys() & resource.by_name.keys():
            raise ValueError(f"an extension driver adds {name!r} to {resource.collection}, which have it already")
        return replace(resource, attributes=(*resource.attributes, *added.values())) if added else resource

    def view(self, kind: str, view: View) -> View:
        """The view with the added attributes."""
        added = self._by_kind[kind]
        if not added:
            return view
        columns = {name: _column(TABLES[kind], view, attribute) for name, attribute in added.items()}
        return view.extended(columns, {name: _filter(column) for name, column in columns.items()})

    def process(self, operation: str, kind: str, values: Values, current: Object, **about: object) -> Object:
        """The object with the attribute values that the drivers decide, each seeing those of the drivers before it."""
        if operation == "create":  # requests of the server's own services do not pass the API, which sets defaults
            defaults = {name: _default(attribute) for name, attribute in self._by_kind[kind].items()}
            current = {**defaults, **current}
        for method in self._methods(f"process_{operation}_{kind}"):
            current = {**current, **method(values, current, **about)}
        return current

    def store(self, kind: str, tx: Transaction, current: Values, before: Values | None = None) -> None:
        """Write what the drivers keep of an object, in its transaction; `before`: its state before an update."""
        # A value equal to the default of a new object has no row: most objects never use the attribute.
        changed = [
            name
            for name, attribute in self._by_kind[kind].items()
            if name in current and current[name] != (_default(attribute) if before is None else before.get(name))
        ]
        table = TABLES[kind]
        if changed and before is not None:
            tx.write(sa.delete(table).where(table.c.object_id == current["id"], table.c.name.in_(changed)))
        tx.insert(table, [{"object_id": current["id"], "name": n, "value": encode(current[n])} for n in changed])
        for method in self._methods(f"store_{'create' if before is None else 'update'}_{kind}"):
            method(tx, current)

    def _methods(self, name: str) -> list[Callable[..., Any]]:
        return [getattr(driver, name) for driver in self.drivers if hasattr(driver, name)]


def _default(attribute: Attribute) -> object:
    return None if attribute.default in (UNSET, REQUIRED) else attribute.default


def _column(table: sa.Table, view: View, attribute: Attribute) -> Expression:
    row = sa.select(table.c.value).where(table.c.object_id == view.key, table.c.name == attribute.name)
    return sa.func.coalesce(row.scalar_subquery(), sa.literal(encode(_default(attribute)), t.Json))


def _filter(column: Expression) -> Callable[[tuple[object, ...]], Condition]:
    return lambda values: column.in_([encode(value) for value in values])
