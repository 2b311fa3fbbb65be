"""Types of attributes: each parses one JSON value and describes itself as a JSON schema. Pure.

There are two kinds of errors, because clients distinguish them: a value that cannot be converted to the type at all
(`Unconvertible`, answered as InvalidInput) and one of the right kind that is not allowed (`Invalid`, answered as
HTTPBadRequest).
"""

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Generic, TypeGuard, TypeVar

from neutrino.model.addresses import Address, parse_address, parse_network
from neutrino.model.objects import Object
from neutrino.server import errors

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Schema = Object
STRING: Schema = {"type": "string"}
CIDRS: Schema = {"type": "array", "items": {"type": "string", "examples": ["10.0.0.0/24"]}}
# PostgreSQL and MariaDB refuse larger numbers in an INTEGER column, which would be a 500.
DB_INTEGER_MAX = 2**31 - 1

UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
DOMAIN_KEYWORDS = frozenset({"<project_id>", "<project_name>", "<user_id>", "<user_name>"})
DNS_LABEL = re.compile(r"(?!-)[a-zA-Z0-9-]{1,63}(?<!-)")
TRUE, FALSE = {"true", "t", "1", "yes", "y", "on"}, {"false", "f", "0", "no", "n", "off"}


def object_schema(**properties: Schema) -> Schema:
    """The schema of an object that has all these properties."""
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def array_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


class Invalid(ValueError):
    """The value is not allowed."""


class Unconvertible(ValueError):
    """The value cannot be converted to the type."""


class Type(Generic[T_co]):
    """Base of the types: what they parse to. `json_schema` is the schema of a type whose schema is always the same."""

    json_schema: ClassVar[Schema] = {}

    def parse(self, value: object) -> T_co:
        raise NotImplementedError

    def schema(self) -> Schema:
        return self.json_schema


class Anything(Type[object]):
    """Whatever JSON has."""

    def parse(self, value: object) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Text(Type[str]):
    max: int | None = 255
    min: int = 0
    blank: bool = True

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise Invalid(f"'{value}' is not a string")
        if self.max is not None and len(value) > self.max:
            raise Invalid(f"'{value}' is longer than {self.max} characters")
        if len(value.strip() if not self.blank else value) < self.min:
            raise Invalid(f"'{value}' is too short: at least {self.min} characters are needed")
        # PostgreSQL refuses NUL, and no database stores half surrogates as UTF-8.
        if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise Invalid("a character in it cannot be stored")
        return value

    def schema(self) -> Schema:
        out: Schema = {"type": "string"}
        if self.max is not None:
            out["maxLength"] = self.max
        if self.min:
            out["minLength"] = self.min
        return out


class Bool(Type[bool]):
    json_schema: ClassVar[Schema] = {"type": "boolean"}

    def parse(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        # Older clients send "True", "yes" or 1, which Neutron accepts.
        word = str(value).strip().lower() if isinstance(value, str | int) else None
        if word in TRUE:
            return True
        if word in FALSE:
            return False
        raise Unconvertible(f"'{value}' cannot be converted to boolean")


@dataclass(frozen=True, slots=True)
class Integer(Type[int]):
    min: int = -DB_INTEGER_MAX
    max: int = DB_INTEGER_MAX
    as_text: bool = False  # responses have it as a string
    refuse: type[Invalid] | type[Unconvertible] = Unconvertible  # of what is no integer: Neutron has both

    def parse(self, value: object) -> int:
        # int() would accept True and cut 1.9.
        if isinstance(value, bool | float) or not isinstance(value, str | int):
            raise self.refuse(f"'{value}' is not an integer")
        try:
            number = int(value)
        except ValueError:
            raise self.refuse(f"'{str(value)[:64]}' is not an integer") from None
        if not self.min <= number <= self.max:
            raise Invalid(f"'{number}' is not between {self.min} and {self.max}")
        return number

    def schema(self) -> Schema:
        number: Schema = {"type": "integer", "minimum": self.min, "maximum": self.max}
        return {"anyOf": [number, {"type": "string", "pattern": "^[0-9]+$"}]} if self.as_text else number


@dataclass(frozen=True, slots=True)
class OneOf(Type[object]):
    values: tuple[object, ...]

    def parse(self, value: object) -> object:
        for allowed in self.values:
            # True == 1 in Python, and JSON true is not the number 1.
            if value == allowed and type(value) is type(allowed):
                return allowed
            if isinstance(allowed, int) and isinstance(value, str) and value == str(allowed):
                return allowed
        raise Invalid(f"'{value}' is not in {list(self.values)}")

    def schema(self) -> Schema:
        return {"enum": list(self.values)}


def is_uuid(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and UUID.fullmatch(value) is not None


class Uuid(Type[str]):
    json_schema: ClassVar[Schema] = {"type": "string", "format": "uuid"}

    def parse(self, value: object) -> str:
        if not is_uuid(value):
            raise Invalid(f"'{value}' is not a valid UUID")
        return value


@dataclass(frozen=True, slots=True)
class Nullable(Type[T_co | None]):
    of: Type[T_co]

    def parse(self, value: object) -> T_co | None:
        return None if value is None else self.of.parse(value)

    def schema(self) -> Schema:
        return {"anyOf": [self.of.schema(), {"type": "null"}]}


UUID_OR_NONE = Nullable(Uuid())


def check_length(value: object, max_items: int | None) -> None:
    """Refuse a list that is too long before any item is parsed: that takes time, and happens before authorization."""
    if max_items is not None and isinstance(value, list) and len(value) > max_items:
        raise Invalid(f"it has {len(value)} items, and at most {max_items} are allowed")


def comparable(value: object) -> Hashable:
    """A hashable form of a JSON value, so that duplicates are found in one pass instead of comparing all pairs."""
    if isinstance(value, dict):
        return frozenset((name, comparable(part)) for name, part in value.items())
    return tuple(map(comparable, value)) if isinstance(value, list) else value


def first_duplicate(items: Iterable[T]) -> T | None:
    """The first item that is equal to an earlier one, or None."""
    seen = set()
    for item in items:
        key = comparable(item)
        if key in seen:
            return item
        seen.add(key)
    return None


@dataclass(frozen=True, slots=True)
class ListOf(Type[list[T]]):
    """A list; with `nullable`, null is the empty list. A list in requests needs `max_items`."""

    of: Type[T]
    nullable: bool = False
    min_items: int = 0
    max_items: int | None = None
    unique: bool = True  # or the resource refuses duplicates by an error of its own

    def parse(self, value: object) -> list[T]:
        if value is None and self.nullable:
            return []
        if not isinstance(value, list):
            raise Invalid(f"'{value}' is not a list")
        check_length(value, self.max_items)
        out = [self.of.parse(item) for item in value]
        if self.unique and (twice := first_duplicate(out)) is not None:
            raise Invalid(f"duplicate items in the list: '{twice}'")
        return out

    def schema(self) -> Schema:
        array: Schema = {"type": "array", "items": self.of.schema()}
        if self.min_items:
            array["minItems"] = self.min_items
        if self.max_items is not None:
            array["maxItems"] = self.max_items
        return {"anyOf": [array, {"type": "null"}]} if self.nullable else array


@dataclass(frozen=True)
class Record(Type[Object]):
    """A JSON object with known keys."""

    required: Mapping[str, Type[object]] = field(default_factory=dict)
    optional: Mapping[str, Type[object]] = field(default_factory=dict)
    others: bool = False  # further keys are ignored

    @cached_property
    def keys(self) -> Mapping[str, Type[object]]:
        return {**self.required, **self.optional}

    def parse(self, value: object) -> Object:
        if not isinstance(value, dict):
            raise Invalid(f"'{value}' is not a dictionary")
        keys = self.keys
        unknown = sorted(set(value) - set(keys))
        if unknown and not self.others:
            raise Invalid(f"it has keys it should not have: {', '.join(map(str, unknown))}")
        missing = sorted(set(self.required) - set(value))
        if missing:
            raise Invalid(f"it lacks {', '.join(missing)}")
        return {name: keys[name].parse(part) for name, part in value.items() if name in keys}

    def schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {name: type_.schema() for name, type_ in self.keys.items()},
            "required": sorted(self.required),
            "additionalProperties": self.others,
        }


class AnyObject(Type[Object]):
    """A JSON object of any keys; null is the empty one."""

    json_schema: ClassVar[Schema] = {"anyOf": [{"type": "object"}, {"type": "null"}]}

    def parse(self, value: object) -> Object:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise Invalid(f"'{value}' is not a dictionary")
        return value


def ip(value: object) -> Address:
    if not isinstance(value, str):
        raise ValueError(value)
    return parse_address(value.strip())


class IpAddress(Type[str]):
    """An address in its canonical text."""

    json_schema: ClassVar[Schema] = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}

    def parse(self, value: object) -> str:
        try:
            return str(ip(value))
        except ValueError:
            raise Invalid(f"'{value}' is not a valid IP address") from None


@dataclass(frozen=True, slots=True)
class Name(Text):
    """The name of an object: printable characters, no space at its ends. A line break would end in logs and tables."""

    def parse(self, value: object) -> str:
        name = Text.parse(self, value)
        categories = [unicodedata.category(char) for char in name]
        if any(category[0] == "C" or category in ("Zl", "Zp") for category in categories) or "Zs" in (
            categories[:1] + categories[-1:]
        ):
            raise Invalid(f"'{name}' is not a valid string: a name has printable characters, and no space at its ends")
        return name


@dataclass(frozen=True)
class Cidr(Type[str]):
    """A network with its mask, host bits cleared."""

    json_schema: ClassVar[Schema] = {"type": "string", "examples": ["10.0.0.0/24", "2001:db8::/64"]}
    refuse: type[Invalid] | type[Unconvertible] = Invalid

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or "/" not in value:
            raise self.refuse(f"'{value}' is not a valid IP subnet: a CIDR such as 10.0.0.0/24 is needed")
        try:
            return str(parse_network(value.strip()))
        except ValueError:
            raise self.refuse(f"'{value}' is not a valid IP subnet") from None


@dataclass(frozen=True)
class Mac(Type[str]):
    json_schema: ClassVar[Schema] = {"type": "string", "pattern": "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$"}
    group: bool = False  # may be a multicast address

    def parse(self, value: object) -> str:
        text = value.strip().lower().replace("-", ":") if isinstance(value, str) else ""
        if not MAC.fullmatch(text) or text in {"ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"}:
            raise Invalid(f"'{value}' is not a valid MAC address")
        if int(text[:2], 16) & 1 and not self.group:  # the group bit
            raise Invalid(f"'{value}' is a multicast MAC address")
        return text


@dataclass(frozen=True)
class DnsName(Type[str]):
    """A host name or a domain; empty means none. Labels of a domain may be keywords, for who creates a port in it."""

    json_schema: ClassVar[Schema] = {"type": "string", "maxLength": 255}
    domain: bool = False

    def parse(self, value: object) -> str:
        text = Text().parse(value).lower()
        if not text:
            return text
        labels = (text[:-1] if text.endswith(".") else text).split(".")
        keywords = DOMAIN_KEYWORDS if self.domain else ()
        if not all(label in keywords or DNS_LABEL.fullmatch(label) for label in labels):
            raise Invalid(f"'{value}' is not a DNS name")
        if len(labels) > 1 and labels[-1].isdigit():  # it could be taken for an IPv4 address
            raise Invalid(f"'{value}' is not a DNS name: its last label is a number")
        if self.domain and not text.endswith("."):
            raise Invalid(f"'{value}' is not a fully qualified domain: it must end with a dot")
        return text


@dataclass(frozen=True, slots=True)
class Parsed(Type[T_co]):
    """A type that parses with a function, for values with rules of their own.

    `like` describes the values by a type or a JSON schema. The `max_items` of a list is checked before the function runs.
    """

    function: Callable[[object], T_co]
    like: Type[object] | Schema

    def parse(self, value: object) -> T_co:
        if isinstance(self.like, ListOf):
            check_length(value, self.like.max_items)
        return self.function(value)

    def schema(self) -> Schema:
        return self.like if isinstance(self.like, dict) else self.like.schema()


def parse_attribute(name: str, type_: Type[T], value: object) -> T:
    """Parse the value of an attribute; an error names the attribute."""
    try:
        return type_.parse(value)
    except Invalid as error:
        raise errors.HTTPBadRequest(f"Invalid input for {name}: {str(error)[:1000]}.") from None
    except Unconvertible as error:
        raise errors.InvalidInput(f"Invalid input for {name}: {str(error)[:1000]}.") from None
    except RecursionError:
        raise errors.HTTPBadRequest(f"Invalid input for {name}: it is nested too deeply.") from None
