"""API reference: pages from the server's OpenAPI document, one for each of its tags and one for the objects; pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
VERBS = ("get", "post", "put", "patch", "delete")
OBJECTS = "objects.md"
HEAD = """# API reference

The Networking API v2.0 as this server answers it, from its own OpenAPI document ([openapi.json](openapi.json)). Errors are
a [NeutronError](objects.md#error), with the statuses that an operation lists. The header `X-Auth-Token` carries Keystone's
token.

"""


def pages(document: Json) -> dict[str, str]:
    """Texts by file names, the first of them index.md."""
    operations: dict[str, list[tuple[str, str, Json, Json]]] = {tag["name"]: [] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for verb in VERBS:
            if verb in item:
                operations[item[verb]["tags"][0]].append((path, verb, item, item[verb]))
    found = {f"{_file(tag)}.md": _page(document, tag, each) for tag, each in operations.items() if each}
    listed = "".join(f"- [{tag}]({_file(tag)}.md): {len(each)}\n" for tag, each in sorted(operations.items()) if each)
    count = sum(len(each) for each in operations.values())
    index = f"{HEAD}{count} operations, by the first part of their paths; all [objects](objects.md).\n\n{listed}"
    return {"index.md": index, **found, OBJECTS: _objects(document)}


def _file(tag: str) -> str:
    return f"api-{tag}"  # a resource may be called `index` or `objects`


def _page(document: Json, tag: str, operations: Sequence[tuple[str, str, Json, Json]]) -> str:
    parts = [f"# API: {tag}\n"]
    for path, verb, item, operation in operations:
        parts.append(f"## {operation.get('summary', operation['operationId'])}\n\n`{verb.upper()} {path}`\n")
        if description := operation.get("description"):
            parts.append(f"{_text(description)}\n")
        parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
        parts.append(_parameters(document, [_resolved(document, each) for each in parameters]))
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if body is not None:
            parts.append("Request:\n\n" + _members(document, body))
        parts.append(_responses(document, operation["responses"]))
    return "\n".join(part for part in parts if part)


def _parameters(document: Json, parameters: Sequence[Json]) -> str:
    rows = [
        (f"`{each['name']}`", each["in"], _type(document, each.get("schema", {})), _text(each.get("description", "")))
        for each in parameters
    ]
    return _table(("parameter", "in", "type", ""), rows)


def _members(document: Json, schema: Json) -> str:
    """Attributes of a body, one level into the member that carries the object."""
    rows = []
    for name, value in _properties(document, schema):
        inner = list(_properties(document, value))
        required = set(_plain(document, value).get("required", ()))
        if not inner:
            rows.append((f"`{name}`", _type(document, value), "", _text(value.get("description", ""))))
        for key, each in inner:
            rows.append((f"`{name}.{key}`", _type(document, each), _need(each, key in required), _limits(each)))
    return _table(("attribute", "type", "default", "limits"), rows) or f"{_type(document, schema)}\n"


def _responses(document: Json, responses: Json) -> str:
    parts = []
    for status, given in responses.items():
        response = _resolved(document, given)
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        shown = f": {_type(document, schema)}" if schema is not None and status < "300" else ""
        parts.append(f"{status}{shown}")
    return f"Answers: {', '.join(parts)}\n"


def _objects(document: Json) -> str:
    parts = ["# API: objects\n"]
    for name, schema in document["components"]["schemas"].items():
        parts.append(f"## {name}\n")
        rows = [
            (f"`{key}`", _type(document, value), _limits(value)) for key, value in schema.get("properties", {}).items()
        ]
        parts.append(_table(("attribute", "type", "limits"), rows) or f"{_type(document, schema)}\n")
    return "\n".join(parts)


def _properties(document: Json, schema: Json) -> Iterator[tuple[str, Json]]:
    """Attributes of an object; of alternatives, the first one's: the others are the same in a list."""
    yield from _plain(document, schema).get("properties", {}).items()


def _plain(document: Json, schema: Json) -> Json:
    schema = _resolved(document, schema)
    for combination in ("oneOf", "anyOf"):
        if schema.get(combination):
            return _plain(document, schema[combination][0])
    return schema


def _resolved(document: Json, value: Json) -> Json:
    while "$ref" in value:
        found: Any = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        value = found
    return value


def _type(document: Json, schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({OBJECTS}#{name.lower()})"
    for combination in ("oneOf", "anyOf"):
        if combination in schema:
            return " or ".join(dict.fromkeys(_type(document, each) for each in schema[combination]))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_type(document, schema.get('items', {}))}"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
    if kind == "object" and len(schema.get("properties", {})) in range(1, 4):
        inner = (f"`{name}`: {_type(document, each)}" for name, each in schema["properties"].items())
        return f"object of {', '.join(inner)}"
    return str(schema.get("format", kind))


def _need(schema: Json, required: bool) -> str:
    if required:
        return "required"
    return f"`{_value(schema['default'])}`" if "default" in schema else ""


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} items",
    "pattern": "matches `{}`",
}


def _limits(schema: Json) -> str:
    texts = [text.format(schema[name]) for name, text in LIMITS.items() if name in schema]
    if schema.get("deprecated"):
        texts.append("deprecated")
    return _text(", ".join([*texts, schema["description"]] if schema.get("description") else texts))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _text(text: str) -> str:
    """Plain text in Markdown: an attribute's name in angle brackets is no element."""
    return text.replace("<", "&lt;").replace("\n", " ")
