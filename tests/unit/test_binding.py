"""Binding: drivers in the order of the configuration, over one level or several."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from oslo_config import cfg

from neutrino.model.agents import NIC_SWITCH, OVS
from neutrino.server.config import configuration
from neutrino.server.ml2.driver_api import Bound, Continue, PortToBind, Segment
from neutrino.server.ml2.mechanism_drivers import OpenVSwitch, SriovNicSwitch
from neutrino.server.ml2.ports.binding import MAX_LEVELS, bind

FABRIC, RACK, OTHER = (Segment("vxlan", None, 5001, "fabric"), Segment("vlan", "rack1", 101, "rack"), Segment("flat"))
Answer = Bound | Continue | None


@dataclasses.dataclass
class Driver:
    name: str
    answer: Callable[[PortToBind], Answer]
    asked: list[Sequence[Segment]] = dataclasses.field(default_factory=list)

    def bind_port(self, port: PortToBind) -> Answer:
        self.asked.append(port.segments)
        return self.answer(port)


@dataclasses.dataclass
class Listener:
    """A driver that is only notified of changes and does not bind."""

    name: str = "listener"


def port(*segments: Segment) -> PortToBind:
    return PortToBind({"id": "p1"}, "h1", "normal", {}, segments, (), network={"id": "n1"})


def binds(segment: Segment, vif_type: str = "ovs") -> Callable[[PortToBind], Answer]:
    """Binds this segment only."""
    return lambda asked: Bound(segment, vif_type) if segment in asked.segments else None


def passes_on(segment: Segment, *further: Segment) -> Callable[[PortToBind], Answer]:
    return lambda asked: Continue(segment, further) if segment in asked.segments else None


def levels(found: object) -> list[tuple[int, str, str]]:
    return [(each["level"], each["driver"], each["segment_id"]) for each in found.levels]  # type: ignore[attr-defined]


def test_the_first_driver_that_binds_is_the_one() -> None:
    silent, first, second = (
        Driver("silent", lambda _: None),
        Driver("a", binds(RACK)),
        Driver("b", binds(RACK, "other")),
    )
    found = bind(port(RACK), [Listener(), silent, first, second])
    assert (found.vif_type, levels(found)) == ("ovs", [(0, "a", "rack")])
    assert found.is_bound
    assert found.components == ("L2",)
    assert second.asked == []


def test_a_switch_above_passes_a_segment_of_its_own_to_the_host_below() -> None:
    """Where the network's segment ends at the top of the rack, the host has another one."""
    host, rack = Driver("openvswitch", binds(RACK)), Driver("tor", passes_on(FABRIC, RACK))
    found = bind(port(FABRIC), [host, rack])
    assert levels(found) == [(0, "tor", "fabric"), (1, "openvswitch", "rack")]
    assert (host.asked, rack.asked) == ([(FABRIC,), (RACK,)], [(FABRIC,)])


def test_a_level_that_cannot_be_completed_is_left_to_the_next_driver() -> None:
    drivers = [Driver("tor", passes_on(FABRIC, OTHER)), Driver("openvswitch", binds(FABRIC))]
    assert levels(bind(port(FABRIC), drivers)) == [(0, "openvswitch", "fabric")]


def test_without_a_driver_that_binds_the_binding_fails() -> None:
    found = bind(port(RACK), [Driver("a", binds(FABRIC))])
    assert (found.vif_type, found.is_bound, found.levels) == ("binding_failed", False, ())


def test_a_driver_that_raises_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: PortToBind) -> Answer:
        raise OSError("the equipment is away")

    found = bind(port(RACK), [Driver("broken", broken), Driver("a", binds(RACK))])
    assert levels(found) == [(0, "a", "rack")]
    assert "driver broken failed to bind port p1" in caplog.text


def test_a_driver_is_not_asked_twice_for_a_segment() -> None:
    around = Driver("around", passes_on(FABRIC, FABRIC))
    assert not bind(port(FABRIC), [around]).is_bound
    assert len(around.asked) == 1


def test_the_number_of_levels_is_limited() -> None:
    def ever_deeper(asked: PortToBind) -> Answer:
        depth = int(asked.segments[0].id)
        return Continue(asked.segments[0], [Segment("vlan", "p", depth + 1, str(depth + 1))])

    deep = Driver("deep", ever_deeper)
    assert not bind(port(Segment("vlan", "p", 0, "0")), [deep]).is_bound
    assert len(deep.asked) == MAX_LEVELS


def configured(directory: Path, text: str) -> cfg.ConfigOpts:
    (directory / "ml2_conf.ini").write_text(text)
    return configuration([str(directory / "ml2_conf.ini")])


def test_prohibited_vnic_types_are_left_to_other_drivers(tmp_path: Path) -> None:
    agents = tuple(
        {"agent_type": kind, "alive": True, "admin_state_up": True, "configurations": mappings}
        for kind, mappings in (
            (OVS, {"bridge_mappings": {"rack1": "br-x"}}),
            (NIC_SWITCH, {"device_mappings": {"rack1": []}}),
        )
    )
    profile = {"capabilities": ["switchdev"]}
    normal = PortToBind({"id": "p1"}, "h1", "normal", {}, (RACK,), agents, network={"id": "n1"})
    offloaded = dataclasses.replace(normal, vnic_type="direct", profile=profile)
    plain = dataclasses.replace(normal, vnic_type="direct")
    conf = configured(
        tmp_path, "[ovs_driver]\nvnic_type_prohibit_list = direct\n[sriov_driver]\nvnic_type_prohibit_list = direct\n"
    )
    for given, binds_direct in ((configured(tmp_path, ""), True), (conf, False)):
        assert OpenVSwitch(given).bind_port(normal) is not None
        assert (OpenVSwitch(given).bind_port(offloaded) is not None) is binds_direct
        assert (SriovNicSwitch(given).bind_port(plain) is not None) is binds_direct


@pytest.mark.parametrize(
    ("types", "message"), [("normal,direkt", "'direkt' is none of"), ("normal,direct,smart-nic,vdpa", "all types")]
)
def test_a_list_of_vnic_types_that_cannot_work_is_refused(tmp_path: Path, types: str, message: str) -> None:
    conf = configured(tmp_path, f"[ovs_driver]\nvnic_type_prohibit_list = {types}\n")
    with pytest.raises(ValueError, match=rf"\[ovs_driver\] vnic_type_prohibit_list.*{message}"):
        OpenVSwitch(conf)
