"""VPN as a service: attributes, defaults and refusals of neutron-vpnaas."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.vpn import checks, peer_names
from neutrino.features.vpn.feed import read_vpn
from neutrino.features.vpn.tables import ipsec_site_connections
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import attach, detach, gateway, inside
from tests.api.races import before_next_transaction, before_next_write
from tests.api.vpn import CONNECTIONS, GROUPS, IKE, IPSEC, SERVICES, Site, site

NOBODY = "11111111-2222-3333-4444-555555555555"
HOUR = {"units": "seconds", "value": 3600}


@pytest.fixture
def member(admin: Api) -> Api:
    return admin.as_stranger()


@pytest.fixture
def here(admin: Api, member: Api) -> Site:
    return site(admin, member)


def test_policies_have_neutrons_attributes_and_defaults(member: Api) -> None:
    made = member.make("ikepolicy", name="p")
    identity = {"id": made["id"], "project_id": member.project, "tenant_id": member.project}
    common = {"name": "p", "description": "", "auth_algorithm": "sha256", "encryption_algorithm": "aes-128"}
    common |= {"pfs": "group5", "lifetime": HOUR}
    assert made == {**identity, **common, "phase1_negotiation_mode": "main", "ike_version": "v1"}
    assert member.show("ikepolicy", made["id"]) == made
    changed = member.change("ikepolicy", made["id"], ike_version="v2", lifetime={"value": 60})
    assert changed == {**made, "ike_version": "v2", "lifetime": {"units": "seconds", "value": 60}}
    assert member.all(IKE, {"ike_version": "v2"}) == [changed]
    other = member.make("ipsecpolicy", name="p")
    assert other == {
        **identity,
        **common,
        "id": other["id"],
        "transform_protocol": "esp",
        "encapsulation_mode": "tunnel",
    }
    member.delete(f"{IKE}/{made['id']}").expect(204)
    member.get(f"{IKE}/{made['id']}").refused(404, "IKEPolicyNotFound")
    member.get(f"{IPSEC}/{NOBODY}").refused(404, "IPsecPolicyNotFound")


@pytest.mark.parametrize(
    "bad",
    [
        *({"auth_algorithm": "sha1"}, {"auth_algorithm": "md5"}, {"encryption_algorithm": "3des"}, {"pfs": "group1"}),
        *({"ike_version": "v3"}, {"lifetime": {"value": 59}}, {"lifetime": {"units": "kilobytes"}}, {"lifetime": 5}),
        *({"phase1_negotiation_mode": "quick"}, {"lifetime": {"other": 1}}),
    ],
)
def test_ike_policies_that_are_refused(member: Api, bad: dict[str, Any]) -> None:
    assert next(iter(bad)) in member.post(IKE, {"ikepolicy": bad}).expect(400).message


def test_every_algorithm_is_accepted(member: Api) -> None:
    for mode in ("", "-ccm-8", "-ccm-12", "-ccm-16", "-gcm-8", "-gcm-12", "-gcm-16", "-ctr"):
        for size in (128, 192, 256):
            member.make("ipsecpolicy", encryption_algorithm=f"aes-{size}{mode}")
    for group in (2, 5, *range(14, 32)):
        member.make("ikepolicy", pfs=f"group{group}")
    for algorithm in ("sha384", "sha512", "aes-xcbc", "aes-cmac"):
        member.make("ikepolicy", auth_algorithm=algorithm)
    member.post(IPSEC, {"ipsecpolicy": {"transform_protocol": "ah-esp"}}).refused(400, "IpsecValidationFailure")


def test_a_service_has_the_addresses_of_its_routers_gateway(admin: Api, here: Site) -> None:
    address = here.router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]
    made = here.service(name="s")
    assert made == {
        "id": made["id"],
        "name": "s",
        "description": "",
        "project_id": here.api.project,
        "tenant_id": here.api.project,
        "router_id": here.router["id"],
        "subnet_id": here.subnet["id"],
        "flavor_id": None,
        "admin_state_up": True,
        "external_v4_ip": address,
        "external_v6_ip": None,
        "status": "PENDING_CREATE",
    }
    assert here.api.show("vpnservice", made["id"]) == made
    assert here.api.all(SERVICES, {"external_v4_ip": address}) == [made]
    assert here.api.change("vpnservice", made["id"], name="t") == {**made, "name": "t"}
    here.api.put(f"{SERVICES}/{made['id']}", {"vpnservice": {"router_id": NOBODY}}).refused(400, "HTTPBadRequest")
    moved = gateway(here.external, external_fixed_ips=[{"ip_address": "172.24.0.99"}])
    admin.change("router", here.router["id"], external_gateway_info=moved)
    assert here.api.show("vpnservice", made["id"])["external_v4_ip"] == "172.24.0.99"
    here.api.as_stranger().get(f"{SERVICES}/{made['id']}").refused(404, "VPNServiceNotFound")


def test_services_that_are_refused(admin: Api, here: Site) -> None:
    api, router = here.api, here.router["id"]
    without = api.make("router")["id"]
    _, other = inside(api, "10.5.0.0/24")
    for body, status, error in (
        ({"router_id": without}, 400, "RouterIsNotExternal"),
        ({"router_id": NOBODY}, 404, "RouterNotFound"),
        ({"router_id": router, "subnet_id": other["id"]}, 400, "SubnetIsNotConnectedToRouter"),
        ({"router_id": router, "flavor_id": NOBODY}, 404, "FlavorNotFound"),
    ):
        api.post(SERVICES, {"vpnservice": body}).refused(status, error)
    api.as_stranger().post(SERVICES, {"vpnservice": {"router_id": router}}).refused(404, "RouterNotFound")
    flavor = admin.make("flavor", name="vpn", service_type="VPN")
    assert here.service(flavor_id=flavor["id"])["flavor_id"] == flavor["id"]
    admin.delete(f"/flavors/{flavor['id']}").refused(409, "FlavorInUse")


def test_a_router_with_a_service_keeps_its_gateway_and_its_subnet(admin: Api, here: Site) -> None:
    service = here.service()
    router = f"/routers/{here.router['id']}"
    here.api.put(router, {"router": {"external_gateway_info": {}}}).refused(409, "RouterInUse")
    detach(here.api, here.router, subnet_id=here.subnet["id"]).refused(409, "SubnetInUseByVPNService")
    here.api.delete(f"{SERVICES}/{service['id']}").expect(204)
    detach(here.api, here.router, subnet_id=here.subnet["id"]).expect(200)
    service = here.service(subnet_id=None)
    here.api.delete(router).refused(409, "RouterInUse")
    here.api.delete(f"{SERVICES}/{service['id']}").expect(204)
    here.api.delete(router).expect(204)


@pytest.mark.every_database
def test_a_gateway_that_is_removed_meanwhile(
    server: Server, admin: Api, here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/routers/{here.router['id']}"
    without = {"router": {"external_gateway_info": {}}}
    before_next_transaction(server, monkeypatch, lambda: here.api.put(path, without).expect(200))
    here.api.post(SERVICES, {"vpnservice": {"router_id": here.router["id"]}}).refused(400, "RouterIsNotExternal")
    admin.change("router", here.router["id"], external_gateway_info=gateway(here.external))
    before_next_write(server, monkeypatch, here.service)
    here.api.put(path, without).refused(409, "RouterInUse")


@pytest.mark.every_database
def test_an_interface_that_is_removed_while_a_connection_needs_it(
    server: Server, here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = here.api.make("endpoint_group", type="subnet", endpoints=[here.subnet["id"]])
    peer = here.api.make("endpoint_group", type="cidr", endpoints=["10.9.0.0/24"])
    groups = {"local_ep_group_id": local["id"], "peer_ep_group_id": peer["id"], "peer_cidrs": []}
    body = here.connection(here.service(subnet_id=None), **groups)
    before_next_write(server, monkeypatch, lambda: here.api.make("ipsec_site_connection", **body))
    refused = detach(here.api, here.router, subnet_id=here.subnet["id"])
    refused.refused(409, "SubnetInUseByIPsecSiteConnection")


def test_a_connection_has_neutrons_attributes_and_defaults(here: Site) -> None:
    body = here.connection(here.service())
    made = here.api.make("ipsec_site_connection", **body)
    assert made == {
        **body,
        "id": made["id"],
        "name": "",
        "description": "",
        "project_id": here.api.project,
        "tenant_id": here.api.project,
        "local_id": "",
        "local_ep_group_id": None,
        "peer_ep_group_id": None,
        "mtu": 1500,
        "initiator": "bi-directional",
        "dpd": {"action": "hold", "interval": 30, "timeout": 120},
        "admin_state_up": True,
        "auth_mode": "psk",
        "route_mode": "static",
        "status": "PENDING_CREATE",
    }
    assert here.api.show("ipsec_site_connection", made["id"]) == made  # the key is shown to its owner, as in Neutron
    changed = here.api.change("ipsec_site_connection", made["id"], dpd={"timeout": 60}, peer_cidrs="10.8.0.0/16")
    assert changed["dpd"] == {"action": "hold", "interval": 30, "timeout": 60}
    assert (changed["peer_cidrs"], changed["status"]) == (["10.8.0.0/16"], "PENDING_UPDATE")
    for path, error in (
        (f"{SERVICES}/{made['vpnservice_id']}", "VPNServiceInUse"),
        (f"{IKE}/{made['ikepolicy_id']}", "IKEPolicyInUse"),
        (f"{IPSEC}/{made['ipsecpolicy_id']}", "IPsecPolicyInUse"),
    ):
        here.api.delete(path).refused(409, error)
    here.api.put(f"{IKE}/{made['ikepolicy_id']}", {"ikepolicy": {"name": "n"}}).refused(409, "IKEPolicyInUse")
    here.api.delete(f"{CONNECTIONS}/{made['id']}").expect(204)
    here.api.get(f"{CONNECTIONS}/{made['id']}").refused(404, "IPsecSiteConnectionNotFound")
    here.api.delete(f"{IKE}/{made['ikepolicy_id']}").expect(204)


def test_the_status_of_the_service_names_connections_that_are_down(here: Site, server: Server, admin: Api) -> None:
    made = here.api.make("ipsec_site_connection", **here.connection(here.service(), name="berlin"))

    def warnings() -> list[tuple[str, str]]:
        problems = admin.get("/status").expect(200).body["status"]["problems"]
        return [(each["kind"], each["severity"]) for each in problems if each["resource_id"] == made["id"]]

    def set_status(status: str) -> None:
        with server.db.transaction() as tx:
            tx.execute(sa.update(ipsec_site_connections).values(status=status))

    assert warnings() == [], "a host has yet to report on it"
    set_status("DOWN")
    assert warnings() == [("vpn-down", "warning")], "the other site is a tenant's: the service is not degraded by it"
    set_status("ACTIVE")
    assert warnings() == []
    set_status("ERROR")
    assert warnings() == [("vpn-down", "warning")]
    here.api.change("ipsec_site_connection", made["id"], admin_state_up=False)
    set_status("DOWN")
    assert warnings() == [], "it is meant to be down"


def test_connections_that_are_refused(here: Site) -> None:
    body = here.connection(here.service())
    for bad, status, error in (
        ({"vpnservice_id": NOBODY}, 404, "VPNServiceNotFound"),
        ({"ikepolicy_id": NOBODY}, 404, "IKEPolicyNotFound"),
        ({"ipsecpolicy_id": NOBODY}, 404, "IPsecPolicyNotFound"),
        ({"peer_cidrs": []}, 400, "MissingPeerCidrs"),
        ({"peer_cidrs": ["10.9.0.0/24", "2001:db8::/64"]}, 400, "MixedIPVersionsForPeerCidrs"),
        ({"peer_cidrs": ["2001:db8::/64"]}, 400, "MixedIPVersionsForIPSecConnection"),
        ({"peer_cidrs": ["10.9.0.0"]}, 400, "HTTPBadRequest"),
        ({"peer_cidrs": [" 10.9.0.0/24"]}, 400, "HTTPBadRequest"),
        ({"peer_cidrs": ["10.9.0.0/255.255.255.0"]}, 400, "HTTPBadRequest"),
        ({"local_ep_group_id": NOBODY}, 400, "InvalidEndpointGroup"),
        ({"dpd": {"interval": 30, "timeout": 30}}, 400, "IPsecSiteConnectionDpdIntervalValueError"),
        ({"dpd": {"action": "ignore"}}, 400, "HTTPBadRequest"),
        ({"dpd": {"interval": "soon"}}, 400, "HTTPBadRequest"),
        ({"mtu": 67}, 400, "IPsecSiteConnectionMtuError"),
        ({"initiator": "nobody"}, 400, "HTTPBadRequest"),
        ({"peer_address": "-not-a-name-"}, 400, "VPNPeerAddressNotResolved"),
        ({"peer_address": "2001:db8::7"}, 400, "ExternalNetworkHasNoSubnet"),
        ({"peer_id": "a\nb"}, 400, "HTTPBadRequest"),
        ({"auth_mode": "psk"}, 400, "HTTPBadRequest"),
    ):
        here.api.post(CONNECTIONS, {"ipsec_site_connection": {**body, **bad}}).refused(status, error)
    for key in ("", "x" * 256, 5):
        refused = here.api.post(CONNECTIONS, {"ipsec_site_connection": {**body, "psk": key}}).expect(400)
        assert "psk" in refused.message
        assert "xxxx" not in refused.message  # a key is in no message
    made = here.api.make("ipsec_site_connection", **body)
    path = f"{CONNECTIONS}/{made['id']}"
    here.api.put(path, {"ipsec_site_connection": {"mtu": 1}}).refused(400, "IPsecSiteConnectionMtuError")
    here.api.as_stranger().get(path).refused(404, "IPsecSiteConnectionNotFound")
    foreign = here.api.as_stranger()
    foreign.post(CONNECTIONS, {"ipsec_site_connection": body}).refused(404, "VPNServiceNotFound")


def test_endpoint_groups(here: Site) -> None:
    api = here.api
    for bad, error in (
        ({"type": "cidr"}, "MissingEndpointForEndpointGroup"),
        ({"type": "cidr", "endpoints": ["10.0.0.0"]}, "InvalidEndpointInEndpointGroup"),
        ({"type": "subnet", "endpoints": ["10.0.0.0/24"]}, "InvalidEndpointInEndpointGroup"),
        ({"type": "subnet", "endpoints": [NOBODY]}, "NonExistingSubnetInEndpointGroup"),
        ({"type": "cidr", "endpoints": ["10.9.0.0/24", "10.9.0.0/24"]}, "InvalidEndpointInEndpointGroup"),
        ({"type": "subnet", "endpoints": [here.subnet["id"], here.subnet["id"]]}, "InvalidEndpointInEndpointGroup"),
        ({"type": "cidr", "endpoints": [" 10.9.0.0/24"]}, "InvalidEndpointInEndpointGroup"),
        ({"type": "host", "endpoints": ["a"]}, "HTTPBadRequest"),
        ({"type": "cidr", "endpoints": [5]}, "HTTPBadRequest"),
    ):
        api.post(GROUPS, {"endpoint_group": bad}).refused(400, error)
    _, extra = inside(api, "10.1.0.0/24")
    local = api.make("endpoint_group", name="l", type="subnet", endpoints=[here.subnet["id"], extra["id"]])
    peer = api.make("endpoint_group", type="cidr", endpoints="10.9.0.0/24")
    assert peer["endpoints"] == ["10.9.0.0/24"]
    assert local == {
        "id": local["id"],
        "name": "l",
        "description": "",
        "type": "subnet",
        "endpoints": [here.subnet["id"], extra["id"]],
        "project_id": api.project,
        "tenant_id": api.project,
    }
    assert api.change("endpoint_group", local["id"], name="m")["name"] == "m"
    api.put(f"{GROUPS}/{local['id']}", {"endpoint_group": {"endpoints": []}}).refused(400, "HTTPBadRequest")
    service = here.service(subnet_id=None)
    body = here.connection(service, peer_cidrs=[], local_ep_group_id=local["id"], peer_ep_group_id=peer["id"])
    for bad, error in (
        ({"peer_cidrs": ["10.9.0.0/24"]}, "PeerCidrsInvalid"),
        ({"local_ep_group_id": None}, "MissingRequiredEndpointGroup"),
        ({"local_ep_group_id": peer["id"]}, "WrongEndpointGroupType"),
        ({}, "SubnetIsNotConnectedToRouter"),
    ):
        api.post(CONNECTIONS, {"ipsec_site_connection": {**body, **bad}}).refused(400, error)
    attach(api, here.router, subnet_id=extra["id"]).expect(200)
    made = api.make("ipsec_site_connection", **body)
    api.delete(f"{GROUPS}/{local['id']}").refused(400, "EndpointGroupInUse")
    detach(api, here.router, subnet_id=extra["id"]).refused(409, "SubnetInUseByIPsecSiteConnection")
    api.delete(f"{CONNECTIONS}/{made['id']}").expect(204)
    detach(api, here.router, subnet_id=extra["id"]).expect(200)
    api.delete(f"/subnets/{extra['id']}").refused(409, "SubnetInUseByEndpointGroup")
    api.delete(f"/networks/{extra['network_id']}").refused(409, "SubnetInUseByEndpointGroup")
    api.delete(f"{GROUPS}/{local['id']}").expect(204)
    api.delete(f"/networks/{extra['network_id']}").expect(204)


def test_names_of_peers_are_resolved_only_if_the_operator_allows_it(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(peer_names, "lookup", lambda name: asked.append(name) or "192.0.2.8")
    body = here.connection(here.service(), peer_address="vpn.example.org")
    refused = here.api.post(CONNECTIONS, {"ipsec_site_connection": body}).refused(400, "VPNPeerAddressNotResolved")
    assert "resolve_vpn_peer_names" in refused.message
    made = here.api.make("ipsec_site_connection", **{**body, "peer_address": "192.0.2.9"})
    change = {"ipsec_site_connection": {"peer_address": "vpn.example.org"}}
    here.api.put(f"{CONNECTIONS}/{made['id']}", change).refused(400, "VPNPeerAddressNotResolved")
    assert asked == []


@pytest.fixture
def resolving(here: Site, server: Server, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A server with resolve_vpn_peer_names."""
    for resource, collection in server.service_plugins["vpnaas"].collections:
        if resource.name == "ipsec_site_connection":
            monkeypatch.setattr(collection, "_names", peer_names.PeerNames(is_enabled=True))
    return here


def test_a_peer_may_be_given_by_its_name(resolving: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # With the dot at its end, /etc/hosts and the search domains of the server have no part in it.
    found = {"vpn.example.org.": [(2, 1, 6, "", ("192.0.2.8", 0))]}
    monkeypatch.setattr(peer_names.socket, "getaddrinfo", lambda name, _: found[name])
    body = resolving.connection(resolving.service(), peer_address="vpn.example.org")
    assert resolving.api.make("ipsec_site_connection", **body)["peer_address"] == "192.0.2.8"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        *(
            ("vpn.example.org", answer)
            for answer in ("127.0.0.1", "127.8.9.1", "::1", "169.254.169.254", "fe80::1%eth0")
        ),
        *(("vpn.example.org", answer) for answer in ("::ffff:127.0.0.1", "0.0.0.0", "::", "224.0.0.5")),
        *((name, "192.0.2.8") for name in ("localhost", "database", "db.")),
    ],
)
def test_answers_that_mean_the_server_and_its_own_names_are_none(
    resolving: Site, monkeypatch: pytest.MonkeyPatch, name: str, answer: str
) -> None:
    monkeypatch.setattr(peer_names, "lookup", lambda name: answer)
    body = {"ipsec_site_connection": resolving.connection(resolving.service(), peer_address=name)}
    refused = resolving.api.post(CONNECTIONS, body).refused(400, "VPNPeerAddressNotResolved")
    assert refused.message == f"peer_address: {name} cannot be resolved.", "which does not say what was found"


def test_names_that_no_server_answers_are_given_up_together(resolving: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One time limit for all names of a request: a thread of the API is not blocked for each of them in turn."""
    answer = threading.Event()
    monkeypatch.setattr(peer_names, "lookup", lambda name: str(answer.wait() or name))
    monkeypatch.setattr(peer_names, "SECONDS", 0.1)
    body = resolving.connection(resolving.service())
    several = [{**body, "peer_address": f"silent-{number}.example.org"} for number in range(100)]
    try:
        resolving.api.post(CONNECTIONS, {"ipsec_site_connections": several}).refused(400, "VPNPeerAddressNotResolved")
    finally:
        answer.set()
    assert resolving.api.all(CONNECTIONS) == []


def test_cidrs_are_shown_as_given_and_hosts_get_networks(here: Site, server: Server) -> None:
    """As in Neutron, host bits stay in the text. Hosts get networks: charon and nft take no others."""
    local = here.api.make("endpoint_group", type="subnet", endpoints=[here.subnet["id"]])
    given = ["10.84.0.7/24", "10.84.0.0/24", "10.8.0.0/16"]
    peer = here.api.make("endpoint_group", type="cidr", endpoints=given)
    assert here.api.show("endpoint_group", peer["id"])["endpoints"] == peer["endpoints"] == given
    groups = {"local_ep_group_id": local["id"], "peer_ep_group_id": peer["id"], "peer_cidrs": []}
    here.api.make("ipsec_site_connection", **here.connection(here.service(subnet_id=None), **groups))
    with server.db.read() as connection:
        (service,) = read_vpn(connection, [here.router["id"]])[here.router["id"]]
    assert service.connections[0].peer_cidrs == ("10.84.0.0/24", "10.8.0.0/16")


def test_hosts_do_not_get_a_peer_of_before_the_check(here: Site, server: Server) -> None:
    service = here.service()
    made = here.api.make("ipsec_site_connection", **here.connection(service))
    with server.db.transaction() as tx:
        rows = ipsec_site_connections
        tx.execute(sa.update(rows).where(rows.c.id == made["id"]).values(peer_address="::ffff:127.0.0.1"))
    with server.db.read() as connection:
        (read,) = read_vpn(connection, [here.router["id"]])[here.router["id"]]
    assert read.connections == ()


def test_cidrs_of_a_connection_are_shown_as_given(here: Site) -> None:
    made = here.api.make("ipsec_site_connection", **here.connection(here.service(), peer_cidrs=["10.84.0.7/24"]))
    assert made["peer_cidrs"] == ["10.84.0.7/24"]
    changed = here.api.change("ipsec_site_connection", made["id"], peer_cidrs=["10.85.0.7/24"])
    assert changed["peer_cidrs"] == ["10.85.0.7/24"]


def test_a_lifetime_that_is_no_integer(here: Site) -> None:
    for path, name in (("/vpn/ikepolicies", "ikepolicy"), ("/vpn/ipsecpolicies", "ipsecpolicy")):
        here.api.post(path, {name: {"lifetime": {"value": "long"}}}).refused(400, "HTTPBadRequest")


def test_pairs_of_subnets_of_an_ikev1_connection_are_limited(here: Site) -> None:
    """Each is a tunnel: charon takes no message with thousands of them."""
    _, extra = inside(here.api, "10.1.0.0/24")
    _, third = inside(here.api, "10.2.0.0/24")
    for subnet in (extra, third):
        attach(here.api, here.router, subnet_id=subnet["id"]).expect(200)
    ids = [here.subnet["id"], extra["id"], third["id"]]
    local = here.api.make("endpoint_group", type="subnet", endpoints=ids)
    peer = here.api.make("endpoint_group", type="cidr", endpoints=[f"10.9.{number}.0/24" for number in range(100)])
    groups = {"local_ep_group_id": local["id"], "peer_ep_group_id": peer["id"], "peer_cidrs": []}
    body = here.connection(here.service(subnet_id=None), **groups)
    here.api.post(CONNECTIONS, {"ipsec_site_connection": body}).refused(400, "InvalidInput")
    body["ikepolicy_id"] = here.api.make("ikepolicy", ike_version="v2")["id"]
    here.api.make("ipsec_site_connection", **body)


@pytest.mark.every_database
def test_a_router_has_a_limited_number_of_services_and_connections(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts get them in one message with the router."""
    monkeypatch.setattr(checks, "MAX_PER_ROUTER", 2)
    bodies = [here.connection(here.service()), here.connection(here.service())]
    service = {"vpnservice": {"router_id": here.router["id"]}}
    here.api.post(SERVICES, service).refused(409, "TooManyOfObject")
    here.api.make("ipsec_site_connection", **bodies[0])
    here.api.post(CONNECTIONS, {"ipsec_site_connections": bodies}).refused(409, "TooManyOfObject")
    here.api.make("ipsec_site_connection", **bodies[1])
    here.api.post(CONNECTIONS, {"ipsec_site_connection": bodies[0]}).refused(409, "TooManyOfObject")


@pytest.mark.every_database
def test_a_router_has_a_limited_number_of_pairs_of_subnets(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is policies of the kernel, and a routing rule where the router is distributed."""
    monkeypatch.setattr(checks, "MAX_PAIRS_PER_ROUTER", 5)
    _, subnet = inside(here.api, "10.0.1.0/24")
    attach(here.api, here.router, subnet_id=subnet["id"]).expect(200)
    local = here.api.make("endpoint_group", type="subnet", endpoints=[here.subnet["id"], subnet["id"]])
    peers = [f"10.9.{number}.0/24" for number in range(5)]
    two, three = (here.api.make("endpoint_group", type="cidr", endpoints=peers[:number]) for number in (2, 3))
    service = here.service(subnet_id=None)
    groups = {"local_ep_group_id": local["id"], "peer_ep_group_id": two["id"], "peer_cidrs": []}
    bodies = [here.connection(service, **groups), here.connection(here.service())]
    made = here.api.post(CONNECTIONS, {"ipsec_site_connections": bodies}).expect(201).body["ipsec_site_connections"]
    one_more = here.connection(service, **groups)
    message = here.api.post(CONNECTIONS, {"ipsec_site_connection": one_more}).refused(409, "TooManyOfObject").message
    assert here.router["id"] in message
    here.api.post(CONNECTIONS, {"ipsec_site_connections": [one_more] * 2}).refused(409, "TooManyOfObject")
    changes: list[tuple[Any, Any]] = [
        (made[0], {"peer_ep_group_id": three["id"]}),
        (made[1], {"peer_cidrs": peers[:2]}),
    ]
    for connection, change in changes:
        path = f"{CONNECTIONS}/{connection['id']}"
        here.api.put(path, {"ipsec_site_connection": change}).refused(409, "TooManyOfObject")
        assert here.api.show("ipsec_site_connection", connection["id"]) == connection
    here.api.change("ipsec_site_connection", made[1]["id"], peer_cidrs=peers[4:], name="n")


@pytest.mark.every_database
@pytest.mark.parametrize("kind", ["ikepolicy", "ipsecpolicy"])
def test_a_policy_that_is_used_while_it_is_changed(
    server: Server, here: Site, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    body = here.connection(here.service())
    before_next_transaction(server, monkeypatch, lambda: here.api.make("ipsec_site_connection", **body))
    path = f"/vpn/{kind.removesuffix('y')}ies/{body[f'{kind}_id']}"
    here.api.put(path, {kind: {"auth_algorithm": "sha512"}}).expect(409)


@pytest.mark.every_database
def test_an_interface_that_is_removed_while_a_connection_is_changed_to_need_it(
    server: Server, here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, extra = inside(here.api, "10.1.0.0/24")
    attach(here.api, here.router, subnet_id=extra["id"]).expect(200)
    first, second = (
        here.api.make("endpoint_group", type="subnet", endpoints=[each["id"]]) for each in (here.subnet, extra)
    )
    peer = here.api.make("endpoint_group", type="cidr", endpoints=["10.9.0.0/24"])
    groups = {"local_ep_group_id": first["id"], "peer_ep_group_id": peer["id"], "peer_cidrs": []}
    made = here.api.make("ipsec_site_connection", **here.connection(here.service(subnet_id=None), **groups))
    change = {"local_ep_group_id": second["id"]}
    before_next_write(server, monkeypatch, lambda: here.api.change("ipsec_site_connection", made["id"], **change))
    refused = detach(here.api, here.router, subnet_id=extra["id"])
    refused.refused(409, "SubnetInUseByIPsecSiteConnection")


def test_quotas_of_vpn_objects(admin: Api, here: Site) -> None:
    names = ("ikepolicy", "ipsecpolicy", "endpoint_group", "vpnservice", "ipsec_site_connection")
    admin.put(f"/quotas/{here.api.project}", {"quota": dict.fromkeys(names, 1)}).expect(200)
    body = here.connection(here.service())
    here.api.make("ipsec_site_connection", **body)
    here.api.make("endpoint_group", type="cidr", endpoints=["10.9.0.0/24"])
    again = {
        IKE: {"ikepolicy": {}},
        IPSEC: {"ipsecpolicy": {}},
        GROUPS: {"endpoint_group": {"type": "cidr", "endpoints": ["10.9.0.0/24"]}},
        SERVICES: {"vpnservice": {"router_id": here.router["id"]}},
        CONNECTIONS: {"ipsec_site_connection": body},
    }
    for path, new in again.items():
        here.api.post(path, new).refused(409, "OverQuota")
