"""Ports with minimums, from their request to the binding and a change of policy, with a real Placement in Nova's role."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.placement.reporter import Reporter
from neutrino.features.qos.allocations import Allocations
from neutrino.features.qos.consumers import REPEATS, Consumers, Wanted
from neutrino.model.agents import OVS
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.ml2.driver_api import HasProviders
from neutrino.server.placement import Call, PlacementResponse, Unavailable, caller
from tests.api.client import Api
from tests.api.placed_hosts import EGRESS, PACKETS, Hosts, guaranteed, placement, server
from tests.api.qos import policy, rule
from tests.api.races import before_next_write
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


def test_ports_of_another_project_do_not_count_for_an_instance(cloud: Cloud, admin: Api, server: Server) -> None:
    owner, stranger = Api(server.app), Api(server.app)
    less, more = (policy(admin, shared=True)["id"] for _ in range(2))
    rule(admin, less, "minimum_bandwidth", min_kbps=100)
    rule(admin, more, "minimum_bandwidth", min_kbps=300)
    physical = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    network = admin.network(**physical)
    theirs, mine = (admin.port(network, project_id=one.project, qos_policy_id=less) for one in (owner, stranger))
    victim = cloud.boot(theirs)
    cloud.boot(mine)
    stranger.put(f"/ports/{mine['id']}", {"port": {"device_id": victim}}).expect(200)
    owner.put(f"/ports/{theirs['id']}", {"port": {"qos_policy_id": more}}).expect(200)
    assert cloud.used(victim) == {EGRESS: 300}


def test_a_device_id_that_is_no_instance(cloud: Cloud, admin: Api, server: Server) -> None:
    owner = Api(server.app)
    gold = policy(admin, shared=True)["id"]
    rule(admin, gold, "minimum_bandwidth", min_kbps=100)
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    port = admin.port(network, project_id=owner.project, qos_policy_id=gold)
    cloud.boot(port)
    owner.put(f"/ports/{port['id']}", {"port": {"device_id": ".."}}).expect(200)
    change = {"port": {"qos_policy_id": None}}
    owner.put(f"/ports/{port['id']}", change).refused(409, "QosPlacementAllocationUpdateConflict")


@pytest.mark.every_database
def test_two_ports_of_an_instance_get_another_policy_at_once(
    cloud: Cloud, admin: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither request counts the other port's former policy, also if both change as much."""
    port, second = cloud.port(100), cloud.port(100)
    instance = cloud.boot(port, second)
    more = at_least(admin, 300)
    before_next_write(server, monkeypatch, lambda: admin.change("port", second["id"], qos_policy_id=more))
    admin.change("port", port["id"], qos_policy_id=more)
    assert cloud.used(instance) == {EGRESS: 600}


def test_what_nova_has_allocated_for_a_port_that_it_is_attaching_stays(cloud: Cloud, admin: Api) -> None:
    port, attached = cloud.port(100), cloud.port(200)
    instance = cloud.boot(port, attached)
    allocation = admin.show("port", attached["id"])["binding:profile"]
    cloud.nova.change("port", attached["id"], **{"binding:profile": {}})
    admin.change("port", port["id"], qos_policy_id=at_least(admin, 150))
    assert cloud.used(instance) == {EGRESS: 350}
    cloud.nova.change("port", attached["id"], **{"binding:profile": allocation})
    admin.change("port", port["id"], qos_policy_id=at_least(admin, 160))
    assert cloud.used(instance) == {EGRESS: 360}


@dataclass
class Followed:
    """A network with a policy of 200 kbit/s, and ports of instances that have it."""

    network: dict[str, Any]
    ports: list[dict[str, Any]]
    instances: list[str]


@pytest.fixture
def followed(cloud: Cloud, admin: Api) -> Followed:
    gold = policy(admin)["id"]
    rule(admin, gold, "minimum_bandwidth", min_kbps=200)
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1", qos_policy_id=gold)
    ports = [admin.port(network), admin.port(network), admin.port(network)]
    # One instance has two of the ports, and one of another network with a policy of its own.
    own = cloud.port(50)
    instances = [cloud.boot(ports[0], ports[1], own), cloud.boot(ports[2])]
    return Followed(network, ports, instances)


def at_least(admin: Api, kbps: int, **more: Any) -> str:
    made = policy(admin)["id"]
    rule(admin, made, "minimum_bandwidth", min_kbps=kbps, **more)
    return str(made)


def test_another_policy_of_a_network_changes_the_allocations_of_its_ports(
    cloud: Cloud, admin: Api, followed: Followed
) -> None:
    own, inherited = (admin.show("port", port["id"]) for port in followed.ports[1:])
    admin.change("port", own["id"], qos_policy_id=at_least(admin, 100))
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 350}, {EGRESS: 200}]
    admin.change("network", followed.network["id"], qos_policy_id=at_least(admin, 300))
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 450}, {EGRESS: 300}]
    shown = admin.show("port", inherited["id"])
    (group,) = shown["resource_request"]["request_groups"]
    assert shown["binding:profile"]["allocation"] == {group["id"]: cloud.providers["br-ex"]}
    assert shown["revision_number"] == inherited["revision_number"] + 1
    for name in ("status", "binding:vif_type", "binding:vif_details"):
        assert shown[name] == inherited[name], "the port is not bound again"
    (binding,) = admin.get(f"/ports/{inherited['id']}/bindings").body["bindings"]
    assert binding["profile"] == shown["binding:profile"]
    admin.change("network", followed.network["id"], qos_policy_id=None)
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 150}, None]
    assert cloud.placement.allocated(followed.instances[1]).keys(), "what is not ours stays"


def test_a_network_policy_that_does_not_fit_everywhere_changes_nothing(
    cloud: Cloud, admin: Api, followed: Followed
) -> None:
    before = [admin.show("port", port["id"]) for port in followed.ports], admin.show("network", followed.network["id"])
    change = {"network": {"qos_policy_id": at_least(admin, 320)}}  # 50 and three times 320 kbit/s, of 1000
    answer = admin.put(f"/networks/{followed.network['id']}", change)
    answer.refused(409, "QosPlacementAllocationUpdateConflict")
    assert any(port["id"] in answer.message for port in followed.ports)
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 450}, {EGRESS: 200}]
    assert before == (
        [admin.show("port", port["id"]) for port in followed.ports],
        admin.show("network", followed.network["id"]),
    )
    admin.change("network", followed.network["id"], qos_policy_id=at_least(admin, 310))
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 670}, {EGRESS: 310}]


def test_a_network_policy_with_both_kinds_of_minimums(cloud: Cloud, admin: Api) -> None:
    both, less = at_least(admin, 200), at_least(admin, 100)
    rule(admin, both, "minimum_packet_rate", min_kpps=3, direction="any")
    physical = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    network = admin.network(qos_policy_id=both, **physical)
    instance = cloud.boot(admin.port(network))
    assert (cloud.used(instance), cloud.used(instance, "")) == ({EGRESS: 200}, {PACKETS: 3})
    admin.change("network", network["id"], qos_policy_id=less)
    assert (cloud.used(instance), cloud.used(instance, "")) == ({EGRESS: 100}, None)
    admin.change("network", network["id"], qos_policy_id=both)  # the host alone keeps the packet rate
    assert (cloud.used(instance), cloud.used(instance, "")) == ({EGRESS: 200}, None)


def test_a_network_policy_does_not_change_what_another_project_has_allocated(cloud: Cloud, server: Server) -> None:
    victim = cloud.boot(cloud.port(300))
    stranger = Api(server.app)
    gold = policy(cloud.admin, shared=True)["id"]
    rule(cloud.admin, gold, "minimum_bandwidth", min_kbps=200)
    physical = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    network = cloud.admin.network(qos_policy_id=gold, shared=True, **physical)
    port = cloud.admin.port(network, project_id=stranger.project)
    cloud.boot(port)
    stranger.put(f"/ports/{port['id']}", {"port": {"device_id": victim}}).expect(200)
    change = {"network": {"qos_policy_id": None}}
    answer = cloud.admin.put(f"/networks/{network['id']}", change)
    answer.refused(409, "QosPlacementAllocationUpdateConflict")
    assert port["id"] in answer.message
    assert cloud.used(victim) == {EGRESS: 300}


def test_no_database_connection_waits_for_placement(
    cloud: Cloud, admin: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, asked = list[object](), list[int]()
    read, write = server.db.read, Consumers.write

    @contextmanager
    def reading() -> Iterator[sa.Connection]:
        with read() as connection:
            held.append(connection)
            yield connection
            held.pop()

    def noted(self: Consumers, several: Sequence[Wanted]) -> None:
        asked.append(len(held))
        write(self, several)

    monkeypatch.setattr(server.db, "read", reading)
    monkeypatch.setattr(Consumers, "write", noted)
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    port = cloud.port(100, network)
    instance = cloud.boot(port)
    admin.change("port", port["id"], qos_policy_id=at_least(admin, 200))
    admin.change("network", network["id"], qos_policy_id=at_least(admin, 300))
    of_network = admin.port(network)
    other = cloud.boot(of_network)
    admin.change("network", network["id"], qos_policy_id=at_least(admin, 400))
    assert (cloud.used(instance), cloud.used(other)) == ({EGRESS: 200}, {EGRESS: 400})
    assert asked == [0, 0]


def test_placement_is_away(
    cloud: Cloud, admin: Api, server: Server, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = cloud.port(100)
    instance = cloud.boot(port)

    def away(method: str, path: str, body: object) -> PlacementResponse:
        raise Unavailable("no connection")

    through(monkeypatch, server, away)
    answer = admin.put(f"/ports/{port['id']}", {"port": {"qos_policy_id": policy(admin)["id"]}})
    answer.refused(503, "PlacementUnavailable")
    none = {"network": {"qos_policy_id": None}}
    admin.put(f"/networks/{followed.network['id']}", none).refused(503, "PlacementUnavailable")
    admin.change("port", port["id"], name="other requests do not need it")
    admin.change("network", followed.network["id"], name="nor do these")
    assert [cloud.used(each) for each in (instance, *followed.instances)] == [
        {EGRESS: 100},
        {EGRESS: 450},
        {EGRESS: 200},
    ]


def through(monkeypatch: pytest.MonkeyPatch, server: Server, call: Call) -> None:
    """Make the server's requests ask Placement by `call`."""
    owners = (getattr(use.changes, "__self__", None) for use in server.core.ports.uses)
    (consumers,) = (one.consumers for one in owners if isinstance(one, Allocations))
    for name in ("call", "call_for_many"):
        monkeypatch.setitem(vars(consumers), name, call)


def test_a_concurrent_change_of_an_allocation_is_read_again(
    cloud: Cloud, admin: Api, server: Server, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = caller(server.conf, "placement", "placement", "1.28", "test")
    asked: list[str] = []

    def disturbed(method: str, path: str, body: Any) -> PlacementResponse:
        asked.append(method)
        if method != "GET" and len(asked) <= 3:  # Nova is first
            instance = followed.instances[0]
            now = cloud.placement.ask("GET", f"/allocations/{instance}")
            cloud.placement.ask("PUT", f"/allocations/{instance}", now)
        return call(method, path, body)

    through(monkeypatch, server, disturbed)
    admin.change("network", followed.network["id"], qos_policy_id=None)
    assert asked == ["GET", "GET", "POST", "GET", "GET", "POST"]
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 50}, None]
    asked.clear()
    port = admin.show("port", followed.ports[0]["id"])
    admin.change("port", port["id"], qos_policy_id=at_least(admin, 5))
    assert asked == [], "Nova has allocated nothing for it any more"


def test_others_that_never_stop_changing_an_allocation(
    cloud: Cloud, admin: Api, server: Server, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = caller(server.conf, "placement", "placement", "1.28", "test")
    asked: list[str] = []

    def disturbed(method: str, path: str, body: Any) -> PlacementResponse:
        asked.append(method)
        if method == "POST":
            now = cloud.placement.ask("GET", f"/allocations/{followed.instances[1]}")
            cloud.placement.ask("PUT", f"/allocations/{followed.instances[1]}", now)
        return call(method, path, body)

    through(monkeypatch, server, disturbed)
    answer = admin.put(f"/networks/{followed.network['id']}", {"network": {"qos_policy_id": None}})
    answer.refused(409, "QosPlacementAllocationUpdateConflict")
    assert asked.count("POST") == REPEATS
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 450}, {EGRESS: 200}]


def test_a_lost_race_in_the_database_does_not_count_twice(
    cloud: Cloud, admin: Api, server: Server, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port changes between the answer of Placement and the commit: all is decided again."""
    call = caller(server.conf, "placement", "placement", "1.28", "test")
    asked: list[str] = []

    def raced(method: str, path: str, body: Any) -> PlacementResponse:
        answer = call(method, path, body)
        asked.append(method)
        if asked == ["GET", "GET", "POST"]:
            admin.change("port", followed.ports[0]["id"], name="changed meanwhile")
        return answer

    through(monkeypatch, server, raced)
    admin.change("network", followed.network["id"], qos_policy_id=at_least(admin, 210))
    assert asked == ["GET", "GET", "POST", "GET", "GET"]
    assert [cloud.used(each) for each in followed.instances] == [{EGRESS: 470}, {EGRESS: 210}]
    assert admin.show("port", followed.ports[0]["id"])["name"] == "changed meanwhile"
