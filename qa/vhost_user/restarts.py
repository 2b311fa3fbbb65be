"""vhost-user ports while the switch, the agent and QEMU end and start again, and when an instance is deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from neutrino.lab.errors import wait_until
from qa.vhost_user.cloud import Cloud
from qa.vhost_user.instance import SOON, boot
from qa.vhost_user.switch import HOST
from tests.support.lab import Pinging, address, pings
from tests.support.lab_guests import flows, ofport

VERSIONS = (4, 6)
INTERVAL = 0.1  # between pings


def all_flows(cloud: Cloud) -> dict[str, set[str]]:
    return {bridge: set(flows(cloud.lab, HOST, bridge).splitlines()) for bridge in ("br-int", "br-tun")}


def wait_until_all_reach_each_other(cloud: Cloud) -> None:
    for version in VERSIONS:
        for guest in (cloud.first, cloud.second):
            for name in (cloud.near, cloud.far):
                target = guest.address(version)
                _until(partial(pings, cloud.lab, name, target), f"{name} to {guest.name}")
        other = cloud.second.address(version)
        _until(partial(cloud.first.pings, other), "the first guest to the second")


def _until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, SOON, f"no ping passes from {what}")


@pytest.mark.parametrize("how", ["stopped", "killed", "killed with its database"])
def test_the_switch(cloud: Cloud, how: str) -> None:
    """The guests run on: QEMU listens, and the switch connects to it again. Flows come back, and so do packets."""
    lab = cloud.lab
    wait_until_all_reach_each_other(cloud)
    before = all_flows(cloud)
    lab.stop_ovs(HOST, kill=how != "stopped", database="database" in how)
    began = time.monotonic()
    lab.start_ovs(HOST)
    started = time.monotonic() - began
    _until(lambda: pings(lab, cloud.near, cloud.first.address(), 1), "near to the first guest")
    print(f"{how}: started in {started:.1f} s, first ping after {time.monotonic() - began:.1f} s")
    wait_until_all_reach_each_other(cloud)
    wait_until(lambda: all_flows(cloud) == before, SOON, "there are other flows than before")
    for guest in (cloud.first, cloud.second):
        guest.wait_for_status("ACTIVE")
    found = lab.run(HOST, lab.agent_command(HOST, "verify"), check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_agent(cloud: Cloud) -> None:
    """No packet is lost, by the tunnel and on the bridge, and the port stays ACTIVE."""
    lab = cloud.lab
    with (
        Pinging(lab, cloud.far, cloud.first.address(), INTERVAL) as far,
        Pinging(lab, cloud.near, cloud.second.address(), INTERVAL) as near,
    ):
        lab.stop_agent(HOST, kill=True)
        lab.start_agent(HOST)
    print(far, near)
    assert (far.lost, near.lost) == (0, 0)
    assert far.sent > 5
    assert cloud.first.port["status"] == "ACTIVE"


def test_qemu(cloud: Cloud) -> None:
    """The same port serves the guest's next run: reboot by Nova."""
    first = cloud.first
    before = all_flows(cloud)
    first.stop()
    switch = cloud.lab.ovs(HOST)
    state = ("get", "Interface", first.device, "link_state")
    wait_until(lambda: switch.vsctl(*state).strip() == "down", SOON, "the switch sees the link up")
    first.start()
    first.guest.wait_until_booted()
    first.wait_for_addresses()
    wait_until_all_reach_each_other(cloud)
    assert all_flows(cloud) == before


def test_unplugged_and_plugged_again(cloud: Cloud) -> None:
    """DOWN while it is unplugged; the guest that runs on has its network back afterwards."""
    second = cloud.second
    before = all_flows(cloud)
    second.unplug()
    second.wait_for_status("DOWN")
    assert not pings(cloud.lab, cloud.near, second.address(), 1)
    second.plug()
    second.wait_for_status("ACTIVE")
    wait_until_all_reach_each_other(cloud)
    wait_until(lambda: len(all_flows(cloud)["br-int"]) == len(before["br-int"]), SOON, "there are other flows")


def test_a_socket_of_the_switch(cloud: Cloud) -> None:
    """The other way round, type dpdkvhostuser: the switch listens, and QEMU connects. Deleted, nothing is left of it."""
    lab = cloud.lab
    before = all_flows(cloud)
    third = cloud.instance("third", mode="client")
    try:
        boot(third)
        third.wait_for_addresses()
        for version in VERSIONS:
            assert third.pings(cloud.first.address(version))
            assert pings(lab, cloud.far, third.address(version))
        print(f"ports of the switch: {third.device} is {ofport(lab, HOST, third.port_id)}")
    finally:
        third.destroy()
        lab.api.delete("port", third.port_id)
    wait_until(lambda: all_flows(cloud) == before, SOON, "flows of a deleted port are left")
    assert third.name not in [each["name"] for each in lab.api.list("port")]
    found = lab.run(HOST, lab.agent_command(HOST, "verify"), check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert pings(lab, cloud.near, address(lab, cloud.far))
