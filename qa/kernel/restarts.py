"""The agent and the switch killed on the kernel datapath, under ping: flows stay in the kernel, or are restored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from qa.kernel.cloud import instances_on_both_hosts
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_guests import Guest, flows, wait_until_reachable

INTERVAL = 0.1
FALLBACK = ("gre0", "gretap0", "erspan0")  # devices that the kernel's GRE module makes in each namespace
SWITCH_SECONDS = 60.0


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[tuple[Guest, Guest]]:
    with instances_on_both_hosts(lab, **{"provider:network_type": "gre"}) as made:
        yield made


def test_no_packet_is_lost_while_the_agent_is_killed(lab: Lab, pair: tuple[Guest, Guest]) -> None:
    here, there = pair
    with Pinging(lab, here.name, there.addresses[4], INTERVAL) as ping:
        lab.stop_agent("h1", kill=True)
        lab.start_agent("h1")
    assert (ping.lost, ping.sent > 5) == (0, True)


def test_flows_are_restored_when_the_switch_was_killed(lab: Lab, pair: tuple[Guest, Guest]) -> None:
    here, there = pair
    before = _flows(lab)
    with Pinging(lab, here.name, there.addresses[4], INTERVAL) as ping:
        lab.stop_ovs("h1", kill=True, database=False)
        lab.start_ovs("h1")
        wait_until(lambda: _flows(lab) == before, SWITCH_SECONDS, "h1 has other flows than before")
        wait_until_reachable(here, there, timeout=SWITCH_SECONDS)
        wait_until_reachable(there, here, 6, timeout=SWITCH_SECONDS)
        answered = max(ping.received)
        wait_until(lambda: max(ping.received) > answered, SWITCH_SECONDS, "the ping that ran meanwhile is not answered")


def _flows(lab: Lab) -> set[str]:
    return {line for bridge in ("br-int", "br-tun") for line in flows(lab, "h1", bridge).splitlines()}


def test_verify_finds_no_drift_beside_devices_of_the_kernel(lab: Lab, pair: tuple[Guest, Guest]) -> None:
    for host in lab.hosts:
        devices = lab.run(host, ["ip", "-br", "link"]).stdout
        for name in FALLBACK:
            assert f"{name}@" in devices or f"{name} " in devices, f"{host} has no {name}"
        found = lab.run(host, lab.agent_command(host, "verify"), check=False)
        assert found.returncode == 0, found.stdout + found.stderr
