"""Taps of ports, as hosts get them: where copies of a port's packets go, and from where copies for it come.

Copies for a port of another host travel through a GRE tunnel of their own. Its key has the tap flow's tunnel id in a range
that is reserved for taps: an Open vSwitch tunnel port with a fixed key takes packets with it away from the tunnels of
networks, so no GRE network may have such a segmentation id.
"""

from typing import Annotated, Final

import msgspec

from neutrino.model import fields

IN, OUT, BOTH = "IN", "OUT", "BOTH"
UNTAGGED: Final = 0  # as a VLAN id: frames without a tag
RESERVED_KEYS: Final = 0xF0000000
Direction = Annotated[str, fields.one_of(IN, OUT, BOTH)]
VlanRange = tuple[int, int]


def _is_range(value: VlanRange) -> bool:
    return 0 <= value[0] <= value[1] <= 4095


class Tap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tap flow from this port."""

    id: fields.Id
    port_id: fields.Id  # that gets the copies
    host: fields.WordOrEmpty  # of that port; empty: it is not bound
    direction: Direction
    tunnel_id: Annotated[int, fields.within(0, 2**28 - 1)]
    vlans: Annotated[tuple[VlanRange, ...], fields.every(_is_range)] = ()  # empty: all

    def selects(self, vlan: int) -> bool:
        return not self.vlans or any(first <= vlan <= last for first, last in self.vlans)


class TapOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """A tap flow to this port."""

    id: fields.Id
    host: fields.WordOrEmpty  # of the source
    tunnel_id: Annotated[int, fields.within(0, 2**28 - 1)]


class TapMirror(msgspec.Struct, frozen=True, kw_only=True):
    """A direction of a tap mirror of this port."""

    id: fields.Id
    direction: Direction
    tunnel_id: Annotated[int, fields.within(0, 2**32 - 1)]
    remote_ip: fields.Peer
    mirror_type: Annotated[str, fields.one_of("gre", "erspanv1")]


class Taps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    services: tuple[str, ...] = ()  # ids of the tap services that this port gets the copies of
    flows: tuple[Tap, ...] = ()
    origins: tuple[TapOrigin, ...] = ()
    mirrors: tuple[TapMirror, ...] = ()


NO_TAPS: Final = Taps()


def tunnel_key(tunnel_id: int) -> int:
    return RESERVED_KEYS | tunnel_id
