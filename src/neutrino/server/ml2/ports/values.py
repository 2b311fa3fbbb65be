"""Values of a port that follow from the request alone, and new ports of the server's own services. Pure."""

import random
from collections.abc import Sequence
from typing import Any

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.api.types import comparable, first_duplicate
from neutrino.server.ml2.ports import hardware


def requested_mac(values: Object) -> str | None:
    """The MAC that a new port is to have: that of its card, if it has one, before the requested one."""
    return hardware.device_mac(values) or values.get("mac_address")


def new_mac(base: str) -> str:
    """A random MAC with the base's first three octets, or four if the fourth is not 00."""
    octets = base.lower().split(":")
    kept = octets[:3] + ([octets[3]] if octets[3] != "00" else [])
    return ":".join([*kept, random.randbytes(6 - len(kept)).hex(":")])


def address_pairs(pairs: Sequence[Values], mac: str, maximum: int) -> list[Object]:
    """The pairs, each with a MAC: the port's own where none is given."""
    if 0 <= maximum < len(pairs):
        raise errors.AllowedAddressPairExhausted(quota=maximum)
    full = [{"mac_address": p.get("mac_address", mac), "ip_address": p["ip_address"]} for p in pairs]
    twice = first_duplicate(full)
    if twice is not None:
        raise errors.DuplicateAddressPairInRequest(**twice)
    return full


def dhcp_options(before: Sequence[Values], given: Sequence[Values]) -> list[Object]:
    """The options after a request, which sets those it names and removes those with a null value."""
    options = {(o["opt_name"], o["ip_version"]): dict(o) for o in before}
    for option in given:
        key = option["opt_name"], option["ip_version"]
        if option["opt_value"] is None:
            options.pop(key, None)
        else:
            options[key] = dict(option)
    return list(options.values())


def new_or_same(new: list[Any], old: list[Any]) -> list[Any]:
    """The old list if both have the same items: another order is no change, and must not raise the revision."""
    same = len(new) == len(old) and {comparable(item) for item in new} <= {comparable(item) for item in old}
    return old if same else new


def service_port(network_id: str, project_id: str, device_id: str, owner: str, host: str, name: str = "") -> Object:
    """A new port of a service (DHCP, router, floating IP), without addresses; an empty project hides it from tenants."""
    return {
        "name": name,
        "network_id": network_id,
        "project_id": project_id,
        "admin_state_up": True,
        "device_id": device_id,
        "device_owner": owner,
        "extra_dhcp_opts": [],
        "dns_name": "",
        "dns_domain": "",
        "binding:host_id": host,
        "binding:vnic_type": "normal",
        "propagate_uplink_status": True,
    }
