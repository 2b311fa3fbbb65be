"""BGP speakers and peers: Neutron's attributes, policies and refusals, scheduling, advertised routes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from neutrino.features.bgp.peers import BgpPeers
from neutrino.model.agents import BGP, AgentState
from neutrino.model.objects import Object
from neutrino.server.db.transaction import Transaction
from neutrino.server.main import Server
from tests.api.agents import set_clock, switch
from tests.api.bgp import PEERS, SPEAKERS, act, bgp_agent, peer, pool, routes, speaker
from tests.api.client import Api, Response
from tests.api.l3 import attach, detach, gateway, l3_agent
from tests.api.races import before_next_transaction

NOBODY = "11111111-2222-3333-4444-555555555555"


# --- the objects ------------------------------------------------------------------------------------------------------


def test_a_speaker_has_neutrons_attributes(admin: Api) -> None:
    made = speaker(admin, name="s", local_as="4200000000")
    key = made["id"]
    assert made == {
        "id": key,
        "name": "s",
        "local_as": 4200000000,
        "ip_version": 4,
        "advertise_floating_ip_host_routes": True,
        "advertise_tenant_networks": True,
        "peers": [],
        "networks": [],
        "project_id": admin.project,
        "tenant_id": admin.project,
    }
    assert admin.show("bgp_speaker", key) == made
    assert admin.all(SPEAKERS, {"local_as": 4200000000}) == [made]
    changed = admin.change("bgp_speaker", key, name="t", advertise_tenant_networks=False)
    assert changed == {**made, "name": "t", "advertise_tenant_networks": False}
    for fixed in ({"local_as": 1}, {"ip_version": 6}, {"peers": []}):
        admin.put(f"{SPEAKERS}/{key}", {"bgp_speaker": fixed}).refused(400, "HTTPBadRequest")
    admin.delete(f"{SPEAKERS}/{key}").expect(204)
    admin.get(f"{SPEAKERS}/{key}").refused(404, "BgpSpeakerNotFound")
    admin.delete(f"{SPEAKERS}/{key}").refused(404, "BgpSpeakerNotFound")


def test_speakers_and_peers_that_are_refused(admin: Api) -> None:
    good: Object = {"local_as": 1, "ip_version": 4}
    for bad in (
        *({"local_as": 0}, {"local_as": 2**32}, {"local_as": "one"}, {"ip_version": 5}),
        *({"peers": [NOBODY]}, {"routers": []}),
    ):
        refused = admin.post(SPEAKERS, {"bgp_speaker": {**good, **bad}}).refused(400, "HTTPBadRequest")
        assert next(iter(bad)) in refused.message
    for name in good:
        left = {key: value for key, value in good.items() if key != name}
        assert name in admin.post(SPEAKERS, {"bgp_speaker": left}).expect(400).message
    good = {"peer_ip": "192.0.2.1", "remote_as": 1, "auth_type": "md5", "password": "p"}
    for bad in (
        *({"peer_ip": "192.0.2.0/24"}, {"remote_as": 2**32}, {"auth_type": "sha1"}, {"password": 5}),
        *({"password": "two words"}, {"password": "a\nneighbor"}, {"password": "ü"}, {"password": "x" * 81}),
    ):
        refused = admin.post(PEERS, {"bgp_peer": {**good, **bad}}).expect(400)
        assert next(iter(bad)) in refused.message
        assert "neighbor" not in refused.message  # a password is in no message
    none = {key: value for key, value in good.items() if key != "password"}
    admin.post(PEERS, {"bgp_peer": none}).refused(400, "InvalidBgpPeerMd5Authentication")


def test_a_password_is_never_shown(admin: Api) -> None:
    made = peer(admin, name="p", auth_type="md5", password="s3cret")
    key = made["id"]
    assert made == {
        "id": key,
        "name": "p",
        "peer_ip": "192.0.2.1",
        "remote_as": 65000,
        "auth_type": "md5",
        "project_id": admin.project,
        "tenant_id": admin.project,
    }
    assert admin.show("bgp_peer", key) == made
    assert admin.get(f"{PEERS}/{key}", {"fields": "password"}).expect(200).body["bgp_peer"] == {}
    assert admin.change("bgp_peer", key, password="other") == made
    admin.put(f"{PEERS}/{key}", {"bgp_peer": {"password": None}}).refused(400, "InvalidBgpPeerMd5Authentication")
    admin.put(f"{PEERS}/{key}", {"bgp_peer": {"peer_ip": "192.0.2.2"}}).refused(400, "HTTPBadRequest")
    plain = peer(admin)
    answer = admin.put(f"{PEERS}/{plain['id']}", {"bgp_peer": {"password": "p"}})
    answer.refused(404, "BgpPeerNotAuthenticated")
    admin.delete(f"{PEERS}/{key}").expect(204)
    admin.get(f"{PEERS}/{key}").refused(404, "BgpPeerNotFound")


def test_only_administrators_have_speakers(api: Api, admin: Api, server: Server) -> None:
    one, agent = speaker(admin), bgp_agent(server, "policies")
    api.post(SPEAKERS, {"bgp_speaker": {"local_as": 1, "ip_version": 4}}).refused(403, "PolicyNotAuthorized")
    assert api.all(SPEAKERS) == api.all(PEERS) == []
    api.get(f"{SPEAKERS}/{one['id']}").refused(404, "BgpSpeakerNotFound")
    act(api, one, "add_bgp_peer", bgp_peer_id=NOBODY).refused(404, "BgpSpeakerNotFound")
    api.get(f"{SPEAKERS}/{one['id']}/get_advertised_routes").refused(404, "BgpSpeakerNotFound")
    api.get(f"{SPEAKERS}/{one['id']}/bgp-dragents").refused(403, "PolicyNotAuthorized")
    path = f"/agents/{agent.agent_id}/bgp-drinstances"
    api.get(path).refused(403, "PolicyNotAuthorized")
    api.post(path, {"bgp_speaker_id": one["id"]}).refused(403, "PolicyNotAuthorized")
    api.delete(f"{path}/{one['id']}").refused(403, "PolicyNotAuthorized")


# --- peers and networks of a speaker ----------------------------------------------------------------------------------


def test_peers_of_a_speaker(admin: Api) -> None:
    one, first = speaker(admin), peer(admin, peer_ip="192.0.2.10")
    same, other = peer(admin, peer_ip="192.0.2.10"), peer(admin, peer_ip="2001:db8::1")
    body = act(admin, one, "add_bgp_peer", bgp_peer_id=first["id"]).expect(200).body
    assert body == {"bgp_peer_id": first["id"]}
    for twice in (first, same):
        act(admin, one, "add_bgp_peer", bgp_peer_id=twice["id"]).refused(409, "DuplicateBgpPeerIpException")
    act(admin, one, "add_bgp_peer", bgp_peer_id=other["id"]).expect(200)
    assert admin.show("bgp_speaker", one["id"])["peers"] == sorted([first["id"], other["id"]])
    act(admin, one, "add_bgp_peer", bgp_peer_id=NOBODY).refused(404, "BgpPeerNotFound")
    act(admin, {"id": NOBODY}, "add_bgp_peer", bgp_peer_id=first["id"]).refused(404, "BgpSpeakerNotFound")
    for body in ({}, {"bgp_peer_id": "x"}, {"bgp_peer_id": None}):
        assert "bgp_peer_id" in act(admin, one, "add_bgp_peer", **body).refused(400, "BadRequest").message
    act(admin, one, "remove_bgp_peer", bgp_peer_id=first["id"]).expect(200)
    act(admin, one, "remove_bgp_peer", bgp_peer_id=first["id"]).refused(404, "BgpSpeakerPeerNotAssociated")
    admin.delete(f"{PEERS}/{other['id']}").expect(204)
    assert admin.show("bgp_speaker", one["id"])["peers"] == []


def test_networks_of_a_speaker(admin: Api) -> None:
    one, network = speaker(admin), admin.network(router__external=True)
    body = act(admin, one, "add_gateway_network", network_id=network["id"]).expect(200).body
    assert body == {"network_id": network["id"]}
    act(admin, one, "add_gateway_network", network_id=network["id"]).refused(409, "BgpSpeakerNetworkBindingError")
    act(admin, one, "add_gateway_network", network_id=NOBODY).refused(404, "NetworkNotFound")
    assert admin.show("bgp_speaker", one["id"])["networks"] == [network["id"]]
    act(admin, one, "remove_gateway_network", network_id=network["id"]).expect(200)
    refused = act(admin, one, "remove_gateway_network", network_id=network["id"])
    refused.refused(404, "BgpSpeakerNetworkNotAssociated")
    act(admin, one, "add_gateway_network", network_id=network["id"]).expect(200)
    admin.delete(f"/networks/{network['id']}").expect(204)
    assert admin.show("bgp_speaker", one["id"])["networks"] == []


@pytest.mark.every_database
def test_two_peers_of_one_address_at_once(admin: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    one, first, second = speaker(admin), peer(admin), peer(admin)
    before_next_transaction(
        server, monkeypatch, lambda: act(admin, one, "add_bgp_peer", bgp_peer_id=second["id"]).expect(200)
    )
    act(admin, one, "add_bgp_peer", bgp_peer_id=first["id"]).refused(409, "DuplicateBgpPeerIpException")
    assert admin.show("bgp_speaker", one["id"])["peers"] == [second["id"]]


# --- scheduling -------------------------------------------------------------------------------------------------------


def agents_of(admin: Api, one: Object) -> list[str]:
    found = admin.get(f"{SPEAKERS}/{one['id']}/bgp-dragents").expect(200).body["agents"]
    return sorted(agent["host"] for agent in found)


@pytest.mark.every_database
def test_a_peer_that_a_speaker_gets_while_it_is_deleted(admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = speaker(admin), peer(admin)
    answers: list[Response] = []
    adding = threading.Thread(target=lambda: answers.append(act(admin, one, "add_bgp_peer", bgp_peer_id=other["id"])))
    also_write = BgpPeers.also_write

    def interrupted(self: BgpPeers, tx: Transaction, before: Object | None, after: Object | None) -> None:
        also_write(self, tx, before, after)
        adding.start()
        adding.join(0.5)  # it waits for this transaction

    monkeypatch.setattr(BgpPeers, "also_write", interrupted)
    admin.delete(f"{PEERS}/{other['id']}").expect(204)
    adding.join()
    answers[0].refused(404, "BgpPeerNotFound")


@pytest.mark.every_database
def test_a_peer_that_a_speaker_gets_while_its_password_changes(admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock, the speaker's host would keep the old password: neither of the two changes would reach it."""
    one, other = speaker(admin), peer(admin, auth_type="md5", password="old")
    adding = threading.Thread(target=lambda: act(admin, one, "add_bgp_peer", bgp_peer_id=other["id"]))
    waited: list[bool] = []
    also_write = BgpPeers.also_write

    def interrupted(self: BgpPeers, tx: Transaction, before: Object | None, after: Object | None) -> None:
        also_write(self, tx, before, after)
        adding.start()
        adding.join(0.5)
        waited.append(adding.is_alive())

    monkeypatch.setattr(BgpPeers, "also_write", interrupted)
    admin.change("bgp_peer", other["id"], password="new")
    adding.join()
    assert waited == [True]
    assert admin.show("bgp_speaker", one["id"])["peers"] == [other["id"]]


@pytest.mark.every_database
def test_speakers_are_scheduled_to_agents(another_server: Any) -> None:
    server = another_server()
    admin = Api(server.app).as_admin()
    early = speaker(admin, name="early")
    first = bgp_agent(server, "b1")
    assert agents_of(admin, early) == ["b1"]  # a new agent takes a speaker that has none
    (shown,) = admin.get(f"/agents/{first.agent_id}/bgp-drinstances").expect(200).body["bgp_speakers"]
    assert shown == early
    late = speaker(admin, name="late")
    assert agents_of(admin, late) == []  # an agent has one speaker
    second = bgp_agent(server, "b2")
    assert agents_of(admin, late) == ["b2"]
    assert agents_of(admin, early) == ["b1"]
    # A speaker moves from a dead agent, as soon as another is free.
    admin.delete(f"{SPEAKERS}/{late['id']}").expect(204)
    set_clock(server, 1000)
    bgp_agent(server, "b2")
    server.service_plugins["bgp"].schedulers[0].reschedule_dead()
    assert agents_of(admin, early) == ["b2"]
    admin.delete(f"/agents/{second.agent_id}").expect(204)
    assert agents_of(admin, early) == []


@pytest.mark.every_database
def test_two_speakers_for_one_agent_at_once(another_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = another_server()
    admin = Api(server.app).as_admin()
    one, two = speaker(admin), speaker(admin)
    agent = server.registry.report(AgentState(BGP, "neutron-bgp-dragent", "b1", "bgp_dragent", start_flag=True))
    path = f"/agents/{agent.agent_id}/bgp-drinstances"
    before_next_transaction(server, monkeypatch, lambda: admin.post(path, {"bgp_speaker_id": two["id"]}).expect(201))
    admin.post(path, {"bgp_speaker_id": one["id"]}).refused(409, "DrAgentAssociationError")
    assert (agents_of(admin, one), agents_of(admin, two)) == ([], ["b1"])


def test_manual_scheduling(another_server: Any) -> None:
    server = another_server()
    admin = Api(server.app).as_admin()
    one, two = bgp_agent(server, "b1"), bgp_agent(server, "b2")
    made = speaker(admin)
    (host,) = agents_of(admin, made)
    free = two if host == "b1" else one
    path = f"/agents/{free.agent_id}/bgp-drinstances"
    admin.post(path, {"bgp_speaker_id": made["id"]}).expect(201)
    assert agents_of(admin, made) == ["b1", "b2"]
    admin.post(path, {"bgp_speaker_id": speaker(admin)["id"]}).refused(409, "DrAgentAssociationError")
    admin.delete(f"{path}/{made['id']}").expect(204)
    assert agents_of(admin, made) == [host]
    admin.delete(f"{path}/{made['id']}").refused(404, "DrAgentNotHostingBgpSpeaker")
    admin.post(path, {"bgp_speaker_id": NOBODY}).refused(404, "BgpSpeakerNotFound")
    admin.post(path, {}).refused(400, "HTTPBadRequest")
    wrong = switch(server, "s1")
    admin.post(f"/agents/{wrong.agent_id}/bgp-drinstances", {"bgp_speaker_id": made["id"]}).refused(
        404, "DrAgentInvalid"
    )
    admin.get(f"/agents/{NOBODY}/bgp-drinstances").refused(404, "AgentNotFound")
    admin.put(f"/agents/{free.agent_id}", {"agent": {"admin_state_up": False}}).expect(200)
    admin.post(path, {"bgp_speaker_id": made["id"]}).refused(404, "DrAgentInvalid")


# --- advertised routes ------------------------------------------------------------------------------------------------


def scoped(admin: Api) -> tuple[Object, Object, Object, Object]:
    """A scope, an external network in it, a pool of tenant subnets in it, and a router with a gateway there."""
    scope = admin.make("address_scope", ip_version=4, shared=True)
    network = admin.network(router__external=True)
    outside = pool(admin, scope, "203.0.113.0/24", 24)
    admin.subnet(network, None, subnetpool_id=outside["id"], ip_version=4, enable_dhcp=False)
    router = admin.make("router", external_gateway_info=gateway(network))
    return scope, network, pool(admin, scope, "10.64.0.0/16", 24), router


def address(router: Object) -> str:
    found: str = router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]
    return found


@pytest.mark.every_database
def test_routes_of_tenant_networks(admin: Api) -> None:
    _, network, tenants, router = scoped(admin)
    one = speaker(admin)
    act(admin, one, "add_gateway_network", network_id=network["id"]).expect(200)
    assert routes(admin, one) == {}
    inside = admin.network()
    subnet = admin.subnet(inside, None, subnetpool_id=tenants["id"], ip_version=4)
    outside_scope = admin.subnet(admin.network(), "10.99.0.0/24")
    for each in (subnet, outside_scope):
        attach(admin, router, subnet_id=each["id"]).expect(200)
    # A subnet in no scope is behind NAT, and not reachable from outside.
    assert routes(admin, one) == {subnet["cidr"]: address(router)}
    admin.change("bgp_speaker", one["id"], advertise_tenant_networks=False)
    assert routes(admin, one) == {}
    admin.change("bgp_speaker", one["id"], advertise_tenant_networks=True)
    admin.change("router", router["id"], admin_state_up=False)
    assert routes(admin, one) == {}
    admin.change("router", router["id"], admin_state_up=True)
    assert routes(admin, speaker(admin)) == {}  # without the network
    detach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert routes(admin, one) == {}


@pytest.mark.every_database
def test_routes_of_floating_ips(admin: Api) -> None:
    _, network, _, router = scoped(admin)
    one = speaker(admin, advertise_tenant_networks=False)
    act(admin, one, "add_gateway_network", network_id=network["id"]).expect(200)
    inside = admin.network()
    subnet = admin.subnet(inside, "10.99.0.0/24")
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    floating = admin.make("floatingip", floating_network_id=network["id"])
    assert routes(admin, one) == {}
    port = admin.port(inside)
    admin.change("floatingip", floating["id"], port_id=port["id"])
    host_route = f"{floating['floating_ip_address']}/32"
    assert routes(admin, one) == {host_route: address(router)}
    six = speaker(admin, ip_version=6)
    act(admin, six, "add_gateway_network", network_id=network["id"]).expect(200)
    assert routes(admin, six) == {}
    admin.change("bgp_speaker", one["id"], advertise_floating_ip_host_routes=False)
    assert routes(admin, one) == {}
    admin.change("bgp_speaker", one["id"], advertise_floating_ip_host_routes=True)
    admin.change("floatingip", floating["id"], port_id=None)
    assert routes(admin, one) == {}


@pytest.mark.every_database
def test_routes_of_ipv6_prefixes(admin: Api) -> None:
    scope = admin.make("address_scope", ip_version=6, shared=True)
    network = admin.network(router__external=True)
    outside = pool(admin, scope, "2001:db8:f::/48", 64)
    tenants = pool(admin, scope, "2001:db8:1::/48", 64)
    admin.subnet(network, None, subnetpool_id=outside["id"], ip_version=6, enable_dhcp=False)
    router = admin.make("router", external_gateway_info=gateway(network))
    subnet = admin.subnet(admin.network(), None, subnetpool_id=tenants["id"], ip_version=6)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    six, four = speaker(admin, ip_version=6), speaker(admin)
    for each in (six, four):
        act(admin, each, "add_gateway_network", network_id=network["id"]).expect(200)
    assert routes(admin, six) == {subnet["cidr"]: address(router)}
    assert routes(admin, four) == {}


def test_a_floating_ip_of_a_distributed_router_leads_to_its_host(another_server: Any) -> None:
    server = another_server()
    admin = Api(server.app).as_admin()
    for host, mode in (("n1", "dvr_snat"), ("c1", "dvr"), ("c2", "dvr_no_external")):
        switch(server, host, enable_distributed_routing=True)
        l3_agent(server, host, agent_mode=mode)
    _, network, _, _ = scoped(admin)
    router = admin.make("router", distributed=True, external_gateway_info=gateway(network))
    inside = admin.network()
    subnet = admin.subnet(inside, "10.99.0.0/24")
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    one = speaker(admin)
    act(admin, one, "add_gateway_network", network_id=network["id"]).expect(200)
    wanted = {}
    for host in ("c1", "c2"):
        port = admin.port(inside, binding__host_id=host, device_owner="compute:nova", device_id=NOBODY)
        floating = admin.make("floatingip", floating_network_id=network["id"], port_id=port["id"])
        server.service_plugins["router"].dvr.settle()
        gateways = admin.all("/ports", {"device_owner": "network:floatingip_agent_gateway", "binding:host_id": host})
        hop = gateways[0]["fixed_ips"][0]["ip_address"] if gateways else address(router)
        wanted[f"{floating['floating_ip_address']}/32"] = hop
        assert bool(gateways) == (host == "c1")
    assert routes(admin, one) == wanted


@pytest.mark.every_database
def test_an_instance_behind_a_distributed_router_is_announced_by_its_host(another_server: Any) -> None:
    server = another_server()
    admin = Api(server.app).as_admin()
    for host, mode in (("n1", "dvr_snat"), ("c1", "dvr"), ("c2", "dvr_no_external"), ("c3", "dvr")):
        switch(server, host, enable_distributed_routing=True)
        l3_agent(server, host, agent_mode=mode)
    _, network, tenants, _ = scoped(admin)
    router = admin.make("router", distributed=True, external_gateway_info=gateway(network))
    inside = admin.network()
    subnet = admin.subnet(inside, None, subnetpool_id=tenants["id"], ip_version=4)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    bare = admin.network()
    attach(admin, router, subnet_id=admin.subnet(bare, "10.99.0.0/24")["id"]).expect(200)
    vm = {"device_owner": "compute:nova", "device_id": NOBODY}
    ports = {host: admin.port(inside, binding__host_id=host, **vm) for host in ("c1", "c2")}
    admin.port(bare, binding__host_id="c3", **vm)  # in no address scope
    admin.port(inside, binding__host_id="c3")  # of no instance

    def settled() -> dict[str, str]:
        """Settled; host → its own address outside."""
        server.service_plugins["router"].dvr.settle()
        found = admin.all("/ports", {"device_owner": "network:floatingip_agent_gateway"})
        return {each["binding:host_id"]: each["fixed_ips"][0]["ip_address"] for each in found}

    assert settled() == {}, "no speaker announces the subnet"
    one = speaker(admin)
    act(admin, one, "add_gateway_network", network_id=network["id"]).expect(200)
    prefix = {subnet["cidr"]: address(router)}
    assert routes(admin, one) == prefix
    gateways = settled()
    assert gateways.keys() == {"c1"}
    host_route = f"{ports['c1']['fixed_ips'][0]['ip_address']}/32"
    assert routes(admin, one) == prefix | {host_route: gateways["c1"]}
    admin.change("bgp_speaker", one["id"], advertise_tenant_networks=False)
    assert routes(admin, one) == {}
    assert settled() == {}
    admin.change("bgp_speaker", one["id"], advertise_tenant_networks=True)
    assert settled().keys() == {"c1"}
    admin.change("port", ports["c1"]["id"], binding__host_id="c3")
    assert settled().keys() == {"c3"}
    assert routes(admin, one) == prefix | {host_route: settled()["c3"]}
    admin.delete(f"/ports/{ports['c1']['id']}").expect(204)
    assert (settled(), routes(admin, one)) == ({}, prefix)
