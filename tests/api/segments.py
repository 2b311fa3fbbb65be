"""Routed networks as tests need them: physical networks rack1 and rack2, a segment and a subnet on each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from tests.api.client import Api

SETTINGS = {"ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199,physnet2:1:10,rack1:1:999,rack2:1:999"}}
VLANS = itertools.count(1)


@dataclass(frozen=True)
class RoutedNetwork:
    network: dict[str, Any]
    segments: list[dict[str, Any]]
    subnets: list[dict[str, Any]]

    @property
    def id(self) -> str:
        return str(self.network["id"])


def provider(physical_network: str, vlan: int | None = None) -> dict[str, Any]:
    number = {} if vlan is None else {"provider__segmentation_id": vlan}
    return {"provider__network_type": "vlan", "provider__physical_network": physical_network, **number}


def segments_of(admin: Api, network_id: str) -> list[dict[str, Any]]:
    return admin.all("/segments", {"network_id": network_id})


def routed_network(admin: Api, *, enable_dhcp: bool = False, racks: int = 2, **values: Any) -> RoutedNetwork:
    """10.N.0.0/24 on segment N, with the gateway 10.N.0.1."""
    network = admin.make("network", **provider("rack1", next(VLANS)), **values)
    first = segments_of(admin, network["id"])[0]
    others = [
        admin.make(
            "segment", network_id=network["id"], network_type="vlan", physical_network=f"rack{n}",
            segmentation_id=next(VLANS), name=f"rack{n}",
        )
        for n in range(2, racks + 1)
    ]  # fmt: skip
    segments = [first, *others]
    subnets = [
        admin.make(
            "subnet", network_id=network["id"], ip_version=4, cidr=f"10.{n}.0.0/24", segment_id=segment["id"],
            enable_dhcp=enable_dhcp,
        )
        for n, segment in enumerate(segments, 1)
    ]  # fmt: skip
    return RoutedNetwork(network, segments, subnets)
