"""VPN, trunks and taps on the kernel datapath, each by its main case: all cases are tested in `tests.lab`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from neutrino.dataplane.xfrm import has_esp
from neutrino.lab.errors import wait_until
from qa.kernel.cloud import instances_on_both_hosts
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_frames import FrameCapture, honest, send
from tests.support.lab_guests import EVERYTHING, PATIENCE, SOON, Spec, make_group, make_guests, make_network
from tests.support.routing_lab import (
    can_ping,
    external_network,
    host_of,
    reaches,
    wait_until_reachable,
)
from tests.support.trunk_lab import GREEN, PARENT, RED, made_site
from tests.support.vpn_lab import made, make_site


@pytest.fixture(autouse=True)
def clean_lab(lab: Lab) -> Iterator[None]:
    with cleaned(lab):
        yield


def test_the_kernel_encrypts_and_nothing_leaves_in_clear(lab: Lab) -> None:
    assert has_esp()
    out = external_network(lab)
    left, right = (
        make_site(lab, out, name, number, lambda router: host_of(lab, router))
        for number, name in enumerate(("left", "right"), 1)
    )
    ike, ipsec = made(lab, "ikepolicies", "ikepolicy", ike_version="v2"), made(lab, "ipsecpolicies", "ipsecpolicy")
    both = left.connect(right, ike, ipsec), right.connect(left, ike, ipsec)
    for site, connection in zip((left, right), both, strict=True):
        site.wait_for(connection, "ACTIVE")
    with left.wire() as wire:
        assert reaches(lab, "left", right.instance)
        wire.wait_for(f"{left.external} > {right.external}: ESP")
    assert right.instance not in wire.text
    left.update(both[0], admin_state_up=False)
    left.wait_for(both[0], "DOWN")
    with left.wire() as wire:
        assert not can_ping(lab, "left", right.instance)
        assert reaches(lab, "left", "203.0.113.1")  # other packets leave, translated
        wire.wait_for("203.0.113.1: ICMP echo request")
    assert right.instance not in wire.text
    left.update(both[0], admin_state_up=True)
    wait_until_reachable(lab, "left", right.instance)
    for connection in both:
        lab.api.request("DELETE", f"/v2.0/vpn/ipsec-site-connections/{connection['id']}")
    for site in (left, right):
        lab.api.request("DELETE", f"/v2.0/vpn/vpnservices/{site.service['id']}")


def test_subports_of_a_trunk_are_on_their_own_networks(lab: Lab) -> None:
    with made_site(lab) as site:
        lab.api.update("port", site.ports[RED]["id"], security_groups=[site.closed])
        site.wait_until_cut(RED)
        assert site.is_reached(GREEN)
        assert site.is_reached(PARENT)


def test_a_monitor_on_another_host_gets_copies(lab: Lab) -> None:
    with instances_on_both_hosts(lab) as (here, there):
        group, _ = make_group(lab, "monitors", *EVERYTHING)
        (monitor,) = make_guests(lab, Spec("monitor", make_network(lab, "other"), "h2", [group]))
        project = here.port["project_id"]
        given = {"project_id": project, "port_id": monitor.port_id}
        service = lab.api.request("POST", "/v2.0/taas/tap_services", {"tap_service": given})["tap_service"]
        flow = {
            "project_id": project,
            "tap_service_id": service["id"],
            "source_port": here.port_id,
            "direction": "BOTH",
        }
        lab.api.request("POST", "/v2.0/taas/tap_flows", {"tap_flow": flow})

        def is_copied() -> bool:
            mark = secrets.token_hex(8).encode()
            with FrameCapture(there) as original, FrameCapture(monitor) as copy:
                send(here, honest(here, there)(mark))
                assert original.receives(mark, PATIENCE)
                return copy.receives(mark, PATIENCE)

        wait_until(is_copied, SOON, "the monitor gets no copies")
        lab.api.request("DELETE", f"/v2.0/taas/tap_services/{service['id']}")
