"""The segment of a port on this host, where its network has several."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.agent.l2.port_segments import segment_of
from neutrino.model import state
from tests.support.l2 import port

SEGMENTS = (
    state.Segment(id="s1", network_type="vlan", physical_network="rack1", segmentation_id=101),
    state.Segment(id="s2", network_type="vlan", physical_network="rack2", segmentation_id=102),
    state.Segment(id="s3", network_type="vxlan", segmentation_id=70000),
)
WIDE = state.Network(id="net", segments=SEGMENTS)
SUBNET = {"network_id": "net", "ip_version": 4, "cidr": "10.0.0.0/24", "gateway_ip": None, "enable_dhcp": False}


def found(mine: state.Port, *reached: str, network: state.Network = WIDE, ports: tuple[state.Port, ...] = ()) -> Any:
    key = segment_of(mine, {network.id: network}, ports, lambda segment: segment.id in reached)
    return key.segmentation_id if key is not None else None


def shared(**values: Any) -> state.Port:
    return port("gw", 254, **({"distributed": True} | values))


def test_a_bound_port_is_on_the_segment_of_its_binding() -> None:
    assert found(port("p", 1, segment_id="s2")) == 102
    assert found(port("p", 1), "s1") is None
    assert found(port("p", 1), network=state.Network(id="net", segments=SEGMENTS[:1])) == 101


@pytest.mark.parametrize(("reached", "tag"), [(("s1", "s3"), 101), (("s2", "s3"), 102), (("s3",), 70000), ((), None)])
def test_a_distributed_port_is_on_the_first_that_the_host_reaches(reached: tuple[str, ...], tag: int | None) -> None:
    assert found(shared(), *reached) == tag


def test_it_is_where_the_ports_of_this_host_are() -> None:
    here = port("p", 1, segment_id="s3")
    assert found(shared(), "s1", "s3", ports=(here, shared())) == 70000
    arriving = port("p", 1, segment_id="s3", active=False)  # of a live migration, which may still be given up
    assert found(shared(), "s1", "s3", ports=(arriving,)) == 101


def test_a_port_of_an_ha_router_is_not_on_the_segment_of_the_active_host() -> None:
    assert found(shared(distributed=False, replicated=True, segment_id="s1"), "s2") == 102


def test_addresses_of_a_routed_network_work_on_their_segment_alone() -> None:
    subnet = state.Subnet(id="subnet", segment_id="s2", **SUBNET)  # type: ignore[arg-type]
    network = state.Network(id="net", segments=SEGMENTS, subnets=(subnet,))
    assert found(shared(), "s1", "s2", network=network) == 102
    assert found(shared(), "s1", "s3", network=network) is None
