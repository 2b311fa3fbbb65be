"""Extra DHCP options of a port or, beyond Neutron's API, of a network for all its ports."""

import re

from neutrino.model.dhcp_options import is_known
from neutrino.model.objects import Object
from neutrino.server.api import types as t

# Options that may have an empty value, which means that the option is not sent.
MAY_BE_EMPTY = ("router", "classless-static-route")
# DHCP options are bytes in lines of a dnsmasq file, and dnsmasq counts bytes: other characters have several, or end a line.
PRINTABLE = "^[ -~]*$"
_PRINTABLE = re.compile("[ -~]*")


def parse_option(option: object) -> Object:
    if not isinstance(option, dict):
        raise t.Unconvertible(f"'{option}' is not a dictionary")
    unknown = set(option) - {"opt_name", "opt_value", "ip_version"}
    if unknown or "opt_name" not in option or "opt_value" not in option:
        raise t.Unconvertible("a DHCP option has opt_name, opt_value and perhaps ip_version")
    name, value, version = option["opt_name"], option["opt_value"], option.get("ip_version", 4)
    if not isinstance(name, str) or not name.strip() or len(name) > 64 or "\n" in name:
        raise t.Unconvertible(f"opt_name '{name}' is not a line of 1 to 64 characters")
    if value is not None:  # null removes the option, whatever its name
        if not _PRINTABLE.fullmatch(name):
            raise t.Unconvertible(f"opt_name '{name}' has characters other than printable ASCII")
        if str(version) in ("4", "6") and not is_known(name, int(version)):
            known = "dnsmasq --help dhcp and --help dhcp6 list the names"
            raise t.Unconvertible(f"opt_name '{name}' is no DHCP option by name or number ({known})")
        if not isinstance(value, str) or len(value) > 255 or not _PRINTABLE.fullmatch(value):
            raise t.Unconvertible(f"opt_value '{value}' is not a line of at most 255 printable ASCII characters")
        if not value.strip() and name not in MAY_BE_EMPTY:
            raise t.Unconvertible(f"opt_value of {name} is empty")
    if str(version) not in ("4", "6") or isinstance(version, bool | float):
        raise t.Unconvertible(f"ip_version '{version}' is neither 4 nor 6")
    return {"opt_name": name, "opt_value": value, "ip_version": int(version)}


def parse_options(value: object) -> list[Object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise t.Unconvertible(f"'{value}' is not a list")
    options = [parse_option(option) for option in value]
    if twice := t.first_duplicate((option["opt_name"], option["ip_version"]) for option in options):
        raise t.Unconvertible(f"option {twice[0]} is given twice for IPv{twice[1]}")
    return options


_VALUE = t.Parsed(str, {"type": "string", "maxLength": 255, "pattern": PRINTABLE})
_OPTION = t.Record({"opt_name": t.Text(64, min=1), "opt_value": t.Nullable(_VALUE)}, {"ip_version": t.OneOf((4, 6))})
EXTRA_DHCP_OPTS = t.Parsed(parse_options, t.ListOf(_OPTION, nullable=True, max_items=100))
