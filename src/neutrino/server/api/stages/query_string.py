"""Parsing of query strings: filters, fields, order and page. An error names the parameter."""

import ipaddress
import re
from urllib.parse import parse_qsl, urlencode

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Resource
from neutrino.server.api.stages.body import SYNONYMS
from neutrino.server.query import Query, Sort

Pairs = list[tuple[str, str]]
DIRECTIONS = {"asc": False, "desc": True}
PAGING = {"limit", "marker", "page_reverse", "sort_key", "sort_dir", "fields"}
CASCADE = "cascade"
MAX_TAGS = 100  # in one filter: each is a subquery
MAX_VALUES = 1600  # in one filter: as many ids fit a request line of 64 KiB, the limit of uWSGI
MAX_PARAMETERS = 2000  # more than MAX_VALUES, as each value is a parameter
MAX_SORT_KEYS = 16
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?")


def pairs_of(query_string: str) -> Pairs:
    try:
        return parse_qsl(query_string, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise errors.HTTPBadRequest(
            f"The query string is not valid: it has more than {MAX_PARAMETERS} parameters, or is not UTF-8."
        ) from None


def parse_query(resource: Resource, pairs: Pairs, *, max_limit: int | None = None) -> Query:
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        # PostgreSQL refuses NUL in parameters, which would be a 500.
        if "\x00" in value or "\x00" in name:
            raise errors.HTTPBadRequest(f"Invalid input for {name!r}: a character in it cannot be stored.")
        values.setdefault(name, []).append(value)
    return Query(
        filters=_filters(resource, values),
        fields=parse_fields(resource, pairs),
        sorts=_sorts(resource, values),
        limit=_limit(values, max_limit),
        marker=values.get("marker", [None])[-1] or None,
        reverse=values.get("page_reverse", [""])[-1].lower() in {"true", "1", "yes"},
    )


def parse_cascade(pairs: Pairs) -> bool:
    """Whether a delete removes with the object all that is in it."""
    given = [value for name, value in pairs if name == CASCADE]
    try:
        return bool(given) and t.Bool().parse(given[-1])
    except (t.Invalid, t.Unconvertible):
        raise errors.InvalidInput(f"Invalid input for {CASCADE}: {given[-1][:64]!r} is not a boolean.") from None


def parse_fields(resource: Resource, pairs: Pairs) -> tuple[str, ...] | None:
    asked = [value for name, value in pairs if name == "fields" and value]
    if not asked:
        return None
    known = {*resource.visible, *(k for k, v in SYNONYMS.items() if v in resource.by_name)}
    return tuple(dict.fromkeys(f for f in asked if f in known))


def _filters(resource: Resource, values: dict[str, list[str]]) -> dict[str, tuple[object, ...]]:
    filters: dict[str, tuple[object, ...]] = {}
    unknown = []
    for name, given in values.items():
        if name in PAGING:
            continue
        attribute = resource.by_name.get(SYNONYMS.get(name, name))
        if name in resource.tag_filters:
            tags = tuple(tag for text in given for tag in text.split(",") if tag)
            if len(tags) > MAX_TAGS:
                raise errors.HTTPBadRequest(f"Invalid input for {name}: more than {MAX_TAGS} tags.")
            if tags:
                filters[name] = tags
        elif name == "changed_since" and "updated_at" in resource.by_name:
            filters[name] = (_time(given[-1]),)
        elif attribute is not None and attribute.filter:
            texts = tuple(dict.fromkeys(given))
            if len(texts) > MAX_VALUES:
                raise errors.HTTPBadRequest(f"Invalid input for {name}: a filter has at most {MAX_VALUES} values.")
            filters[attribute.name] = tuple(_value(attribute, text) for text in texts)
        else:
            unknown.append(name)
    if unknown:
        raise errors.HTTPBadRequest(f"A list cannot be filtered by {', '.join(map(repr, sorted(unknown)))}.")
    return filters


def filter_type(attribute: Attribute) -> t.Bool | t.Integer | None:
    """The type of an attribute's filter values; None: text. PostgreSQL does not compare a number with text."""
    kind = attribute.filter_as or attribute.type
    kind = kind.of if isinstance(kind, t.Nullable) else kind
    if isinstance(kind, t.Bool):
        return kind
    numeric = isinstance(kind, t.OneOf) and all(isinstance(value, int) for value in kind.values)
    if isinstance(kind, t.Integer):
        return t.Integer(max=max(kind.max, t.DB_INTEGER_MAX))  # a column of 64 bits has attributes beyond 32
    return t.Integer() if numeric else None


def _value(attribute: Attribute, text: str) -> object:
    kind = filter_type(attribute)
    if kind is None:
        return stored_form(attribute.filter_as or attribute.type, text)
    return t.parse_attribute(attribute.name, kind, text)


def stored_form(kind: t.Type[object], text: str) -> str:
    """A filter value in the form in which the type is stored, so that the database can compare bytes and use its index.

    UUIDs, MACs, addresses and enumerations have one form, however a client writes them (Neutron on MariaDB finds them by a
    collation that ignores case). Names and other free text stay unchanged. A text that is not a value of the type stays
    unchanged too and matches nothing.
    """
    match kind:
        case t.Nullable(of=inner) | t.ListOf(of=inner):
            return stored_form(inner, text)
        case t.Uuid():
            return text.lower()
        case t.OneOf(values=words):
            return next((word for word in words if isinstance(word, str) and word.lower() == text.lower()), text)
        case t.Mac() | t.IpAddress():
            try:
                return str(kind.parse(text))
            except (t.Invalid, t.Unconvertible):
                return text
        case t.Cidr():
            try:
                return str(ipaddress.ip_network(text))
            except ValueError:
                return text
        case _:
            return text


def _time(text: str) -> str:
    if not TIME.fullmatch(text):
        raise errors.InvalidInput(
            f"Invalid input for changed_since: '{text}' is not a time such as 2026-01-31T12:00:00Z."
        )
    return text if text.endswith("Z") else text + "Z"


def _sorts(resource: Resource, values: dict[str, list[str]]) -> tuple[Sort, ...]:
    keys, directions = values.get("sort_key", []), values.get("sort_dir", [])
    if len(keys) > MAX_SORT_KEYS:
        raise errors.HTTPBadRequest(f"Invalid input for sort_key: at most {MAX_SORT_KEYS} are allowed.")
    for direction in directions:
        if direction not in DIRECTIONS:
            raise errors.HTTPBadRequest(f"Invalid sort_dir {direction!r}: it is asc or desc.")
    out: dict[str, Sort] = {}  # a key that is given again has no effect
    for i, key in enumerate(keys):
        attribute = resource.by_name.get(SYNONYMS.get(key, key))
        if attribute is None or not attribute.sort:
            raise errors.HTTPBadRequest(f"A list cannot be sorted by {key!r} (sort_key).")
        descending = DIRECTIONS[directions[i]] if i < len(directions) else False
        out.setdefault(attribute.name, Sort(attribute.name, descending))
    if directions and len(directions) != len(keys):
        raise errors.HTTPBadRequest("Give one sort_dir for each sort_key, or none at all.")
    return tuple(out.values())


def _limit(values: dict[str, list[str]], max_limit: int | None) -> int | None:
    if "limit" not in values:
        return max_limit
    text = values["limit"][-1]
    try:
        limit = t.Integer(min=0).parse(text) if text else 0
    except (ValueError, t.Unconvertible):
        raise errors.BadRequest(resource="limit", msg=f"'{text}' is not a number from 0 up") from None
    if limit == 0:  # the client sets no limit
        return max_limit
    return min(limit, max_limit) if max_limit else limit


def page_links(base: str, pairs: Pairs, keys: list[str], limit: int, reverse: bool) -> list[dict[str, str]]:
    """Links to the previous and next page. An empty page links back in the direction it came from, without a marker."""
    kept = [(k, v) for k, v in pairs if k not in {"marker", "page_reverse"}]

    def link(rel: str, markers: list[str], *more: tuple[str, str]) -> dict[str, str]:
        return {"rel": rel, "href": f"{base}?{urlencode([*kept, *(('marker', marker) for marker in markers), *more])}"}

    links = []
    full = len(keys) >= limit
    if full or reverse:
        links.append(link("next", keys[-1:]))
    if full or not reverse:
        links.append(link("previous", keys[:1], ("page_reverse", "True")))
    return links
