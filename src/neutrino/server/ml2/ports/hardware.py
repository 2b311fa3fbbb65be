"""Attributes of ports that are for the hypervisor and its hardware, and what they add to the binding profile. Pure.

Nova reads them: NUMA affinity, Cyborg's device profile, hardware offload, trusted VFs. It knows two of them only by the
binding profile, so as in Neutron `trusted` is shown there as well, and an offload type is one of its `capabilities`.

The MAC of a `direct-physical` port is that of the card which the instance gets. Nova gives it as `device_mac_address` of
the profile when it binds the port; when the instance releases the card, the port gets another MAC, so that the port of
the card's next user can have it.
"""

from collections.abc import Callable

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.ml2.ports.allocations import allocated
from neutrino.server.placement import ALLOCATION

NAMES = ("numa_affinity_policy", "device_profile", "hints", "trusted", "hardware_offload_type")
PROFILE, VNIC_TYPE = "binding:profile", "binding:vnic_type"
BINDING_NAMES = ("binding:host_id", VNIC_TYPE)
DIRECT_PHYSICAL = "direct-physical"
TRUSTED, CAPABILITIES, DEVICE_MAC = "trusted", "capabilities", "device_mac_address"  # keys of the profile


def of_new_port(values: Values) -> Object:
    """The attributes of a new port, and its profile."""
    given = {name: values.get(name) for name in NAMES}
    profile = values.get(PROFILE) or {}
    offload = given["hardware_offload_type"]
    if offload is not None:
        capabilities = profile.get(CAPABILITIES, [])
        if not isinstance(capabilities, list):
            raise errors.InvalidInput(f"Invalid input for {PROFILE}: {CAPABILITIES} is not a list.")
        profile = {**profile, CAPABILITIES: [*(c for c in capabilities if c != offload), offload]}
    return {**given, PROFILE: shown_profile(profile, given["trusted"])}


def shown_profile(profile: Values, trusted: bool | None) -> Object:
    """The profile as the port shows it: with `trusted`, if the port has it."""
    return dict(profile) if trusted is None else {**profile, TRUSTED: trusted}


def own_profile(port: Values) -> Object:
    """The profile of a port's binding: without what the port itself adds to it."""
    profile = dict(port[PROFILE])
    if port["trusted"] is not None:
        profile.pop(TRUSTED, None)
    return profile


def is_bound_differently(before: Values, after: Values) -> bool:
    """Whether an update needs another binding: the instance loses its connection.

    `trusted` alone does not, nor do other groups of an allocation on the same providers.
    """
    if any(after[name] != before[name] for name in BINDING_NAMES):
        return True
    if before[PROFILE] == after[PROFILE]:
        return False
    ignored = {ALLOCATION} | ({TRUSTED} if before["trusted"] != after["trusted"] else set())
    profiles = ({key: value for key, value in port[PROFILE].items() if key not in ignored} for port in (before, after))
    return next(profiles) != next(profiles) or allocated(before[PROFILE]) != allocated(after[PROFILE])


def device_mac(port: Values) -> str | None:
    """The MAC of the card that a port is bound to, if its profile has one."""
    if port.get(VNIC_TYPE) != DIRECT_PHYSICAL or not (port.get(PROFILE) or {}).get(DEVICE_MAC):
        return None
    try:
        return t.Mac().parse(port[PROFILE][DEVICE_MAC])
    except ValueError as error:
        raise errors.InvalidInput(f"Invalid input for {PROFILE}: {DEVICE_MAC}: {error}.") from None


def mac_after(before: Values, after: Values, new_mac: Callable[[], str]) -> str:
    """The MAC of a port after an update: the card's, or a new one if its instance has released the card."""
    mac = device_mac(after)
    if mac is not None:
        return mac
    released = before["device_id"] and not after["device_id"] and not after["device_owner"]
    if after[VNIC_TYPE] == DIRECT_PHYSICAL and released and after["mac_address"] == before["mac_address"]:
        return new_mac()
    return str(after["mac_address"])
