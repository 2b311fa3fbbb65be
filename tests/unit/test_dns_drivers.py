"""DNS drivers without a DNS server: the contract on the fake driver and on Designate's, PTR records, credentials."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neutrino.errors import RefusedToStart
from neutrino.features.dns.designate import Answer, Designate, ReverseZones
from neutrino.features.dns.driver_api import Incomplete, RecordSet, Refused, Unreachable
from neutrino.server.config import configuration
from tests.fakes.designate import SERVICE_PROJECT, TOKEN, FakeDesignate
from tests.fakes.dns import FakeDns
from tests.support import dns_contract
from tests.support.dns_contract import NONE, Subject

WWW = RecordSet("project-1", "example.net.", "www.example.net.", "A")
Make = Callable[..., Designate]


@pytest.fixture
def designate() -> Iterator[FakeDesignate]:
    with FakeDesignate() as fake:
        fake.add_zone("example.net.", "project-1")
        yield fake


@pytest.fixture
def make(designate: FakeDesignate, tmp_path: Path) -> Make:
    def driver(**more: object) -> Designate:
        path = tmp_path / "neutrino.conf"
        options = {"auth_type": "admin_token", "token": TOKEN, "endpoint": designate.url, "url": designate.url} | more
        path.write_text("[designate]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
        return Designate(configuration([str(path)]))

    return driver


@pytest.mark.parametrize("case", dns_contract.CASES, ids=lambda case: case.__name__)
def test_contract_of_the_fake(case: Callable[[Subject], None]) -> None:
    fake = FakeDns()

    def put(name: str, type_: str, values: set[str]) -> None:
        fake.records[name, type_] = frozenset(values)

    def turn(down: bool) -> Callable[[], None]:
        return lambda: setattr(fake, "is_down", down)

    case(Subject(fake, fake.of, put, turn(True), turn(False)))


@pytest.mark.parametrize("case", dns_contract.CASES, ids=lambda case: case.__name__)
def test_contract_of_designate(case: Callable[[Subject], None], designate: FakeDesignate, make: Make) -> None:
    def turn(down: bool) -> Callable[[], None]:
        return lambda: setattr(designate, "is_down", down)

    case(Subject(make(), designate.look, designate.put, turn(True), turn(False)))


def test_a_zone_of_another_project(designate: FakeDesignate, make: Make) -> None:
    stranger = WWW._replace(project_id="project-2")
    with pytest.raises(Refused, match=r"project project-2 has no zone example\.net\."):
        make().replace(stranger, frozenset({"192.0.2.1"}), NONE)
    assert designate.look("www.example.net.") == set()
    assert {project for _, _, project in designate.requests} == {"project-2"}


def test_reverse_records(designate: FakeDesignate, make: Make) -> None:
    driver, both = make(), frozenset({"192.0.2.1", "192.0.2.2"})
    driver.replace(WWW, both, NONE)
    assert designate.look("1.2.0.192.in-addr.arpa.", "PTR") == {"www.example.net."}
    (zone,) = [zone for zone in designate.zones.values() if zone.project_id == SERVICE_PROJECT]
    assert (zone.name, zone.email) == ("2.0.192.in-addr.arpa.", "admin@example.net")
    driver.replace(WWW, frozenset({"192.0.2.2"}), both)
    assert designate.look("1.2.0.192.in-addr.arpa.", "PTR") == set()
    assert designate.look("2.2.0.192.in-addr.arpa.", "PTR") == {"www.example.net."}
    six = WWW._replace(type="AAAA")
    driver.replace(six, frozenset({"2001:db8::1"}), NONE)
    pointers = [name for name in _names(designate) if name.endswith("ip6.arpa.")]
    assert pointers == ["1." + "0." * 23 + "8.b.d.0.1.0.0.2.ip6.arpa."]
    driver.replace(six, NONE, frozenset({"2001:db8::1"}))
    driver.replace(WWW, NONE, both)
    assert _names(designate) == []


def test_private_addresses_have_no_reverse_records(designate: FakeDesignate, make: Make) -> None:
    driver, both, private = make(), frozenset({"192.0.2.1", "192.0.2.2"}), frozenset({"192.0.2.1"})
    driver.replace(WWW, both, NONE, private)
    assert designate.look("www.example.net.") == both
    assert designate.look("1.2.0.192.in-addr.arpa.", "PTR") == set()
    assert designate.look("2.2.0.192.in-addr.arpa.", "PTR") == {"www.example.net."}
    driver.replace(WWW, both, both)
    driver.replace(WWW, both, both, private)
    assert designate.look("1.2.0.192.in-addr.arpa.", "PTR") == set(), "one from before is removed"
    designate.put("1.2.0.192.in-addr.arpa.", "PTR", {"mail.example.org."})
    driver.replace(WWW, both, both, private)
    assert designate.look("1.2.0.192.in-addr.arpa.", "PTR") == {"mail.example.org."}


def test_a_pointer_to_another_name_stays(designate: FakeDesignate, make: Make) -> None:
    designate.add_zone("2.0.192.in-addr.arpa.", SERVICE_PROJECT)
    designate.put("1.2.0.192.in-addr.arpa.", "PTR", {"mail.example.org."})
    driver = make()
    with pytest.raises(Incomplete, match=r"mail\.example\.org\."):
        driver.replace(WWW, frozenset({"192.0.2.1"}), NONE)
    assert designate.look("www.example.net.") == {"192.0.2.1"}
    driver.replace(WWW, NONE, frozenset({"192.0.2.1"}))
    assert designate.look("1.2.0.192.in-addr.arpa.", "PTR") == {"mail.example.org."}


def test_without_reverse_records(designate: FakeDesignate, make: Make) -> None:
    make(allow_reverse_dns_lookup=False).replace(WWW, frozenset({"192.0.2.1"}), NONE)
    assert _names(designate) == ["www.example.net."]


def test_a_contact_of_reverse_zones(designate: FakeDesignate, make: Make) -> None:
    make(ptr_zone_email="dns@example.org", ipv4_ptr_zone_prefix_size=16).replace(WWW, frozenset({"192.0.2.1"}), NONE)
    found = [(zone.name, zone.email) for zone in designate.zones.values() if zone.project_id == SERVICE_PROJECT]
    assert found == [("0.192.in-addr.arpa.", "dns@example.org")]


@pytest.mark.parametrize(
    ("zones", "address", "zone"),
    [
        (ReverseZones(), "192.0.2.5", "2.0.192.in-addr.arpa."),
        (ReverseZones(ipv4_prefix=8), "192.0.2.5", "192.in-addr.arpa."),
        (ReverseZones(ipv6_prefix=32), "2001:db8::5", "8.b.d.0.1.0.0.2.ip6.arpa."),
        (ReverseZones(ipv6_prefix=124), "2001:db8::5", "0." * 23 + "8.b.d.0.1.0.0.2.ip6.arpa."),
    ],
)
def test_zones_of_reverse_records(zones: ReverseZones, address: str, zone: str) -> None:
    found, name = zones.names(address)
    assert found == zone
    assert name.endswith(f".{zone}")


@pytest.mark.parametrize(("ipv4", "ipv6"), [(20, 120), (24, 63)])
def test_prefixes_that_are_no_zones(ipv4: int, ipv6: int) -> None:
    with pytest.raises(RefusedToStart, match="is not a multiple"):
        ReverseZones(ipv4, ipv6)


def test_a_slow_service_ends_before_the_claim() -> None:
    """Another publisher could have published a newer state meanwhile."""
    times, asked = iter([0.0, 30.0, 60.0, 91.0]), []

    def call(method: str, path: str, query: object, body: object, project: str | None) -> Answer:
        asked.append(method)
        return Answer(200, {"zones": [{"id": "z", "name": "example.net."}], "recordsets": []})

    driver = Designate(configuration([]), call, clock=lambda: next(times))
    with pytest.raises(Unreachable, match="too slow"):
        driver.replace(WWW, frozenset({"192.0.2.1"}), NONE)
    assert asked == ["GET", "GET"]


def test_credentials_are_required(make: Make) -> None:
    with pytest.raises(RefusedToStart, match="auth_type is not set"):
        make(auth_type="")


def test_a_token_that_is_not_accepted(make: Make) -> None:
    with pytest.raises(Unreachable, match="401"):
        make(token="expired").replace(WWW, frozenset({"192.0.2.1"}), NONE)


def test_the_version_in_the_url(designate: FakeDesignate, make: Make) -> None:
    make(url=f"{designate.url}/v2/").replace(WWW, frozenset({"192.0.2.1"}), NONE)
    assert designate.look("www.example.net.") == {"192.0.2.1"}


def test_a_server_without_external_dns_does_not_import_its_clients() -> None:
    program = "import sys, neutrino.server.main\nprint([n for n in ('dns', 'keystoneauth1') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _names(designate: FakeDesignate) -> list[str]:
    return sorted(one["name"] for zone in designate.zones.values() for one in zone.record_sets.values())
