"""Tunnel networks: GRE, VXLAN and Geneve, with an id in the encapsulation between hosts."""

from collections.abc import Sequence

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.ml2.driver_api import Segment, SegmentsInUse
from neutrino.server.ml2.type_drivers.ranges import parse_ranges, pick_free

IP_HEADER = {4: 20, 6: 40}


class TunnelType:
    """One kind of tunnel: its highest id, and the bytes that its headers add besides the outer IP header."""

    def __init__(self, conf: cfg.ConfigOpts, type_: str, highest: int, overhead: int, option: str) -> None:
        self.type = type_
        self._conf = conf
        self._highest = highest
        self._overhead = overhead
        group = conf[f"ml2_type_{type_}"]
        self._ranges = parse_ranges(group[option], 1, highest, f"[ml2_type_{type_}] {option}")

    def check(self, segment: Segment) -> None:
        if segment.physical_network is not None:
            raise errors.InvalidInput(f"provider:physical_network has no meaning for a {self.type} network.")
        if segment.segmentation_id is not None and not 0 < segment.segmentation_id <= self._highest:
            raise self.in_use(segment)

    def identity(self, segment: Segment) -> str:
        return f"{self.type}/{segment.segmentation_id}"

    def in_use(self, segment: Segment) -> Exception:
        return errors.TunnelIdInUse(tunnel_id=segment.segmentation_id)

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        def among(ids: Sequence[int]) -> set[int]:
            found = in_use.among([f"{self.type}/{i}" for i in ids])
            return {int(identity.rpartition("/")[2]) for identity in found}

        free = pick_free(self._ranges, among, lambda: in_use.ids(self.type, None))
        return None if free is None else Segment(self.type, None, free)

    def mtu(self, physical_network: str | None) -> int:
        bounds = [m for m in (self._conf.global_physnet_mtu, self._conf.ml2.path_mtu) if m > 0]
        outer = IP_HEADER[self._conf.ml2.overlay_ip_version] + self._overhead
        return max(0, min(bounds) - outer) if bounds else 0


def gre(conf: cfg.ConfigOpts) -> TunnelType:
    return TunnelType(conf, "gre", 2**31 - 1, 22, "tunnel_id_ranges")


def vxlan(conf: cfg.ConfigOpts) -> TunnelType:
    return TunnelType(conf, "vxlan", 2**24 - 1, 30, "vni_ranges")


def geneve(conf: cfg.ConfigOpts) -> TunnelType:
    return TunnelType(conf, "geneve", 2**24 - 1, conf.ml2_type_geneve.max_header_size, "vni_ranges")
