"""Tags of objects.

    GET /v2.0/things/{parent}/tags       list             GET    …/tags/{key}   204 if the object has it
    PUT                                  replace all      PUT                   add it
    POST                                 add several      DELETE                remove it
    DELETE                               remove all

An object's row has its tags as JSON, to show them; the table `tags` has them as rows, to filter by them. Both change in one
transaction, on the condition that the object has not changed since its tags were read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.access.sharing import EXTERNAL
from neutrino.server.api.definition import Extension, Resource
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.resources.common import MAX_TAGS
from neutrino.server.api.routes import PREFIX, Handler, Route
from neutrino.server.api.stages.body import decode
from neutrino.server.api.types import Invalid, ListOf, Text
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import shared_with_viewer, viewed_by
from neutrino.server.policy.authorizer import Authorizer

Object = dict[str, Any]
Change = Callable[[list[str]], Iterable[str]]
TAG = Text(255)


def set_tags(tx: Transaction, object_id: str, tags: Iterable[str], *, before: Iterable[str] = ()) -> None:
    """Write an object's rows in `tags`; `before` are the tags that it has. The caller writes the object's own row."""
    new, old = set(tags), set(before)
    gone = old - new
    if gone:
        tx.execute(sa.delete(t.tags).where(t.tags.c.object_id == object_id, t.tags.c.tag.in_(sorted(gone))))
    if new - old:
        tx.execute(sa.insert(t.tags), [{"object_id": object_id, "tag": tag} for tag in sorted(new - old)])


@dataclass(frozen=True)
class Taggable:
    """A resource whose objects have tags, with the query that reads an object for a request about its tags."""

    resource: Resource
    table: sa.Table
    statement: sa.Select[Any]

    def load(self, db: Database, key: str, project_id: str | None) -> Object:
        with db.read() as connection:
            row = connection.execute(self.statement, {"key": key, **viewed_by(project_id)}).mappings().first()
        if row is None:
            raise self.resource.not_found(id=key)
        return {**row, "tags": msgspec.json.decode(row["tags"]), "tenant_id": row["project_id"]}


def taggable(resource: Resource, table: sa.Table) -> Taggable:
    """The query reads the tags and what policy rules depend on: owner and sharing of the object and of its network."""
    columns: list[sa.ColumnElement[Any]] = [table.c[n] for n in ("id", "project_id", "revision_number", "tags")]
    source: sa.FromClause = table
    network_id = table.c.id if table is t.networks else table.c.get("network_id")
    shared_by = table.c.id
    if network_id is not None:
        network = t.networks.alias("its_network")
        source = table.join(network, network.c.id == network_id)
        shared_by = network_id
        external = sa.and_(network.c.external, shared_with_viewer(network_id, EXTERNAL))
        columns += [
            network.c.project_id.label("network:project_id"),
            shared_with_viewer(network_id).label("network:shared"),
            external.label("router:external"),
        ]
    columns.append(shared_with_viewer(shared_by).label("shared"))
    statement = sa.select(*columns).select_from(source).where(table.c.id == sa.bindparam("key"))
    return Taggable(resource, table, statement)


def _without(given: Sequence[str], old: Sequence[str]) -> list[str]:
    if given[0] not in old:
        raise errors.TagNotFound(tag=given[0])
    return [tag for tag in old if tag != given[0]]


@dataclass(frozen=True)
class Verb:
    """A request about tags: its policy rule, and the new tags from the given and the old ones."""

    method: str
    action: str
    status: int
    change: Callable[[list[str], list[str]], Iterable[str]] | None = None
    single: bool = False  # about the tag in the path

    @property
    def takes_tags(self) -> bool:
        return not self.single and self.method in ("PUT", "POST")


VERBS = (
    Verb("GET", "get", 200),
    Verb("PUT", "update", 200, lambda given, old: given),
    Verb("POST", "create", 201, lambda given, old: [*old, *given]),
    Verb("DELETE", "delete", 204, lambda given, old: []),
    Verb("GET", "get", 204, single=True),
    Verb("PUT", "update", 201, lambda given, old: [*old, *given], single=True),
    Verb("DELETE", "delete", 204, _without, single=True),
)


class Tags:
    extensions = (
        Extension(
            "standard-attr-tag",
            "Tag support for resources with standard attribute",
            "Tags on networks, subnets, ports and other objects.",
        ),
        Extension("tag-creation", "Tag creation extension", "Adding several tags at once."),
    )

    def __init__(self, db: Database) -> None:
        self._db = db

    def routes(self, authorizer: Authorizer, tagged: Iterable[tuple[Resource, sa.Table]]) -> list[Route]:
        return [route for one in tagged for route in self._routes(authorizer, taggable(*one))]

    def _routes(self, authorizer: Authorizer, kind: Taggable) -> list[Route]:
        base = f"{PREFIX}/{kind.resource.url}/{{parent}}/tags"
        return [
            Route(verb.method, f"{base}/{{key}}" if verb.single else base, self._handler(authorizer, kind, verb))
            for verb in VERBS
        ]

    def _handler(self, authorizer: Authorizer, kind: Taggable, verb: Verb) -> Handler:
        def handle(request: Request) -> Reply:
            given = [_checked_tag(request.key)] if verb.single else _tags_of(request.raw) if verb.takes_tags else []
            # As in Neutron, a tag request discloses that an object exists: 403 instead of 404.
            found = kind.load(self._db, request.parent, request.context.project_id)
            authorizer.require(request.context, rule(), found)
            if verb.change is not None:
                self.change(kind, request.context, request.parent, partial(verb.change, given))
            elif verb.single and request.key not in found["tags"]:
                raise errors.TagNotFound(tag=request.key)
            shown = given if verb.takes_tags else found["tags"]
            return Reply(verb.status, None if verb.status == 204 or verb.single else {"tags": shown})

        def rule() -> str:
            name = f"{verb.action}_{kind.resource.name}:tags"
            # Adding several is an update if the policy has no rule for it.
            adds = verb.action == "create" and not authorizer.has_rule(name)
            return f"update_{kind.resource.name}:tags" if adds else name

        return handle

    def change(self, kind: Taggable, context: Context, key: str, change: Change) -> list[str]:
        """Replace the object's tags by `change` of them."""

        def attempt() -> list[str]:
            before = kind.load(self._db, key, context.project_id)
            tags = sorted(set(change(before["tags"])))
            if len(tags) > MAX_TAGS:
                raise errors.BadRequest(resource=kind.resource.name, msg=f"an object has at most {MAX_TAGS} tags")
            if set(tags) == set(before["tags"]):
                return tags
            with self._db.transaction() as tx:
                # On the revision that was read: of two requests that add a tag, neither loses the other's.
                update_row(tx, kind.table, before, {"tags": tags})
                set_tags(tx, key, tags, before=before["tags"])
            return tags

        return self._db.retrying(attempt)


def _checked_tag(tag: str) -> str:
    try:
        return TAG.parse(tag)
    except Invalid as error:
        raise errors.InvalidInput(error_message=str(error)) from None


def _tags_of(raw: bytes) -> list[str]:
    body = decode(raw)
    if not isinstance(body, dict) or "tags" not in body:
        raise errors.InvalidInput(error_message="the body must have a list of tags under 'tags'")
    if isinstance(body["tags"], list) and len(body["tags"]) > MAX_TAGS:
        raise errors.BadRequest(resource="tags", msg=f"an object has at most {MAX_TAGS} tags")
    try:
        return ListOf(TAG).parse(body["tags"])
    except Invalid as error:
        raise errors.InvalidInput(error_message=str(error)) from None
