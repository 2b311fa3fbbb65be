"""Digest of a set of objects, which server and host compute alike: the sum of their digests. Pure.

A host that reconnects states one sum per kind. Only of a kind whose sum differs are the digests compared one by one: a
host of a network that is everywhere has as many peers as there are hosts, and after a restart of a server all of
them reconnect at once.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

MODULUS: Final = 1 << 64
# The digest of such an object does not cover its id: without it, two groups that swap their members had the same sum.
_WITHOUT_ID: Final = frozenset({"group_members", "forwarding"})


def number_of(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def text_of(number: int) -> str:
    return f"{number % MODULUS:016x}"


@cache
def digest_of_type(type_: type) -> str:
    """Digest of a type's fields, at any depth: it differs between releases that understand different fields."""
    schema = _without_descriptions(msgspec.json.schema(type_))
    return text_of(number_of(msgspec.json.encode(schema, order="deterministic")))


def _without_descriptions(schema: object) -> object:
    """Without docstrings, which change more often than fields. A field of that name is a mapping, and stays."""
    match schema:
        case dict():
            parts = {key: value for key, value in schema.items() if key != "description" or not isinstance(value, str)}
            return {key: _without_descriptions(value) for key, value in parts.items()}
        case list():
            return [_without_descriptions(value) for value in schema]
    return schema


def total(kind: str, digests: Mapping[str, str]) -> str:
    """The sum over the digests of all objects of a kind, by id; empty if one of them is unknown."""
    if kind in _WITHOUT_ID:
        if not all(digests.values()):
            return ""
        return text_of(sum(number_of(f"{key} {digest}".encode()) for key, digest in digests.items()))
    try:
        return text_of(sum(int(digest, 16) for digest in digests.values()))
    except ValueError:  # an object that the host could not use has no digest
        return ""
