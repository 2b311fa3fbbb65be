"""The included type drivers: local, flat and VLAN networks, and tunnels (GRE, VXLAN, Geneve)."""

import random
from collections.abc import Iterable, Mapping, Sequence

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.ipam.ranges import LARGE, Range, pick_free, random_number, size
from neutrino.server.ml2.driver_api import Segment, SegmentsInUse

LOWEST_VLAN, HIGHEST_VLAN = 1, 4094
IP_HEADER = {4: 20, 6: 40}
Ranges = Mapping[str | None, Sequence[Range]]  # by physical network; None: of tunnels


class _TypeDriver:
    type: str

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def identity(self, segment: Segment) -> str:
        """vlan/physnet1/100, flat/physnet1, vxlan/7."""
        parts = (self.type, segment.physical_network, segment.segmentation_id)
        return "/".join(str(part) for part in parts if part is not None)

    def mtu(self, physical_network: str | None) -> int:
        """MTU of a physical network: its own if configured, else the one for all."""
        pairs = (text.rpartition(":") for text in self._conf.ml2.physical_network_mtus)
        own = {name: int(mtu) for name, _, mtu in pairs}
        return int(own.get(physical_network or "", self._conf.global_physnet_mtu))


class LocalType(_TypeDriver):
    """Local networks: confined to one host, without an id, so any number of them can exist."""

    type = "local"

    def check(self, segment: Segment) -> None:
        if segment.physical_network is not None or segment.segmentation_id is not None:
            raise errors.InvalidInput(
                "provider:physical_network and provider:segmentation_id have no meaning for a local network."
            )

    def identity(self, segment: Segment) -> str:
        return f"local/{segment.id}"

    def in_use(self, segment: Segment) -> Exception:
        return errors.NoNetworkAvailable()

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        return Segment("local")


class FlatType(_TypeDriver):
    """Flat networks: the untagged traffic of a physical network."""

    type = "flat"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._names = frozenset(conf.ml2_type_flat.flat_networks)

    def check(self, segment: Segment) -> None:
        if not segment.physical_network:
            raise errors.InvalidInput("provider:physical_network is required for a flat network.")
        if "*" not in self._names and segment.physical_network not in self._names:
            raise errors.InvalidInput(
                f"provider:physical_network {segment.physical_network!r} is not configured for flat networks."
            )
        if segment.segmentation_id is not None:
            raise errors.InvalidInput("provider:segmentation_id has no meaning for a flat network.")

    def in_use(self, segment: Segment) -> Exception:
        return errors.FlatNetworkInUse(physical_network=segment.physical_network)

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        return None  # a whole physical network is given by an administrator only


class VlanType(_TypeDriver):
    """VLAN networks: an 802.1Q tag on a physical network."""

    type = "vlan"
    limits = LOWEST_VLAN, HIGHEST_VLAN

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.configured: dict[str | None, tuple[Range, ...]] = {}
        for text in conf.ml2_type_vlan.network_vlan_ranges:
            name, _, span = text.partition(":")
            spans = parse_ranges([span], LOWEST_VLAN, HIGHEST_VLAN, "network_vlan_ranges") if span else ()
            self.configured[name] = (*self.configured.get(name, ()), *spans)

    def check(self, segment: Segment) -> None:
        self.check_within(segment, self.configured)

    def check_within(self, segment: Segment, ranges: Ranges) -> None:
        name, vlan = segment.physical_network, segment.segmentation_id
        if not name:
            raise errors.InvalidInput("provider:physical_network is required for a VLAN network.")
        if name not in ranges:
            raise errors.InvalidInput(f"provider:physical_network {name!r} is not configured for VLAN networks.")
        if vlan is None and not ranges[name]:
            raise errors.InvalidInput(f"provider:segmentation_id is required: {name!r} has no VLAN range.")
        if vlan is not None and not LOWEST_VLAN <= vlan <= HIGHEST_VLAN:
            raise errors.InvalidInput(
                f"provider:segmentation_id {vlan} is no VLAN id: {LOWEST_VLAN} to {HIGHEST_VLAN}."
            )

    def in_use(self, segment: Segment) -> Exception:
        return errors.VlanIdInUse(vlan_id=segment.segmentation_id, physical_network=segment.physical_network)

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        return self.allocate_within(in_use, self.configured, physical_network)

    def allocate_within(
        self, in_use: SegmentsInUse, ranges: Ranges, physical_network: str | None = None
    ) -> Segment | None:
        names = [physical_network] if physical_network else [name for name, some in ranges.items() if name and some]
        random.shuffle(names)  # writers on several servers spread over the physical networks
        for name in names:
            vlan = _free_id(in_use, ranges.get(name, ()), "vlan", name)
            if vlan is not None:
                return Segment("vlan", name, vlan)
        return None


class TunnelType(_TypeDriver):
    """One kind of tunnel: its highest id, and the bytes that its headers add besides the outer IP header."""

    def __init__(self, conf: cfg.ConfigOpts, type_: str, highest: int, overhead: int, option: str) -> None:
        super().__init__(conf)
        self.type = type_
        self.limits = 1, highest
        self._overhead = overhead
        group = conf[f"ml2_type_{type_}"]
        ranges = parse_ranges(group[option], 1, highest, f"[ml2_type_{type_}] {option}")
        self.configured: dict[str | None, tuple[Range, ...]] = {None: ranges}

    def check(self, segment: Segment) -> None:
        if segment.physical_network is not None:
            raise errors.InvalidInput(f"provider:physical_network has no meaning for a {self.type} network.")
        if segment.segmentation_id is not None and not 0 < segment.segmentation_id <= self.limits[1]:
            raise self.in_use(segment)

    def check_within(self, segment: Segment, ranges: Ranges) -> None:
        self.check(segment)  # an administrator may use any id

    def in_use(self, segment: Segment) -> Exception:
        return errors.TunnelIdInUse(tunnel_id=segment.segmentation_id)

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        return self.allocate_within(in_use, self.configured)

    def allocate_within(
        self, in_use: SegmentsInUse, ranges: Ranges, physical_network: str | None = None
    ) -> Segment | None:
        free = _free_id(in_use, ranges.get(None, ()), self.type)
        return None if free is None else Segment(self.type, None, free)

    def mtu(self, physical_network: str | None) -> int:
        bounds = [m for m in (self._conf.global_physnet_mtu, self._conf.ml2.path_mtu) if m > 0]
        outer = IP_HEADER[self._conf.ml2.overlay_ip_version] + self._overhead
        return max(0, min(bounds) - outer) if bounds else 0


def gre(conf: cfg.ConfigOpts) -> TunnelType:
    # 22: GRE with its key 8, inner Ethernet 14. The key has 32 bits, the database's integers 31.
    return TunnelType(conf, "gre", 2**31 - 1, 22, "tunnel_id_ranges")


def vxlan(conf: cfg.ConfigOpts) -> TunnelType:
    # 30: UDP 8, VXLAN 8, inner Ethernet 14.
    return TunnelType(conf, "vxlan", 2**24 - 1, 30, "vni_ranges")


def geneve(conf: cfg.ConfigOpts) -> TunnelType:
    return TunnelType(conf, "geneve", 2**24 - 1, conf.ml2_type_geneve.max_header_size, "vni_ranges")


def parse_ranges(texts: Iterable[str], lowest: int, highest: int, option: str) -> tuple[Range, ...]:
    """`1:1000` as (1, 1000); an invalid range is an error that names the option."""
    ranges = []
    for text in texts:
        low, _, high = text.partition(":")
        try:
            pair = int(low), int(high)
        except ValueError:
            raise ValueError(f"{option}: {text!r} is not a range such as 1:1000") from None
        if not lowest <= pair[0] <= pair[1] <= highest:
            raise ValueError(f"{option}: {text!r} is not a range within {lowest}:{highest}")
        ranges.append(pair)
    return tuple(ranges)


def _free_id(in_use: SegmentsInUse, ranges: Sequence[Range], *where: str) -> int | None:
    """A free segmentation id; `where`: the network type, and for VLANs the physical network."""
    if in_use.blind and size(ranges) >= LARGE:
        return random_number(ranges)

    def taken_among(ids: Sequence[int]) -> set[int]:
        found = in_use.among(["/".join((*where, str(i))) for i in ids])  # as `identity` makes them
        return {int(identity.rpartition("/")[2]) for identity in found}

    return pick_free(ranges, taken_among, lambda: in_use.ids(where[0], where[1] if len(where) > 1 else None))
