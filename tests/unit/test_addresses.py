"""Addresses and prefixes that others give: IPv4-mapped IPv6 is refused, and nothing parses texts past the one place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import neutrino.features
from neutrino.features.address_group.collection import parse_addresses
from neutrino.features.bgp import resources as bgp
from neutrino.features.firewall.resources import parse_address as firewall_address
from neutrino.features.metering import resources as metering
from neutrino.features.taas.resources import parse_collector
from neutrino.features.vpn import resources as vpn
from neutrino.model import fields
from neutrino.model.addresses import parse_address, parse_interface, parse_network, tunnel_address_fault
from neutrino.server.api import types as t
from neutrino.server.api.resources import common, port, security_group, subnet

MAPPED = ("::ffff:127.0.0.1", "::FFFF:7f00:1", "0:0:0:0:0:ffff:a9fe:a9fe", "::ffff:0.0.0.0")
PREFIXES = ("::ffff:0:0/96", "::ffff:10.0.0.0/104", "::ffff:169.254.169.254/128")
NEAR = ("::fffe:7f00:1", "::1:0:0", "2001:db8::ffff:10.0.0.1", "64:ff9b::7f00:1", "127.0.0.1")


def test_addresses() -> None:
    for text in (*MAPPED, "fe80::1%eth0", "10.0.0.1/24", ""):
        with pytest.raises(ValueError):
            parse_address(text)
    assert [str(parse_address(text)) for text in NEAR[2:]] == ["2001:db8::ffff:a00:1", "64:ff9b::7f00:1", "127.0.0.1"]
    assert all(parse_address(text) for text in NEAR)


@pytest.mark.parametrize("parse", [parse_network, parse_interface])
def test_prefixes(parse: Callable[[str], Any]) -> None:
    for text in (*MAPPED, *PREFIXES, "fe80::/64%eth0"):
        with pytest.raises(ValueError):
            parse(text)
    for text in (
        "::/0",
        "::/64",
        "::fffe:0:0/96",
        "0.0.0.0/0",
        *NEAR,
    ):  # that mapped addresses are in it does not matter
        parse(text)


def pool(text: str) -> Any:
    return subnet.parse_pools([{"start": text, "end": text}])


ADDRESSES: dict[str, Callable[[str], Any]] = {
    "address": t.IpAddress().parse,
    "allocation pool": pool,
    "collector of a tap mirror": parse_collector,
    "next hop": lambda text: common.ROUTE.parse({"destination": "10.0.0.0/24", "nexthop": text}),
    "fixed IP": lambda text: port.parse_fixed_ips([{"ip_address": text}]),
    "BGP peer": bgp.BGP_PEER.by_name["peer_ip"].type.parse,
    "name server": lambda text: subnet.SUBNET.by_name["dns_nameservers"].type.parse([text]),
}
ANY: dict[str, Callable[[str], Any]] = {
    "address pair": port.parse_pair_address,
    "remote prefix": security_group.parse_prefix,
    "address group": lambda text: parse_addresses({"addresses": [text]}),
    "metering": metering.parse_prefix,
    "firewall rule": firewall_address,
}
CIDRS: dict[str, Callable[[str], Any]] = {
    "prefix": t.Cidr().parse,
    "route": lambda text: common.ROUTE.parse({"destination": text, "nexthop": "10.0.0.1"}),
    "subnet of a VPN peer": vpn.parse_cidr,
}


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *((parse, text) for parse in (ADDRESSES | ANY).values() for text in MAPPED),
        *((parse, text) for parse in (CIDRS | ANY).values() for text in PREFIXES),
    ],
)
def test_the_api_refuses_them_everywhere(parse: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(Exception) as refused:
        parse(text)
    assert isinstance(refused.value, t.Invalid | t.Unconvertible) or getattr(refused.value, "status", 0) == 400


def test_ordinary_ones_are_accepted() -> None:
    for parse in (ADDRESSES | ANY).values():
        parse("192.0.2.9")
    for parse in (CIDRS | ANY).values():
        parse("2001:db8::/64")


@pytest.mark.parametrize("text", MAPPED)
def test_hosts_neither_report_nor_send_to_them(text: str) -> None:
    assert tunnel_address_fault(text)
    assert not fields.is_peer(text)


def test_texts_of_clients_are_parsed_in_one_place() -> None:
    """Elsewhere in the API, `ipaddress` gets only texts that were parsed before."""
    known = {
        "taas/resources.py": 1,  # after IpAddress
        "vpn/resources.py": 1,  # after Cidr
        "stages/query_string.py": 1,  # a filter, which is compared and stored nowhere
    }
    api, features = Path(t.__file__).parent, Path(neutrino.features.__file__).parent
    found = {
        str(path.relative_to(folder)): len(re.findall(r"\bip_(?:address|network|interface)\(", path.read_text()))
        for folder, pattern in ((api, "*.py"), (features, "resources.py"))
        for path in folder.rglob(pattern)
    }
    assert {name: number for name, number in found.items() if number} == known
