"""Tags of objects.

    GET /v2.0/things/{parent}/tags       list             GET    …/tags/{key}   204 if the object has it
    PUT                                  replace all      PUT                   add it
    POST                                 add several      DELETE                remove it
    DELETE                               remove all

Each change sends the notifications `tag.<event>.start` and, if it succeeds, `tag.<event>.end`, as in Neutron.

An object's row has its tags as JSON, to show them; the table `tags` has them as rows, to filter by them. Both change in one
transaction, on the condition that the object has not changed since its tags were read.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial

import msgspec
import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.access.sharing import EXTERNAL
from neutrino.server.api.definition import Extension, Resource
from neutrino.server.api.pipeline import Notify, Reply, Request
from neutrino.server.api.resources.common import MAX_TAGS
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages.body import decode
from neutrino.server.api.types import Invalid, ListOf, Text
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import Expression, Selection
from neutrino.server.db.view import shared_with_viewer, viewed_by
from neutrino.server.policy.authorizer import Authorizer

TAGS = ListOf(Text())
EXTENSIONS = (
    Extension(
        "standard-attr-tag",
        "Tag support for resources with standard attribute",
        "Tags on networks, subnets, ports and other objects.",
    ),
    Extension("tag-creation", "Tag creation extension", "Adding several tags at once."),
)


@dataclass(frozen=True)
class Verb:
    """A request about tags: its policy rule, and the new tags from the given and the old ones."""

    method: str
    action: str
    status: int
    change: Callable[[list[str], list[str]], Iterable[str]] | None = None
    single: bool = False  # about the tag in the path
    event: str = ""  # of notifications

    @property
    def takes_tags(self) -> bool:
        return not self.single and self.method in ("PUT", "POST")


def _without(given: list[str], old: list[str]) -> list[str]:
    if given[0] not in old:
        raise errors.TagNotFound(tag=given[0])
    return [tag for tag in old if tag != given[0]]


VERBS = (
    Verb("GET", "get", 200),
    Verb("PUT", "update", 200, lambda given, old: given, event="update"),
    Verb("POST", "create", 201, lambda given, old: [*old, *given], event="create"),
    Verb("DELETE", "delete", 204, lambda given, old: [], event="delete_all"),
    Verb("GET", "get", 204, single=True),
    Verb("PUT", "update", 201, lambda given, old: [*old, *given], single=True, event="create"),
    Verb("DELETE", "delete", 204, _without, single=True, event="delete"),
)


def tag_routes(
    db: Database, authorizer: Authorizer, notify: Notify, tagged: Iterable[tuple[Resource, sa.Table]]
) -> list[Route]:
    return [
        Route(
            verb.method,
            f"{PREFIX}/{url}/{{parent}}/tags{'/{key}' if verb.single else ''}",
            partial(_handle, authorizer, notify, TaggedObjects(db, resource, table), verb),
        )
        for resource, table in tagged
        # Neutron has tags at the collection's name alone, also of resources whose path has a prefix (fwaas/).
        for url in dict.fromkeys((resource.url, resource.url.rpartition("/")[2]))
        for verb in VERBS
    ]


def _handle(authorizer: Authorizer, notify: Notify, objects: "TaggedObjects", verb: Verb, request: Request) -> Reply:
    given = _given([request.key] if verb.single else _tags_of(request.raw) if verb.takes_tags else [])
    # As in Neutron, a tag request discloses that an object exists: 403 instead of 404.
    found = objects.load(request.parent, request.context)
    authorizer.require(request.context, f"{verb.action}_{objects.resource.name}:tags", found)
    if verb.change is not None:
        about: Object = {"obj_resource": objects.resource.collection, "obj_resource_id": request.parent}
        payload = {**about, "tags": given} if verb.single or verb.takes_tags else about
        notify(f"tag.{verb.event}.start", payload, request.context)
        objects.change(request.parent, request.context, partial(verb.change, given))
        notify(f"tag.{verb.event}.end", payload, request.context)
    elif verb.single and request.key not in found["tags"]:
        raise errors.TagNotFound(tag=request.key)
    shown = given if verb.takes_tags else found["tags"]
    return Reply(verb.status, None if verb.status == 204 or verb.single else {"tags": shown})


def _given(tags: object) -> list[str]:
    if isinstance(tags, list) and len(tags) > MAX_TAGS:
        raise errors.BadRequest(resource="tags", msg=f"an object has at most {MAX_TAGS} tags")
    try:
        return TAGS.parse(tags)
    except Invalid as error:
        raise errors.InvalidInput(error_message=str(error)) from None


def _tags_of(raw: bytes) -> object:
    body = decode(raw)
    if not isinstance(body, dict) or "tags" not in body:
        raise errors.InvalidInput(error_message="the body must have a list of tags under 'tags'")
    return body["tags"]


@dataclass(frozen=True)
class TaggedObjects:
    """The objects of a resource whose objects have tags."""

    db: Database
    resource: Resource
    table: sa.Table

    def load(self, key: str, context: Context) -> Object:
        with self.db.read() as connection:
            row = connection.execute(self._statement, {"key": key, **viewed_by(context.project_id)}).mappings().first()
        if row is None:
            raise self.resource.not_found(id=key)
        return {**row, "tags": msgspec.json.decode(row["tags"]), "tenant_id": row["project_id"]}

    @cached_property
    def _statement(self) -> Selection:
        """Reads the tags and what policy rules depend on: owner and sharing of the object and of its network."""
        table = self.table
        columns: list[Expression] = [table.c[n] for n in ("id", "project_id", "revision_number", "tags")]
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
        if "shared" not in table.c:
            columns.append(shared_with_viewer(shared_by).label("shared"))
        else:  # a column instead of RBAC policies
            columns.append(table.c.shared)
        return sa.select(*columns).select_from(source).where(table.c.id == sa.bindparam("key"))

    @retried
    def change(self, key: str, context: Context, change: Callable[[list[str]], Iterable[str]]) -> None:
        """Replace the object's tags by `change` of them."""
        before = self.load(key, context)
        old, new = set(before["tags"]), set(change(before["tags"]))
        if len(new) > MAX_TAGS:
            raise errors.BadRequest(resource=self.resource.name, msg=f"an object has at most {MAX_TAGS} tags")
        if new == old:
            return
        with self.db.transaction() as tx:
            # On the revision that was read: of two requests that add a tag, neither loses the other's.
            update_row(tx, self.table, before, {"tags": sorted(new)})
            rows = t.tags.c
            if old - new:
                tx.write(sa.delete(t.tags).where(rows.object_id == key, rows.tag.in_(sorted(old - new))))
            tx.insert(t.tags, [{"object_id": key, "tag": tag} for tag in sorted(new - old)])
