"""Ports with minimums, from their request to the binding and a change of policy, with a real Placement in Nova's role."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.placement.reporter import Reporter
from neutrino.features.qos.allocations import Allocations
from neutrino.model.agents import OVS
from neutrino.server.context import admin_context
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.ml2.driver_api import HasProviders
from neutrino.server.placement import PlacementResponse, Unavailable, caller
from tests.api.client import Api
from tests.api.placed_hosts import EGRESS, PACKETS, Hosts, guaranteed, placement, server
from tests.api.qos import policy, rule
from tests.support.placement import Placement

__all__ = ["placement", "server"]  # fixtures

BRIDGES = {"bridge_mappings": {"physnet1": "br-ex", "physnet2": "br-b"}}


@dataclass
class Cloud:
    """A host with 1000 kbit/s on physnet1, as much on physnet2, and 10,000 packets per second."""

    host: str
    admin: Api
    placement: Placement
    providers: dict[str, str]  # by device; the agent's is ""

    @property
    def nova(self) -> Api:
        """The only one who may set binding profiles."""
        return self.admin.as_service()

    def port(self, kbps: int = 600, network: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
        gold = policy(self.admin)["id"]
        rule(self.admin, gold, "minimum_bandwidth", min_kbps=kbps)
        physical = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
        return self.admin.port(network or self.admin.network(**physical), qos_policy_id=gold, **values)

    def boot(self, *ports: dict[str, Any], instance: str | None = None) -> str:
        """What Nova does with the ports of a new instance; returns its id."""
        instance = instance or str(uuid.uuid4())
        groups = [group for port in ports for group in port["resource_request"]["request_groups"]]
        found = self.placement.allocate(instance, *groups, project=ports[0]["project_id"], below=self.host)
        for port in ports:
            mine = {group["id"]: found[group["id"]] for group in port["resource_request"]["request_groups"]}
            where = {"binding:host_id": self.host, "binding:profile": {"allocation": mine}}
            whose = {"device_id": instance, "device_owner": "compute:nova"}
            self.nova.change("port", port["id"], **where, **whose)
        return instance

    def used(self, instance: str, device: str = "br-ex") -> Any:
        return self.placement.allocated(instance).get(self.providers[device])


@pytest.fixture
def cloud(server: Server, placement: Placement, admin: Api) -> Cloud:
    host = f"host-{uuid.uuid4().hex[:8]}"
    root = placement.compute_node(host)
    drivers = server.core.operations.mechanisms.drivers.values()
    supported = {one.providers.agent_type: one.providers for one in drivers if isinstance(one, HasProviders)}
    call = caller(server.conf, "placement", "placement", "1.28", "test")
    hosts = Hosts(server, placement, Reporter(server.db, call, supported))
    hosts.report(host, **BRIDGES, **guaranteed({"br-ex": (1000, 1000), "br-b": (1000, 1000)}, {host: 10}))
    hosts.settle()
    tree = placement.tree(root)
    return Cloud(
        host, admin, placement, {name.split(f"{OVS}")[1].lstrip(":"): one["uuid"] for name, one in tree.items()}
    )


def test_an_instance_gets_its_minimum_and_a_second_one_does_not_fit(cloud: Cloud, admin: Api) -> None:
    port = cloud.port(600)
    instance = cloud.boot(port)
    assert cloud.used(instance) == {EGRESS: 600}
    assert admin.show("port", port["id"])["binding:vif_type"] == "ovs"
    groups = cloud.port(600)["resource_request"]["request_groups"]
    assert cloud.placement.candidates(*groups, below=cloud.host) == []
    cloud.placement.ask("DELETE", f"/allocations/{instance}")
    assert cloud.placement.candidates(*groups, below=cloud.host)


def test_a_port_is_bound_to_the_segment_of_its_provider(cloud: Cloud, admin: Api, server: Server) -> None:
    segments = [
        {"provider:network_type": "vlan", "provider:physical_network": name, "provider:segmentation_id": tag}
        for name, tag in (("physnet1", 150), ("physnet2", 5))
    ]
    network = admin.make("network", segments=segments)
    port = cloud.port(network=network)
    (group,) = port["resource_request"]["request_groups"]
    for device, physical_network in (("br-b", "physnet2"), ("br-ex", "physnet1")):
        profile = {"allocation": {group["id"]: cloud.providers[device]}}
        cloud.nova.change("port", port["id"], **{"binding:host_id": cloud.host, "binding:profile": profile})
        assert admin.show("port", port["id"])["binding:vif_type"] == "ovs"
        assert bound_to(server, port) == physical_network
    profile = {"allocation": {group["id"]: str(uuid.uuid4())}}
    cloud.nova.change("port", port["id"], **{"binding:profile": profile})
    assert admin.show("port", port["id"])["binding:vif_type"] == "binding_failed"
    admin.delete(f"/ports/{port['id']}").expect(204)
    admin.delete(f"/networks/{network['id']}").expect(204)


def bound_to(server: Server, port: dict[str, Any]) -> str:
    """The physical network of the segment that a port is bound to."""
    of_port = sa.select(t.port_bindings.c.levels).where(t.port_bindings.c.port_id == port["id"])
    with server.db.read() as connection:
        (level,) = json.loads(str(connection.execute(of_port).scalar_one()))
        of_segment = sa.select(t.network_segments.c.physical_network).where(
            t.network_segments.c.id == level["segment_id"]
        )
        return str(connection.execute(of_segment).scalar_one())


def test_another_policy_changes_the_allocation(cloud: Cloud, admin: Api) -> None:
    port, second = cloud.port(300), cloud.port(200)
    instance = cloud.boot(port, second)
    assert cloud.used(instance) == {EGRESS: 500}
    admin.change("port", port["id"], name="bound")
    before = admin.show("port", port["id"])
    more = policy(admin)["id"]
    rule(admin, more, "minimum_bandwidth", min_kbps=700)
    changed = admin.change("port", port["id"], qos_policy_id=more)
    assert cloud.used(instance) == {EGRESS: 900}
    (group,) = changed["resource_request"]["request_groups"]
    assert changed["binding:profile"]["allocation"] == {group["id"]: cloud.providers["br-ex"]}
    shown = admin.show("port", port["id"])
    assert shown == changed
    assert {name: shown[name] for name in ("status", "binding:vif_type")} == {
        name: before[name] for name in ("status", "binding:vif_type")
    }, "the port is not bound again"
    (binding,) = admin.get(f"/ports/{port['id']}/bindings").body["bindings"]
    assert binding["profile"] == shown["binding:profile"]
    admin.change("port", port["id"], qos_policy_id=None)
    assert cloud.used(instance) == {EGRESS: 200}
    assert admin.show("port", port["id"])["binding:profile"]["allocation"] == {}
    admin.change("port", second["id"], qos_policy_id=None)
    assert cloud.used(instance) is None
    assert cloud.placement.allocated(instance).keys(), "what is not ours stays"


def test_a_policy_that_does_not_fit_is_refused(cloud: Cloud, admin: Api) -> None:
    port = cloud.port(300)
    instance = cloud.boot(port)
    before = admin.show("port", port["id"])
    more = policy(admin)["id"]
    rule(admin, more, "minimum_bandwidth", min_kbps=1001)
    answer = admin.put(f"/ports/{port['id']}", {"port": {"qos_policy_id": more}})
    answer.refused(409, "QosPlacementAllocationUpdateConflict")
    assert admin.show("port", port["id"]) == before
    assert cloud.used(instance) == {EGRESS: 300}


def test_a_minimum_that_nova_has_not_allocated_is_left_to_the_host(cloud: Cloud, admin: Api) -> None:
    port = cloud.port(300)
    instance = cloud.boot(port)
    both = policy(admin)["id"]
    rule(admin, both, "minimum_bandwidth", min_kbps=400)
    rule(admin, both, "minimum_packet_rate", min_kpps=3, direction="any")
    admin.change("port", port["id"], qos_policy_id=both)
    assert cloud.used(instance) == {EGRESS: 400}
    assert cloud.used(instance, "") is None


def test_packet_rates_are_on_the_agent(cloud: Cloud, admin: Api) -> None:
    both = policy(admin)["id"]
    rule(admin, both, "minimum_bandwidth", min_kbps=400)
    rule(admin, both, "minimum_packet_rate", min_kpps=3, direction="any")
    physical = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    port = admin.port(admin.network(**physical), qos_policy_id=both)
    instance = cloud.boot(port)
    assert (cloud.used(instance), cloud.used(instance, "")) == ({EGRESS: 400}, {PACKETS: 3})
    assert admin.show("port", port["id"])["binding:vif_type"] == "ovs"


def test_allocations_of_another_project_are_not_changed(cloud: Cloud, admin: Api, server: Server) -> None:
    victim = cloud.boot(cloud.port(300))
    stranger = Api(server.app)
    mine, other = (policy(admin, project_id=stranger.project)["id"] for _ in range(2))
    rule(admin, mine, "minimum_bandwidth", min_kbps=200)
    physical = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    port = admin.port(admin.network(**physical), project_id=stranger.project, qos_policy_id=mine)
    own = cloud.boot(port)
    stranger.put(f"/ports/{port['id']}", {"port": {"device_id": victim}}).expect(200)
    change = {"port": {"qos_policy_id": other}}
    stranger.put(f"/ports/{port['id']}", change).refused(409, "QosPlacementAllocationUpdateConflict")
    assert cloud.used(victim) == {EGRESS: 300}
    stranger.put(f"/ports/{port['id']}", {"port": {"device_id": own}}).expect(200)
    stranger.put(f"/ports/{port['id']}", change).expect(200)
    assert cloud.used(own) is None


def test_the_policy_of_a_network_stays_while_it_is_allocated(cloud: Cloud, admin: Api) -> None:
    gold = policy(admin)["id"]
    rule(admin, gold, "minimum_bandwidth", min_kbps=10)
    physical = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    network = admin.network(qos_policy_id=gold, **physical)
    port = admin.port(network)
    cloud.boot(port)
    path, none = f"/networks/{network['id']}", {"network": {"qos_policy_id": None}}
    admin.put(path, none).refused(501, "NotImplementedError")
    other = policy(admin)["id"]
    admin.change("port", port["id"], qos_policy_id=other)
    admin.put(path, none).expect(200)


def test_placement_is_away(cloud: Cloud, admin: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    port = cloud.port(300)
    instance = cloud.boot(port)

    def away(method: str, path: str, body: object) -> PlacementResponse:
        raise Unavailable("no connection")

    (use,) = [one for one in server.core.ports.uses if isinstance(getattr(one.changes, "__self__", None), Allocations)]
    monkeypatch.setattr(server.core.ports, "uses", [type(use)(changes=Allocations(away).changed)])
    answer = admin.put(f"/ports/{port['id']}", {"port": {"qos_policy_id": policy(admin)["id"]}})
    answer.refused(503, "PlacementUnavailable")
    admin.change("port", port["id"], name="other requests do not need it")
    assert cloud.used(instance) == {EGRESS: 300}


def test_a_concurrent_change_of_the_allocation_is_read_again(cloud: Cloud, admin: Api, server: Server) -> None:
    port = cloud.port(300)
    instance = cloud.boot(port)
    call: Callable[..., PlacementResponse] = caller(server.conf, "placement", "placement", "1.28", "test")
    asked: list[str] = []

    def disturbed(method: str, path: str, body: Any) -> PlacementResponse:
        asked.append(method)
        if asked == ["GET", "PUT"]:  # Nova is first
            now = cloud.placement.ask("GET", f"/allocations/{instance}")
            cloud.placement.ask("PUT", f"/allocations/{instance}", now)
        return call(method, path, body)

    with server.db.read() as connection:
        before = admin.show("port", port["id"])
        after = {**before, "qos_policy_id": policy(admin)["id"], "trusted": None}
        assert Allocations(disturbed).changed(connection, admin_context(), before, after) is not None
    assert asked == ["GET", "PUT", "GET", "PUT"]
    assert cloud.used(instance) is None
