"""Packet traces: `POST /v2.0/traces` on real objects, who may trace what, and what is refused."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.diagnosis import object_problems
from neutrino.features.router.tables import floatingips, router_l3_agents
from neutrino.features.router.trace import TracedRouting
from neutrino.model.objects import Object
from neutrino.model.trace import Cause, Exit, HostAnswer, Point, PointKind, Question
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.features import catalogue
from neutrino.server.main import Server
from neutrino.server.trace.ask import Ask, AskOnce, NoAnswer
from neutrino.server.trace.host_ask import HostAsk
from neutrino.server.trace.plugin import Traces
from neutrino.server.trace.tracer import Tracer
from neutrino.server.trace.values import Snapshot
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.firewalls import policy_with
from tests.api.l3 import attach, gateway, inside, l3_agent, outside
from tests.api.test_driver_contract import queries

AT_ONCE = 3
NOWHERE = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(autouse=True)
def hosts(server: Server) -> None:
    for host in ("trace-1", "trace-2", "trace-3"):
        switch(server, host)
    l3_agent(server, "trace-3")


@pytest.fixture(autouse=True)
def no_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No host is connected here: the answer is the server's alone, without waiting, unless a test has an `Ask`."""

    def once(ask: Ask) -> Ask | None:
        return None if isinstance(ask, HostAsk) else AskOnce(ask)

    monkeypatch.setattr("neutrino.server.trace.tracer.AskOnce", once)


def active(server: Server) -> None:
    """All ports that are bound are wired; all floating IPs are applied."""
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.ports).where(t.ports.c.host != "").values(status="ACTIVE"))
        tx.execute(sa.update(floatingips).values(status="ACTIVE"))


def instance(api: Api, server: Server, network: Object, host: str = "trace-1", **values: Any) -> Object:
    """A port that is bound and wired."""
    port = api.make("port", network_id=network["id"], device_owner="compute:nova", **values)
    if host:
        api.as_admin().change("port", port["id"], **{"binding:host_id": host})
    active(server)
    return api.show("port", port["id"])


def address(port: Object, version: int = 4) -> str:
    return next(f["ip_address"] for f in port["fixed_ips"] if (":" in f["ip_address"]) == (version == 6))


def trace(api: Api, **values: Any) -> Object:
    made: Object = api.post("/traces", {"trace": values}).expect(201).body["trace"]
    return made


def verdict(made: Object) -> tuple[str, str]:
    return made["verdict"], made["cause"]


def kinds(made: Object, steps: str = "steps") -> list[str]:
    return [step["kind"] for step in made[steps]]


def test_between_two_ports_of_a_network(api: Api, server: Server) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network, name="web"), instance(api, server, network, "trace-2")
    made = trace(api, source_port_id=one["id"], destination_port_id=two["id"])
    assert (made["verdict"], made["cause"], made["return_verdict"]) == ("delivered", "", "delivered"), made
    assert made["summary"] == "The packet is delivered."
    groups = ["security-group-egress", "tunnel", "port", "security-group-ingress"]
    assert kinds(made) == ["port", "anti-spoofing", *groups, "delivered"]
    assert made["steps"][0]["resource_name"] == "web"
    assert (made["source_address"], made["destination_address"]) == (address(one), address(two))
    assert made["hosts"] == {}
    assert {step["host"] for step in made["steps"]} == {""}
    assert "trace-" not in json.dumps(made)
    seen = trace(api.as_admin(), source_port_id=one["id"], destination_address=address(two))
    assert set(seen["hosts"]) == {"trace-1", "trace-2"}
    assert seen["steps"][0]["packet"]["eth_dst"] == two["mac_address"]
    assert seen["agreement"] is None


@pytest.mark.parametrize("version", [4, 6])
def test_remote_groups_and_rules_are_read(api: Api, server: Server, version: int) -> None:
    network, _ = inside(api)
    api.subnet(network, "2001:db8:1::/64", ip_version=6)
    clients, servers = api.make("security_group"), api.make("security_group")
    api.make(
        "security_group_rule",
        security_group_id=servers["id"],
        direction="ingress",
        ethertype=f"IPv{version}",
        protocol="tcp",
        port_range_min=5432,
        port_range_max=5432,
        remote_group_id=clients["id"],
    )
    client = instance(api, server, network, security_groups=[clients["id"]])
    stranger = instance(api, server, network)
    database = instance(api, server, network, "trace-2", security_groups=[servers["id"]])
    values = {
        "destination_port_id": database["id"],
        "protocol": "tcp",
        "destination_port": 5432,
        "ip_version": version,
    }
    assert verdict(trace(api, source_port_id=client["id"], **values)) == ("delivered", "")
    denied = trace(api, source_port_id=stranger["id"], **values)
    assert verdict(denied) == ("dropped", "security-group-ingress")
    assert denied["fixes"] == {"security-group-ingress": object_problems.SECURITY_GROUP_INGRESS.fix}
    assert denied["summary"].startswith("The packet is dropped: No ingress rule of security group")
    assert denied["return_verdict"] is None
    other = trace(api, source_port_id=client["id"], **{**values, "destination_port": 80})
    assert verdict(other) == ("dropped", "security-group-ingress")


def network_with_router(api: Api, server: Server, **router: Any) -> tuple[Object, Object, Object, Object]:
    """An internal network, an instance on it, a router and an external network on physnet1."""
    flat = {"provider__network_type": "flat", "provider__physical_network": "physnet1"}
    found = [n for n in api.as_admin().all("/networks", {"router:external": True}) if n["name"] == "trace-outside"]
    external = found[0] if found else outside(api.as_admin(), name="trace-outside", **flat)
    network, subnet = inside(api, f"10.{uuid.uuid4().int % 250}.{uuid.uuid4().int % 250}.0/24")
    made = api.as_admin().make("router", project_id=api.project, external_gateway_info=gateway(external), **router)
    attach(api, made, subnet_id=subnet["id"]).expect(200)
    port = instance(api, server, network)
    active(server)
    return network, port, made, external


def test_to_the_outside_and_from_it(api: Api, server: Server) -> None:
    _, port, router, external = network_with_router(api, server)
    admin = api.as_admin()
    out = trace(admin, source_port_id=port["id"], destination_address="198.51.100.7")
    assert verdict(out) == ("delivered", ""), out
    assert out["return_verdict"] == "delivered"
    assert out["summary"] == "The packet leaves to the outside, by an external network."
    assert set(out["hosts"]) == {"trace-1", "trace-3"}
    fixed = api.show("router", router["id"])["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]
    assert out["steps"][-1]["packet"]["source"] == fixed
    none = trace(api, source="external", destination_port_id=port["id"])
    assert verdict(none) == ("dropped", "no-floating-ip")
    fip = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    down = trace(api, source="external", destination_port_id=port["id"])
    assert verdict(down) == ("dropped", "no-floating-ip" if not fip["port_id"] else "floating-ip-down")
    active(server)
    rule = {"security_group_id": port["security_groups"][0], "direction": "ingress", "protocol": "icmp"}
    api.make("security_group_rule", **rule)
    for values in ({"destination_port_id": port["id"]}, {"destination_address": fip["floating_ip_address"]}):
        came = trace(api, source="external", **values)
        assert (verdict(came), came["return_verdict"]) == (("delivered", ""), "delivered"), came
        assert came["destination_address"] == fip["floating_ip_address"]
    out = trace(api, source_port_id=port["id"], destination_address="198.51.100.7")
    assert out["steps"][-1]["packet"]["source"] == fip["floating_ip_address"]


def test_a_local_ip_leads_to_the_port_of_the_senders_host(api: Api, server: Server) -> None:
    network, _ = inside(api)
    local = api.make("local_ip", network_id=network["id"])
    ports = {host: instance(api, server, network, host) for host in ("trace-1", "trace-2")}
    for port in ports.values():
        body = {"port_association": {"fixed_port_id": port["id"]}}
        api.post(f"/local_ips/{local['id']}/port_associations", body).expect(201)
    for host, port in ports.items():
        sender = instance(api, server, network, host)
        made = trace(api, source_port_id=sender["id"], destination_address=local["local_ip_address"])
        assert (made["verdict"], made["return_verdict"]) == ("delivered", "delivered"), made
        assert made["steps"][-1]["resource_id"] == port["id"]
        assert made["return_steps"][-1]["packet"]["source"] == local["local_ip_address"]
    elsewhere = instance(api, server, network, "trace-3")
    made = trace(api, source_port_id=elsewhere["id"], destination_address=local["local_ip_address"])
    assert verdict(made) == ("dropped", "no-local-ip")
    assert made["fixes"].keys() == {"no-local-ip"}


def test_a_virtual_address_that_another_port_holds(api: Api, server: Server) -> None:
    network, port, _, external = network_with_router(api, server)
    vip = api.make("port", network_id=network["id"], device_owner="Octavia")
    pairs = [{"ip_address": address(vip)}]
    icmp = {"security_group_id": port["security_groups"][0], "direction": "ingress", "protocol": "icmp"}
    api.make("security_group_rule", **icmp)
    before = trace(api, source_port_id=port["id"], destination_port_id=vip["id"])
    assert verdict(before) == ("dropped", "port-unbound")
    holder = instance(api, server, network, "trace-2", allowed_address_pairs=pairs)
    fip = api.make("floatingip", floating_network_id=external["id"], port_id=vip["id"])
    active(server)
    for values in (
        {"source_port_id": port["id"], "destination_port_id": vip["id"]},
        {"source": "external", "destination_address": fip["floating_ip_address"]},
        {"source_port_id": vip["id"], "destination_port_id": port["id"]},
    ):
        made = trace(api, **values)
        assert (made["verdict"], made["return_verdict"]) == ("delivered", "delivered"), made
        assert holder["id"] in {step["resource_id"] for step in made["steps"]}
    text = api.post(
        "/traces", {"trace": {"source_address": fip["floating_ip_address"], "destination_address": "10.0.0.1"}}
    )
    assert f"give source_port_id {vip['id']}" in text.expect(400).body["NeutronError"]["message"]


def test_a_port_without_port_security_may_have_any_address(api: Api, server: Server) -> None:
    network, _ = inside(api)
    port = instance(api, server, network)
    unused = address(port).rpartition(".")[0] + ".222"
    values = {"source_port_id": port["id"], "destination_address": unused}
    assert verdict(trace(api, **values)) == ("dropped", "no-such-address")
    instance(api, server, network, "trace-2", port_security_enabled=False, security_groups=[], name="appliance")
    made = trace(api, **values)
    assert verdict(made) == ("unknown", "no-such-address")
    assert "port appliance, which may use other addresses than its own" in made["summary"]


def test_routers_of_disabled_agents_subports_and_other_routers(api: Api, server: Server) -> None:
    network, port, _, external = network_with_router(api, server)
    far, subnet = inside(api, f"10.{uuid.uuid4().int % 250}.{uuid.uuid4().int % 250}.0/24")
    other = api.as_admin().make("router", project_id=api.project, external_gateway_info=gateway(external))
    attach(api, other, subnet_id=subnet["id"]).expect(200)
    beyond = instance(api, server, far, "trace-2", name="beyond")
    to_it = {"source_port_id": port["id"], "destination_port_id": beyond["id"]}
    made = trace(api, **to_it)
    assert verdict(made) == ("dropped", "not-reached")
    assert "port beyond is not reached" in made["summary"]

    parent, sub = api.make("port", network_id=network["id"], name="parent"), api.make("port", network_id=network["id"])
    subports = [{"port_id": sub["id"], "segmentation_type": "vlan", "segmentation_id": 101}]
    api.make("trunk", port_id=parent["id"], sub_ports=subports)
    api.as_admin().change("port", parent["id"], **{"binding:host_id": "trace-1"})
    active(server)
    made = trace(api, source_port_id=sub["id"], destination_port_id=port["id"])
    assert any("parent port parent, with VLAN tag 101" in step["text"] for step in made["steps"]), made

    (agent,) = api.as_admin().all("/agents", {"host": "trace-3", "agent_type": "L3 agent"})
    api.as_admin().change("agent", agent["id"], admin_state_up=False)
    try:
        made = trace(api.as_admin(), source_port_id=port["id"], destination_address="198.51.100.7")
        assert verdict(made) == ("dropped", "router-not-scheduled")
        assert "scheduled to disabled L3 agents alone (admin_state_up is false): those of trace-3" in made["summary"]
    finally:
        api.as_admin().change("agent", agent["id"], admin_state_up=True)


def test_floating_ips_of_a_further_gateways_network(api: Api, server: Server) -> None:
    admin, (network, subnet) = api.as_admin(), inside(api)
    first, second = outside(admin), outside(admin, cidr="198.51.100.0/24")
    router = admin.make("router", project_id=api.project, external_gateway_info=gateway(first))
    body = {"router": {"external_gateways": [{"network_id": second["id"]}]}}
    admin.put(f"/routers/{router['id']}/add_external_gateways", body).expect(200)
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    port = instance(api, server, network)
    rule = {"security_group_id": port["security_groups"][0], "direction": "ingress", "protocol": "icmp"}
    api.make("security_group_rule", **rule)
    fip = api.make("floatingip", floating_network_id=second["id"], port_id=port["id"])
    active(server)
    made = trace(admin, source="external", destination_address=fip["floating_ip_address"])
    assert (made["verdict"], made["return_verdict"]) == ("delivered", "delivered"), made
    out = trace(api, source_port_id=port["id"], destination_address="192.0.2.200")
    assert (out["verdict"], out["return_verdict"]) == ("delivered", "delivered"), out
    assert out["steps"][-1]["packet"]["source"] == fip["floating_ip_address"]


def test_a_forwarded_port(api: Api, server: Server) -> None:
    _, port, _router, external = network_with_router(api, server)
    fip = api.make("floatingip", floating_network_id=external["id"])
    forwarding = {
        "internal_port_id": port["id"],
        "internal_ip_address": address(port),
        "internal_port": 80,
        "external_port": 8080,
        "protocol": "tcp",
    }
    path = f"/floatingips/{fip['id']}/port_forwardings"
    made = api.post(path, {"port_forwarding": forwarding}).expect(201).body["port_forwarding"]
    rule = {"security_group_id": port["security_groups"][0], "direction": "ingress", "protocol": "tcp"}
    api.make("security_group_rule", **rule)
    active(server)
    for values in (
        {"destination_port_id": port["id"], "destination_port": 80},
        {"destination_address": fip["floating_ip_address"], "destination_port": 8080},
    ):
        came = trace(api, source="external", protocol="tcp", **values)
        assert verdict(came) == ("delivered", ""), came
        assert made["id"] in [step["resource_id"] for step in came["steps"]]
    other = trace(
        api, source="external", protocol="tcp", destination_address=fip["floating_ip_address"], destination_port=81
    )
    assert verdict(other) == ("dropped", "no-floating-ip")


@pytest.mark.parametrize("kind", [{"ha": True}, {"distributed": True}])
def test_kinds_of_routers(api: Api, server: Server, kind: Object) -> None:
    for host, mode in (("trace-1", "dvr"), ("trace-2", "dvr"), ("trace-3", "dvr_snat")):
        l3_agent(server, host, agent_mode=mode if kind.get("distributed") else "legacy")
    _, port, router, _ = network_with_router(api, server, **kind)
    other, subnet = inside(api, "10.251.0.0/24")
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    peer = instance(api, server, other, "trace-2")
    admin = api.as_admin()
    made = trace(admin, source_port_id=port["id"], destination_port_id=peer["id"], protocol="udp", destination_port=53)
    if kind.get("ha"):
        assert verdict(made) == ("dropped", "router-not-active"), made
        with server.db.transaction() as tx:
            agent = sa.select(t.agents.c.id).where(t.agents.c.host == "trace-3", t.agents.c.agent_type == "L3 agent")
            of_router = router_l3_agents.c.router_id == router["id"]
            on_host = router_l3_agents.c.agent_id.in_(agent)
            tx.execute(sa.update(router_l3_agents).where(of_router, on_host).values(ha_state="active"))
        made = trace(admin, source_port_id=port["id"], destination_port_id=peer["id"])
    # The default security group lets members of the same group in.
    assert (verdict(made), made["return_verdict"]) == (("delivered", ""), "delivered"), made
    assert set(made["hosts"]) == ({"trace-1", "trace-2"} | ({"trace-3"} if kind.get("ha") else set()))
    for host in ("trace-1", "trace-2"):
        l3_agent(server, host, agent_mode="legacy")
        with server.db.transaction() as tx:
            tx.execute(sa.delete(t.agents).where(t.agents.c.host == host, t.agents.c.agent_type == "L3 agent"))


def test_firewall_groups_and_qos_policies_are_read(api: Api, server: Server) -> None:
    network, _ = inside(api)
    policy = api.as_admin().make("policy", project_id=api.project, name="slow")
    rule = {"max_kbps": 1000}
    api.as_admin().post(f"/qos/policies/{policy['id']}/bandwidth_limit_rules", {"bandwidth_limit_rule": rule}).expect(
        201
    )
    one = instance(api, server, network, qos_policy_id=policy["id"])
    two = instance(api, server, network)
    made = trace(api, source_port_id=one["id"], destination_port_id=two["id"])
    assert "QoS policy slow: at most 1000 kbit/s." in [step["text"] for step in made["steps"]]
    denied = policy_with(api, {"action": "deny", "protocol": "icmp"})
    api.make("firewall_group", name="wall", ingress_firewall_policy_id=denied["id"], ports=[two["id"]])
    made = trace(api, source_port_id=one["id"], destination_port_id=two["id"])
    assert verdict(made) == ("dropped", "firewall-group")
    assert made["steps"][-1]["resource_name"] == "wall"


def test_states_of_ports_networks_and_hosts(api: Api, server: Server) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")
    ends = {"source_port_id": one["id"], "destination_port_id": two["id"]}
    unbound = instance(api, server, network, "")
    assert verdict(trace(api, source_port_id=unbound["id"], destination_port_id=two["id"])) == (
        "dropped",
        "port-unbound",
    )
    spoofed = trace(api, **ends, source_address="10.0.0.99")
    assert verdict(spoofed) == ("dropped", "address-spoofed")
    assert verdict(trace(api, **ends, source_mac="fa:16:3e:99:99:99")) == ("dropped", "address-spoofed")
    assert verdict(trace(api, **ends, packet_size=9000)) == ("dropped", "packet-too-big")
    guarded = trace(api, **ends, protocol="udp", source_port=67, destination_port=68)
    assert verdict(guarded) == ("dropped", "dhcp-server-guard")
    api.change("port", two["id"], admin_state_up=False)
    assert verdict(trace(api, **ends)) == ("dropped", "port-admin-down")
    api.change("port", two["id"], admin_state_up=True)
    api.change("network", network["id"], admin_state_up=False)
    assert verdict(trace(api, **ends)) == ("dropped", "network-admin-down")
    api.change("network", network["id"], admin_state_up=True)
    active(server)
    real = server.registry.clock
    try:
        set_clock(server, 1000)
        late = trace(api.as_admin(), **ends)
        assert verdict(late) == ("unknown", "host-down")
        assert late["summary"].startswith(
            "It is not known whether the packet is delivered: The L2 agent of host trace-2"
        )
    finally:
        server.registry.clock = real


def test_from_outside_to_ports_on_physical_networks(api: Api, server: Server) -> None:
    """On an external network, and on a provider network without a router."""
    admin = api.as_admin()
    for number, external in ((11, True), (12, False)):
        tagged = {
            "provider__network_type": "vlan",
            "provider__physical_network": "physnet1",
            "provider__segmentation_id": 100 + number,
        }
        network = admin.network(router__external=external, **tagged)
        admin.subnet(network, f"192.168.{number}.0/24")
        port = instance(admin, server, network, port_security_enabled=False)
        for values in ({"destination_port_id": port["id"]}, {"destination_address": address(port)}):
            came = trace(admin, source="external", source_address="198.51.100.8", **values)
            assert (verdict(came), came["summary"]) == (("delivered", ""), "The packet is delivered."), came
            assert came["source_address"] == "198.51.100.8"


def test_objects_that_vanish_meanwhile_are_no_server_error(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")
    body = {"trace": {"source_port_id": one["id"], "destination_port_id": two["id"]}}
    monkeypatch.setattr("neutrino.server.trace.tracer.read_snapshot", lambda *_: Snapshot())
    api.post("/traces", body).refused(503, "HTTPServiceUnavailable")


def test_objects_that_vanish_on_the_way_back_are_no_server_error(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")
    tried = []

    def vanished(*_: Any) -> None:
        tried.append(1)
        raise KeyError("a network")

    monkeypatch.setattr("neutrino.server.trace.tracer.compute_return", vanished)
    body = {"trace": {"source_port_id": one["id"], "destination_port_id": two["id"]}}
    api.post("/traces", body).refused(503, "HTTPServiceUnavailable")
    assert len(tried) > 1


# --- who may trace what -----------------------------------------------------------------------------------------------


def test_a_member_traces_from_its_own_ports(api: Api, server: Server) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network)
    stranger = api.as_stranger()
    ends = {"source_port_id": one["id"], "destination_port_id": two["id"]}
    for values in (
        ends,
        {"source": "external", "destination_port_id": one["id"]},
        {"source_port_id": one["id"], "destination_address": "10.0.0.1"},
        {"source_port_id": NOWHERE, "destination_address": "10.0.0.1"},
    ):
        stranger.post("/traces", {"trace": values}).refused(404, "PortNotFound")
    api.as_reader().post("/traces", {"trace": ends}).refused(403, "PolicyNotAuthorized")
    trace(api, **ends)
    trace(api.as_admin(), **ends)


def test_addresses_of_others_are_as_unknown_as_unused_ones(api: Api, server: Server) -> None:
    _, port, _, external = network_with_router(api, server)
    fip = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    stranger = api.as_stranger()
    for used, unused in ((address(port), "10.254.254.254"), (fip["floating_ip_address"], "172.24.0.253")):
        for values in ({"source": "external", "destination_address": "?"}, {"source_address": "?"}):
            answers = []
            for one in (used, unused):
                body = {key: one if value == "?" else value for key, value in values.items()}
                body.setdefault("destination_address", "10.0.0.1")
                answers.append(stranger.post("/traces", {"trace": body}).refused(400).message.replace(one, "?"))
            assert answers[0] == answers[1]


def test_a_member_learns_nothing_of_another_projects_ports(api: Api, server: Server) -> None:
    """On a network that is shared: whether an address is in use, and why it does not answer."""
    admin, member, other = api.as_admin(), api.as_stranger(), api.as_stranger()
    network = admin.network(shared=True)
    admin.subnet(network, "10.0.0.0/24")
    mine = instance(member, server, network)
    theirs = instance(other, server, network, "trace-2", name="secret", security_groups=[])
    free = "10.0.0.250"
    seen = [
        trace(member, source_port_id=mine["id"], destination_address=one, protocol="tcp", destination_port=22)
        for one in (address(theirs), free)
    ]
    texts = [json.dumps(one).replace(address(theirs), "?").replace(free, "?") for one in seen]
    assert texts[0] == texts[1]
    assert verdict(seen[0]) == ("dropped", "other")
    assert all(word not in texts[0] for word in ("trace-", "secret", theirs["id"], theirs["mac_address"], "eth_dst"))
    member.post("/traces", {"trace": {"source_port_id": mine["id"], "destination_port_id": theirs["id"]}}).refused(
        404, "PortNotFound"
    )
    details = trace(admin, source_port_id=mine["id"], destination_address=address(theirs))
    assert verdict(details) == ("dropped", "security-group-ingress")


def _no_device(host: str, question: Question, seconds: float) -> HostAnswer:
    return HostAnswer(exits=(Exit(packet=question.packet, cause=Cause.NO_DEVICE),))


def _timeout(host: str, question: Question, seconds: float) -> HostAnswer:
    raise NoAnswer(host, Cause.HOST_TIMEOUT, "no answer in time")


def receiver_fails(server: Server, vni: int) -> Callable[..., HostAnswer]:
    """The host of the sender answers, and that of the receiver does not."""
    with server.db.read() as connection:
        found = connection.execute(sa.select(t.agents.c.configurations).where(t.agents.c.host == "trace-2"))
        peer = json.loads(found.scalars().first() or "{}")["tunneling_ip"]

    def ask(host: str, question: Question, seconds: float) -> HostAnswer:
        if host != "trace-1":
            return _timeout(host, question, seconds)
        point = Point(kind=PointKind.TUNNEL, peer=peer, network_type="vxlan", segmentation_id=vni)
        return HostAnswer(exits=(Exit(packet=question.packet, point=point),))

    return ask


def test_a_member_learns_nothing_by_hosts_that_fail(api: Api, server: Server) -> None:
    """An address whose port a rule allows to reach, on a host that is down, without device, or does not answer."""
    admin, member, other = api.as_admin(), api.as_stranger(), api.as_stranger()
    network = admin.network(shared=True)
    admin.subnet(network, "10.0.0.0/24")
    mine, theirs = instance(member, server, network), instance(other, server, network, "trace-2")
    group = other.make("security_group")
    rule = {"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}
    other.make("security_group_rule", security_group_id=group["id"], **rule)
    other.change("port", theirs["id"], security_groups=[group["id"]])
    active(server)
    vni = admin.show("network", network["id"])["provider:segmentation_id"]
    used = address(theirs)
    free = next(f"10.0.0.{n}" for n in (250, 251, 252) if f"10.0.0.{n}" not in (address(mine), used))
    context = Context(project_id=member.project)

    def seen(ask: Callable[..., HostAnswer] | None, to: str, port: int = 22) -> Object:
        values = values_of(source_port_id=mine["id"], destination_address=to, protocol="tcp", destination_port=port)
        made = json.dumps(tracer_of(server, ask).create(context, values))
        hidden: Object = json.loads(re.sub(rf"\b{re.escape(to)}\b", "?", made))
        return hidden

    assert seen(None, used)["return_verdict"] == "delivered"
    for ask in (_no_device, _timeout, receiver_fails(server, vni)):
        for port in (22, 23):
            assert seen(ask, used, port) == seen(ask, free, port)
    dead = sa.update(t.agents).where(t.agents.c.host == "trace-2")
    with server.db.transaction() as tx:
        tx.execute(dead.values(heartbeat_timestamp="2020-01-01T00:00:00Z"))
    for ask in (None, _timeout):
        assert seen(ask, used) == seen(ask, free)
    assert (verdict(seen(None, used)), seen(None, used)["agreement"]) == (("dropped", "other"), None)


def test_a_forged_source_is_not_followed_into_other_projects(api: Api, server: Server) -> None:
    admin, member, other = api.as_admin(), api.as_stranger(), api.as_stranger()
    network = admin.network(shared=True)
    admin.subnet(network, "10.0.0.0/24")
    mine = instance(member, server, network)
    admin.change("port", mine["id"], security_groups=[], port_security_enabled=False)
    theirs = instance(other, server, network, "trace-2")
    asked = []

    def ask(host: str, question: Question, seconds: float) -> HostAnswer:
        asked.append(host)
        raise NoAnswer(host, Cause.HOST_TIMEOUT, "no answer in time")

    values = values_of(source_port_id=mine["id"], destination_address=address(theirs), source_address="10.0.0.99")
    made = tracer_of(server, ask).create(Context(project_id=member.project), values)
    assert (verdict(made), made["return_verdict"], asked) == (("unknown", "other"), None, [])
    assert "is not shown" in made["summary"]


def test_a_member_does_not_see_segments_or_flows(api: Api, server: Server) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")
    vni = api.as_admin().show("network", network["id"])["provider:segmentation_id"]
    ends = {"source_port_id": one["id"], "destination_port_id": two["id"], "flows": True}
    assert f"tunnel {vni}" in json.dumps(trace(api.as_admin(), **ends))
    made = trace(api, **ends)
    assert f"tunnel {vni}" not in json.dumps(made)
    assert {json.dumps(step["flows"]) for step in made["steps"]} == {"[]"}


def test_a_token_without_a_project_traces_nothing(api: Api, server: Server) -> None:
    network, _ = inside(api)
    port = instance(api, server, network)
    nobody = api.as_member("")
    for values in (
        {"source_port_id": port["id"], "destination_address": "10.0.0.1"},
        {"source_address": address(port), "destination_address": "10.0.0.1"},
        {"source": "external", "destination_address": address(port)},
        {"source": "external", "destination_port_id": port["id"]},
    ):
        assert nobody.post("/traces", {"trace": values}).status in (400, 401, 403, 404)


# --- what is refused --------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Object, str]] = {
    "no sender": ({"source_port_id": None}, "source_port_id, source_address and source"),
    "two senders": ({"source": "external"}, "source"),
    "no receiver": ({"destination_address": None}, "destination_port_id and destination_address"),
    "two receivers": ({"destination_port_id": NOWHERE}, "destination_port_id and destination_address"),
    "a port of ICMP": ({"destination_port": 80}, "destination_port"),
    "a source port of ICMP": ({"source_port": 80}, "source_port"),
    "TCP without port": ({"protocol": "tcp"}, "destination_port"),
    "an ICMP type of UDP": ({"protocol": "udp", "destination_port": 53, "icmp_type": 8}, "icmp_type"),
    "no protocol": ({"protocol": "carrier-pigeon"}, "protocol"),
    "a protocol beyond 255": ({"protocol": 256}, "protocol"),
    "a port beyond 65535": ({"protocol": "tcp", "destination_port": 65536}, "destination_port"),
    "multicast": ({"destination_address": "224.0.0.1"}, "destination_address"),
    "broadcast": ({"destination_address": "255.255.255.255"}, "destination_address"),
    "loopback": ({"destination_address": "127.0.0.1"}, "destination_address"),
    "no address": ({"destination_address": "db"}, "destination_address"),
    "two IP versions": ({"ip_version": 6}, "IP versions"),
    "ICMPv6 over IPv4": ({"protocol": "ipv6-icmp"}, "IP versions"),
    "a large packet": ({"packet_size": 70000}, "packet_size"),
    "another version": ({"ip_version": 5}, "ip_version"),
    "another source": ({"source_port_id": None, "source": "moon"}, "source"),
    "an unknown attribute": ({"colour": "red"}, "colour"),
    "a port without IPv6": ({"destination_address": "2001:db8::1"}, "source_port_id"),
    "a verdict": ({"verdict": "delivered"}, "verdict"),
}


def test_refused(api: Api) -> None:
    network, _ = inside(api)
    port = api.port(network)
    for name, (values, named) in REFUSED.items():
        body = {"source_port_id": port["id"], "destination_address": "10.0.0.1", **values}
        answer = api.post("/traces", {"trace": body}).refused(400)
        assert named in answer.message, name


def test_an_address_of_several_ports_is_ambiguous(api: Api, server: Server) -> None:
    for _ in range(2):
        network, subnet = inside(api)
        api.port(network, fixed_ips=[{"subnet_id": subnet["id"], "ip_address": "10.0.0.77"}])
    body = {"source_address": "10.0.0.77", "destination_address": "10.0.0.1"}
    answer = api.post("/traces", {"trace": body}).refused(400)
    assert "source_port_id" in answer.message
    assert "several ports" in answer.message


def test_a_trace_is_not_stored(api: Api, server: Server) -> None:
    for method, path in (("GET", "/traces"), ("GET", f"/traces/{NOWHERE}"), ("DELETE", f"/traces/{NOWHERE}")):
        assert api.call(method, path).status in (404, 405)
    assert "trace" in [each["alias"] for each in api.all("/extensions")]
    api.post("/traces", {"traces": [{}]}).refused(400)


# --- bounds -----------------------------------------------------------------------------------------------------------


def tracer_of(server: Server, ask: Callable[..., HostAnswer] | None) -> Traces:
    tracer = Tracer(server.db, server.registry, TracedRouting(), ask=ask, at_once=AT_ONCE)
    return Traces(lambda: tracer, catalogue())


def values_of(**given: Any) -> Object:
    names = (
        *("source", "source_port_id", "source_address", "source_mac", "destination_port_id", "destination_address"),
        *("source_port", "destination_port", "icmp_type", "icmp_code", "ip_version", "packet_size"),
    )
    return {**dict.fromkeys(names), "protocol": "icmp", "flows": False, **given}


def test_the_number_of_queries_does_not_depend_on_the_number_of_ports(api: Api, server: Server) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")
    ends = {"source_port_id": one["id"], "destination_port_id": two["id"]}
    few = queries(server, lambda: trace(api, **ends))
    for _ in range(5):
        instance(api, server, network)
    assert queries(server, lambda: trace(api, **ends)) <= few
    assert few < 60


def test_networks_with_thousands_of_addresses(api: Api, server: Server) -> None:
    """Ports with address pairs are read, with all their addresses; databases bound the size of a statement."""
    network = api.network()
    api.subnet(network, "10.4.0.0/16", allocation_pools=[{"start": "10.4.0.10", "end": "10.4.0.200"}])
    group = api.make("security_group")
    rule = {"direction": "ingress", "remote_group_id": group["id"]}
    api.make("security_group_rule", security_group_id=group["id"], **rule)
    one = instance(api, server, network, security_groups=[group["id"]])
    two = instance(api, server, network, "trace-2", security_groups=[group["id"]])
    third = api.make("port", network_id=network["id"], allowed_address_pairs=[{"ip_address": "10.9.9.9"}])
    subnet = one["fixed_ips"][0]["subnet_id"]
    many = [{"subnet_id": subnet, "ip_address": f"10.4.{100 + n // 200}.{n % 200 + 1}"} for n in range(2500)]
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.ports).where(t.ports.c.id == third["id"]).values(fixed_ips=json.dumps(many)))
        rows = [{**each, "port_id": third["id"], "network_id": network["id"]} for each in many]
        tx.connection.execute(sa.insert(t.ip_allocations), rows)
    made = trace(api, source_port_id=one["id"], destination_port_id=two["id"])
    assert (verdict(made), made["return_verdict"]) == (("delivered", ""), "delivered")


def test_traces_at_once_are_bounded(api: Api, server: Server) -> None:
    from neutrino.server import errors
    from neutrino.server.context import admin_context

    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")
    waiting, go = threading.Semaphore(0), threading.Event()

    def ask(host: str, question: Question, seconds: float) -> HostAnswer:
        waiting.release()
        go.wait(20)
        raise NoAnswer(host, Cause.HOST_TIMEOUT, "no answer in time")

    traces = tracer_of(server, ask)
    values = values_of(source_port_id=one["id"], destination_port_id=two["id"])
    done: list[Object] = []
    threads = [
        threading.Thread(target=lambda: done.append(traces.create(admin_context(), values))) for _ in range(AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert waiting.acquire(timeout=20)
    with pytest.raises(errors.TooManyTraces) as refused:
        traces.create(admin_context(), values)
    assert refused.value.status == 503
    assert str(AT_ONCE) in str(refused.value)
    go.set()
    for thread in threads:
        thread.join(20)
    assert [verdict(each) for each in done] == [("unknown", "host-timeout")] * AT_ONCE
    assert done[0]["hosts"]["trace-1"] == {"alive": True, "answered": False, "error": "no answer in time"}


def test_a_project_has_one_trace_at_once(api: Api, server: Server) -> None:
    from neutrino.server import errors

    members = [api.as_stranger(), api.as_stranger()]
    values, contexts = [], []
    for member in members:
        network, _ = inside(member)
        one, two = instance(member, server, network), instance(member, server, network, "trace-2")
        values.append(values_of(source_port_id=one["id"], destination_port_id=two["id"]))
        contexts.append(Context(project_id=member.project))
    waiting, go = threading.Semaphore(0), threading.Event()

    def ask(host: str, question: Question, seconds: float) -> HostAnswer:
        waiting.release()
        go.wait(20)
        raise NoAnswer(host, Cause.HOST_TIMEOUT, "no answer in time")

    traces = tracer_of(server, ask)
    done: list[Object] = []
    threads = [
        threading.Thread(target=lambda n=n: done.append(traces.create(contexts[n], values[n]))) for n in range(2)
    ]
    for thread in threads:  # another project has one meanwhile
        thread.start()
    for _ in threads:
        assert waiting.acquire(timeout=20)
    with pytest.raises(errors.TooManyTraces, match="a trace of this project") as refused:
        traces.create(contexts[0], values[0])
    assert refused.value.status == 503
    go.set()
    for thread in threads:
        thread.join(20)
    assert len(done) == 2
    traces.create(contexts[0], values[0])  # the slot is free again


def test_a_change_that_a_host_has_not_applied_is_lag(api: Api, server: Server) -> None:
    from neutrino.server.context import admin_context

    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")

    def ask(host: str, question: Question, seconds: float) -> HostAnswer:
        lost = Exit(packet=question.packet, cause=Cause.SECURITY_GROUP_EGRESS, note="table 72")
        return HostAnswer(exits=(lost,), position=1)

    made = tracer_of(server, ask).create(
        admin_context(), values_of(source_port_id=one["id"], destination_port_id=two["id"])
    )
    assert verdict(made) == ("dropped", "lag")
    assert (made["agreement"], [note["host"] for note in made["lag"]]) == (False, ["trace-1"])
    assert made["steps"][-1]["kind"] == "dataplane"
