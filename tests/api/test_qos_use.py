"""QoS policies on networks, ports, floating IPs and gateways: shown, refused where no driver enforces a rule."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.qos.use import check_not_placed
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import gateway, inside, outside
from tests.api.qos import DEAD, RULES, delete_rule, policy, post_rule, put_rule, rule
from tests.support.databases import prepared_database

PLACEMENT = {"placement": {"auth_type": "none", "endpoint": "http://127.0.0.1:1"}}  # nothing is sent: no host reports


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    made = start(directory, prepared_database(request, database, directory), PLACEMENT)
    yield made
    made.close()


HOST = "compute-1"


def limited(admin: Api, *types: str, **values: Any) -> str:
    """A policy with a rule of each of these types."""
    key: str = policy(admin, **values)["id"]
    for type_ in types:
        rule(admin, key, type_)
    return key


# --- networks and ports -----------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_port_shows_its_own_policy_and_its_networks(api: Api, admin: Api) -> None:
    gold, silver = limited(admin, "bandwidth_limit"), limited(admin, "dscp_marking", name="silver")
    network = api.network(qos_policy_id=gold)
    port = api.port(network, qos_policy_id=silver)
    assert (port["qos_policy_id"], port["qos_network_policy_id"]) == (silver, gold)
    assert api.show("port", port["id"]) == port
    changed = api.change("port", port["id"], qos_policy_id=None)
    assert (changed["qos_policy_id"], changed["qos_network_policy_id"]) == (None, gold)
    api.change("network", network["id"], qos_policy_id=silver)
    assert api.show("port", port["id"])["qos_network_policy_id"] == silver
    assert api.all("/ports", {"network_id": network["id"]})[0]["qos_network_policy_id"] == silver
    api.change("network", network["id"], qos_policy_id=None)
    assert api.show("port", port["id"])["qos_network_policy_id"] is None
    revision = api.show("port", port["id"])["revision_number"]
    assert revision == changed["revision_number"]  # a port is not changed by its network's policy


def test_a_direct_port_needs_rules_that_its_driver_enforces(api: Api, admin: Api) -> None:
    network = api.network()
    good, marked = limited(admin, "bandwidth_limit"), limited(admin, "dscp_marking")
    inward = policy(admin)["id"]
    rule(admin, inward, "bandwidth_limit", direction="ingress")
    macvtap = api.port(network, binding__vnic_type="macvtap", qos_policy_id=good)
    for bad in (marked, inward):
        body = {"port": {"network_id": network["id"], "binding:vnic_type": "macvtap", "qos_policy_id": bad}}
        api.post("/ports", body).refused(409, "QosRuleNotSupported")
        api.put(f"/ports/{macvtap['id']}", {"port": {"qos_policy_id": bad}}).refused(409, "QosRuleNotSupported")
    api.port(network, binding__vnic_type="direct", qos_policy_id=marked)  # may become a port of a switch


def test_a_rule_for_a_port_that_cannot_have_it(api: Api, admin: Api) -> None:
    """A rule is refused if any port with its policy, its own or its network's, does not support it."""
    by_port, by_network = policy(admin)["id"], policy(admin)["id"]
    network = api.network(qos_policy_id=by_network)
    port = api.port(network, binding__vnic_type="macvtap", qos_policy_id=by_port)
    other = api.port(network, binding__vnic_type="macvtap")
    refused = post_rule(admin, by_port, "dscp_marking").refused(409, "QosRuleNotSupported")
    assert port["id"] in refused.message
    refused = post_rule(admin, by_network, "dscp_marking").refused(409, "QosRuleNotSupported")
    assert other["id"] in refused.message
    made = rule(admin, by_port, "bandwidth_limit")
    put_rule(admin, by_port, "bandwidth_limit", made["id"], direction="ingress").refused(409, "QosRuleNotSupported")
    api.delete(f"/ports/{other['id']}").expect(204)
    rule(admin, by_network, "dscp_marking")


def test_a_networks_policy_is_checked_on_its_ports(api: Api, admin: Api) -> None:
    marked = limited(admin, "dscp_marking")
    network = api.network()
    macvtap = api.port(network, binding__vnic_type="macvtap")
    path = f"/networks/{network['id']}"
    api.put(path, {"network": {"qos_policy_id": marked}}).refused(409, "QosRuleNotSupported")
    api.change("port", macvtap["id"], qos_policy_id=limited(admin, "bandwidth_limit"))
    api.put(path, {"network": {"qos_policy_id": marked}}).expect(200)
    body = {"port": {"network_id": network["id"], "binding:vnic_type": "macvtap"}}
    api.post("/ports", body).refused(409, "QosRuleNotSupported")
    api.put(path, {"network": {"qos_policy_id": DEAD}}).refused(404, "QosPolicyNotFound")


def test_a_bound_port_is_judged_by_its_binding(server: Server, api: Api, admin: Api) -> None:
    """A direct port that Open vSwitch has bound takes what Open vSwitch enforces."""
    switch(server, HOST)
    marked = limited(admin, *RULES)
    network = api.network()
    api.subnet(network)
    bound = admin.port(network, binding__host_id=HOST, device_owner="compute:z")
    assert bound["binding:vif_type"] == "ovs"
    assert admin.change("port", bound["id"], qos_policy_id=marked)["qos_policy_id"] == marked
    profile = {"capabilities": ["switchdev"]}
    service = api.as_service()
    offloaded = service.port(
        network, binding__host_id=HOST, binding__vnic_type="direct", binding__profile=profile, project_id=api.project
    )
    assert service.show("port", offloaded["id"])["binding:vif_type"] == "ovs"
    admin.change("port", offloaded["id"], qos_policy_id=marked)


# --- floating IPs and gateways ----------------------------------------------------------------------------------------


def test_floating_ips(api: Api, admin: Api) -> None:
    gold, silver = policy(admin, shared=True)["id"], policy(admin)["id"]
    external = outside(admin, qos_policy_id=gold)
    plain = api.make("floatingip", floating_network_id=external["id"])
    assert (plain["qos_policy_id"], plain["qos_network_policy_id"]) == (None, gold)
    assert api.show("floatingip", plain["id"]) == plain
    own = api.change("floatingip", plain["id"], qos_policy_id=silver)
    assert (own["qos_policy_id"], own["qos_network_policy_id"]) == (silver, gold)
    assert own["revision_number"] == plain["revision_number"] + 1
    again = api.change("floatingip", plain["id"], description="d")
    assert again["qos_policy_id"] == silver
    admin.change("network", external["id"], qos_policy_id=None)
    assert api.show("floatingip", plain["id"])["qos_network_policy_id"] is None
    assert api.change("floatingip", plain["id"], qos_policy_id=None)["qos_policy_id"] is None
    operators = policy(api.as_stranger().as_admin())["id"]
    api.put(f"/floatingips/{plain['id']}", {"floatingip": {"qos_policy_id": operators}}).refused(
        404, "QosPolicyNotFound"
    )
    admin.change("floatingip", plain["id"], qos_policy_id=operators)
    api.put(f"/floatingips/{plain['id']}", {"floatingip": {"qos_policy_id": None}}).refused(
        403, "PolicyRemoveAuthorizationError"
    )


def test_a_floating_ip_keeps_its_port_when_its_policy_changes(api: Api, admin: Api) -> None:
    gold = policy(admin)["id"]
    external = outside(admin)
    network, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(external))
    api.put(f"/routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]}).expect(200)
    port = api.port(network)
    made = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"], qos_policy_id=gold)
    assert (made["port_id"], made["qos_policy_id"]) == (port["id"], gold)
    changed = api.change("floatingip", made["id"], qos_policy_id=None)
    assert (changed["port_id"], changed["router_id"]) == (port["id"], router["id"])


@pytest.mark.every_database
def test_gateways(api: Api, admin: Api) -> None:
    gold, silver = policy(admin)["id"], policy(admin)["id"]
    external, other = outside(admin), outside(admin, "172.25.0.0/24")
    router = api.make("router", external_gateway_info=gateway(external, qos_policy_id=gold))

    def shown() -> str | None:
        found: str | None = api.show("router", router["id"])["external_gateway_info"].get("qos_policy_id")
        return found

    def change(info: dict[str, Any] | None) -> Any:
        return api.put(f"/routers/{router['id']}", {"router": {"external_gateway_info": info}})

    assert router["external_gateway_info"]["qos_policy_id"] == shown() == gold
    change(gateway(external)).expect(200)
    assert shown() == gold  # not given: it stays
    change(gateway(external, qos_policy_id=silver)).expect(200)
    assert shown() == silver
    change(gateway(other)).expect(200)
    assert shown() == silver
    change(gateway(other, qos_policy_id=None)).expect(200)
    assert shown() is None
    change(gateway(other, qos_policy_id=DEAD)).refused(404, "QosPolicyNotFound")
    change(gateway(other, qos_policy_id=gold)).expect(200)
    change(None).expect(200)
    change(gateway(external)).expect(200)
    assert shown() is None  # it went with the gateway
    admin.delete(f"/qos/policies/{gold}").expect(204)


def test_a_gateways_policy_that_the_project_does_not_see(api: Api, admin: Api) -> None:
    hidden, external = policy(api.as_stranger().as_admin())["id"], outside(admin)
    router = api.make("router", external_gateway_info=gateway(external))
    path = f"/routers/{router['id']}"

    def body(info: dict[str, Any] | None) -> dict[str, Any]:
        return {"router": {"external_gateway_info": info}}

    admin.put(path, body(gateway(external, qos_policy_id=hidden))).expect(200)
    api.put(path, body(gateway(external, qos_policy_id=None))).refused(403, "PolicyRemoveAuthorizationError")
    api.put(path, body(None)).expect(200)
    again = api.put(path, body(gateway(external))).expect(200).body["router"]["external_gateway_info"]
    assert again.get("qos_policy_id") is None  # it lasts as long as the gateway


# --- Placement --------------------------------------------------------------------------------------------------------


def test_a_resource_request(api: Api, admin: Api) -> None:
    gold = policy(admin)["id"]
    outward = rule(admin, gold, "minimum_bandwidth", min_kbps=1000)
    inward = rule(admin, gold, "minimum_bandwidth", min_kbps=2000, direction="ingress")
    packets = rule(admin, gold, "minimum_packet_rate", min_kpps=3)
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    port = admin.port(network, qos_policy_id=gold)
    name = uuid.UUID(port["id"])
    first, second = uuid.uuid5(name, f"{outward['id']}:{inward['id']}"), uuid.uuid5(name, packets["id"])
    wanted = {
        "request_groups": [
            {
                "id": str(first),
                "required": ["CUSTOM_PHYSNET_PHYSNET1", "CUSTOM_VNIC_TYPE_NORMAL"],
                "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 2000},
            },
            {
                "id": str(second),
                "required": ["CUSTOM_VNIC_TYPE_NORMAL"],
                "resources": {"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC": 3},
            },
        ],
        "same_subtree": [str(first), str(second)],
    }
    assert port["resource_request"] == wanted
    assert admin.show("port", port["id"])["resource_request"] == wanted
    assert "resource_request" not in api.show("port", port["id"])
    listed = admin.get("/ports", [("id", port["id"]), ("fields", "resource_request")]).body["ports"]
    assert listed == [{"resource_request": wanted}]
    assert admin.change("port", port["id"], name="x")["resource_request"] == wanted
    assert admin.change("port", port["id"], qos_policy_id=None)["resource_request"] is None
    admin.change("network", network["id"], qos_policy_id=gold)
    assert admin.show("port", port["id"])["resource_request"] == wanted


def test_a_resource_request_on_a_tunnelled_network(admin: Api) -> None:
    gold = policy(admin)["id"]
    rule(admin, gold, "minimum_bandwidth")
    port = admin.port(admin.network(qos_policy_id=gold), binding__vnic_type="direct")
    (group,) = port["resource_request"]["request_groups"]
    assert group["required"] == ["CUSTOM_NETWORK_TUNNEL_PROVIDER", "CUSTOM_VNIC_TYPE_DIRECT"]


def test_no_resource_request_without_placement(another_server: Callable[[], Server]) -> None:
    """Nova would ask for resources that Placement does not have."""
    admin = Api(another_server().app).as_admin()
    gold = policy(admin)["id"]
    rule(admin, gold, "minimum_bandwidth")
    port = admin.port(admin.network(qos_policy_id=gold))
    assert port["resource_request"] is None
    assert admin.show("port", port["id"])["resource_request"] is None
    listed = admin.get("/ports", [("id", port["id"]), ("fields", "resource_request")]).body["ports"]
    assert listed == [{"resource_request": None}]


def test_no_resource_request_without_a_minimum(admin: Api) -> None:
    port = admin.port(admin.network(), qos_policy_id=limited(admin, "bandwidth_limit", "dscp_marking"))
    assert port["resource_request"] is admin.show("port", port["id"])["resource_request"] is None


@pytest.mark.parametrize("type_", ["minimum_bandwidth", "minimum_packet_rate"])
def test_a_minimum_that_placement_has_allocated_does_not_change(api: Api, admin: Api, type_: str) -> None:
    gold = policy(admin)["id"]
    made = rule(admin, gold, type_)
    port = api.port(api.network(qos_policy_id=gold), device_owner="compute:z", device_id=str(uuid.uuid4()))
    amount = next(iter(RULES[type_]))
    for answer in (
        put_rule(admin, gold, type_, made["id"], **{amount: 7}),
        post_rule(admin, gold, type_, direction="ingress"),
        delete_rule(admin, gold, type_, made["id"]),
    ):
        assert port["id"] in answer.refused(501, "NotImplementedError").message
    rule(admin, gold, "bandwidth_limit")
    api.change("port", port["id"], device_owner="")
    delete_rule(admin, gold, type_, made["id"]).expect(204)


@pytest.mark.every_database
def test_ports_with_a_policy_are_found_by_indexes() -> None:
    """Nearly all ports have no policy: a query that looks for those, too, would read the whole table."""
    engine = sa.create_engine("sqlite://")
    statements: list[tuple[str, Any]] = []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def collect(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    with engine.connect() as connection:
        t.metadata.create_all(connection)
        statements.clear()
        check_not_placed(connection, DEAD)
        asked = statements[:]
        plans = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all() for sql, values in asked]
    steps = [str(row[-1]) for plan in plans for row in plan]
    found = [step for step in steps if " ports " in step]
    assert [step.split("(")[-1] for step in found] == ["qos_policy_id=?)", "network_id=?)"]
    assert not [step for step in steps if step.startswith("SCAN")]
