"""What hosts guarantee, in a real Placement."""

from __future__ import annotations

import uuid

import pytest
from neutron_lib.placement import utils as neutron

from neutrino.diagnosis.problems import Finding
from neutrino.features.placement import reconcile
from neutrino.features.placement.facts import _findings
from neutrino.features.placement.reporter import Reporter
from neutrino.model.agents import OVS
from neutrino.server.main import Server
from neutrino.server.ml2.driver_api import HasProviders
from neutrino.server.placement import SECTION, PlacementResponse, Unavailable, caller
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.placed_hosts import DEFAULTS, EGRESS, INGRESS, PACKETS, Hosts, guaranteed, placement, server, through
from tests.support.placement import Placement

__all__ = ["placement", "server"]  # fixtures

NAMESPACE = uuid.UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692")  # Neutron's, of its Open vSwitch driver
VNIC_TYPES = {
    "CUSTOM_VNIC_TYPE_NORMAL",
    "CUSTOM_VNIC_TYPE_DIRECT",
    "CUSTOM_VNIC_TYPE_SMART_NIC",
    "CUSTOM_VNIC_TYPE_VDPA",
}


@pytest.fixture
def hosts(server: Server, placement: Placement) -> Hosts:
    drivers = server.core.operations.mechanisms.drivers.values()
    supported = {one.providers.agent_type: one.providers for one in drivers if isinstance(one, HasProviders)}
    call = caller(server.conf, SECTION, "placement", reconcile.VERSION, "test")
    return Hosts(server, placement, Reporter(server.db, call, supported))


@pytest.fixture
def host() -> str:
    return f"host-{uuid.uuid4().hex[:8]}"


def findings(server: Server, host: str) -> list[Finding]:
    with server.db.read() as connection:
        return [one for one in _findings(connection) if one.host == host]


def test_the_tree_of_a_host_is_neutrons(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    rates = guaranteed({"br-ex": (1000, 2000), "rp_tunnelled": (300, None)}, {host: 50})
    made = hosts.report(host, bridge_mappings={"physnet1": "br-ex", "other": "br-other"}, **rates)
    assert hosts.synced(made) is None
    hosts.settle()
    tree = placement.tree(root)
    agent, bridge, tunnels = (f"{host}:{OVS}{suffix}" for suffix in ("", ":br-ex", ":rp_tunnelled"))
    assert tree.keys() == {agent, bridge, tunnels}
    agent_id = str(neutron.agent_resource_provider_uuid(NAMESPACE, host))
    assert (tree[agent]["uuid"], tree[agent]["parent_provider_uuid"]) == (agent_id, root)
    for name, device in ((bridge, "br-ex"), (tunnels, "rp_tunnelled")):
        device_id = str(neutron.device_resource_provider_uuid(NAMESPACE, host, device))
        assert (tree[name]["uuid"], tree[name]["parent_provider_uuid"]) == (device_id, agent_id)
    assert tree[agent]["traits"] == VNIC_TYPES
    assert tree[bridge]["traits"] == {"CUSTOM_PHYSNET_PHYSNET1", *VNIC_TYPES}
    assert tree[tunnels]["traits"] == {"CUSTOM_NETWORK_TUNNEL_PROVIDER", *VNIC_TYPES}
    assert tree[agent]["inventories"] == {PACKETS: {**DEFAULTS, "total": 50}}
    both = {EGRESS: {**DEFAULTS, "total": 1000}, INGRESS: {**DEFAULTS, "total": 2000}}
    assert tree[bridge]["inventories"] == both
    assert tree[tunnels]["inventories"] == {EGRESS: {**DEFAULTS, "total": 300}}
    assert hosts.synced(made) is True
    assert findings(hosts.server, host) == []


def test_a_repeated_report_changes_nothing(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    rates = guaranteed({"br-ex": (1000, 2000)})
    hosts.report(host, **rates)
    hosts.settle()
    before = placement.tree(root)
    made = hosts.report(host, **rates)
    hosts.settle()
    assert placement.tree(root) == before, "generations too"
    hosts.heartbeat(made)
    assert hosts.queued == [], "Placement has it already"


def test_changes_are_followed(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    mappings = {"physnet1": "br-ex", "physnet2": "br-b"}
    hosts.report(host, bridge_mappings=mappings, **guaranteed({"br-ex": (1000, 2000), "br-b": (10, 10)}, {host: 5}))
    hosts.settle()
    made = hosts.report(host, bridge_mappings={"physnet3": "br-ex"}, **guaranteed({"br-ex": (500, None)}))
    hosts.settle()
    tree = placement.tree(root)
    assert tree.keys() == {f"{host}:{OVS}", f"{host}:{OVS}:br-ex"}
    assert tree[f"{host}:{OVS}"]["inventories"] == {}
    assert tree[f"{host}:{OVS}:br-ex"]["inventories"] == {EGRESS: {**DEFAULTS, "total": 500}}
    assert tree[f"{host}:{OVS}:br-ex"]["traits"] == {"CUSTOM_PHYSNET_PHYSNET3", *VNIC_TYPES}
    hosts.report(host, **guaranteed())
    hosts.settle()
    assert placement.tree(root) == {}
    assert hosts.synced(made) is None


def test_what_others_have_added_stays(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}))
    hosts.settle()
    provider = placement.tree(root)[f"{host}:{OVS}:br-ex"]
    placement.ask("PUT", "/traits/CUSTOM_FAST")
    body = {"resource_provider_generation": provider["generation"], "traits": [*provider["traits"], "CUSTOM_FAST"]}
    placement.ask("PUT", f"/resource_providers/{provider['uuid']}/traits", body)
    hosts.report(host, **guaranteed({"br-ex": (900, 2000)}))
    hosts.settle()
    tree = placement.tree(root)
    assert "CUSTOM_FAST" in tree[f"{host}:{OVS}:br-ex"]["traits"]
    assert tree[f"{host}:{OVS}:br-ex"]["inventories"][EGRESS]["total"] == 900


def test_a_device_with_allocations_stays_until_they_are_gone(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}))
    hosts.settle()
    resources = {"id": "_a", "resources": {EGRESS: 10}, "required": ["CUSTOM_PHYSNET_PHYSNET1"]}
    instance = str(uuid.uuid4())
    provider = placement.tree(root)[f"{host}:{OVS}:br-ex"]["uuid"]
    consumer = {"project_id": "p", "user_id": "u", "consumer_generation": None}
    allocations = {provider: {"resources": {EGRESS: 10}}}
    placement.ask("PUT", f"/allocations/{instance}", {"allocations": allocations, **consumer})
    made = hosts.report(host, **guaranteed())
    hosts.settle()
    assert placement.tree(root)[f"{host}:{OVS}:br-ex"]["traits"] == set()
    assert not [one for one in placement.candidates(resources) if provider in one["allocations"]]
    assert hosts.synced(made) is False
    (finding,) = findings(hosts.server, host)
    assert host in finding.what
    placement.ask("DELETE", f"/allocations/{instance}")
    hosts.heartbeat(made)
    hosts.settle()
    assert placement.tree(root) == {}
    assert hosts.synced(made) is None


def test_a_host_waits_for_its_compute_node(hosts: Hosts, placement: Placement, host: str) -> None:
    made = hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}, hypervisor=f"{host}.example.org"))
    hosts.settle()
    assert hosts.synced(made) is False
    root = placement.compute_node(f"{host}.example.org")
    hosts.heartbeat(made)
    hosts.settle()
    assert hosts.synced(made) is True
    device = placement.tree(root)[f"{host}.example.org:{OVS}:br-ex"]
    assert device["uuid"] == str(neutron.device_resource_provider_uuid(NAMESPACE, f"{host}.example.org", "br-ex"))


def test_one_hosts_problem_does_not_stop_others(hosts: Hosts, placement: Placement, host: str) -> None:
    lost = hosts.report(f"{host}-lost", **guaranteed({"br-ex": (1, 1)}))
    placement.compute_node(host)
    made = hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}))
    hosts.settle()
    assert (hosts.synced(lost), hosts.synced(made)) == (False, True)


def test_placement_is_away(hosts: Hosts, placement: Placement, host: str) -> None:
    placement.compute_node(host)
    made = hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}))
    hosts.settle()

    def away(method: str, path: str, body: object) -> PlacementResponse:
        raise Unavailable("placement: no connection")

    lost = Hosts(hosts.server, placement, through(hosts.reporter, away))
    lost.report(host, **guaranteed({"br-ex": (500, 500)}))
    undelivered = lost.deliver()
    assert undelivered is not None
    assert undelivered.items == [made.agent_id]
    assert hosts.synced(made) is False
    assert len(findings(hosts.server, host)) == 1
    assert hosts.reporter.deliver(undelivered.items) is None
    assert hosts.synced(made) is True


def test_a_generation_conflict_is_read_again(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}))
    hosts.settle()
    others = 0

    def disturbed(method: str, path: str, body: object) -> PlacementResponse:
        nonlocal others
        if method == "PUT" and path.endswith("/inventories") and others < 2:  # another writer is first
            others += 1
            provider = placement.ask("GET", path)
            inventories = {EGRESS: {"total": 1000 + others}}
            generation = provider["resource_provider_generation"]
            placement.ask("PUT", path, {"resource_provider_generation": generation, "inventories": inventories})
        return hosts.reporter.call(method, path, body)

    slow = Hosts(hosts.server, placement, through(hosts.reporter, disturbed))
    made = slow.report(host, **guaranteed({"br-ex": (700, 700)}))
    slow.settle()
    assert others == 2
    assert placement.tree(root)[f"{host}:{OVS}:br-ex"]["inventories"][EGRESS]["total"] == 700
    assert hosts.synced(made) is True


def test_endless_conflicts_end(hosts: Hosts, placement: Placement, host: str) -> None:
    placement.compute_node(host)
    asked = 0

    def conflicting(method: str, path: str, body: object) -> PlacementResponse:
        nonlocal asked
        asked += 1
        if method == "PUT" and path.endswith("/inventories"):
            return PlacementResponse(409, {"errors": [{"code": "placement.concurrent_update", "detail": ""}]})
        return hosts.reporter.call(method, path, body)

    busy = Hosts(hosts.server, placement, through(hosts.reporter, conflicting))
    busy.report(host, **guaranteed({"br-ex": (700, 700)}, {host: 5}))
    undelivered = busy.deliver()
    assert undelivered is not None
    assert "by others" in undelivered.reason
    assert asked < 60


def test_a_host_cannot_report_for_another_one(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(f"{host}.example.org")
    own = hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}, hypervisor=f"{host}.example.org"))
    hosts.settle()
    before = placement.tree(root)
    thief = hosts.report(f"{host}-thief", **guaranteed({"br-ex": (1, 1)}, hypervisor=f"{host}.example.org"))
    packets = hosts.report(f"{host}-thief2", **guaranteed({}, {f"{host}.example.org": 1}))
    hosts.settle()
    assert placement.tree(root) == before
    assert [hosts.synced(made) for made in (own, thief, packets)] == [True, False, False]


@pytest.mark.parametrize(
    "nonsense",
    [
        {"resource_provider_bandwidths": {"br-ex": {"egress": -1}}},
        {"resource_provider_bandwidths": {"br-ex": {"egress": 2**31}}},
        {"resource_provider_bandwidths": {f"br-{number}": {} for number in range(1000)}},
        {"resource_provider_bandwidths": ["br-ex"]},
        {"resource_provider_hypervisors": {"br-ex": 5}},
        {"resource_provider_bandwidths": {"b" * 101: {"egress": 1}}},
        {"resource_provider_inventory_defaults": {"allocation_ratio": 0}},
    ],
)
def test_a_report_that_cannot_be_in_placement(hosts: Hosts, host: str, nonsense: dict[str, object]) -> None:
    made = hosts.report(host, **{**guaranteed({"br-ex": (1, 1)}), **nonsense})
    hosts.settle()
    assert hosts.synced(made) is False


@pytest.mark.parametrize("name", ["../../traits", "a?name=b&c", "n\N{LATIN SMALL LETTER A WITH DIAERESIS}me #1"])
def test_odd_names_of_compute_nodes(hosts: Hosts, placement: Placement, host: str, name: str) -> None:
    root = placement.compute_node(f"{name}-{host}")
    made = hosts.report(host, **guaranteed({"br-ex": (1, 1)}, hypervisor=f"{name}-{host}"))
    hosts.settle()
    assert hosts.synced(made) is True
    assert f"{name}-{host}:{OVS}:br-ex" in placement.tree(root)


def test_hosts_without_rates_cost_no_request(hosts: Hosts, host: str) -> None:
    def call(method: str, path: str, body: object) -> PlacementResponse:
        raise AssertionError(path)

    plain = Hosts(hosts.server, hosts.placement, through(hosts.reporter, call))
    made = plain.report(host)
    plain.settle()
    assert plain.synced(made) is None


def test_drift_is_repaired(hosts: Hosts, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    made = hosts.report(host, **guaranteed({"br-ex": (1000, 2000)}))
    hosts.settle()
    device = placement.tree(root)[f"{host}:{OVS}:br-ex"]["uuid"]
    placement.ask("DELETE", f"/resource_providers/{device}")
    later = hosts.reporter.clock() + 3600
    hosts.reporter.clock = lambda: later
    hosts.heartbeat(made)
    hosts.settle()
    assert f"{host}:{OVS}:br-ex" in placement.tree(root)


def test_a_server_reports_from_its_own_thread(another_server: object, placement: Placement, host: str) -> None:
    root = placement.compute_node(host)
    server = another_server({"placement": placement.settings})  # type: ignore[operator]
    made = switch(server, host, **guaranteed({"br-ex": (1000, 2000)}))
    for one in server.running:
        one.host_reported(made)
    server.close()  # delivers what is queued
    assert f"{host}:{OVS}:br-ex" in placement.tree(root)


def test_extensions_are_shown_with_placement_alone(another_server: object, server: Server) -> None:
    def aliases(one: Server) -> set[str]:
        return {each["alias"] for each in Api(one.app).as_admin().get("/extensions").body["extensions"]}

    both = {"port-resource-request", "port-resource-request-groups"}
    assert aliases(server) >= both
    assert not aliases(another_server()) & both  # type: ignore[operator]
