"""Inventories of IPv4 addresses in Placement, and host aggregates in Nova, that follow the segments."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from neutrino.features.segments.placement import SegmentReporter, SegmentReports, reporter_from_conf
from neutrino.model.agents import AgentStatus
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.main import Server
from neutrino.server.placement import PlacementResponse
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.segments import SETTINGS, RoutedNetwork, provider, routed_network, segments_of
from tests.fakes.placement import FakeAggregates, FakePlacement
from tests.support.databases import prepared_database

HOSTS = {"a1": "rack1", "a2": "rack1", "b1": "rack2"}


@dataclass
class Reported:
    """The reporter, on fakes; `settle` delivers what is queued in the test's own thread."""

    reporter: SegmentReporter
    placement: FakePlacement
    nova: FakeAggregates
    changes: list[Any] = field(default_factory=list)

    def settle(self) -> None:
        changes, self.changes[:] = list(dict.fromkeys(self.changes)), []
        assert self.reporter._deliver(changes) is None

    def inventory(self, segment: dict[str, Any]) -> tuple[int, int]:
        self.settle()
        one = self.placement.providers[segment["id"]]["inventories"]["IPV4_ADDRESS"]
        return one["total"], one["reserved"]

    def hosts(self, segment: dict[str, Any]) -> list[str]:
        self.settle()
        (uuid,) = self.placement.providers[segment["id"]]["aggregates"]
        (aggregate,) = (one for one in self.nova.aggregates.values() if one["uuid"] == uuid)
        assert aggregate["name"] == f"Neutron segment id {segment['id']}"
        return sorted(aggregate["hosts"])


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("server")
    made = start(directory, prepared_database(request, database, directory), SETTINGS)
    for host, rack in HOSTS.items():
        switch(made, host, bridge_mappings={rack: "br"})
    yield made
    made.close()


@pytest.fixture
def reported(server: Server) -> Iterator[Reported]:
    placement, nova = FakePlacement(), FakeAggregates(set(HOSTS))
    reporter = SegmentReporter(server.db, SegmentReports(placement.call, nova.call))
    made = Reported(reporter, placement, nova)
    reporter.queue.put = made.changes.append  # type: ignore[method-assign]
    core = server.core
    hooks = (
        (core.subnets.commit_hooks, reporter.subnet_changed),
        (core.ports.commit_hooks, reporter.port_changed),
        (core.networks.segment_hooks, reporter.segment_changed),
    )
    for registered, hook in hooks:
        registered.append(hook)
    yield made
    for registered, hook in hooks:
        registered.remove(hook)


@pytest.fixture
def routed(admin: Api, reported: Reported) -> RoutedNetwork:
    return routed_network(admin)


def test_a_subnet_makes_an_inventory_and_an_aggregate(routed: RoutedNetwork, reported: Reported) -> None:
    first, second = routed.segments
    assert reported.inventory(first) == (254, 1)  # the gateway is reserved
    assert reported.inventory(second) == (254, 1)
    assert reported.hosts(first) == ["a1", "a2"]
    assert reported.hosts(second) == ["b1"]
    provider_of = reported.placement.providers[first["id"]]
    assert provider_of["name"] == f"Neutron segment id {first['id']}"
    generation = provider_of["generation"]
    reported.reporter.segment_changed(first["id"])
    reported.settle()
    assert provider_of["generation"] == generation, "a repeated report changes nothing"


def test_dhcp_gateway_and_pools_change_the_inventory(admin: Api, routed: RoutedNetwork, reported: Reported) -> None:
    segment, subnet = routed.segments[0], routed.subnets[0]
    admin.change("subnet", subnet["id"], enable_dhcp=True)
    assert reported.inventory(segment) == (254, 2)
    admin.change("subnet", subnet["id"], gateway_ip=None)
    assert reported.inventory(segment) == (253, 1)
    admin.change("subnet", subnet["id"], allocation_pools=[{"start": "10.1.0.10", "end": "10.1.0.19"}])
    assert reported.inventory(segment) == (10, 1)
    more = {"cidr": "10.7.0.0/28", "gateway_ip": None, "enable_dhcp": False}
    admin.make("subnet", network_id=routed.id, ip_version=4, segment_id=segment["id"], **more)
    assert reported.inventory(segment) == (24, 1)


def test_ports_that_nova_does_not_know_are_reserved(admin: Api, routed: RoutedNetwork, reported: Reported) -> None:
    segment = routed.segments[0]
    port = admin.make("port", network_id=routed.id, binding__host_id="a1")
    assert reported.inventory(segment) == (254, 2)
    admin.make("port", network_id=routed.id, binding__host_id="a1", device_owner="compute:nova")
    assert reported.inventory(segment) == (254, 2)
    deferred = admin.make("port", network_id=routed.id)
    assert reported.inventory(segment) == (254, 2)
    admin.change("port", deferred["id"], **{"binding:host_id": "a2"})
    assert reported.inventory(segment) == (254, 3)
    admin.change("port", deferred["id"], device_owner="compute:nova")
    assert reported.inventory(segment) == (254, 2)
    admin.delete(f"/ports/{port['id']}").expect(204)
    assert reported.inventory(segment) == (254, 1)


def test_a_segment_without_addresses_is_removed(admin: Api, routed: RoutedNetwork, reported: Reported) -> None:
    first, second = routed.segments
    reported.settle()
    admin.delete(f"/subnets/{routed.subnets[1]['id']}").expect(204)
    reported.settle()
    assert set(reported.placement.providers) == {first["id"]}
    assert len(reported.nova.aggregates) == 1
    admin.delete(f"/segments/{second['id']}").expect(204)
    admin.delete(f"/networks/{routed.id}").expect(204)
    reported.settle()
    assert reported.placement.providers == {}
    assert reported.nova.aggregates == {}


def test_plain_networks_are_not_reported(admin: Api, reported: Reported) -> None:
    network = admin.make("network", **provider("physnet1"))
    admin.make("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    admin.make("port", network_id=network["id"])
    reported.settle()
    assert reported.placement.providers == {}


def test_a_subnet_that_gets_a_segment_is_reported(admin: Api, reported: Reported) -> None:
    network = admin.make("network", **provider("rack1", 900))
    subnet = admin.make("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", enable_dhcp=False)
    (segment,) = segments_of(admin, network["id"])
    admin.change("subnet", subnet["id"], segment_id=segment["id"])
    assert reported.inventory(segment) == (254, 1)


def test_hosts_follow_their_agents(server: Server, admin: Api, routed: RoutedNetwork, reported: Reported) -> None:
    assert reported.hosts(routed.segments[1]) == ["b1"]
    reported.nova.hosts.add("c1")
    switch(server, "c1", bridge_mappings={"rack2": "br"})
    reported.reporter.host_reported(AgentReport("", "Open vSwitch agent", "c1", AgentStatus.NEW))
    assert reported.hosts(routed.segments[1]) == ["b1", "c1"]
    switch(server, "c1", bridge_mappings={"rack1": "br"})
    reported.reporter.host_reported(AgentReport("", "Open vSwitch agent", "c1", AgentStatus.ALIVE, started=True))
    assert reported.hosts(routed.segments[1]) == ["b1"]
    assert reported.hosts(routed.segments[0]) == ["a1", "a2", "c1"]
    switch(server, "c1", bridge_mappings={})


def test_a_host_that_nova_does_not_know_is_left_out(server: Server, routed: RoutedNetwork, reported: Reported) -> None:
    reported.nova.hosts.discard("a2")
    assert reported.hosts(routed.segments[0]) == ["a1"]


def test_a_conflict_is_repeated(routed: RoutedNetwork, reported: Reported) -> None:
    real = reported.placement.call
    refused: list[str] = []

    def call(method: str, path: str, body: Any) -> PlacementResponse:
        if method == "PUT" and path.endswith("/inventories") and not refused:
            refused.append(path)
            return PlacementResponse(409, None)
        return real(method, path, body)

    reporter = SegmentReporter(reported.reporter.db, SegmentReports(call, reported.nova.call))
    undelivered = reporter._deliver(list(dict.fromkeys(reported.changes)))
    assert undelivered is not None
    assert "409" in undelivered.reason
    assert reporter._deliver(undelivered.items) is None
    assert reported.inventory(routed.segments[0]) == (254, 1)


# --- over HTTP ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def services() -> Iterator[tuple[str, FakePlacement, FakeAggregates, list[tuple[str, str]]]]:
    placement, nova, seen = FakePlacement(), FakeAggregates(set(HOSTS)), list[tuple[str, str]]()

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            _, service, path = self.path.split("/", 2)
            seen.append((service, self.headers.get("OpenStack-API-Version", "")))
            target: Callable[..., PlacementResponse] = placement.call if service == "placement" else nova.call
            status, body = target(self.command, path, json.loads(raw) if raw else None)
            data = json.dumps(body).encode() if body is not None else b""
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _take

        def log_message(self, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", placement, nova, seen
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_configured_server_reports_over_http(another_server: Any, services: Any) -> None:
    url, placement, nova, seen = services
    more = {
        **SETTINGS,
        "placement": {"auth_type": "none", "endpoint": f"{url}/placement"},
        "nova": {"auth_type": "none", "endpoint": f"{url}/nova"},
    }
    server = another_server(more)
    switch(server, "a1", bridge_mappings={"rack1": "br"})
    routed = routed_network(Api(server.app).as_admin(), racks=1)
    server.close()  # delivers what is queued
    inventory = placement.providers[routed.segments[0]["id"]]["inventories"]["IPV4_ADDRESS"]
    assert (inventory["total"], inventory["reserved"]) == (254, 1)
    assert [one["hosts"] for one in nova.aggregates.values()] == [["a1"]]
    assert {version for service, version in seen if service == "placement"} == {"placement 1.1"}
    assert {version for service, version in seen if service == "nova"} == {"compute 2.41"}


def test_without_credentials_nothing_is_reported(server: Server) -> None:
    assert reporter_from_conf(server.conf, server.db) is None
