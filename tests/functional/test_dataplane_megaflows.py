"""The flush of the megaflow cache of a real switch, and which versions need it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.dataplane.openflow.api import OpenFlowError, flow
from neutrino.dataplane.openflow.real import OvsOfctl, revalidates_correctly
from tests.support.openvswitch import OpenVSwitch

PACKET = (
    "in_port(1),eth(src=fa:16:3e:00:00:01,dst=fa:16:3e:00:00:02),eth_type(0x0806),arp(sip=10.0.0.1,tip=10.0.0.2,op=1)"
)


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        server.vsctl(
            *("add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy", "fail_mode=secure"),
            *("--", "add-port", "br-test", "p1", "--", "set", "interface", "p1", "type=dummy"),
        )
        yield server


def remembered(switch: OpenVSwitch) -> list[str]:
    return [line for line in switch.appctl("dpctl/dump-flows").splitlines() if "actions:" in line]


def test_megaflows_are_flushed(switch: OpenVSwitch) -> None:
    OvsOfctl(switch.run_directory).apply_flows("br-test", add=[flow(0, 1, "", "drop")], delete=[])
    switch.appctl("netdev-dummy/receive", "p1", PACKET)
    assert len(remembered(switch)) == 1
    OvsOfctl(switch.run_directory, userspace=True).flush_megaflows()
    right = revalidates_correctly(switch.appctl("version"))
    assert len(remembered(switch)) == (1 if right else 0)


def test_a_switch_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(OpenFlowError, match="ovs-vswitchd"):
        OvsOfctl(str(tmp_path), userspace=True).flush_megaflows()


@pytest.mark.parametrize(
    "version, right",
    [
        ("ovs-vswitchd (Open vSwitch) 3.1.0", False),
        ("ovs-vswitchd (Open vSwitch) 2.17.9", False),
        ("ovs-vswitchd (Open vSwitch) 3.2.0", True),
        ("ovs-vswitchd (Open vSwitch) 3.10.1", True),
        ("ovs-vswitchd (Open vSwitch) 4.0.90", True),
        ("something else", False),
    ],
)
def test_versions_that_need_a_flush(version: str, right: bool) -> None:
    assert revalidates_correctly(version) is right
