"""The OpenAPI 3.1 document of the API, generated from the definitions and the routes.

Attributes, verbs, filters and actions come from the definitions of resources, so the document matches the server. The few
paths that belong to no resource are described here. Request schemas contain the recommended form; the server also accepts
what older clients send ("true" for true, "4" for 4).
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET

from neutrino.model.objects import Object, Values
from neutrino.server.api import types as t
from neutrino.server.api.catalog import Served
from neutrino.server.api.definition import REQUIRED, Attribute, Resource
from neutrino.server.api.resources.change import CHANGE
from neutrino.server.api.resources.common import MAX_TAGS
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages.body import SYNONYMS
from neutrino.server.api.stages.query_string import CASCADE, filter_type
from neutrino.server.api.types import STRING
from neutrino.server.api.types import array_schema as _array
from neutrino.server.api.types import object_schema as _object

Json = Object
Operation = tuple[tuple[str, str], Json]  # by method and path
VERSION = "2.0"
JSON = "application/json"
OBJECT: Json = {"type": "object"}
NULL: Json = {"type": "null"}

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


def document(served: Sequence[Served], routes: Iterable[Route], aliases: Sequence[Values]) -> Json:
    """The document: the paths of `routes`, described by the resources that are `served`."""
    described = _other_operations() | dict(operation for one in served for operation in _operations(one))
    collections = {f"{PREFIX}/{s.resource.url}" for s in served}
    paths: dict[str, Json] = {}
    for method, path in [*_PUBLIC, *((r.method, r.path) for r in routes)]:
        operation = described.get((method, path))
        if operation is None:
            if path in collections and method in ("PUT", "DELETE"):
                continue  # exists only to answer that the id is missing
            # Without detail, but in the document: a route that is missing there looks as if it did not exist.
            operation = _operation(method, path, "A route of a plugin.", status="200")[1]
        public, names = _named(path)
        # A tag in a body may be empty or contain a slash; here it would be another path.
        part: Json = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        item = paths.setdefault(public, {"parameters": [{"name": n, **part} for n in names]} if names else {})
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
            "schemas": {
                **_COMMON,
                **_schemas(CHANGE),
                **{k: v for s in served for k, v in _schemas(s.resource).items()},
            },
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
            singular = f"{before[:-3]}y" if before.endswith("ies") else before.removesuffix("s")
            names.append(PARTS.get(before, f"{singular.replace('-', '_')}_id"))
            parts[i] = f"{{{names[-1]}}}"
    return "/".join(parts), names


def _operation_id(method: str, path: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", path.removeprefix(PREFIX)).strip("_")
    return f"{method.lower()}_{words or ('versions' if path == '/' else 'api')}"


def _section(path: str) -> str:
    parts = path.removeprefix(PREFIX).strip("/").split("/")
    return parts[0] if path.startswith(PREFIX) and parts[0] and parts[0] != "extensions" else "discovery"


def _operation(
    method: str,
    path: str,
    summary: str,
    schema: Json | None = None,
    body: Json | None = None,
    *,
    status: str = "",
    answer: Json | None = None,
    parameters: Sequence[Json] = (),
) -> Operation:
    """An operation with the schema of its response (None: a response without a body), or its whole response."""
    status = status or ("201" if method == "POST" else "204" if schema is None else "200")
    answer = answer or _answer(schema)
    errors = {code: _ref("responses", ERRORS[code][0]) for code in (READ if method == "GET" else WRITE)}
    out: Json = {"summary": summary, "tags": [_section(path)], "responses": {status: answer, **errors}}
    if parameters:
        out["parameters"] = list(parameters)
    if body is not None:
        out["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return (method, path), out


# --- schemas ----------------------------------------------------------------------------------------------------------


def _ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _schema_ref(name: str) -> Json:
    return _ref("schemas", name)


def _answer(schema: Json | None, description: str = "Done.") -> Json:
    return {"description": description} | ({} if schema is None else {"content": {JSON: {"schema": schema}}})


_ERROR_TYPE: Json = {"type": "string", "description": "The type of the error, such as NetworkNotFound."}
_COMMON: Json = {
    "Error": _object(NeutronError=_object(type=_ERROR_TYPE, message=STRING, detail=STRING)),
    "Link": _object(rel=STRING, href={"type": "string", "format": "uri"}),
    "Extension": _object(alias=STRING, name=STRING, description=STRING, updated=STRING, links={"type": "array"}),
    "Quota": {"type": "object", "additionalProperties": {"type": "integer", "minimum": -1}},
    "QuotaDetails": {
        "type": "object",
        "additionalProperties": _object(**{name: {"type": "integer"} for name in ("limit", "used", "reserved")}),
    },
    "Tags": {**_object(tags=t.ListOf(t.Text(), max_items=MAX_TAGS).schema()), "additionalProperties": True},
}


def _query(name: str, schema: Json, description: str, **more: object) -> Json:
    return {"name": name, "in": "query", "schema": schema, "description": description, **more}


_PARAMETERS: Json = {
    "limit": _query("limit", t.Integer(min=0).schema(), "The size of a page; 0: no limit."),
    "marker": _query("marker", STRING, "The page begins after the object with this id."),
    "page_reverse": _query("page_reverse", {"type": "boolean"}, "The page before the marker instead."),
    "sort_dir": _query("sort_dir", _array({"enum": ["asc", "desc"]}), "One direction for each sort_key."),
    "changed_since": _query(
        "changed_since", {"type": "string", "format": "date-time"}, "Changed at or after this time."
    ),
    CASCADE: _query(CASCADE, {"type": "boolean", "default": False}, "Delete with it all that is in it, or nothing."),
    "if_match": {
        "name": "If-Match",
        "in": "header",
        "schema": {"type": "string", "examples": ["revision_number=3"]},
        "description": "revision_number=N: only if the object still has this revision.",
    },
}


def answered(schema: Json) -> Json:
    """The schema of an attribute in a response: a list or an object is never null, which in a request means empty."""
    options = schema.get("anyOf", [])
    if len(options) == 2 and options[1] == NULL and options[0].get("type") in ("array", "object"):
        return answered(options[0])
    return schema


def _title(resource: Resource) -> str:
    return "".join(word.capitalize() for word in re.split("[_-]", resource.full_name))


def _schemas(resource: Resource) -> Json:
    """The schemas of a resource: as it is shown and, if it has such attributes, in create and update requests."""
    title, attributes = _title(resource), resource.attributes
    shown = {a.name: answered(a.type.schema()) for a in attributes if a.visible}
    shown |= {a.name: {"anyOf": [shown[a.name], NULL]} for a in attributes if a.shown_null}
    if "project_id" in shown:
        shown["tenant_id"] = _deprecated(shown["project_id"], "project_id")
    out: Json = {title: {"type": "object", "properties": shown}}
    if post := [a for a in attributes if a.post]:
        defaults = {a.name: a.default for a in post if a.default is not UNSET}
        out[f"{title}Create"] = _request_schema(post, defaults)
    if put := [a for a in attributes if a.put]:
        out[f"{title}Update"] = _request_schema(put, {})
    return out


def _request_schema(attributes: Iterable[Attribute], defaults: Json) -> Json:
    plain = {a.name: a.type.schema() for a in attributes}
    required = [name for name, value in defaults.items() if value is REQUIRED]
    properties = plain | {n: {**plain[n], "default": value} for n, value in defaults.items() if value is not REQUIRED}
    properties |= {other: _deprecated(plain[name], name) for other, name in SYNONYMS.items() if name in plain}
    out: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    # A required attribute may be given under its deprecated name.
    other_names = {name: other for other, name in SYNONYMS.items()}
    if always := sorted(name for name in required if name not in other_names):
        out["required"] = always
    if either := [[name, other_names[name]] for name in sorted(required) if name in other_names]:
        out["allOf"] = [{"anyOf": [{"required": [name]} for name in names]} for names in either]
    return out


def _deprecated(schema: Json, name: str) -> Json:
    return {**schema, "deprecated": True, "description": f"The same as {name}."}


# --- operations of resources ------------------------------------------------------------------------------------------


def _operations(one: Served) -> Iterator[Operation]:
    resource, title = one.resource, _title(one.resource)
    base, word = f"{PREFIX}/{resource.url}", resource.name.replace("_", " ")
    member = f"{base}/{{key}}"
    single, several = _object(**{resource.name: _schema_ref(title)}), _array(_schema_ref(title))
    links = {f"{resource.collection}_links": _array(_schema_ref("Link"))}
    page = _object(**{resource.collection: several})
    match = [_ref("parameters", "if_match")] if "revision_number" in resource.by_name else []
    if "index" in resource.verbs:
        listed = {**page, "properties": {**page["properties"], **links}}
        yield _operation("GET", base, f"List: {word}", listed, parameters=_list_parameters(resource))
    if "show" in resource.verbs:
        yield _operation("GET", member, f"Show: {word}", single, parameters=[_fields(resource)])
    if "create" in resource.verbs:
        made = _answer({"oneOf": [single, page]} if resource.owned else single)
        body = _create_body(resource, title)
        yield _operation("POST", base, f"Create: {word}", body=body, answer={**made, "links": _links(one, member)})
    if "update" in resource.verbs:
        body = _object(**{resource.name: _schema_ref(f"{title}Update")})
        yield _operation("PUT", member, f"Change: {word}", single, body, parameters=match)
    if "delete" in resource.verbs:
        cascade = [_ref("parameters", CASCADE)] if one.delete_cascade else []
        yield _operation("DELETE", member, f"Delete: {word}", parameters=[*match, *cascade])
    for action in one.actions:
        shown = resource.answers.get(action) or {"anyOf": [single, _schema_ref(title)]}
        yield _operation("PUT", f"{member}/{action}", f"{action} of: {word}", shown, resource.bodies.get(action))
    for lookup in one.lookups:
        yield _operation("GET", f"{member}/{lookup}", f"{lookup} of: {word}", resource.answers.get(lookup, OBJECT))
    if resource.tagged:
        yield from _tag_operations(f"{base}/{{parent}}/tags")


def _list_parameters(resource: Resource) -> list[Json]:
    out = []
    for attribute in resource.attributes:
        if attribute.filter:
            names = [attribute.name, *(other for other, name in SYNONYMS.items() if name == attribute.name)]
            out += [_filter(name, attribute) for name in names]
    out += [_query(name, _array(STRING), "By tags, with commas.", explode=False) for name in resource.tag_filters]
    sortable = [a.name for a in resource.attributes if a.sort]
    if sortable:
        out.append(_query("sort_key", _array({"enum": sortable}), "What to sort by, first to last."))
        out.append(_ref("parameters", "sort_dir"))
    if "updated_at" in resource.by_name:
        out.append(_ref("parameters", "changed_since"))
    return [*out, _fields(resource), *(_ref("parameters", name) for name in ("limit", "marker", "page_reverse"))]


def _filter(name: str, attribute: Attribute) -> Json:
    kind = filter_type(attribute)
    text = "Any of these values."
    if attribute.name == "fixed_ips":
        text = "ip_address=…, ip_address_substr=… or subnet_id=…: ports with such an address."
    return _query(name, _array(STRING if kind is None else kind.schema()), text)


def _fields(resource: Resource) -> Json:
    return _query("fields", _array({"enum": list(resource.visible)}), "Only these attributes.")


def _links(one: Served, member: str) -> Json:
    """Links from a create to the operations on the created object."""
    path, names = _named(member)
    values = {name: f"$request.path.{name}" for name in names[:-1]}
    values[names[-1]] = f"$response.body#/{one.resource.name}/{one.resource.key}"
    methods = {"GET": "show", "PUT": "update", "DELETE": "delete"}
    return {
        f"{method.lower()}_{one.resource.name}": {"operationId": _operation_id(method, path), "parameters": values}
        for method, verb in methods.items()
        if verb in one.resource.verbs
    }


def _create_body(resource: Resource, title: str) -> Json:
    if not any(a.post for a in resource.attributes):  # always refused by the plugin
        return _object(**{resource.name: OBJECT})
    schema = _schema_ref(f"{title}Create")
    single = _object(**{resource.name: schema})
    if not resource.owned:
        return single
    return {"oneOf": [single, _object(**{resource.collection: {**_array(schema), "minItems": 1}})]}


# --- other operations -------------------------------------------------------------------------------------------------


def _tag_operations(base: str) -> Iterator[Operation]:
    one, tags = f"{base}/{{key}}", _schema_ref("Tags")
    yield _operation("GET", base, "List tags", tags)
    yield _operation("PUT", base, "Replace all tags", tags, tags)
    yield _operation("POST", base, "Add tags", tags, tags)
    yield _operation("DELETE", base, "Remove all tags")
    yield _operation("GET", one, "Whether the object has the tag")
    yield _operation("PUT", one, "Add the tag", status="201")
    yield _operation("DELETE", one, "Remove the tag")


_PUBLIC = [("GET", "/"), ("GET", "/openapi.json")]  # without authentication


def _other_operations() -> dict[tuple[str, str], Json]:
    operations = dict([*_server_operations(), *_quota_operations(), *_placement_operations(), *_topology_operations()])
    for route in _PUBLIC:
        operations[route]["security"] = []
    return operations


def _server_operations() -> Iterator[tuple[tuple[str, str], Json]]:
    """Discovery, the change log and the status."""
    extension, extensions = _schema_ref("Extension"), f"{PREFIX}/extensions"
    changes = _object(changes=_array(_schema_ref("Change")), position={"type": "integer"}, removed={"type": "integer"})
    yield _operation("GET", "/", "The versions of the API", _object(versions=_array(OBJECT)))
    yield _operation("GET", "/openapi.json", "This document", OBJECT)
    yield _operation("GET", PREFIX, "The core resources", _object(resources=_array(OBJECT)))
    yield _operation("GET", extensions, "List extensions", _object(extensions=_array(extension)))
    yield _operation("GET", f"{extensions}/{{key}}", "Show an extension", _object(extension=extension))
    yield _operation(
        "GET",
        f"{PREFIX}/changes",
        "Changes of objects in the order of their commits",
        changes,
        parameters=[
            _query("after", t.Integer(min=0).schema(), "The changes after this position."),
            _query("object_id", STRING, "The changes of this object."),
            _query("kind", _array(STRING), "The changes of objects of these kinds."),
            _query("since", STRING, "The changes from this time on, or of so many seconds, newest first."),
            _query("before", t.Integer(min=0).schema(), "With since: the changes before this position."),
            _query("project_id", STRING, "With since: the changes of this project."),
            _ref("parameters", "limit"),
        ],
    )
    yield _operation("GET", f"{PREFIX}/status", "Servers, hosts, problems and counts", _object(status=OBJECT))
    asked = [
        _query(name, _array(STRING), "Whose rates; one of the three.") for name in ("port_id", "router_id", "host")
    ]
    left = {name: {"type": "integer"} for name in ("hosts_left", "tunnels_left")}
    rates = _object(columns=_array(STRING), rates=_array(OBJECT), tunnels=_array(OBJECT), **left)
    yield _operation("GET", f"{PREFIX}/rates", "Rates of ports, routers or of a host", rates, parameters=asked)
    known = [_query(part, STRING, "The edition that the caller has of this part.") for part in ("problems", "hosts")]
    yield _operation("GET", f"{PREFIX}/health", "Problems and hosts", _object(health=OBJECT), parameters=known)
    yield _operation("GET", f"{PREFIX}/hosts/{{key}}", "A host with its problems and tunnels", _object(host=OBJECT))


def _quota_operations() -> Iterator[tuple[tuple[str, str], Json]]:
    quotas, quota = f"{PREFIX}/quotas", _object(quota=_schema_ref("Quota"))
    member, details = f"{quotas}/{{key}}", _object(quota=_schema_ref("QuotaDetails"))
    change = _object(quota={"type": "object", "additionalProperties": {"type": ["integer", "boolean"]}})
    tenant, project = _object(tenant=_object(tenant_id=STRING)), _object(project=_object(project_id=STRING))
    yield _operation("GET", quotas, "Projects with limits of their own", _object(quotas=_array(OBJECT)))
    yield _operation("GET", f"{quotas}/tenant", "The caller's project", tenant)
    yield _operation("GET", f"{quotas}/project", "The caller's project", project)
    yield _operation("GET", member, "A project's limits", quota)
    yield _operation("GET", f"{member}/default", "The default limits", quota)
    yield _operation("GET", f"{member}/details", "Limits and usage", details)
    yield _operation("PUT", member, "Set limits; -1 is unlimited", quota, change)
    yield _operation("DELETE", member, "Reset to the default limits")


def _placement_operations() -> Iterator[tuple[tuple[str, str], Json]]:
    """Which agents serve which networks and routers."""
    agents = _object(agents=_array(_schema_ref("Agent")))
    networks, network_agents = f"{PREFIX}/agents/{{parent}}/dhcp-networks", f"{PREFIX}/networks/{{parent}}/dhcp-agents"
    routers, router_agents = f"{PREFIX}/agents/{{parent}}/l3-routers", f"{PREFIX}/routers/{{parent}}/l3-agents"
    served = _object(networks=_array(_schema_ref("Network")))
    yield _operation("GET", networks, "Networks that an agent serves", served)
    yield _operation("POST", networks, "Add a network to an agent", NULL, _object(network_id=STRING))
    yield _operation("DELETE", f"{networks}/{{key}}", "Remove a network from an agent")
    yield _operation("GET", network_agents, "Agents of a network", agents)
    yield _operation("GET", routers, "Routers that an agent serves", _object(routers=_array(_schema_ref("Router"))))
    yield _operation("POST", routers, "Add a router to an agent", NULL, _object(router_id=STRING))
    yield _operation("DELETE", f"{routers}/{{key}}", "Remove a router from an agent")
    yield _operation("GET", router_agents, "Agents of a router", agents)


def _topology_operations() -> Iterator[tuple[tuple[str, str], Json]]:
    topology = f"{PREFIX}/auto-allocated-topology/{{key}}"
    schema = _object(auto_allocated_topology=_object(id=STRING, project_id=STRING, tenant_id=STRING))
    route, shown = _operation("GET", topology, "The default network of a project, created on first use", schema)
    shown["responses"]["409"] = _ref("responses", ERRORS["409"][0])  # this GET may create objects
    yield route, shown
    yield _operation("DELETE", topology, "Delete the topology")
