"""Which settings of a virtual function are to be changed, in which order. Pure.

A function that is to be silent is cut first: by its link, or where the card's driver cannot set that, by a VLAN that no
switch forwards. One that may talk gets its link last, when all that restricts it is in force.
"""

import dataclasses
from collections.abc import Collection, Iterator

from neutrino.dataplane.sriov.api import DEAD_VLAN, LinkState, SetFunction, Setting, Settings

ESSENTIAL = frozenset({Setting.LINK_STATE, Setting.VLAN, Setting.SPOOF_CHECK})
"""Settings without which a port is not ACTIVE, unless the driver does not have them at all."""


def reachable(wanted: Settings, unsupported: Collection[Setting]) -> Settings:
    """The settings as this driver can bring them about."""
    if wanted.link_state is LinkState.DISABLE and Setting.LINK_STATE in unsupported:
        return dataclasses.replace(wanted, vlan=DEAD_VLAN)
    return wanted


def cut(actual: Settings) -> Settings:
    """The same function, without a link."""
    return dataclasses.replace(actual, link_state=LinkState.DISABLE)


def released(actual: Settings) -> Settings:
    """A function that no instance has any more. What its driver does not tell is left."""
    default = Settings()
    return dataclasses.replace(
        default,
        spoof_check=None if actual.spoof_check is None else default.spoof_check,
        trust=None if actual.trust is None else default.trust,
    )


def plan(
    device: str, index: int, wanted: Settings, actual: Settings, unsupported: Collection[Setting] = ()
) -> list[SetFunction]:
    """The changes that make a function as it should be, without those that its driver is known not to have."""
    changes = [
        change
        for change in _changes(device, index, reachable(wanted, unsupported), actual)
        if change.setting not in unsupported
    ]
    is_first = wanted.link_state is LinkState.DISABLE
    return sorted(changes, key=lambda change: (change.setting is Setting.LINK_STATE) is not is_first)


def lacking(wanted: Settings, actual: Settings, unsupported: Collection[Setting]) -> frozenset[Setting]:
    """What a function does not have because its driver cannot set it."""
    changes = _changes("", 0, reachable(wanted, unsupported), actual)
    is_cut = wanted.link_state is LinkState.DISABLE  # by the VLAN
    return frozenset(
        change.setting
        for change in changes
        if change.setting in unsupported and not (is_cut and change.setting is Setting.LINK_STATE)
    )


def _changes(device: str, index: int, wanted: Settings, actual: Settings) -> Iterator[SetFunction]:
    def change(setting: Setting, value: int, other: int = 0) -> SetFunction:
        return SetFunction(device, index, setting, value, other)

    if wanted.link_state is not actual.link_state:
        yield change(Setting.LINK_STATE, wanted.link_state)
    if wanted.vlan != actual.vlan:
        yield change(Setting.VLAN, wanted.vlan)
    # Drivers that do not tell have it off, or no such setting: it is asked for only where it has to be on.
    for setting, value, before in (
        (Setting.SPOOF_CHECK, wanted.spoof_check, actual.spoof_check),
        (Setting.TRUST, wanted.trust, actual.trust),
    ):
        if value is not None and value != bool(before):
            yield change(setting, int(value))
    # One call sets both rates, and a minimum above the maximum is refused.
    kept = actual.min_rate if not wanted.max_rate or actual.min_rate <= wanted.max_rate else 0
    if wanted.max_rate != actual.max_rate:
        yield change(Setting.MAX_RATE, wanted.max_rate, kept)
    if wanted.min_rate != (kept if wanted.max_rate != actual.max_rate else actual.min_rate):
        yield change(Setting.MIN_RATE, wanted.min_rate, wanted.max_rate)
