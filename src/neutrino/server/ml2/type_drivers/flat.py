"""Flat networks: one untagged network on a physical network."""

from __future__ import annotations

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.ml2.driver_api import Segment, SegmentsInUse
from neutrino.server.ml2.type_drivers.physical import physical_mtu


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
        return None  # an administrator says which physical network is whose

    def mtu(self, physical_network: str | None) -> int:
        return physical_mtu(self._conf, physical_network)
