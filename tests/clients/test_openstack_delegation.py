"""The `openstack` command on subnets whose prefix is delegated."""

from __future__ import annotations

from tests.clients.shell import Shell

MODES = "--ip-version 6 --ipv6-ra-mode slaac --ipv6-address-mode slaac"


def test_a_subnet_that_waits_for_its_prefix(shell: Shell) -> None:
    shell("network create waiting")
    made = shell.json(f"subnet create delegated --network waiting {MODES} --use-prefix-delegation")
    assert (made["cidr"], made["gateway_ip"], made["subnetpool_id"]) == ("::/64", "::1", "prefix_delegation")
    assert "gateway_ip" in shell.refused("subnet set delegated --gateway 2001:db8::1")
    stateful = MODES.replace("slaac", "dhcpv6-stateful")
    refused = shell.refused(f"subnet create other --network waiting {stateful} --use-prefix-delegation")
    assert "ipv6_ra_mode" in refused
    shell("subnet delete delegated")
    shell("network delete waiting")
