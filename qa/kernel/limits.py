"""Bandwidth limits on the kernel datapath, measured with iperf3: meters for egress of an instance, htb for ingress, nft for
a floating IP.

Rates are low, as an emulated machine forwards few packets: too few for the lowest packet rate limit, 1,000 per second.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from qa.kernel.cloud import instances_on_both_hosts
from tests.support.lab import open_group
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON, Guest, Spec, make_guests
from tests.support.lab_qos import Policy, about, classes, limited_policy, meters, routed_rate, stream, udp
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    external_network,
    floating_ip,
    make_router,
    tenant_network,
    wait_until_reachable,
)

RATE = 1_000  # kbit/s
SECONDS = 10
TOLERANCE = 0.15
UDP = ("-u", "-b", "2M", "-l", "1000")


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[tuple[Guest, Guest]]:
    with instances_on_both_hosts(lab) as made:
        yield made


@pytest.fixture
def policy(lab: Lab, pair: tuple[Guest, Guest]) -> Iterator[Policy]:
    made = Policy(lab, "gold")
    pair[0].update(qos_policy_id=made.id)
    yield made
    pair[0].update(qos_policy_id=None)
    made.delete()
    wait_until(lambda: not meters(lab, "h1"), SOON, "meters are left")
    wait_until(lambda: "htb" not in classes(lab, "h1", pair[0].vm.switch_device), SOON, "classes are left")


@pytest.mark.parametrize("options", [(), UDP], ids=["tcp", "udp"])
def test_what_an_instance_sends_is_limited_by_a_meter(
    lab: Lab, pair: tuple[Guest, Guest], policy: Policy, options: tuple[str, ...]
) -> None:
    policy.set("bandwidth_limit", direction="egress", max_kbps=RATE)
    wait_until(lambda: RATE in {rate for _, rate, _ in meters(lab, "h1").values()}, SOON, "there is no meter")
    about(lambda: stream(*pair, *options, seconds=SECONDS).mbits(), RATE / 1000, TOLERANCE)


def test_what_an_instance_receives_is_limited_by_a_queue(lab: Lab, pair: tuple[Guest, Guest], policy: Policy) -> None:
    policy.set("bandwidth_limit", direction="ingress", max_kbps=RATE)
    wait_until(lambda: "ceil 1Mbit" in classes(lab, "h1", pair[0].vm.switch_device), SOON, "there is no class")
    here, there = pair
    about(lambda: stream(there, here, *UDP, seconds=SECONDS).mbits(), RATE / 1000, TOLERANCE)


def test_a_floating_ip_is_limited_by_its_router(lab: Lab) -> None:
    with cleaned(lab):
        group, out, blue = open_group(lab), external_network(lab), tenant_network(lab, "blue", 1, six=False)
        make_router(lab, out, blue)
        (guest,) = make_guests(lab, Spec("guest", blue, "h1", [group]))
        policy = limited_policy(lab, "gold", ingress=RATE, egress=2 * RATE)
        address = floating_ip(lab, out, guest.port_id, qos_policy_id=policy["id"])["floating_ip_address"]
        wait_until_reachable(lab, "guest", MACHINE, 3 * SOON)
        wait_until_reachable(lab, EXTERNAL, address)
        about(lambda: routed_rate(lab, EXTERNAL, "guest", address, *udp(RATE)), RATE, TOLERANCE)
        about(lambda: routed_rate(lab, EXTERNAL, "guest", address, *udp(2 * RATE), "-R"), 2 * RATE, TOLERANCE)
