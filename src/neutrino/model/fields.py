"""Validation of feed objects beyond their types: every value that a role parses or puts into a name. Pure.

A field declares its check in its annotation, by one of the types here. An invalid object is a problem of that object
alone: if it got into the state, rendering would fail for all others too.
"""

import ipaddress
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Annotated, Any, Final, get_type_hints

import msgspec

from neutrino.model.addresses import parse_address

MAX_NAME: Final = 255
MAX_SHOWN: Final = 60
SECRETS: Final = frozenset({"password", "psk"})  # fields whose values are in no message
MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z", re.IGNORECASE)  # `$` would accept a line break after it
Check = Callable[[Any], bool]

# --- checks -----------------------------------------------------------------------------------------------------------


# Cached: a snapshot has the same addresses and prefixes in many objects.
@lru_cache(maxsize=8192)
def is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return "%" not in value


@lru_cache(maxsize=8192)
def is_prefix(value: str) -> bool:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return "%" not in value


@lru_cache(maxsize=1024)
def is_peer(value: str) -> bool:
    """An address that the host itself sends to: an IPv4-mapped one passes checks as IPv6, and is IPv4 to the kernel."""
    try:
        parse_address(value)
    except ValueError:
        return False
    return True


def is_mac(value: str) -> bool:
    return MAC.match(value) is not None


def is_word(value: str) -> bool:
    return 0 < len(value) <= MAX_NAME and value.isprintable()


def is_path_name(value: str) -> bool:
    """Files, devices and namespaces are named after it: a slash would leave the directory."""
    return is_word(value) and "/" not in value and value not in (".", "..")


def optional(check: Check) -> Check:
    return lambda value: value is None or value == "" or check(value)


def every(check: Check) -> Check:
    return lambda values: all(map(check, values))


def within(least: int, most: int) -> Check:
    return lambda value: value is None or least <= value <= most


def one_of(*known: object) -> Check:
    return lambda value: value in known


# --- types of fields --------------------------------------------------------------------------------------------------

Id = Annotated[str, is_path_name]
Word = Annotated[str, is_word]
WordOrEmpty = Annotated[str, optional(is_word)]
Mac = Annotated[str, is_mac]
MacOrEmpty = Annotated[str, optional(is_mac)]
Ip = Annotated[str, is_address]
Peer = Annotated[str, is_peer]
IpOrEmpty = Annotated[str, optional(is_address)]
OptionalIp = Annotated[str | None, optional(is_address)]
Ips = Annotated[tuple[str, ...], every(is_address)]
Prefix = Annotated[str, is_prefix]
PrefixOrEmpty = Annotated[str, optional(is_prefix)]
OptionalPrefix = Annotated[str | None, optional(is_prefix)]
Prefixes = Annotated[tuple[str, ...], every(is_prefix)]
AddressMode = Annotated[str | None, one_of(None, "slaac", "dhcpv6-stateful", "dhcpv6-stateless")]
IpVersion = Annotated[int, one_of(4, 6)]
L4Port = Annotated[int, within(0, 65535)]
OptionalL4Port = Annotated[int | None, within(0, 65535)]
Mtu = Annotated[int, within(0, 65536)]
Revision = Annotated[int, within(0, 2**63 - 1)]

# --- checking an object -----------------------------------------------------------------------------------------------


def fault(value: msgspec.Struct, where: str = "") -> str:
    """What is wrong with an object, with the field's name after `where`; empty if nothing is."""
    for name, check in _checks(type(value)):
        given = getattr(value, name)
        if check is not None and not check(given):
            text = "it" if name in SECRETS else repr(given)
            shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
            return f"{where}{name}: {shown} is not valid"
        for each in given if isinstance(given, tuple | frozenset) else (given,):
            if isinstance(each, msgspec.Struct) and (found := fault(each, f"{where}{name}.")):
                return found
    return ""


@cache
def _checks(cls: type[msgspec.Struct]) -> tuple[tuple[str, Check | None], ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple((name, next(iter(getattr(hints[name], "__metadata__", ())), None)) for name in cls.__struct_fields__)
