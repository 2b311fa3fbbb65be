"""The driver rfc2136 against BIND: its contract, its refusals, and records of ports and floating IPs of a real server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.errors import RefusedToStart
from neutrino.features.dns.driver_api import ForeignRecords, RecordSet, Refused
from neutrino.features.dns.rfc2136 import Rfc2136
from neutrino.server.config import configuration
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, gateway, inside, outside
from tests.support import dns_contract
from tests.support.databases import prepared_sqlite
from tests.support.dns_contract import NONE, Subject
from tests.support.named import Named
from tests.support.waiting import eventually

Options = dict[str, object]


@pytest.fixture(scope="module")
def named() -> Iterator[Named]:
    with Named(read_only=["readonly.example"]) as server:
        yield server


@pytest.fixture
def make(tmp_path: Path) -> Callable[[Options], Rfc2136]:
    def driver(options: Options) -> Rfc2136:
        path = tmp_path / "neutrino.conf"
        path.write_text("[rfc2136]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
        return Rfc2136(configuration([str(path)]))

    return driver


@pytest.mark.parametrize("case", dns_contract.CASES, ids=lambda case: case.__name__)
def test_contract(case: Callable[[Subject], None], named: Named, make: Callable[[Options], Rfc2136]) -> None:
    case(Subject(make(named.options()), named.look, named.put, named.halt, named.start))


def test_the_key_in_options(named: Named, make: Callable[[Options], Rfc2136]) -> None:
    options = named.options() | {"tsig_name": "neutrino", "tsig_secret": named.secret}
    del options["tsig_key_file"]
    record_set = RecordSet("p", "example.net.", "by-options.example.net.", "A")
    make(options).replace(record_set, frozenset({"192.0.2.1"}), NONE)
    assert named.look(record_set.name) == {"192.0.2.1"}
    with pytest.raises(Refused, match="TSIG key other"):
        make(options | {"tsig_name": "other"}).replace(record_set, NONE, frozenset({"192.0.2.1"}))
    unsigned = named.options() | {"tsig_key_file": ""}
    with pytest.raises(Refused, match="REFUSED"):
        make(unsigned).replace(record_set, NONE, frozenset({"192.0.2.1"}))
    assert named.look(record_set.name) == {"192.0.2.1"}


def test_a_zone_that_may_not_be_written(named: Named, make: Callable[[Options], Rfc2136]) -> None:
    driver = make(named.options() | {"zones": "readonly.example,elsewhere.example"})
    for zone, answer in (("readonly.example.", "REFUSED"), ("elsewhere.example.", "REFUSED|NOTAUTH|authoritative")):
        with pytest.raises(Refused, match=answer):
            driver.replace(RecordSet("p", zone, f"www.{zone}", "A"), frozenset({"192.0.2.1"}), NONE)


def test_a_domain_within_a_zone(named: Named, make: Callable[[Options], Rfc2136]) -> None:
    record_set = RecordSet("p", "team.example.net.", "www.team.example.net.", "A")
    make(named.options()).replace(record_set, frozenset({"192.0.2.1"}), NONE)
    assert named.look(record_set.name) == {"192.0.2.1"}


def test_an_alias_stays(named: Named, make: Callable[[Options], Rfc2136]) -> None:
    named.put("alias.example.net.", "CNAME", {"ns.example.net."})
    driver, record_set = make(named.options()), RecordSet("p", "example.net.", "alias.example.net.", "A")
    with pytest.raises(ForeignRecords, match="CNAME"):
        driver.replace(record_set, frozenset({"192.0.2.1"}), NONE)
    assert named.look("alias.example.net.", "CNAME") == {"ns.example.net."}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"zones": ""}, "zones is empty"),
        ({"zones": "a..b"}, "is not a domain"),
        ({"tsig_key_file": "/nonexistent"}, "No such file"),
        ({"tsig_key_file": "/dev/null"}, "no key"),
        ({"tsig_secret": "c2VjcmV0"}, "both set"),
        ({"tsig_key_file": "", "tsig_secret": "c2VjcmV0"}, "tsig_name is not set"),
        ({"tsig_key_file": "", "tsig_secret": "not base64", "tsig_name": "n"}, "base64"),
    ],
)
def test_refused_values(named: Named, make: Callable[[Options], Rfc2136], more: Options, message: str) -> None:
    with pytest.raises(RefusedToStart, match=message):
        make(named.options() | more)


def test_the_server_is_required(make: Callable[[Options], Rfc2136]) -> None:
    with pytest.raises(RefusedToStart, match="server is not set"):
        make({"zones": "example.net"})


# --- a server ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def admin(named: Named, tmp_path: Path) -> Iterator[Api]:
    settings = {
        "DEFAULT": {"external_dns_driver": "rfc2136"},
        "rfc2136": {name: str(value) for name, value in named.options().items()},
    }
    server = start(tmp_path, prepared_sqlite(tmp_path / "neutrino.sqlite"), settings)
    with contextlib.closing(server):
        yield Api(server.app).as_admin()


def address(port: dict[str, Any], colon: bool = False) -> str:
    return next(str(f["ip_address"]) for f in port["fixed_ips"] if (":" in f["ip_address"]) is colon)


def provider_network(admin: Api) -> dict[str, Any]:
    network = admin.network(
        provider__network_type="vlan",
        provider__physical_network="physnet1",
        provider__segmentation_id=1000,
        dns_domain="example.net.",
    )
    admin.subnet(network, "192.0.2.0/24")
    admin.subnet(network, "2001:db8::/64", ipv6_address_mode="dhcpv6-stateful", ipv6_ra_mode="dhcpv6-stateful")
    return network


def test_a_port_from_create_to_delete(named: Named, admin: Api) -> None:
    port = admin.port(provider_network(admin), dns_name="vm")
    eventually(lambda: named.look("vm.example.net.") == {address(port)})
    eventually(lambda: named.look("vm.example.net.", "AAAA") == {address(port, True)})
    admin.change("port", port["id"], dns_name="renamed")
    eventually(lambda: named.look("renamed.example.net.") == {address(port)})
    eventually(lambda: not named.look("vm.example.net.") and not named.look("vm.example.net.", "AAAA"))
    admin.change("port", port["id"], fixed_ips=[{"ip_address": "192.0.2.200"}])
    eventually(lambda: named.look("renamed.example.net.") == {"192.0.2.200"})
    eventually(lambda: not named.look("renamed.example.net.", "AAAA"))
    admin.delete(f"/ports/{port['id']}").expect(204)
    eventually(lambda: not named.look("renamed.example.net."))


def test_a_floating_ip(named: Named, admin: Api) -> None:
    external = outside(admin, "172.24.0.0/24")
    network, subnet = inside(admin)
    admin.change("network", network["id"], dns_domain="example.com.")
    router = admin.make("router", external_gateway_info=gateway(external))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    port = admin.port(network, dns_name="www")
    floating = admin.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    eventually(lambda: named.look("www.example.com.") == {floating["floating_ip_address"]})
    admin.change("floatingip", floating["id"], port_id=None)
    eventually(lambda: not named.look("www.example.com."))


def test_a_name_server_that_was_down(named: Named, admin: Api) -> None:
    network = provider_network(admin)
    gone = admin.port(network, dns_name="gone")
    eventually(lambda: named.look("gone.example.net."))
    named.halt()
    try:
        port = admin.port(network, dns_name="delayed")
        admin.delete(f"/ports/{gone['id']}").expect(204)
    finally:
        named.start()
    eventually(lambda: named.look("delayed.example.net.") == {address(port)})
    eventually(lambda: not named.look("gone.example.net."))


def test_a_record_of_others_stays(named: Named, admin: Api) -> None:
    network = provider_network(admin)
    named.put("mail.example.net.", "A", {"203.0.113.5"})
    port = admin.port(network, dns_name="mail")
    eventually(lambda: named.look("mail.example.net.", "AAAA") == {address(port, True)})  # its A is tried first or next
    marker = admin.port(network, dns_name="marker")
    eventually(lambda: named.look("marker.example.net.") == {address(marker)})
    assert named.look("mail.example.net.") == {"203.0.113.5"}
    admin.delete(f"/ports/{port['id']}").expect(204)
    eventually(lambda: not named.look("mail.example.net.", "AAAA"))
    admin.delete(f"/ports/{marker['id']}").expect(204)
    eventually(lambda: not named.look("marker.example.net."))
    assert named.look("mail.example.net.") == {"203.0.113.5"}
