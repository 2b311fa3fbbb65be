"""Flat and VLAN networks: segments on a physical network, untagged or with an 802.1Q tag."""

import random
from collections.abc import Sequence

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.ml2.driver_api import Segment, SegmentsInUse
from neutrino.server.ml2.type_drivers.ranges import Range, parse_ranges, pick_free

LOWEST, HIGHEST = 1, 4094


class FlatType:
    type = "flat"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._any = "*" in conf.ml2_type_flat.flat_networks
        self._names = frozenset(conf.ml2_type_flat.flat_networks) - {"*"}

    def check(self, segment: Segment) -> None:
        if not segment.physical_network:
            raise errors.InvalidInput("provider:physical_network is required for a flat network.")
        if not self._any and segment.physical_network not in self._names:
            raise errors.InvalidInput(
                f"provider:physical_network {segment.physical_network!r} is not configured for flat networks."
            )
        if segment.segmentation_id is not None:
            raise errors.InvalidInput("provider:segmentation_id has no meaning for a flat network.")

    def identity(self, segment: Segment) -> str:
        return f"flat/{segment.physical_network}"

    def in_use(self, segment: Segment) -> Exception:
        return errors.FlatNetworkInUse(physical_network=segment.physical_network)

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        return None  # a whole physical network is given by an administrator only

    def mtu(self, physical_network: str | None) -> int:
        return _mtu(self._conf, physical_network)


class VlanType:
    type = "vlan"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._ranges: dict[str, tuple[Range, ...]] = {}
        for text in conf.ml2_type_vlan.network_vlan_ranges:
            name, _, span = text.partition(":")
            spans = parse_ranges([span], LOWEST, HIGHEST, "network_vlan_ranges") if span else ()
            self._ranges[name] = (*self._ranges.get(name, ()), *spans)

    def check(self, segment: Segment) -> None:
        if not segment.physical_network:
            raise errors.InvalidInput("provider:physical_network is required for a VLAN network.")
        if segment.physical_network not in self._ranges:
            raise errors.InvalidInput(
                f"provider:physical_network {segment.physical_network!r} is not configured for VLAN networks."
            )
        if segment.segmentation_id is None:
            if not self._ranges[segment.physical_network]:
                raise errors.InvalidInput(
                    f"provider:segmentation_id is required: {segment.physical_network!r} has no VLAN range."
                )
        elif not LOWEST <= segment.segmentation_id <= HIGHEST:
            raise errors.InvalidInput(
                f"provider:segmentation_id {segment.segmentation_id} is no VLAN id: {LOWEST} to {HIGHEST}."
            )

    def identity(self, segment: Segment) -> str:
        return f"vlan/{segment.physical_network}/{segment.segmentation_id}"

    def in_use(self, segment: Segment) -> Exception:
        return errors.VlanIdInUse(vlan_id=segment.segmentation_id, physical_network=segment.physical_network)

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        names = [physical_network] if physical_network else [n for n, ranges in self._ranges.items() if ranges]
        random.shuffle(names)  # writers on several servers spread over the physical networks
        for name in names:
            vlan = self._free_on(name, in_use)
            if vlan is not None:
                return Segment("vlan", name, vlan)
        return None

    def _free_on(self, name: str, in_use: SegmentsInUse) -> int | None:
        def among(ids: Sequence[int]) -> set[int]:
            found = in_use.among([f"vlan/{name}/{i}" for i in ids])
            return {int(identity.rpartition("/")[2]) for identity in found}

        return pick_free(self._ranges.get(name, ()), among, lambda: in_use.ids("vlan", name))

    def mtu(self, physical_network: str | None) -> int:
        return _mtu(self._conf, physical_network)


def _mtu(conf: cfg.ConfigOpts, physical_network: str | None) -> int:
    """MTU of a physical network: its own if configured, else the one for all."""
    pairs = (text.rpartition(":") for text in conf.ml2.physical_network_mtus)
    own = {name: int(mtu) for name, _, mtu in pairs}
    return int(own.get(physical_network or "", conf.global_physnet_mtu))
