"""What happens to a request, in order: the six verbs, each read from top to bottom.

    authenticate → parse → check against the definition → quota → policy → plugin → what the reader may see → notify

Authentication has happened before (`authentication.py`); the answer becomes bytes after (`app.py`). Everything between
is here, the same for every resource of every plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from neutrino.server import errors
from neutrino.server.api.catalog import Served
from neutrino.server.api.definition import Resource
from neutrino.server.api.stages import body as bodies
from neutrino.server.api.stages.hidden import filtered_by, matching, page_of, query_seen
from neutrino.server.api.stages.present import encode_list, in_batches, names_to_fetch, present, visible_names
from neutrino.server.api.stages.query_string import Pairs, page_links, parse_fields, parse_query
from neutrino.server.context import Context
from neutrino.server.policy.authorizer import POLICY_NAMES, Authorizer, Sight

Object = dict[str, Any]
IF_MATCH = re.compile(r"revision_number=([0-9]{1,18})")


class Quota(Protocol):
    def check(self, resource: str, projects: Sequence[str]) -> None: ...


Notify = Callable[[Context, str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Request:
    """One call, as the HTTP layer understood it."""

    context: Context
    raw: bytes = b""
    pairs: Pairs = ()  # type: ignore[assignment]
    key: str = ""
    parent: str = ""
    url: str = ""  # of the collection, for links
    if_match: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any = None  # a JSON value, or bytes that are one already


class Pipeline:
    def __init__(self, authorizer: Authorizer, quota: Quota, notify: Notify, max_limit: int | None = None) -> None:
        self._authorizer = authorizer
        self._quota = quota
        self._notify = notify
        self._max_limit = max_limit

    # --- the verbs ------------------------------------------------------------------------------------------------

    def index(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        assert served.index is not None
        query = parse_query(resource, request.pairs, max_limit=self._max_limit)
        sight = self._sight(resource, context)
        if resource.parent:
            target = served.target(context, request.parent, None) if served.target else {}
            self._authorizer.require(context, self._rule("get", resource), target)
        if query.marker is not None and served.show is not None:
            self._find(served, replace(request, key=query.marker), sight, names_to_fetch(resource, None, sight))
        fetched = names_to_fetch(resource, query.fields, sight)
        if fetched is not None and query.limit is not None:
            fetched = tuple(dict.fromkeys([*fetched, resource.key]))
        seen = query_seen(query, sight)
        rows: Iterable[Object] = ()
        if seen is not None:
            rows = served.index(context, *_parent(request), replace(seen, fields=fetched, everyone=sight.all_rows))
        if seen is not None and seen.limit is None and filtered_by(query) & sight.sometimes:
            rows = page_of(matching(rows, filtered_by(query), sight), query)
        if isinstance(rows, Iterator) and query.limit is None:
            batches = (self._present(resource, batch, sight, query.fields) for batch in in_batches(rows))
            return Reply(200, encode_list(resource.collection, batches))
        rows = list(rows)
        out: dict[str, Any] = {resource.collection: self._present(resource, rows, sight, query.fields)}
        if query.limit is not None:
            links = page_links(request.url, request.pairs, [row[resource.key] for row in rows], query)
            if links:
                out[f"{resource.collection}_links"] = links
        return Reply(200, out)

    def show(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        fields = parse_fields(resource, request.pairs)
        sight = self._sight(resource, context)
        found = self._find(served, request, sight, names_to_fetch(resource, fields, sight))
        return Reply(200, {resource.name: self._present(resource, [found], sight, fields)[0]})

    def create(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        assert served.create is not None
        body = bodies.decode(request.raw)
        items, several = bodies.items_to_create(resource, body, context)
        if resource.quota:
            self._quota.check(resource.name, [item.values["project_id"] for item in items])
        self._authorize_create(served, request, items)
        self._notify(context, f"{resource.name}.create.start", body)
        parent = _parent(request)
        values = [item.values for item in items]
        if several and served.create_several is not None:
            made = served.create_several(context, *parent, values)
        else:
            made = [served.create(context, *parent, one) for one in values]
        sight = self._sight(resource, context)
        shown = self._present(resource, made, sight, None, own=True)
        answer = {resource.collection: shown} if several else {resource.name: shown[0] if shown else {}}
        self._notify(context, f"{resource.name}.create.end", answer)
        return Reply(201, answer)

    def update(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        assert served.update is not None
        body = bodies.decode(request.raw)
        item = bodies.item_to_update(resource, body)
        sight = self._sight(resource, context)
        found = self._find_for_change(served, request, sight)
        target = {**found, **item.values}
        rule = self._rule("update", resource)
        self._require_change(resource, context, rule, found)
        self._authorizer.require_attributes(context, "update", resource, item.given, target)
        self._notify(context, f"{resource.name}.update.start", {**body, "id": request.key})
        revision = _expected_revision(request.if_match, found)
        changed = served.update(context, *_parent(request), request.key, item.values, revision)
        answer = {resource.name: self._present(resource, [changed], sight, None, own=True)[0]}
        self._notify(context, f"{resource.name}.update.end", answer)
        return Reply(200, answer)

    def delete(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        assert served.delete is not None
        sight = self._sight(resource, context)
        found = self._find_for_change(served, request, sight)
        self._require_change(resource, context, self._rule("delete", resource), found)
        self._notify(context, f"{resource.name}.delete.start", {f"{resource.name}_id": request.key})
        revision = _expected_revision(request.if_match, found)
        served.delete(context, *_parent(request), request.key, revision)
        shown = self._present(resource, [found], sight, None, own=True)
        payload = {f"{resource.name}_id": request.key, resource.name: shown[0] if shown else {}}
        self._notify(context, f"{resource.name}.delete.end", payload)
        return Reply(204)

    def act(self, served: Served, action: str, request: Request) -> Reply:
        """A member's own verb, such as add_addresses."""
        resource, context = served.resource, request.context
        body = bodies.decode(request.raw) if request.raw else {}
        sight = self._sight(resource, context)
        found = self._find_for_change(served, request, sight)
        policy = next(a.policy for a in resource.actions if a.name == action) or action
        self._require_change(resource, context, policy, found)
        self._notify(context, f"{resource.name}.{action}.start", {"id": request.key, "body": body})
        answer = served.actions[action](context, *_parent(request), request.key, body)
        self._notify(context, f"{resource.name}.{action}.end", answer)
        if isinstance(answer, dict) and resource.name in answer:
            shown = self._present(resource, [answer[resource.name]], sight, None, own=True)
            answer = {resource.name: shown[0] if shown else {}}
        return Reply(200, answer)

    # --- their parts ----------------------------------------------------------------------------------------------

    def _require_change(self, resource: Resource, context: Context, rule: str, found: Object) -> None:
        if not self._authorizer.allows(context, rule, found):
            if resource.foreign_is_hidden and found.get("project_id") != context.project_id:
                raise resource.not_found(**_about(resource, found.get("id", "")))
            raise errors.PolicyNotAuthorized(rule=rule)

    def _rule(self, action: str, resource: Resource) -> str:
        """A rule's name; a nested resource has its parent's name in it, where the policy knows it so."""
        name = f"{resource.parent.name}_{resource.name}" if resource.parent else resource.name
        for rule in (f"{action}_{name}", f"{action}_{resource.collection}", f"{action}_{resource.name}"):
            if self._authorizer.has_rule(rule):
                return rule
        return f"{action}_{name}"

    def _sight(self, resource: Resource, context: Context) -> Sight:
        return self._authorizer.sight(context, resource, self._rule("get", resource))

    def _find(self, served: Served, request: Request, sight: Sight, names: Sequence[str] | None) -> Object:
        """The object with these names, if it is there for this caller."""
        resource, key = served.resource, request.key
        assert served.show is not None
        about = _about(resource, key, request.parent)
        # Where hidden objects answer in words of their own, they are looked up for all and hidden here.
        everyone = sight.all_rows or resource.hidden is not None
        found: Object | None = served.show(request.context, *_parent(request), key, names, everyone)
        if found is None:
            raise resource.not_found(**about)
        if sight.names(found) is None:
            raise (resource.hidden or resource.not_found)(**about)
        return found

    def _find_for_change(self, served: Served, request: Request, sight: Sight) -> Object:
        """The object before its change, as the policy wants it: all that is visible, and what rules look at."""
        if served.show is None:  # only ever changed through its parent
            return dict(served.target(request.context, request.parent, request.key) if served.target else {})
        return self._find(served, request, sight, (*visible_names(served.resource), *POLICY_NAMES))

    def _authorize_create(self, served: Served, request: Request, items: Sequence[bodies.Item]) -> None:
        resource, context = served.resource, request.context
        rule = self._rule("create", resource)
        known: dict[Any, dict[str, Any]] = {}  # what a bulk request belongs to is looked up once
        for item in items:
            target = item.values
            if served.target is not None:
                owner = item.values.get(resource.belongs_to) if resource.belongs_to else request.parent
                if owner not in known:
                    where = _parent(request)
                    known[owner] = served.target(context, *where, item.values)
                target = {**item.values, **known[owner]}
            self._authorizer.require(context, rule, target)
            self._authorizer.require_attributes(context, "create", resource, item.given, target)

    def _present(
        self,
        resource: Resource,
        rows: Sequence[Object],
        sight: Sight,
        fields: Sequence[str] | None,
        own: bool = False,
    ) -> list[Object]:
        """`own`: the caller has just made or changed it, so it is shown even where reading it is not allowed."""
        if own:
            shown = []
            for row in rows:
                hidden = sight.names(row) or frozenset()
                shown.append({n: row[n] for n in visible_names(resource) if n in row and n not in hidden})
            return shown
        return present(resource, rows, sight, fields)


def _about(resource: Resource, key: str, parent: str = "") -> dict[str, str]:
    """What the words of a refusal may name."""
    return {"id": key, "host": key, "address_group_id": key, "object_type": resource.name, "port_id": parent}


def _parent(request: Request) -> tuple[str, ...]:
    return (request.parent,) if request.parent else ()


def _expected_revision(if_match: str, found: Object) -> int | None:
    """The revision that `If-Match: revision_number=N` insists on; any other form of the header is not for us."""
    match = IF_MATCH.fullmatch(if_match.strip()) if if_match else None
    if match is None:
        return None
    expected = int(match[1])
    if found.get("revision_number") != expected:
        raise errors.RevisionNumberConstraintFailed(expected=expected, current=found.get("revision_number"))
    return expected
