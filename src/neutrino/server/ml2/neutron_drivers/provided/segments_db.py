"""`neutron.db.segments_db`: reads of networks' segments, as dictionaries."""

from collections.abc import Sequence
from typing import Any

from neutrino.model.objects import Object
from neutrino.server.ml2.neutron_drivers import reading

NETWORK_TYPE, PHYSICAL_NETWORK, SEGMENTATION_ID, NETWORK_ID = (
    *("network_type", "physical_network", "segmentation_id"),
    "network_id",
)


def get_network_segments(context: Any, network_id: str, filter_dynamic: bool | None = False) -> list[Object]:
    """`filter_dynamic`: False for the network's own, True for those that drivers have allocated, None for all."""
    return reading.segments(dynamic=filter_dynamic, network_id=network_id)


def get_networks_segments(
    context: Any, network_ids: Sequence[str], filter_dynamic: bool | None = False
) -> dict[str, list[Object]]:
    return {key: get_network_segments(context, key, filter_dynamic) for key in network_ids}


def get_segment_by_id(context: Any, segment_id: str) -> Object | None:
    return next(iter(reading.segments(id=segment_id)), None)


def get_dynamic_segment(
    context: Any, network_id: str, physical_network: str | None = None, segmentation_id: int | None = None
) -> Object | None:
    wanted = {"physical_network": physical_network, "segmentation_id": segmentation_id}
    given = {name: value for name, value in wanted.items() if value is not None}
    return next(iter(reading.segments(dynamic=True, network_id=network_id, **given)), None)
