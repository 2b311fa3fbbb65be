"""Which DNS records ports and floating IPs want: Neutron's rules as tables of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neutrino.features.dns.wanted import (
    Caller,
    NamedFloatingIp,
    NamedNetwork,
    NamedPort,
    ProjectRanges,
    Record,
    publishes_ports,
    records_of_floating_ip,
    records_of_port,
)
from neutrino.server.ml2.driver_api import Segment

RANGES = ProjectRanges(
    {"vxlan": [(1, 100), (200, 300)], "gre": [], "geneve": [(1, 10)]}, {"physnet1": [(100, 199)], "physnet2": []}
)
FLAT = Segment("flat", "physnet1")
NETWORK = NamedNetwork("n", "net.example.", False, (FLAT,))
PORT = NamedPort("p", "project", "www", "", NETWORK, (("s4", "192.0.2.5"), ("s6", "2001:db8:0::5")))
FLOATING = NamedFloatingIp("f", "owner", "198.51.100.7", "", "")


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (NETWORK, True),
        (replace(NETWORK, external=True), False),
        (replace(NETWORK, external=True, published_subnets=frozenset({"s4"})), True),
        (replace(NETWORK, segments=()), False),
        (replace(NETWORK, segments=(Segment("local"),)), False),
        (replace(NETWORK, segments=(Segment("vlan", "physnet1", 99),)), True),
        (replace(NETWORK, segments=(Segment("vlan", "physnet1", 100),)), False),
        (replace(NETWORK, segments=(Segment("vlan", "physnet1", 199),)), False),
        (replace(NETWORK, segments=(Segment("vlan", "physnet1", 200),)), True),
        (replace(NETWORK, segments=(Segment("vlan", "physnet2", 100),)), True),
        (replace(NETWORK, segments=(Segment("vlan", "physnet3", 100),)), True),
        (replace(NETWORK, segments=(Segment("vxlan", None, 100),)), False),
        (replace(NETWORK, segments=(Segment("vxlan", None, 150),)), True),
        (replace(NETWORK, segments=(Segment("vxlan", None, 250),)), False),
        (replace(NETWORK, segments=(Segment("gre", None, 7),)), True),
        (replace(NETWORK, segments=(Segment("geneve", None, 7),)), False),
        (replace(NETWORK, segments=(Segment("of-a-vendor", None, 7),)), False),
        (replace(NETWORK, segments=(Segment("vxlan", None, 7), Segment("vxlan", None, 8))), True),
        (replace(NETWORK, segments=(Segment("vxlan", None, 7),), published_subnets=frozenset({"s4"})), True),
    ],
)
def test_networks_whose_fixed_addresses_are_published(network: NamedNetwork, expected: bool) -> None:
    assert publishes_ports(network, RANGES) is expected


def names(records: frozenset[Record]) -> list[tuple[str, ...]]:
    return sorted(tuple(record) for record in records)


@pytest.mark.parametrize(
    ("port", "zone", "name"),
    [
        (PORT, "net.example.", "www.net.example."),
        (replace(PORT, dns_domain="own.example."), "own.example.", "www.own.example."),
        (replace(PORT, dns_name="WWW"), "net.example.", "www.net.example."),
        (replace(PORT, dns_name="a.net.example."), "net.example.", "a.net.example."),
        (replace(PORT, dns_domain="<project_id>.example."), "project.example.", "www.project.example."),
        (
            replace(
                PORT, dns_domain="<user_name>.<user_id>.<project_name>.example.", caller=Caller("Demo", "u1", "jo")
            ),
            "jo.u1.demo.example.",
            "www.jo.u1.demo.example.",
        ),
    ],
)
def test_a_port_has_a_record_for_each_address(port: NamedPort, zone: str, name: str) -> None:
    assert names(records_of_port(port, RANGES)) == [
        (zone, name, "A", "192.0.2.5"),
        (zone, name, "AAAA", "2001:db8::5"),  # in the canonical form, as a DNS service shows it
    ]


@pytest.mark.parametrize(
    "port",
    [
        replace(PORT, dns_name=""),
        replace(PORT, network=replace(NETWORK, dns_domain="")),
        replace(PORT, network=replace(NETWORK, external=True)),
        replace(PORT, addresses=()),
        replace(PORT, dns_name="www.other.example."),
        replace(PORT, dns_name="net.example."),  # the zone itself
        replace(PORT, dns_name="xnet.example."),  # ends like the zone, and is outside
        replace(PORT, dns_domain="<user_id>.example."),  # nobody knows the user
        replace(PORT, dns_domain="<user_name>.example.", caller=Caller(user_name="jo smith")),  # no label
        replace(PORT, dns_name="a" * 63, dns_domain=".".join(["b" * 63] * 3) + "."),  # 256 characters
    ],
)
def test_a_port_without_records(port: NamedPort) -> None:
    assert records_of_port(port, RANGES) == frozenset()


def test_addresses_of_published_subnets_come_alone() -> None:
    network = replace(NETWORK, published_subnets=frozenset({"s6"}))
    assert names(records_of_port(replace(PORT, network=network), RANGES)) == [
        ("net.example.", "www.net.example.", "AAAA", "2001:db8::5")
    ]
    elsewhere = replace(NETWORK, published_subnets=frozenset({"other"}))
    assert len(records_of_port(replace(PORT, network=elsewhere), RANGES)) == 2


TENANT_PORT = replace(PORT, network=replace(NETWORK, segments=(Segment("vxlan", None, 7),)))


@pytest.mark.parametrize(
    ("floating_ip", "expected"),
    [
        (FLOATING, None),
        (replace(FLOATING, dns_name="fip", dns_domain="own.example."), ("own.example.", "fip.own.example.")),
        (replace(FLOATING, port=TENANT_PORT), ("net.example.", "www.net.example.")),
        (
            replace(FLOATING, port=replace(TENANT_PORT, dns_domain="port.example.")),
            ("port.example.", "www.port.example."),
        ),
        (
            replace(FLOATING, dns_name="fip", dns_domain="own.example.", port=TENANT_PORT),
            ("own.example.", "fip.own.example."),
        ),
        (replace(FLOATING, dns_name="fip", port=TENANT_PORT), None),  # from before an external DNS was configured
        (replace(FLOATING, port=replace(TENANT_PORT, dns_name="")), None),
        (replace(FLOATING, port=replace(TENANT_PORT, network=replace(NETWORK, dns_domain=""))), None),
    ],
)
def test_floating_ips(floating_ip: NamedFloatingIp, expected: tuple[str, str] | None) -> None:
    found = names(records_of_floating_ip(floating_ip))
    assert found == ([] if expected is None else [(*expected, "A", "198.51.100.7")])
