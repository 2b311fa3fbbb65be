"""External DNS: records follow ports and floating IPs, through a publisher that may die, be doubled, or find no service."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.dns import feature
from neutrino.features.dns.driver_api import Incomplete, RecordSet
from neutrino.features.dns.publisher import Publisher, PublisherOptions
from neutrino.features.dns.records import Recorder
from neutrino.features.dns.tables import dns_records
from neutrino.model.objects import Object
from neutrino.server.config import configuration
from neutrino.server.db import tables as t
from neutrino.server.main import Server, assemble, begin
from neutrino.server.ml2.driver_api import DriverContext
from tests.api.client import Api
from tests.api.conftest import configuration_text
from tests.api.l3 import attach, gateway, inside, outside
from tests.fakes.designate import TOKEN, FakeDesignate
from tests.fakes.dns import FakeDns
from tests.faults.integrity import check
from tests.support.databases import prepared_database

SETTINGS = {
    "DEFAULT": {"external_dns_driver": "fake"},
    "ml2_type_flat": {"flat_networks": "*"},
    "ml2": {"extension_drivers": "port_security,dns"},
}
ZONE = "example.net."


class Setting:
    """A server with its DNS service, and a publisher that the test runs: nothing happens by itself."""

    def __init__(self, server: Server, recorder: Recorder, dns: FakeDns) -> None:
        self.server, self.recorder, self.dns = server, recorder, dns
        self.now = 1000.0
        self.publisher = self.another_publisher()

    def another_publisher(self) -> Publisher:
        more = {"clock": lambda: self.now, "private": self.recorder.private_addresses}
        return Publisher(self.server.db, self.dns, self.recorder.sweep, PublisherOptions(), **more)  # type: ignore[arg-type]

    def rows(self) -> list[Any]:
        with self.server.db.read() as connection:
            return list(connection.execute(sa.select(dns_records).order_by(dns_records.c.name)).all())

    def publish(self) -> None:
        self.publisher.publish()


@pytest.fixture(scope="module")
def module_server(
    request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Recorder, FakeDns]]:
    directory, dns = tmp_path_factory.mktemp("dns"), FakeDns()
    path = directory / "neutrino.conf"
    path.write_text(configuration_text(prepared_database(request, database, directory), SETTINGS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature, "load", lambda group, name: lambda conf: dns)
        patch.setattr(Publisher, "start", lambda publisher: None)  # tests publish themselves
        server = assemble(configuration([str(path)]))
        begin(server)
    (hook,) = server.core.operations.closing_hooks
    yield server, hook.__self__, dns
    server.close()


@pytest.fixture
def setting(module_server: tuple[Server, Recorder, FakeDns]) -> Iterator[Setting]:
    server, recorder, dns = module_server
    dns.__init__()  # type: ignore[misc]  # an empty service, also for the server's own driver
    with server.db.transaction() as tx:
        tx.write(sa.delete(dns_records))
    yield Setting(server, recorder, dns)
    check(server.db)


@pytest.fixture
def api(setting: Setting) -> Api:
    return Api(setting.server.app)


@pytest.fixture
def admin(api: Api) -> Api:
    return api.as_admin()


def provider_network(admin: Api, **values: Any) -> Object:
    """A network that is reachable from outside: its VLAN is none of the projects'."""
    provider_network.vlan += 1  # type: ignore[attr-defined]
    values = {"dns_domain": ZONE, **values}
    network = admin.network(
        provider__network_type="vlan",
        provider__physical_network="physnet1",
        provider__segmentation_id=provider_network.vlan,  # type: ignore[attr-defined]
        **values,
    )
    admin.subnet(network, "192.0.2.0/24")
    return network


provider_network.vlan = 1000  # type: ignore[attr-defined]


def address(port: Object, version: int = 4) -> str:
    return next(str(f["ip_address"]) for f in port["fixed_ips"] if (":" in f["ip_address"]) == (version == 6))


def test_keywords_of_a_domain_are_of_the_caller_who_names_the_port(setting: Setting, admin: Api) -> None:
    network = provider_network(admin, dns_domain="<user_name>.<user_id>.<project_name>.<project_id>.example.net.")
    who = {"X-User-Name": "Jo", "X-Project-Name": "Demo", "X-User-Id": "u1"}
    body = {"port": {"network_id": network["id"], "dns_name": "www"}}
    port = admin.post("/ports", body, headers=who).expect(201).body["port"]
    zone = f"u1.demo.{port['project_id']}.example.net.".lower()
    setting.dns.zones |= {f"{name}.{zone}" for name in ("jo", "al")}
    setting.publish()
    assert setting.dns.records == {(f"www.jo.{zone}", "A"): {address(port)}}
    # Without a request, and by a request that does not concern the name, they stay.
    setting.recorder.sweep()
    other = {**who, "X-User-Name": "Al"}
    admin.put(f"/ports/{port['id']}", {"port": {"name": "renamed"}}, headers=other).expect(200)
    setting.publish()
    assert setting.dns.records == {(f"www.jo.{zone}", "A"): {address(port)}}
    admin.put(f"/ports/{port['id']}", {"port": {"dns_name": "web"}}, headers=other).expect(200)
    setting.publish()
    assert setting.dns.records == {(f"web.al.{zone}", "A"): {address(port)}}
    admin.delete(f"/ports/{port['id']}").expect(204)
    setting.publish()
    assert setting.dns.records == {}


# --- ports ------------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_records_follow_a_port(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    six = admin.subnet(network, "2001:db8:1::/64", ip_version=6, ipv6_address_mode="dhcpv6-stateful")
    port = admin.port(network, dns_name="www")
    assert setting.dns.records == {}  # the request has not waited for the DNS
    setting.publish()
    assert setting.dns.of("www.example.net.") == {address(port)}
    assert setting.dns.of("www.example.net.", "AAAA") == {address(port, 6)}
    assert not any(row.pending for row in setting.rows())
    # another name
    admin.change("port", port["id"], dns_name="web")
    setting.publish()
    assert setting.dns.of("www.example.net.") == set()
    assert setting.dns.of("web.example.net.") == {address(port)}
    # another address, and none of IPv6
    port = admin.change("port", port["id"], fixed_ips=[{"ip_address": "192.0.2.77"}])
    setting.publish()
    assert setting.dns.records == {("web.example.net.", "A"): {"192.0.2.77"}}
    # another domain
    admin.change("port", port["id"], dns_domain="example.com.")
    setting.publish()
    assert setting.dns.records == {("web.example.com.", "A"): {"192.0.2.77"}}
    # nothing that concerns the DNS
    calls = len(setting.dns.calls)
    admin.change("port", port["id"], name="renamed", fixed_ips=[{"ip_address": "192.0.2.77"}])
    setting.publish()
    assert len(setting.dns.calls) == calls
    admin.delete(f"/ports/{port['id']}").expect(204)
    setting.publish()
    assert (setting.dns.records, setting.rows()) == ({}, [])
    assert six["id"]


def test_ports_that_are_not_published(setting: Setting, api: Api, admin: Api) -> None:
    network = api.network(dns_domain=ZONE)  # of a project: only floating IPs lead to it
    api.subnet(network, "10.0.0.0/24")
    api.port(network, dns_name="inside")
    named = provider_network(admin, dns_domain="")
    admin.port(named, dns_name="without-domain")
    admin.port(provider_network(admin))
    external = provider_network(admin, router__external=True)
    admin.port(external, dns_name="external")
    setting.publish()
    assert (setting.rows(), setting.dns.calls) == ([], [])


def test_a_subnet_can_publish_its_addresses(setting: Setting, api: Api) -> None:
    network = api.network(dns_domain=ZONE)
    first, second = api.subnet(network, "10.0.0.0/24"), api.subnet(network, "10.0.1.0/24")
    port = api.port(network, dns_name="vm", fixed_ips=[{"subnet_id": s["id"]} for s in (first, second)])
    setting.publish()
    assert setting.dns.records == {}
    with setting.server.db.transaction() as tx:
        tx.write(sa.update(t.subnets).where(t.subnets.c.id == second["id"]).values(dns_publish_fixed_ip=True))
    setting.publisher.sweep(network["id"])
    setting.publish()
    assert setting.dns.of("vm.example.net.") == {port["fixed_ips"][1]["ip_address"]}


def test_another_domain_of_a_network(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    port = admin.port(network, dns_name="www")
    setting.publish()
    asked: list[str] = []
    setting.recorder.network_changed = asked.append
    admin.change("network", network["id"], name="other")
    assert asked == []
    admin.change("network", network["id"], dns_domain="example.com.")
    assert asked == [network["id"]]
    setting.publisher.sweep(network["id"])
    setting.publish()
    assert setting.dns.records == {("www.example.com.", "A"): {address(port)}}


@pytest.mark.parametrize("operation", ["create", "update", "delete"])
@pytest.mark.parametrize("publishes", [True, False])
def test_changes_of_subnets_that_concern_ports(setting: Setting, operation: str, publishes: bool) -> None:
    asked: list[str] = []
    recorder = setting.recorder
    recorder.network_changed = asked.append
    subnet = {"id": "s", "dns_publish_fixed_ip": publishes}
    before = {"id": "s", "dns_publish_fixed_ip": False} if operation == "update" else None

    def attempt() -> None:
        with setting.server.db.transaction() as tx:
            recorder.record(tx, [DriverContext(operation, "subnet", subnet, before, network={"id": "n"})])

    setting.server.db.retrying(attempt)
    assert asked == (["n"] if publishes else [])


@pytest.mark.every_database
def test_ports_of_a_project_with_the_same_name_share_it(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    one, two = admin.port(network, dns_name="www"), admin.port(network, dns_name="www")
    setting.publish()
    assert setting.dns.of("www.example.net.") == {address(one), address(two)}
    admin.delete(f"/ports/{one['id']}").expect(204)
    setting.publish()
    assert setting.dns.of("www.example.net.") == {address(two)}


def test_another_project_cannot_join_a_name(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    first = admin.port(network, dns_name="www")
    setting.publish()
    second = admin.port(network, dns_name="www", project_id="another")
    setting.publish()
    assert setting.dns.of("www.example.net.") == {address(first)}
    (row,) = [row for row in setting.rows() if row.object_id == second["id"]]
    assert "records of others" in row.error
    assert (row.published, row.pending) == (False, True)
    # The name becomes free.
    admin.delete(f"/ports/{first['id']}").expect(204)
    setting.now += 3600
    setting.publish()
    setting.now += 3600
    setting.publish()
    assert setting.dns.of("www.example.net.") == {address(second)}


def test_a_bulk_create_and_a_deleted_network(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    values = [{"network_id": network["id"], "dns_name": f"vm-{i}"} for i in range(5)]
    ports = admin.post("/ports", {"ports": values}).expect(201).body["ports"]
    setting.publish()
    assert {name for name, _ in setting.dns.records} == {f"vm-{i}.example.net." for i in range(5)}
    for port in ports[1:]:
        admin.delete(f"/ports/{port['id']}").expect(204)
    # A port of a service goes with its network, by a cascade that deletes rows.
    admin.change("port", ports[0]["id"], device_owner="network:dhcp")
    admin.delete(f"/networks/{network['id']}").expect(204)
    setting.publish()
    assert (setting.dns.records, setting.rows()) == ({}, [])


def test_a_slaac_subnet_adds_and_removes_addresses(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    port = admin.port(network, dns_name="www")
    modes = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    subnet = admin.subnet(network, "2001:db8:2::/64", **modes)
    setting.publish()
    found = admin.show("port", port["id"])
    assert setting.dns.of("www.example.net.", "AAAA") == {address(found, 6)}
    admin.delete(f"/subnets/{subnet['id']}").expect(204)
    setting.publish()
    assert setting.dns.records == {("www.example.net.", "A"): {address(port)}}


@pytest.mark.every_database
def test_a_refused_request_publishes_nothing(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    port = admin.port(network, dns_name="www")
    body = {"port": {"network_id": network["id"], "dns_name": "b", "fixed_ips": [{"ip_address": address(port)}]}}
    admin.post("/ports", body).expect(409)
    assert {row.name for row in setting.rows()} == {"www.example.net."}


# --- floating IPs -----------------------------------------------------------------------------------------------------


@pytest.fixture
def routed(api: Api, admin: Api) -> tuple[Object, Object]:
    """An external network, and a project's network with a domain behind a router."""
    external = outside(admin, "172.24.0.0/24")
    network, subnet = inside(api)
    api.change("network", network["id"], dns_domain=ZONE)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    return external, network


def test_a_floating_ip_has_the_name_of_its_port(setting: Setting, api: Api, routed: tuple[Object, Object]) -> None:
    external, network = routed
    port, other = api.port(network, dns_name="www"), api.port(network, dns_name="other")
    floating = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    ip = floating["floating_ip_address"]
    setting.publish()
    assert setting.dns.records == {("www.example.net.", "A"): {ip}}
    api.change("port", port["id"], dns_name="web")
    setting.publish()
    assert setting.dns.records == {("web.example.net.", "A"): {ip}}
    api.change("floatingip", floating["id"], port_id=other["id"])
    setting.publish()
    assert setting.dns.records == {("other.example.net.", "A"): {ip}}
    api.change("floatingip", floating["id"], port_id=None)
    setting.publish()
    assert setting.dns.records == {}
    api.change("floatingip", floating["id"], port_id=port["id"])
    setting.publish()
    api.delete(f"/ports/{port['id']}").expect(204)  # disassociates it
    setting.publish()
    assert (setting.dns.records, setting.rows()) == ({}, [])


def test_a_floating_ip_with_a_name_of_its_own(setting: Setting, api: Api, routed: tuple[Object, Object]) -> None:
    external, network = routed
    floating = api.make("floatingip", floating_network_id=external["id"], dns_name="fip", dns_domain="example.com.")
    setting.publish()
    published = {("fip.example.com.", "A"): {floating["floating_ip_address"]}}
    assert setting.dns.records == published
    port = api.port(network, dns_name="www")
    api.change("floatingip", floating["id"], port_id=port["id"])
    setting.publish()
    assert setting.dns.records == published
    api.delete(f"/floatingips/{floating['id']}").expect(204)
    setting.publish()
    assert (setting.dns.records, setting.rows()) == ({}, [])


def test_a_floating_ip_needs_both_name_and_domain(api: Api, routed: tuple[Object, Object]) -> None:
    body = {"floating_network_id": routed[0]["id"]}
    for given, missing in (("dns_name", "dns_domain"), ("dns_domain", "dns_name")):
        value = "fip" if given == "dns_name" else ZONE
        refused = api.post("/floatingips", {"floatingip": {**body, given: value}}).refused(400, "BadRequest")
        assert f"{given} cannot be specified without a {missing}" in refused.message


def test_unused_floating_ips_go_with_their_network(setting: Setting, api: Api, admin: Api) -> None:
    external = outside(admin, "172.25.0.0/24")
    api.make("floatingip", floating_network_id=external["id"], dns_name="fip", dns_domain=ZONE)
    setting.publish()
    assert setting.dns.of("fip.example.net.")
    admin.delete(f"/networks/{external['id']}").expect(204)
    setting.publish()
    assert (setting.dns.records, setting.rows()) == ({}, [])


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_service_that_is_down(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    port, gone = admin.port(network, dns_name="www"), admin.port(network, dns_name="gone")
    setting.publish()
    setting.dns.is_down = True
    admin.delete(f"/ports/{gone['id']}").expect(204)
    new = admin.port(network, dns_name="new")
    calls = len(setting.dns.calls)
    pauses = [setting.publisher.publish() for _ in range(8)]
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert len(setting.dns.calls) == calls + 8  # one attempt each: the others would wait for nothing
    assert {row.error for row in setting.rows() if row.pending} <= {"down", ""}
    setting.dns.is_down = False
    assert setting.publisher.publish() == PublisherOptions().poll_seconds
    assert setting.dns.records == {
        ("www.example.net.", "A"): {address(port)},
        ("new.example.net.", "A"): {address(new)},
    }
    assert [row.error for row in setting.rows()] == ["", ""]


def test_an_update_without_an_answer_is_ours(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    setting.dns.loses_answers = True
    port = admin.port(network, dns_name="www")
    setting.publish()
    setting.dns.loses_answers = False
    admin.delete(f"/ports/{port['id']}").expect(204)
    setting.publish()
    assert (setting.dns.records, setting.rows()) == ({}, [])


def test_records_of_others_stay(setting: Setting, admin: Api, caplog: pytest.LogCaptureFixture) -> None:
    network = provider_network(admin)
    setting.dns.records["www.example.net.", "A"] = frozenset({"203.0.113.9"})
    port = admin.port(network, dns_name="www")
    setting.publish()
    assert setting.dns.of("www.example.net.") == {"203.0.113.9"}
    (row,) = setting.rows()
    assert (row.wanted, row.published, row.pending, row.attempts) == (True, False, True, 1)
    assert "203.0.113.9" in row.error
    assert any(port["id"] in record.message and "www.example.net." in record.message for record in caplog.records)
    caplog.clear()
    setting.publish()  # too early
    assert setting.rows()[0].attempts == 1
    setting.now += 10
    setting.publish()
    assert setting.rows()[0].attempts == 2
    assert not caplog.records  # known already
    admin.delete(f"/ports/{port['id']}").expect(204)
    setting.publish()
    assert setting.dns.of("www.example.net.") == {"203.0.113.9"}
    assert setting.rows() == []


def test_the_own_address_as_a_record_of_others(setting: Setting, admin: Api) -> None:
    """It is not ours because it is equal: it would be removed with the port."""
    network = provider_network(admin)
    setting.dns.records["www.example.net.", "A"] = frozenset({"192.0.2.99"})
    port = admin.port(network, dns_name="www", fixed_ips=[{"ip_address": "192.0.2.99"}])
    setting.publish()
    admin.delete(f"/ports/{port['id']}").expect(204)
    setting.publish()
    assert setting.dns.of("www.example.net.") == {"192.0.2.99"}


def test_an_unknown_zone(setting: Setting, admin: Api) -> None:
    network = provider_network(admin, dns_domain="unknown.example.")
    admin.port(network, dns_name="www")
    named = provider_network(admin)
    port = admin.port(named, dns_name="www")
    setting.publish()
    assert setting.dns.records == {("www.example.net.", "A"): {address(port)}}  # it does not hold up others
    setting.dns.zones.add("unknown.example.")
    setting.now += 10
    setting.publish()
    assert setting.dns.of("www.unknown.example.")


def test_a_driver_that_fails(setting: Setting, admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    network = provider_network(admin)
    admin.port(network, dns_name="bad")
    port = admin.port(network, dns_name="www")

    def fail(record_set: RecordSet) -> None:
        if record_set.name.startswith("bad."):
            raise ZeroDivisionError("a bug")

    monkeypatch.setattr(setting.dns, "before_replace", fail)
    setting.publish()
    assert setting.dns.records == {("www.example.net.", "A"): {address(port)}}
    assert "ZeroDivisionError" in setting.rows()[0].error


# --- several publishers -----------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_record_set_is_published_by_one_at_a_time(setting: Setting, admin: Api) -> None:
    network, other = provider_network(admin), setting.another_publisher()
    first = admin.port(network, dns_name="www")
    second: list[Object] = []

    def meanwhile(record_set: RecordSet) -> None:
        setting.dns.before_replace = lambda record_set: None
        second.append(admin.port(network, dns_name="www"))
        other.publish()
        assert setting.dns.calls == []  # its record set is in use

    setting.dns.before_replace = meanwhile
    setting.publish()
    assert [addresses for _, addresses in setting.dns.calls] == [
        {address(first)},
        {address(first), address(second[0])},
    ]
    assert not any(row.pending or row.claimed_until for row in setting.rows())


@pytest.mark.every_database
def test_a_change_while_its_record_set_is_published(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    port = admin.port(network, dns_name="www")

    def meanwhile(record_set: RecordSet) -> None:
        setting.dns.before_replace = lambda record_set: None
        admin.delete(f"/ports/{port['id']}").expect(204)

    setting.dns.before_replace = meanwhile
    setting.publish()
    assert (setting.dns.records, setting.rows()) == ({}, [])
    assert [bool(addresses) for _, addresses in setting.dns.calls] == [True, False]


@pytest.mark.every_database
def test_writers_and_publishers_at_once(setting: Setting, admin: Api) -> None:
    """Ports get, share, swap and lose five names, while three publishers work: in the end the DNS is as the ports are."""
    network, written = provider_network(admin), threading.Event()
    ports = [admin.port(network, dns_name=f"n{i % 5}") for i in range(8)]

    def write(number: int) -> None:
        rng = random.Random(number)
        for _ in range(6):
            for port in ports[number::4]:
                admin.change("port", port["id"], dns_name=rng.choice(["n0", "n1", "n2", "n3", "n4", ""]))
            made = admin.port(network, dns_name=f"n{rng.randrange(5)}")
            admin.delete(f"/ports/{made['id']}").expect(204)

    def publish(publisher: Publisher) -> None:
        while not written.wait(0.005):
            publisher.publish()

    with ThreadPoolExecutor(8) as pool:
        publishing = [pool.submit(publish, setting.another_publisher()) for _ in range(3)]
        writing = [pool.submit(write, number) for number in range(4)]
        try:
            for one in writing:
                one.result()
        finally:
            written.set()
        for one in publishing:
            one.result()
    setting.publish()
    expected: dict[tuple[str, str], set[str]] = {}
    for port in (admin.show("port", port["id"]) for port in ports):
        if port["dns_name"]:
            expected.setdefault((f"{port['dns_name']}.{ZONE}", "A"), set()).add(address(port))
    assert setting.dns.records == expected
    assert not any(row.pending or row.error or row.claimed_until for row in setting.rows())


@pytest.mark.every_database
def test_the_work_of_a_dead_publisher_is_taken_over(setting: Setting, admin: Api) -> None:
    network, dead = provider_network(admin), setting.another_publisher()
    port = admin.port(network, dns_name="www")

    def die(record_set: RecordSet) -> None:
        raise KeyboardInterrupt  # no Exception: as if the process had ended here

    setting.dns.before_replace = die
    with pytest.raises(KeyboardInterrupt):
        dead.publish()
    setting.dns.before_replace = lambda record_set: None
    setting.publish()
    assert setting.dns.calls == []  # it may still be at work
    setting.now += PublisherOptions().lease_seconds + 1
    setting.publish()
    assert setting.dns.records == {("www.example.net.", "A"): {address(port)}}


def test_the_thread_publishes_after_a_commit(setting: Setting, admin: Api) -> None:
    network = provider_network(admin)
    recorder, publisher = setting.recorder, setting.another_publisher()
    recorder.recorded, recorder.network_changed = publisher.wake, publisher.recheck
    publisher.start()
    try:
        port = admin.port(network, dns_name="thread")
        setting.dns.wait(lambda: setting.dns.of("thread.example.net.") == {address(port)})
        admin.change("network", network["id"], dns_domain="example.com.")
        setting.dns.wait(lambda: setting.dns.of("thread.example.com.") == {address(port)})
        setting.dns.wait(lambda: not setting.dns.of("thread.example.net."))
    finally:
        publisher.close()


@pytest.mark.every_database
def test_a_sweep_publishes_what_was_there_before(setting: Setting, admin: Api) -> None:
    """As when the driver is configured for a cloud with ports."""
    network = provider_network(admin)
    port = admin.port(network, dns_name="swept")
    with setting.server.db.transaction() as tx:
        tx.write(sa.delete(dns_records))
    setting.publisher.sweep(None)
    setting.publish()
    assert setting.dns.of("swept.example.net.") == {address(port)}
    rows = setting.rows()
    setting.publisher.sweep(None)
    assert setting.rows() == rows


def test_incomplete_work_is_repeated(setting: Setting, admin: Api) -> None:
    """What is published stays ours, though something that belongs to it is missing."""
    network = provider_network(admin)
    port = admin.port(network, dns_name="www")

    def incomplete(record_set: RecordSet) -> None:
        setting.dns.before_replace = lambda record_set: None
        setting.dns.replace(record_set, frozenset({address(port)}), frozenset())
        raise Incomplete("no PTR record")

    setting.dns.before_replace = incomplete
    setting.publish()
    (row,) = setting.rows()
    assert (row.error, row.published, row.pending) == ("no PTR record", True, True)
    setting.now += 10
    setting.publish()
    (row,) = setting.rows()
    assert (row.error, row.published, row.pending, row.attempts) == ("", True, False, 0)


# --- Designate --------------------------------------------------------------------------------------------------------


def test_records_in_designate(another_server: Callable[..., Server]) -> None:
    with FakeDesignate() as designate:
        credentials = {"auth_type": "admin_token", "token": TOKEN, "endpoint": designate.url, "url": designate.url}
        server = another_server({"DEFAULT": {"external_dns_driver": "designate"}, "designate": credentials})
        admin = Api(server.app).as_admin()
        designate.add_zone(ZONE, admin.project)
        network = provider_network(admin)
        port = admin.port(network, dns_name="www")
        designate.wait(lambda: designate.look("www.example.net.") == {address(port)})
        pointer = f"{ip_address(address(port)).reverse_pointer}."
        designate.wait(lambda: designate.look(pointer, "PTR") == {"www.example.net."})
        designate.is_down = True
        renamed = admin.change("port", port["id"], dns_name="renamed")
        designate.is_down = False
        designate.wait(lambda: designate.look("renamed.example.net.") == {address(renamed)})
        designate.wait(lambda: not designate.look("www.example.net."))
        admin.delete(f"/ports/{port['id']}").expect(204)
        designate.wait(lambda: not designate.look("renamed.example.net.") and not designate.look(pointer, "PTR"))
        # A project writes in its own zones only.
        stranger = admin.port(network, dns_name="evil", project_id="stranger")
        designate.wait(lambda: ("GET", "/v2/zones", "stranger") in designate.requests)
        own = admin.port(network, dns_name="own")
        designate.wait(lambda: designate.look("own.example.net.") == {address(own)})
        assert designate.look("evil.example.net.") == set()
        assert stranger["dns_name"] == "evil"


def test_without_a_driver_there_is_nothing(request: pytest.FixtureRequest, database: str, tmp_path: Any) -> None:
    path = tmp_path / "neutrino.conf"
    path.write_text(configuration_text(prepared_database(request, database, tmp_path)))
    server = assemble(configuration([str(path)]))
    try:
        assert server.core.operations.closing_hooks == []
    finally:
        server.close()


def test_no_pointers_of_networks_whose_prefix_a_project_chose(another_server: Callable[..., Server]) -> None:
    """The service publishes PTR records as itself: a project must not name addresses of others outside its network."""
    with FakeDesignate() as designate:
        credentials = {"auth_type": "admin_token", "token": TOKEN, "endpoint": designate.url, "url": designate.url}
        server = another_server({"DEFAULT": {"external_dns_driver": "designate"}, "designate": credentials})
        admin = Api(server.app).as_admin()
        member = admin.as_stranger()
        designate.add_zone("evil.example.", member.project)
        designate.add_zone(ZONE, admin.project)
        private = member.network(dns_domain="evil.example.")
        member.subnet(private, "198.51.100.0/24", dns_publish_fixed_ip=True)
        thief = member.port(private, dns_name="www", fixed_ips=[{"ip_address": "198.51.100.7"}])
        designate.wait(lambda: designate.look("www.evil.example.") == {address(thief)})
        external = admin.network(router__external=True, dns_domain=ZONE)
        admin.subnet(external, "198.51.100.0/24", dns_publish_fixed_ip=True)
        named = {"dns_name": "www", "dns_domain": ZONE}
        chosen = {"floating_network_id": external["id"], "floating_ip_address": "198.51.100.7"}
        fip = admin.make("floatingip", **chosen, **named)
        pointer = f"{ip_address(fip['floating_ip_address']).reverse_pointer}."
        designate.wait(lambda: designate.look(pointer, "PTR") == {f"www.{ZONE}"})
        direct = admin.port(external, dns_name="direct", fixed_ips=[{"ip_address": "198.51.100.9"}])
        other = f"{ip_address(address(direct)).reverse_pointer}."
        designate.wait(lambda: designate.look(other, "PTR") == {f"direct.{ZONE}"})
        member.delete(f"/ports/{thief['id']}").expect(204)
        designate.wait(lambda: not designate.look("www.evil.example."))
        assert designate.look(pointer, "PTR") == {f"www.{ZONE}"}
