"""The OpenAPI 3.1 document of the API, generated from the definitions and the routes.

Attributes, verbs, filters and actions come from the definitions of resources, so the document matches the server. The few
paths that belong to no resource are described here. Request schemas contain the recommended form; the server also accepts
what older clients send ("true" for true, "4" for 4).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from neutrino.server.api.catalog import Served
from neutrino.server.api.definition import REQUIRED, Attribute, Resource
from neutrino.server.api.resources.router import ROUTES
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages.body import SYNONYMS
from neutrino.server.api.stages.query_string import filter_type

Json = dict[str, Any]
VERSION = "2.0"
JSON = "application/json"
STRING: Json = {"type": "string"}
TAG_SCHEMA: Json = {"type": "string", "maxLength": 255}
TAG_LIST: Json = {"type": "array", "items": TAG_SCHEMA, "maxItems": 50}

# Names of path parameters, by the part before them; others are `<singular>_id`.
PARTS = {
    "tags": "tag",
    "extensions": "alias",
    "quotas": "project_id",
    "bindings": "host",
    "dhcp-networks": "network_id",
    "l3-routers": "router_id",
    "auto-allocated-topology": "project_id",
    "network-ip-availabilities": "network_id",
}

ERRORS = {
    "400": ("BadRequest", "The request is not valid; the message names the attribute."),
    "401": ("Unauthorized", "The token is missing or not valid."),
    "403": ("Forbidden", "The policy does not allow it."),
    "404": ("NotFound", "It does not exist, or the caller may not see it."),
    "409": ("Conflict", "It is in use, a quota is exceeded, or its state does not allow it."),
    "412": ("PreconditionFailed", "The object has another revision than If-Match requires."),
    "413": ("TooLarge", "The body is larger than the server accepts."),
    "415": ("UnsupportedMediaType", "The body is not application/json."),
    "503": ("Busy", "The server could not execute the request now: try again."),
}
READ = ("400", "401", "403", "404", "503")
WRITE = (*READ, "409", "412", "413", "415")


def document(served: Sequence[Served], routes: Iterable[Route], aliases: Sequence[Mapping[str, Any]]) -> Json:
    """The document: the paths of `routes`, described by the resources that are `served`."""
    described = _described(served)
    collections = {f"{PREFIX}/{s.resource.url}" for s in served if not s.resource.parent}
    paths: dict[str, Json] = {}
    for route in [*_PUBLIC, *((r.method, r.path) for r in routes)]:
        method, path = route
        operation = described.get(route)
        if operation is None:
            if path in collections and method in ("PUT", "DELETE"):
                continue  # exists only to answer that the id is missing
            # Without detail, but in the document: a route that is missing there looks as if it did not exist.
            operation = _operation(path, method, "A route of a plugin.", {"200": {"description": "Done."}})
        public, names = _named(path)
        item = paths.setdefault(public, {"parameters": [_path_parameter(n) for n in names]} if names else {})
        item.setdefault(method.lower(), {"operationId": _operation_id(method, public), **operation})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Networking API",
            "version": VERSION,
            "summary": "Virtual networks, subnets, ports and what belongs to them.",
            "description": f"Extensions: {', '.join(sorted(a['alias'] for a in aliases))}.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name} for name in dict.fromkeys(_section(path) for path in paths)],
        "paths": paths,
        "components": {
            "schemas": {**_COMMON, **{k: v for s in served for k, v in _schemas(s.resource).items()}},
            "responses": {name: _answer(_schema_ref("Error"), text) for name, text in ERRORS.values()},
            "parameters": _PARAMETERS,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


# --- paths ------------------------------------------------------------------------------------------------------------


def _named(path: str) -> tuple[str, list[str]]:
    """The path with descriptive names of its parameters, and those names."""
    parts, names = path.split("/"), []
    for i, part in enumerate(parts):
        if part.startswith("{"):
            before = parts[i - 1]
            name = PARTS.get(before, f"{_singular(before).replace('-', '_')}_id")
            names.append(name)
            parts[i] = f"{{{name}}}"
    return "/".join(parts), names


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def _path_parameter(name: str) -> Json:
    # A tag in a body may be empty or contain a slash; here it would be another path.
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _operation_id(method: str, path: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", path.removeprefix(PREFIX)).strip("_")
    words = words or ("versions" if path in ("", "/") else "api")
    return f"{method.lower()}_{words}"


def _section(path: str) -> str:
    parts = path.removeprefix(PREFIX).strip("/").split("/")
    return parts[0] if path.startswith(PREFIX) and parts[0] and parts[0] != "extensions" else "discovery"


def _operation(
    path: str,
    method: str,
    summary: str,
    answers: Json,
    body: Json | None = None,
    parameters: Sequence[Json] = (),
) -> Json:
    codes = READ if method == "GET" else WRITE
    responses = {**answers, **{code: _ref("responses", ERRORS[code][0]) for code in codes}}
    out: Json = {"summary": summary, "tags": [_section(path)], "responses": responses}
    if parameters:
        out["parameters"] = list(parameters)
    if body is not None:
        out["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return out


def _ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _schema_ref(name: str) -> Json:
    return _ref("schemas", name)


def _answer(schema: Json, description: str = "Done.") -> Json:
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _object(properties: Json, required: Iterable[str] | None = None) -> Json:
    return {"type": "object", "properties": properties, "required": sorted(required or properties)}


_EMPTY: Json = {"description": "Done."}
_ERROR_TYPE: Json = {"type": "string", "description": "The type of the error, such as NetworkNotFound."}
_LINKS: Json = {"type": "array", "items": _schema_ref("Link")}
_COMMON: Json = {
    "Error": _object({"NeutronError": _object({"type": _ERROR_TYPE, "message": STRING, "detail": STRING})}),
    "Link": _object({"rel": STRING, "href": {"type": "string", "format": "uri"}}),
    "Extension": _object(
        {"alias": STRING, "name": STRING, "description": STRING, "updated": STRING, "links": {"type": "array"}}
    ),
    "Quota": {"type": "object", "additionalProperties": {"type": "integer", "minimum": -1}},
    "QuotaDetails": {
        "type": "object",
        "additionalProperties": _object({n: {"type": "integer"} for n in ("limit", "used", "reserved")}),
    },
    "Tags": {**_object({"tags": TAG_LIST}), "additionalProperties": True},
}


def _query(name: str, schema: Json, description: str, **more: Any) -> Json:
    return {"name": name, "in": "query", "schema": schema, "description": description, **more}


_PARAMETERS: Json = {
    "limit": _query(
        "limit", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "The size of a page; 0: no limit."
    ),
    "marker": _query("marker", STRING, "The page begins after the object with this id."),
    "page_reverse": _query("page_reverse", {"type": "boolean"}, "The page before the marker instead."),
    "sort_dir": _query(
        "sort_dir", {"type": "array", "items": {"enum": ["asc", "desc"]}}, "One direction for each sort_key."
    ),
    "changed_since": _query(
        "changed_since", {"type": "string", "format": "date-time"}, "Changed at or after this time."
    ),
    "if_match": {
        "name": "If-Match",
        "in": "header",
        "schema": {"type": "string", "examples": ["revision_number=3"]},
        "description": "revision_number=N: only if the object still has this revision.",
    },
}


# --- resources --------------------------------------------------------------------------------------------------------


def _title(resource: Resource) -> str:
    name = f"{resource.parent.name}_{resource.name}" if resource.parent else resource.name
    return "".join(word.capitalize() for word in re.split("[_-]", name))


def answered(schema: Json) -> Json:
    """The schema of an attribute in a response: a list or an object is never null, which in a request means empty."""
    options = schema.get("anyOf", [])
    if len(options) == 2 and options[1] == {"type": "null"} and options[0].get("type") in ("array", "object"):
        return answered(options[0])
    return schema


def _shown(attribute: Attribute) -> Json:
    schema = answered(attribute.type.schema())
    return {"anyOf": [schema, {"type": "null"}]} if attribute.shown_null else schema


def _schemas(resource: Resource) -> Json:
    title, names = _title(resource), resource.by_name
    shown = {a.name: _shown(a) for a in resource.attributes if a.visible}
    if "project_id" in shown:
        shown["tenant_id"] = {**shown["project_id"], "deprecated": True, "description": "The same as project_id."}
    out: Json = {title: {"type": "object", "properties": shown}}
    if any(a.post for a in resource.attributes):
        out[f"{title}Create"] = _writable([a for a in resource.attributes if a.post], names, create=True)
    if any(a.put for a in resource.attributes):
        out[f"{title}Update"] = _writable([a for a in resource.attributes if a.put], names, create=False)
    return out


def _writable(attributes: Sequence[Attribute], names: Mapping[str, Attribute], *, create: bool) -> Json:
    properties: Json = {}
    for attribute in attributes:
        schema = dict(attribute.type.schema())
        if create and attribute.default is not UNSET and attribute.default is not REQUIRED:
            schema["default"] = attribute.default
        properties[attribute.name] = schema
    for synonym, name in SYNONYMS.items():
        if name in properties:
            properties[synonym] = {
                **names[name].type.schema(),
                "deprecated": True,
                "description": f"The same as {name}.",
            }
    out: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    required = sorted(a.name for a in attributes if create and a.default is REQUIRED)
    # A required attribute may be given under its deprecated name.
    other = {name: synonym for synonym, name in SYNONYMS.items()}
    plain = [name for name in required if name not in other]
    if plain:
        out["required"] = plain
    either = [{"anyOf": [{"required": [n]}, {"required": [other[n]]}]} for n in required if n in other]
    if either:
        out["allOf"] = either
    return out


def _list_parameters(resource: Resource) -> list[Json]:
    out = []
    for attribute in resource.attributes:
        if attribute.filter:
            out.append(_filter(attribute.name, attribute))
            out += [_filter(s, attribute) for s, name in SYNONYMS.items() if name == attribute.name]
    for name in resource.extra_filters:
        out.append(_query(name, {"type": "array", "items": STRING}, "By tags, with commas.", explode=False))
    sortable = [a.name for a in resource.attributes if a.sort]
    if sortable:
        out.append(
            _query("sort_key", {"type": "array", "items": {"enum": sortable}}, "What to sort by, first to last.")
        )
        out.append(_ref("parameters", "sort_dir"))
    if "updated_at" in resource.by_name:
        out.append(_ref("parameters", "changed_since"))
    return [*out, _fields(resource), *(_ref("parameters", name) for name in ("limit", "marker", "page_reverse"))]


def _filter(name: str, attribute: Attribute) -> Json:
    kind = filter_type(attribute)
    text = "Any of these values."
    if attribute.name == "fixed_ips":
        text = "ip_address=…, ip_address_substr=… or subnet_id=…: ports with such an address."
    return _query(name, {"type": "array", "items": STRING if kind is None else kind.schema()}, text)


def _fields(resource: Resource) -> Json:
    return _query("fields", {"type": "array", "items": {"enum": list(resource.visible)}}, "Only these attributes.")


def _described(served: Sequence[Served]) -> dict[tuple[str, str], Json]:
    out: dict[tuple[str, str], Json] = dict(_other_paths())
    for one in served:
        out |= _of_resource(one)
        if one.resource.tagged:
            out |= _of_tags(f"{PREFIX}/{one.resource.url}/{{parent}}/tags")
    return out


def _of_resource(one: Served) -> dict[tuple[str, str], Json]:
    resource, title = one.resource, _title(one.resource)
    base = f"{PREFIX}/{resource.url}"
    if resource.parent:
        base = f"{PREFIX}/{resource.parent.collection.replace('_', '-')}/{{parent}}/{resource.url}"
    member, word = f"{base}/{{key}}", resource.name.replace("_", " ")
    single = _object({resource.name: _schema_ref(title)})
    several = _object({resource.collection: {"type": "array", "items": _schema_ref(title)}})
    page = {**several, "properties": {**several["properties"], f"{resource.collection}_links": _LINKS}}
    match = [_ref("parameters", "if_match")] if "revision_number" in resource.by_name else []
    out: dict[tuple[str, str], Json] = {}

    def add(method: str, path: str, summary: str, status: str, answer: Json, **more: Any) -> None:
        out[method, path] = _operation(path, method, summary, {status: answer}, **more)

    if one.index:
        add("GET", base, f"List: {word}", "200", _answer(page), parameters=_list_parameters(resource))
    if one.show:
        add("GET", member, f"Show: {word}", "200", _answer(single), parameters=[_fields(resource)])
    if one.create:
        made: Json = {"oneOf": [single, several]} if resource.bulk else single
        answer = {**_answer(made), "links": _links(one, member)}
        add("POST", base, f"Create: {word}", "201", answer, body=_create_body(resource, title))
    if one.update:
        body = _object({resource.name: _schema_ref(f"{title}Update")})
        add("PUT", member, f"Change: {word}", "200", _answer(single), body=body, parameters=match)
    if one.delete:
        add("DELETE", member, f"Delete: {word}", "204", _EMPTY, parameters=match)
    for action in one.actions:
        shown = _answer(_ACTION_ANSWERS.get(action) or {"anyOf": [single, _schema_ref(title)]})
        add("PUT", f"{member}/{action}", f"{action} of: {word}", "200", shown, body=_ACTION_BODIES.get(action))
    return out


def _links(one: Served, member: str) -> Json:
    """Links from a create to the operations on the created object."""
    path, names = _named(member)
    values = {name: f"$request.path.{name}" for name in names[:-1]}
    values[names[-1]] = f"$response.body#/{one.resource.name}/{one.resource.key}"
    verbs = {"GET": one.show, "PUT": one.update, "DELETE": one.delete}
    return {
        f"{verb.lower()}_{one.resource.name}": {"operationId": _operation_id(verb, path), "parameters": values}
        for verb, method in verbs.items()
        if method
    }


def _create_body(resource: Resource, title: str) -> Json:
    if f"{title}Create" not in _schemas(resource):  # always refused by the plugin
        return _object({resource.name: {"type": "object"}})
    single = _object({resource.name: _schema_ref(f"{title}Create")})
    if not resource.bulk:
        return single
    items = {"type": "array", "items": _schema_ref(f"{title}Create"), "minItems": 1}
    return {"oneOf": [single, _object({resource.collection: items})]}


_CIDRS: Json = {"type": "array", "items": {"type": "string", "examples": ["10.0.0.0/24"]}}
_INTERFACE: Json = {
    "type": "object",
    "properties": {"subnet_id": {"type": "string", "format": "uuid"}, "port_id": {"type": "string", "format": "uuid"}},
    "minProperties": 1,
}
_ACTION_BODIES: dict[str, Json] = {
    "add_addresses": _object({"address_group": _object({"addresses": _CIDRS})}),
    "remove_addresses": _object({"address_group": _object({"addresses": _CIDRS})}),
    "add_prefixes": _object({"prefixes": _CIDRS}),
    "remove_prefixes": _object({"prefixes": _CIDRS}),
    "add_router_interface": _INTERFACE,
    "remove_router_interface": _INTERFACE,
    "add_extraroutes": _object({"router": _object({"routes": ROUTES.schema()})}),
    "remove_extraroutes": _object({"router": _object({"routes": ROUTES.schema()})}),
}
# Actions whose response is not the object.
_ACTION_ANSWERS: dict[str, Json] = dict.fromkeys(
    ("add_router_interface", "remove_router_interface"),
    _object(
        {
            **dict.fromkeys(("id", "project_id", "tenant_id", "port_id", "network_id"), STRING),
            "subnet_id": {"type": ["string", "null"]},
            "subnet_ids": {"type": "array", "items": STRING},
        }
    ),
)


# --- other paths --------------------------------------------------------------------------------------------------


def _other(
    method: str, path: str, summary: str, schema: Json | None = None, body: Json | None = None, status: str = ""
) -> tuple[tuple[str, str], Json]:
    """An operation with the schema of its response; None: a response without a body."""
    status = status or ("201" if method == "POST" else "204" if schema is None else "200")
    answer = _EMPTY if schema is None else _answer(schema)
    return (method, path), _operation(path, method, summary, {status: answer}, body)


def _of_tags(base: str) -> dict[tuple[str, str], Json]:
    one, tags = f"{base}/{{key}}", _schema_ref("Tags")
    return dict(
        [
            _other("GET", base, "List tags", tags),
            _other("PUT", base, "Replace all tags", tags, tags),
            _other("POST", base, "Add tags", tags, tags),
            _other("DELETE", base, "Remove all tags"),
            _other("GET", one, "Whether the object has the tag"),
            _other("PUT", one, "Add the tag", status="201"),
            _other("DELETE", one, "Remove the tag"),
        ]
    )


_PUBLIC = [("GET", "/"), ("GET", "/openapi.json")]  # without authentication


def _other_paths() -> dict[tuple[str, str], Json]:
    anything: Json = {"type": "object"}
    quota, details = _object({"quota": _schema_ref("Quota")}), _object({"quota": _schema_ref("QuotaDetails")})
    change = _object({"quota": {"type": "object", "additionalProperties": {"type": ["integer", "boolean"]}}})
    extension, null = _schema_ref("Extension"), {"type": "null"}
    quotas = f"{PREFIX}/quotas"
    member = f"{quotas}/{{key}}"
    networks, network_agents = f"{PREFIX}/agents/{{parent}}/dhcp-networks", f"{PREFIX}/networks/{{parent}}/dhcp-agents"
    routers, router_agents = f"{PREFIX}/agents/{{parent}}/l3-routers", f"{PREFIX}/routers/{{parent}}/l3-agents"
    topology = f"{PREFIX}/auto-allocated-topology/{{key}}"
    topology_schema = _object(dict.fromkeys(("id", "project_id", "tenant_id"), STRING))

    def many(name: str, of: Json) -> Json:
        return _object({name: {"type": "array", "items": of}})

    def project(word: str) -> Json:
        return _object({word: _object({f"{word}_id": STRING})})

    out = dict(
        [
            _other("GET", "/", "The versions of the API", many("versions", anything)),
            _other("GET", "/openapi.json", "This document", anything),
            _other("GET", PREFIX, "The core resources", many("resources", anything)),
            _other("GET", f"{PREFIX}/extensions", "List extensions", many("extensions", extension)),
            _other("GET", f"{PREFIX}/extensions/{{key}}", "Show an extension", _object({"extension": extension})),
            _other("GET", quotas, "Projects with limits of their own", many("quotas", anything)),
            _other("GET", f"{quotas}/tenant", "The caller's project", project("tenant")),
            _other("GET", f"{quotas}/project", "The caller's project", project("project")),
            _other("GET", member, "A project's limits", quota),
            _other("GET", f"{member}/default", "The default limits", quota),
            _other("GET", f"{member}/details", "Limits and usage", details),
            _other("PUT", member, "Set limits; -1 is unlimited", quota, change),
            _other("DELETE", member, "Reset to the default limits"),
            _other("GET", networks, "Networks that an agent serves", many("networks", _schema_ref("Network"))),
            _other("POST", networks, "Add a network to an agent", null, _object({"network_id": STRING})),
            _other("DELETE", f"{networks}/{{key}}", "Remove a network from an agent"),
            _other("GET", network_agents, "Agents of a network", many("agents", _schema_ref("Agent"))),
            _other("GET", routers, "Routers that an agent serves", many("routers", _schema_ref("Router"))),
            _other("POST", routers, "Add a router to an agent", null, _object({"router_id": STRING})),
            _other("DELETE", f"{routers}/{{key}}", "Remove a router from an agent"),
            _other("GET", router_agents, "Agents of a router", many("agents", _schema_ref("Agent"))),
            _other(
                *("GET", topology, "The default network of a project, created on first use"),
                _object({"auto_allocated_topology": topology_schema}),
            ),
            _other("DELETE", topology, "Delete the topology"),
        ]
    )
    out["GET", topology]["responses"]["409"] = _ref("responses", ERRORS["409"][0])  # this GET may create objects
    for route in _PUBLIC:
        out[route]["security"] = []
    return out


def lazily(make: Callable[[], Json]) -> Callable[[], msgspec.Raw]:
    """The document as JSON, generated on the first request for it: most workers never get one."""
    return cache(lambda: msgspec.Raw(msgspec.json.encode(make())))
