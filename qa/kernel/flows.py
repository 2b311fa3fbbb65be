"""Every flow that the renderers can produce is accepted by the kernel datapath and read back equal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.agent.l2.plan import plan
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, DatapathFeatures, FlowsRejected, flow
from neutrino.dataplane.openflow.real import OvsOfctl
from qa.kernel.switch import KernelSwitch, ip
from tests.support.every_flow import VARIANTS, hosts

BRIDGE = "br-test"


@pytest.fixture(scope="module")
def openflow() -> Iterator[OvsOfctl]:
    ip("netns", "add", "flows")
    with KernelSwitch("flows") as switch:
        switch.vsctl("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=system", "fail_mode=secure")
        yield OvsOfctl(switch.run_directory)
    ip("netns", "delete", "flows")


def test_the_kernel_cannot_answer_for_neighbours(openflow: OvsOfctl) -> None:
    """If a later kernel can, this test fails, and the responder can be used there too."""
    assert openflow.read_features(BRIDGE) == DatapathFeatures(nd_extension=False)
    answer = flow(21, 1, "icmp6,icmp_type=135", "set_field:2->nd_options_type,IN_PORT", cookie=COOKIE)
    with pytest.raises(FlowsRejected) as caught:
        openflow.apply_flows(BRIDGE, add=[answer], delete=[])
    assert caught.value.reasons == {answer.key: "OFPBAC_BAD_SET_ARGUMENT"}


@pytest.mark.parametrize("name", VARIANTS)
def test_flows_are_accepted_and_read_back_equal(openflow: OvsOfctl, name: str) -> None:
    host = hosts(openflow.read_features(BRIDGE))[name]
    assert host.desired is not None
    rendered = host.renderer.render(host.desired)
    for bridge, wanted in rendered.flows.items():
        meters = rendered.meters.get(bridge, {})
        openflow.apply_meters(BRIDGE, add=meters, change={}, delete=())
        planned = plan(BRIDGE, wanted, openflow.read_flows(BRIDGE, COOKIE, COOKIE_MASK))
        openflow.apply_flows(BRIDGE, add=planned.set, delete=planned.delete)
        assert not plan(BRIDGE, wanted, openflow.read_flows(BRIDGE, COOKIE, COOKIE_MASK))
        assert openflow.read_meters(BRIDGE) == meters
        openflow.apply_meters(BRIDGE, add={}, change={}, delete=meters)
