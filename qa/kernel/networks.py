"""Networks of every type on the kernel datapath, wired by the agents of two hosts: leases, metadata, pings and TCP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.lab import address, connects, listening, network, open_group, pings
from tests.support.lab_cleanup import clean
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    EVERYTHING,
    Spec,
    allow,
    attempts,
    can_ping,
    connections,
    expect,
    make_group,
    make_guests,
    make_network,
    wait_to_fall_silent,
)
from tests.support.lab_metadata import wait_for_metadata

VERSIONS = (4, 6)
TYPES: dict[str, dict[str, Any]] = {
    "vxlan": {},
    "gre": {},
    "geneve": {},
    "vlan": {"provider:physical_network": "physnet1", "provider:segmentation_id": 120},
    "flat": {"provider:physical_network": "physnet1"},
}
WEB, OTHER = 80, 81
METADATA_SECONDS = 20.0


@pytest.fixture(autouse=True)
def cleaned(lab: Lab) -> Iterator[None]:
    yield
    clean(lab)


@pytest.mark.parametrize("kind", TYPES)
def test_instances_on_two_hosts(lab: Lab, kind: str) -> None:
    """One DHCP server, on an internal port, leases to both: its replies need their checksum, also through a tunnel."""
    everybody, values = open_group(lab), {"provider:network_type": kind, **TYPES[kind]}
    net = network(lab, kind, enable_dhcp=True, **values)
    for host in lab.hosts:
        lab.vm(f"on-{host}", network=net["id"], host=host, security_groups=[everybody])
    first, second = (f"on-{host}" for host in lab.hosts)
    wait_for_metadata(lab, first, METADATA_SECONDS)
    for source, target in ((first, second), (second, first)):
        for version in VERSIONS:
            assert pings(lab, source, address(lab, target, version)), (source, version)
            with listening(lab, target, WEB):
                assert connects(lab, source, address(lab, target, version), WEB), (source, version)


@pytest.mark.parametrize("driver", ["openvswitch", "iptables_hybrid"])
def test_security_groups(lab: Lab, driver: str) -> None:
    """A rule admits its port and no other, and its connections end with it."""
    hybrid = driver == "iptables_hybrid"
    if hybrid:
        lab.stop_agent("h2")
        lab.start_agent("h2", {"securitygroup": {"firewall_driver": driver}})
    everybody, _ = make_group(lab, "open", *EVERYTHING)
    web, rules = make_group(lab, "web", *(allow("tcp", WEB, ethertype=f"IPv{version}") for version in VERSIONS))
    net = make_network(lab, "blue")
    client, near, server = make_guests(
        lab,
        Spec("client", net, "h1", [everybody]),
        Spec("near", net, "h2", [everybody]),
        Spec("server", net, "h2", [web]),
    )
    assert server.vm.hybrid == hybrid
    allowed, dropped = attempts([client, near], [server], WEB), attempts([client, near], [server], OTHER)
    expect(allowed, dropped)
    assert not can_ping(client, server)
    with contextlib.ExitStack() as stack:
        ending = connections(stack, allowed)
        for rule in rules:
            lab.api.delete("security_group_rule", rule)
        wait_to_fall_silent(*ending)
    expect(attempts(server, [client, near]), allowed)
