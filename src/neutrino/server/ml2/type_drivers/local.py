"""Local networks: confined to one host, without an id, so any number of them can exist."""

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.ml2.driver_api import Segment, SegmentsInUse


class LocalType:
    type = "local"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._mtu = conf.global_physnet_mtu

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

    def mtu(self, physical_network: str | None) -> int:
        return int(self._mtu)
