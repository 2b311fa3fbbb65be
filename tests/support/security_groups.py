"""Making and looking at security groups through their plugin, for the tests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server import errors, features
from neutrino.server.access import sharing
from neutrino.server.api.definition import Resource
from neutrino.server.api.resources.security_group import SECURITY_GROUP, SECURITY_GROUP_RULE
from neutrino.server.api.stages.body import items_to_create
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import new_id
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import now
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.groups import SecurityGroups

ALICE, BOB, ADMIN = Context("alice"), Context("bob"), admin_context("ops")
NOWHERE = "00000000-0000-4000-8000-00000000dead"


def make_plugin(db: Database, groups: int = 20, rules: int = 200) -> SecurityGroups:
    remotes = [remote for feature in features.installed() for remote in feature.group_rules]
    return SecurityGroups(db, Quotas(db, {"security_group": groups, "security_group_rule": rules}), remotes)


def parsed(resource: Resource, given: list[Object], context: Context = ALICE) -> list[Object]:
    items, _ = items_to_create(resource, {resource.collection: given}, context)
    return [item.values for item in items]


def make_group(plugin: SecurityGroups, context: Context = ALICE, **given: Any) -> Object:
    return plugin.create(context, parsed(SECURITY_GROUP, [given], context)[0])


def make_rule(plugin: SecurityGroups, group: str, context: Context = ALICE, **given: Any) -> Object:
    return make_rules(plugin, [{"security_group_id": group, "direction": "ingress", **given}], context)[0]


def make_rules(plugin: SecurityGroups, given: list[Object], context: Context = ALICE) -> list[Object]:
    return plugin.rules.create_several(context, parsed(SECURITY_GROUP_RULE, given, context))


def shown(plugin: SecurityGroups, key: str, context: Context = ALICE) -> Object:
    found = plugin.show(context, key, None, False)
    assert found is not None
    decoded: Object = msgspec.json.decode(msgspec.json.encode(found))
    return decoded


def used(db: Database, resource: str, project: str = "alice") -> int:
    """The project's counter, or the number of its objects if there is no counter yet."""
    c, table = t.quota_usages.c, t.counted_rows()[resource]
    with db.read() as connection:
        statement = sa.select(c.used).where(c.project_id == project, c.resource == resource)
        found = connection.execute(statement).scalar()
    return counted(db, table, table.c.project_id == project) if found is None else int(found)


def counted(db: Database, table: sa.Table, *conditions: Any) -> int:
    with db.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one())


def logged(db: Database, key: str) -> list[bool]:
    """The change log's rows of an object: whether each is a deletion."""
    c = t.changes.c
    with db.read() as connection:
        return list(connection.execute(sa.select(c.deleted).where(c.object_id == key).order_by(c.id)).scalars())


def put_on_port(db: Database, group: str) -> str:
    standard = {"project_id": "alice", "created_at": now(), "updated_at": now()}
    network, port = new_id(), new_id()
    with db.transaction() as tx:
        tx.execute(sa.insert(t.networks), {"id": network, **standard})
        tx.execute(sa.insert(t.ports), {"id": port, "network_id": network, "mac_address": port[:17], **standard})
        tx.execute(sa.insert(t.port_security_groups), {"port_id": port, "security_group_id": group})
    return port


def share(db: Database, group: str, project: str) -> None:
    with db.transaction() as tx:
        values = {"id": new_id(), "project_id": "alice", "object_type": "security_group", "object_id": group}
        tx.execute(sa.insert(t.rbac_policies), {**values, "action": sharing.SHARED, "target_project": project})


def at_once(action: Callable[[int], Any], threads: int = 8) -> list[Any]:
    """What each thread got: its result, or the refusal."""

    def caught(number: int) -> Any:
        try:
            return action(number)
        except errors.ApiError as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(caught, range(threads)))
