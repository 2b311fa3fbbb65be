"""The pipeline of a request: the six verbs, each read from top to bottom.

    authenticate → parse → check against the definition → quota → notify (start) → policy → plugin → hide what is not
    visible → notify (end)

As in Neutron, a well-formed request within its quota sends `start` whether it is permitted and succeeds or not; only one
that succeeds sends `end`. The order of these steps decides which error a client gets. A create takes the quota and what
policy rules say of related objects from the database only if the answer depends on it: a round trip less for each.

Authentication happens before (`authentication.py`) and encoding after (`app.py`). Everything in between is here, the
same for every resource of every plugin.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.cascade import DELETE, Removed
from neutrino.server.api.catalog import Served
from neutrino.server.api.definition import Resource
from neutrino.server.api.stages import body as bodies
from neutrino.server.api.stages import visible
from neutrino.server.api.stages.query_string import Pairs, page_links, parse_cascade, parse_fields, parse_query
from neutrino.server.context import Context
from neutrino.server.policy.authorizer import RELATED_ATTRIBUTES, Authorizer, Visibility

ALWAYS_NEEDED = ("project_id", "revision_number")  # of an object before a change
IF_MATCH = re.compile(r"revision_number=([0-9]{1,18})")


Notify = Callable[[str, Object, Context], None]  # event type, payload, caller


@dataclass(frozen=True, slots=True)
class Request:
    """A request, independent of HTTP."""

    context: Context
    raw: bytes = b""
    pairs: Pairs = ()  # type: ignore[assignment]
    key: str = ""
    parent: str = ""
    root: str = ""  # URL below which the API's paths are, for links
    path: str = ""  # of the collection
    if_match: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: object = None  # a JSON value, or its encoding: bytes, or a deque of them
    compressible: bool = False  # it has no secrets: see server/compression.py
    etag: str = ""  # of its content: equal ones are answered with 304


@dataclass(frozen=True, slots=True)
class Pipeline:
    authorizer: Authorizer
    check_quota: Callable[[str, Sequence[str]], None]  # a resource's name, and the project of each new object
    notify: Notify
    max_limit: int | None = None

    # --- the verbs ------------------------------------------------------------------------------------------------

    def index(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        query = parse_query(resource, request.pairs, max_limit=self.max_limit)
        visibility = self._visibility(resource, context)
        if resource.parent:
            target = served.target(context, request.parent, None) if served.target else {}
            self.authorizer.require(context, self._rule("get", resource), target)
        if query.marker is not None and "show" in resource.verbs and not resource.any_marker:
            # A marker that the caller may not see is a 404, as if it did not exist.
            every = visible.names_to_fetch(resource, None, visibility)
            self._find(served, replace(request, key=query.marker), visibility, every)
        fetched = visible.names_to_fetch(resource, query.fields, visibility)
        if fetched is not None and query.limit is not None:  # links to further pages need the key
            fetched = tuple(dict.fromkeys([*fetched, resource.key]))
        rows: Iterable[Object] = ()
        permitted = visible.permitted_query(query, visibility)
        if permitted is not None:
            asked = replace(permitted, fields=fetched, everyone=visibility.all_rows)
            rows = visible.matching_page(served.index(context, *_parent(request), asked), query, visibility)
        if isinstance(rows, Iterator) and query.limit is None:
            batches = (visible.present(resource, batch, visibility, query.fields) for batch in visible.in_batches(rows))
            return Reply(200, visible.encode_list(resource.collection, batches), compressible=not resource.secrets)
        rows = list(rows)
        out: Object = {resource.collection: visible.present(resource, rows, visibility, query.fields)}
        if query.limit is not None:
            keys = [row[resource.key] for row in rows]
            if links := page_links(f"{request.root}{request.path}", request.pairs, keys, query.limit, query.reverse):
                out[f"{resource.collection}_links"] = links
        return Reply(200, out, compressible=not resource.secrets)

    def show(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        fields = parse_fields(resource, request.pairs)
        visibility = self._visibility(resource, context)
        found = self._find(served, request, visibility, visible.names_to_fetch(resource, fields, visibility))
        return Reply(200, {resource.name: visible.present(resource, [found], visibility, fields)[0]})

    def create(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        body = bodies.decode(request.raw)
        items, several = bodies.items_to_create(resource, body, context)
        start = partial(self.notify, f"{resource.name}.create.start", _masked(resource, body), context)
        try:
            self._authorize_create(served, request, items)
            made = self._create(served, request, [item.values for item in items], several)
        except errors.ApiError as refusal:
            # Clients expect a quota error before any other. The transaction that creates the objects enforces the limit.
            if resource.quota and refusal.status < 500:
                self.check_quota(resource.quota_name, [item.values["project_id"] for item in items])
            start()
            raise
        start()
        visibility = self._visibility(resource, context)
        shown = [visible.present_own(resource, one, visibility) for one in made]
        answer = {resource.collection: shown} if several else {resource.name: shown[0]}
        self.notify(f"{resource.name}.create.end", _masked(resource, answer), context)
        return Reply(201, answer)

    def update(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        body = bodies.decode(request.raw)
        # Before the lookup: a malformed request is a 400, whether the object exists or not.
        item = bodies.item_to_update(resource, body)
        self.notify(f"{resource.name}.update.start", {**_masked(resource, body), "id": request.key}, context)
        rule = self._rule("update", resource)
        needed = self.authorizer.needs([rule, *self.authorizer.rules_of_update(resource, item.values)])
        found, visibility = self._find_to_change(served, request, rule, needed)
        # Rules of attributes see the new values, the rule of the object itself the old ones.
        target = {**found, **item.values}
        self.authorizer.require_attributes(context, "update", resource, item.given, target)
        revision = _expected_revision(request.if_match, found)
        changed = served.update(context, *_parent(request), request.key, item.values, revision)
        answer = {resource.name: visible.present_own(resource, changed, visibility)}
        self.notify(f"{resource.name}.update.end", _masked(resource, answer), context)
        return Reply(200, answer)

    def delete(self, served: Served, request: Request) -> Reply:
        resource, context = served.resource, request.context
        delete_all = served.delete_cascade
        if delete_all is not None and not parse_cascade(request.pairs):
            delete_all = None
        self.notify(f"{resource.name}.delete.start", {f"{resource.name}_id": request.key}, context)
        found, _ = self._find_to_change(served, request, self._rule("delete", resource), None)
        revision = _expected_revision(request.if_match, found)
        if delete_all is not None:
            permit = partial(self._permit, context)
            for removed in delete_all(context, *_parent(request), request.key, revision, permit):
                self._notify_removed(context, removed)
        else:
            served.delete(context, *_parent(request), request.key, revision)
        self._notify_removed(context, Removed(resource, found), request.key)
        return Reply(204)

    def act(self, served: Served, action: str, request: Request) -> Reply:
        """An action on an object, such as add_addresses."""
        resource, context = served.resource, request.context
        body = bodies.decode(request.raw) if request.raw else {}
        values = body.get(resource.name) if isinstance(body, dict) else None
        rules = self.authorizer.rules_of_body(action, values)
        found, visibility = self._find_to_change(served, request, action, self.authorizer.needs([action, *rules]))
        for rule in rules:
            self.authorizer.require(context, rule, found)
        if action not in resource.action_events:
            self.notify(f"{resource.name}.{action}.start", {"id": request.key, "body": body}, context)
        answer = served.actions[action](context, *_parent(request), request.key, body)
        self._notify_done(context, resource, action, answer)
        if isinstance(answer, dict) and resource.name in answer:
            answer = {resource.name: visible.present_own(resource, answer[resource.name], visibility)}
        return Reply(200, answer)

    def look_up(self, served: Served, lookup: str, request: Request) -> Reply:
        """A part of an object, such as get_subports: an action that changes nothing, and sends no notification."""
        self._find_to_change(served, request, lookup, self.authorizer.needs([lookup]))
        return Reply(200, served.lookups[lookup](request.context, *_parent(request), request.key))

    # --- their parts ----------------------------------------------------------------------------------------------

    def _rule(self, action: str, resource: Resource) -> str:
        """The name of a rule. That of a nested resource may contain its parent's name: Neutron has both forms."""
        name = resource.full_name
        for rule in (f"{action}_{name}", f"{action}_{resource.collection}", f"{action}_{resource.name}"):
            if self.authorizer.has_rule(rule):
                return rule
        return f"{action}_{name}"

    def _visibility(self, resource: Resource, context: Context) -> Visibility:
        return self.authorizer.visibility(context, resource, self._rule("get", resource))

    def _find(self, served: Served, request: Request, visibility: Visibility, names: Sequence[str] | None) -> Object:
        """The object with these attributes; an error if it does not exist or is hidden from the caller."""
        resource, key = served.resource, request.key
        about = _about(resource, key, request.parent)
        # If a hidden object has an error of its own, it is read whoever owns it, and hidden here.
        everyone = _reads_all(resource, visibility)
        found = served.show(request.context, *_parent(request), key, names, everyone)
        if found is None:
            raise resource.not_found(**about)
        if visibility.hidden(found) is None:
            raise (resource.hidden or resource.not_found)(**about)
        return found

    def _find_to_change(
        self, served: Served, request: Request, rule: str, needed: Sequence[str] | None
    ) -> tuple[Object, Visibility]:
        """The object before a change that the rule allows, and what the caller sees.

        `needed`: the attributes that are read besides those of every decision; None: all that rules may depend on.
        """
        resource, context = served.resource, request.context
        visibility = self._visibility(resource, context)
        if "show" not in resource.verbs:  # written only through its parent
            found = dict(served.target(context, request.parent, request.key) if served.target else {})
        else:
            if needed is None:
                names = (*visible.visible_names(resource), *RELATED_ATTRIBUTES)
            else:
                names = tuple(dict.fromkeys([resource.key, *ALWAYS_NEEDED, *needed, *visibility.needs]))
            found = self._find(served, request, visibility, names)
        if not self.authorizer.allows(context, rule, found):
            if resource.foreign_is_hidden and found.get("project_id") != context.project_id:
                raise resource.not_found(**_about(resource, request.key))
            raise errors.PolicyNotAuthorized(rule=rule)
        return found, visibility

    def _permit(self, context: Context, removed: Removed) -> None:
        """Refuse what a cascade removes if the caller could not remove it by itself."""
        is_deleted = removed.action == DELETE
        rule = self._rule(DELETE, removed.resource) if is_deleted else removed.action
        self.authorizer.require(context, rule, removed.object)

    def _notify_removed(self, context: Context, removed: Removed, key: str = "") -> None:
        resource, name = removed.resource, removed.resource.name
        if removed.action != DELETE:
            self._notify_done(context, resource, removed.action, removed.answer)
            return
        shown = visible.present_own(resource, removed.object, self._visibility(resource, context))
        payload = {f"{name}_id": key or removed.object[resource.key], name: shown}
        self.notify(f"{name}.delete.end", _masked(resource, payload), context)

    def _notify_done(self, context: Context, resource: Resource, action: str, answer: Any) -> None:
        if event := resource.action_events.get(action):
            self.notify(event.event_type, {event.payload: answer}, context)
        else:
            self.notify(f"{resource.name}.{action}.end", answer, context)

    def _create(self, served: Served, request: Request, values: Sequence[Object], several: bool) -> list[Object]:
        if several and served.create_several is not None:
            return served.create_several(request.context, *_parent(request), values)
        return [served.create(request.context, *_parent(request), one) for one in values]

    def _authorize_create(self, served: Served, request: Request, items: Sequence[bodies.Item]) -> None:
        resource, context = served.resource, request.context
        rule = self._rule("create", resource)
        known: dict[str | None, Object] = {}  # the objects that a bulk request refers to are read once
        for item in items:
            target = item.values
            # An administrator sees all objects; for others it is also found out here whether they see this one.
            needs_owner = not (
                context.is_admin and self.authorizer.allows_new(context, rule, resource, item.given, target)
            )
            if served.target is not None and needs_owner:
                owner = item.values.get(resource.belongs_to) if resource.belongs_to else request.parent
                if owner not in known:
                    known[owner] = served.target(context, *_parent(request), item.values)
                target = {**item.values, **known[owner]}
            self.authorizer.require(context, rule, target)
            self.authorizer.require_attributes(context, "create", resource, item.given, target)
            for also in served.also_creates(context, item.values):
                target = {"project_id": item.values["project_id"], **also.values, **also.related}
                self.authorizer.require(context, self._rule("create", also.resource), target)
                self.authorizer.require_attributes(context, "create", also.resource, also.values, target)


def _reads_all(resource: Resource, visibility: Visibility) -> bool:
    return visibility.all_rows or resource.hidden is not None


def _about(resource: Resource, key: str, parent: str = "") -> dict[str, str]:
    """The fields that message templates of errors may use."""
    return {"id": key, "host": key, "object_type": resource.name, "port_id": parent}


def _parent(request: Request) -> tuple[str, ...]:
    return (request.parent,) if request.parent else ()


def _masked(resource: Resource, body: Object) -> Object:
    """A body or an answer without its secrets, for notifications: others read these than who may see the object."""
    secrets = resource.secrets
    if not secrets:
        return body

    def mask(one: object) -> object:
        if isinstance(one, list):
            return [mask(each) for each in one]
        return {k: "***" if k in secrets else v for k, v in one.items()} if isinstance(one, dict) else one

    return {name: mask(value) for name, value in body.items()}


def _expected_revision(if_match: str, found: Object) -> int | None:
    """The revision that `If-Match: revision_number=N` requires. Other forms are entity tags of proxies: ignored."""
    match = IF_MATCH.fullmatch(if_match.strip()) if if_match else None
    if match is None:
        return None
    expected = int(match[1])
    if found.get("revision_number") != expected:
        raise errors.RevisionNumberConstraintFailed(expected=expected, current=found.get("revision_number"))
    return expected
