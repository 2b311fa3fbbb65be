"""Ports forwarded from a floating IP, and a router's conntrack helpers."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.features.router.floating_ips.floating_ips import set_floating_ip_status
from neutrino.model.objects import Object
from neutrino.server.main import Server
from neutrino.server.quota.plugin import recount
from tests.api.client import Api, Response
from tests.api.l3 import attach, detach, gateway, inside, l3_agent, outside
from tests.faults.integrity import check


@pytest.fixture(autouse=True)
def sound(server: Server) -> Any:
    yield
    check(server.db)


@pytest.fixture(scope="module")
def external(server: Server) -> Object:
    return outside(Api(server.app).as_admin(), "172.24.0.0/22")


class Forwarding:
    """A floating IP, a router to its network, and a port behind it to forward to."""

    def __init__(self, api: Api, external: Object) -> None:
        self.api = api
        self.network, self.subnet = inside(api)
        self.router = api.make("router", external_gateway_info=gateway(external))
        attach(api, self.router, subnet_id=self.subnet["id"]).expect(200)
        self.port = api.port(self.network)
        self.floating = api.make("floatingip", floating_network_id=external["id"])
        self.path = f"/floatingips/{self.floating['id']}/port_forwardings"

    def post(self, **values: Any) -> Response:
        target = {
            "internal_port_id": self.port["id"],
            "internal_ip_address": self.port["fixed_ips"][0]["ip_address"],
            "protocol": "tcp",
        }
        return self.api.post(self.path, {"port_forwarding": {**target, **values}})

    def make(self, **values: Any) -> Object:
        made: Object = self.post(**values).expect(201).body["port_forwarding"]
        return made


@pytest.fixture
def forwarding(api: Api, external: Object) -> Forwarding:
    return Forwarding(api, external)


def test_a_port_is_forwarded(api: Api, forwarding: Forwarding) -> None:
    made = forwarding.make(internal_port=80, external_port=8080, description="web")
    assert (made["external_port_range"], made["internal_port_range"]) == ("8080:8080", "80:80")
    path = f"{forwarding.path}/{made['id']}"
    assert api.get(path).expect(200).body["port_forwarding"] == made
    assert api.get(forwarding.path).expect(200).body["port_forwardings"] == [made]
    floating = api.show("floatingip", forwarding.floating["id"])
    assert (floating["router_id"], floating["port_id"]) == (forwarding.router["id"], None)
    hidden = ("external_port_range", "internal_port_range", "description")
    assert floating["port_forwardings"] == [{name: value for name, value in made.items() if name not in hidden}]
    changed = api.put(path, {"port_forwarding": {"internal_port": 90}}).expect(200).body["port_forwarding"]
    assert (changed["internal_port"], changed["internal_port_range"], changed["external_port"]) == (90, "90:90", 8080)
    api.delete(f"/floatingips/{forwarding.floating['id']}").refused(409, "FipInUseByPortForwarding")
    api.delete(path).expect(204)
    api.get(path).refused(404, "PortForwardingNotFound")
    assert api.show("floatingip", forwarding.floating["id"])["router_id"] is None


def report_active(server: Server, forwarding: Forwarding, host: str) -> bool:
    return set_floating_ip_status(server.db, host, forwarding.floating["id"], "ACTIVE")


@pytest.mark.parametrize("last", ["the forwarding", "its port", "the port's address"])
def test_a_floating_ip_is_active_while_a_host_forwards_its_ports(
    server: Server, api: Api, forwarding: Forwarding, last: str
) -> None:
    """As with Neutron."""

    def status() -> str:
        return str(api.show("floatingip", forwarding.floating["id"])["status"])

    l3_agent(server, "forwarder")  # takes the router, which no agent has
    assert not report_active(server, forwarding, "forwarder"), "it has no forwarding"
    first, second = (forwarding.make(internal_port=port, external_port=port) for port in (8080, 8081))
    assert status() == "DOWN", "no host has reported it"
    assert not report_active(server, forwarding, "elsewhere")
    assert report_active(server, forwarding, "forwarder")
    assert status() == "ACTIVE"
    api.put(f"{forwarding.path}/{first['id']}", {"port_forwarding": {"internal_port": 90}}).expect(200)
    api.delete(f"{forwarding.path}/{second['id']}").expect(204)
    assert status() == "ACTIVE", "one is left"
    if last == "the forwarding":
        api.delete(f"{forwarding.path}/{first['id']}").expect(204)
    elif last == "its port":
        api.delete(f"/ports/{forwarding.port['id']}").expect(204)
    else:
        api.put(f"/ports/{forwarding.port['id']}", {"port": {"fixed_ips": []}}).expect(200)
    assert (status(), api.show("floatingip", forwarding.floating["id"])["router_id"]) == ("DOWN", None)


@pytest.mark.every_database
def test_ranges(api: Api, forwarding: Forwarding) -> None:
    made = forwarding.make(internal_port_range="100:110", external_port_range="2000:2010")
    assert (made["internal_port"], made["external_port"]) == (None, None)
    (shown,) = api.show("floatingip", forwarding.floating["id"])["port_forwardings"]
    assert (shown["internal_port_range"], shown["external_port_range"]) == ("100:110", "2000:2010")
    many = forwarding.make(internal_port_range="22", external_port_range="3000:3005")
    assert (many["internal_port"], many["internal_port_range"]) == (22, "22:22")
    forwarding.post(internal_port_range="1:2", external_port_range="4000:4005").refused(400, "BadRequest")
    forwarding.post(internal_port=200, external_port=2005).refused(400, "BadRequest")
    forwarding.post(internal_port=105, external_port=5000).refused(400, "BadRequest")
    forwarding.make(internal_port=105, external_port=2005, protocol="udp")
    for bad in ("0:1", "9:8", "1:70000", "x", "1:2:3", ""):
        forwarding.post(internal_port_range=bad, external_port_range="6000:6001").expect(400)
    forwarding.post(internal_port=1).refused(400, "BadRequest")
    forwarding.post(internal_port=1, internal_port_range="2:2", external_port=7000).refused(400, "BadRequest")
    by_number = forwarding.make(internal_port=53, external_port=5353, protocol="17")
    assert by_number["protocol"] == "udp"


def test_forwardings_that_cannot_be(api: Api, forwarding: Forwarding, external: Object) -> None:
    ports = {"internal_port": 80, "external_port": 80}
    forwarding.post(**ports, internal_ip_address="10.0.0.250").refused(400, "BadRequest")
    forwarding.post(**ports, internal_port_id=forwarding.network["id"]).refused(404, "PortNotFound")
    forwarding.post(**ports, protocol="nonsense").refused(400, "HTTPBadRequest")
    forwarding.post(internal_port=99999, external_port=1).refused(400, "HTTPBadRequest")
    lone = api.port(inside(api, "10.9.0.0/24")[0])
    away = {"internal_port_id": lone["id"], "internal_ip_address": lone["fixed_ips"][0]["ip_address"]}
    forwarding.post(**ports, **away).refused(400, "BadRequest")
    whole = api.make("floatingip", floating_network_id=external["id"], port_id=forwarding.port["id"])
    forwarding.post(**ports).refused(409, "PortHasBindingFloatingIP")
    api.change("floatingip", whole["id"], port_id=None)
    api.change("floatingip", forwarding.floating["id"], port_id=forwarding.port["id"])
    other = api.port(forwarding.network)
    busy = {"internal_port_id": other["id"], "internal_ip_address": other["fixed_ips"][0]["ip_address"]}
    forwarding.post(**ports, **busy).refused(409, "FloatingIPPortAlreadyAssociated")
    api.change("floatingip", forwarding.floating["id"], port_id=None)
    forwarding.make(**ports)
    body = {"floatingip": {"port_id": other["id"]}}
    api.put(f"/floatingips/{forwarding.floating['id']}", body).refused(409, "FipInUseByPortForwarding")


def test_strangers_find_nothing(api: Api, forwarding: Forwarding) -> None:
    made = forwarding.make(internal_port=80, external_port=80)
    stranger = api.as_stranger()
    for path in (forwarding.path, f"{forwarding.path}/{made['id']}"):
        stranger.get(path).refused(404, "FloatingIPNotFound")
    stranger.delete(f"{forwarding.path}/{made['id']}").refused(404, "FloatingIPNotFound")
    stranger.post(forwarding.path, {"port_forwarding": {}}).expect(400)
    reader = api.as_reader()
    assert reader.get(forwarding.path).expect(200).body["port_forwardings"] == [made]
    reader.delete(f"{forwarding.path}/{made['id']}").refused(403)
    other = api.make("floatingip", floating_network_id=forwarding.floating["floating_network_id"])
    api.get(f"/floatingips/{other['id']}/port_forwardings/{made['id']}").refused(404, "PortForwardingNotFound")


def test_ports_and_routers_that_are_forwarded_to(api: Api, forwarding: Forwarding) -> None:
    forwarding.make(internal_port=80, external_port=80)
    kept = forwarding.make(
        internal_port=81, external_port=81, internal_ip_address=forwarding.port["fixed_ips"][0]["ip_address"]
    )
    detach(api, forwarding.router, subnet_id=forwarding.subnet["id"]).refused(409, "RouterInterfaceInUseByFloatingIP")
    clear = {"router": {"external_gateway_info": None}}
    api.put(f"/routers/{forwarding.router['id']}", clear).refused(409, "RouterExternalGatewayInUseByFloatingIp")
    assert kept["internal_port"] == 81
    api.delete(f"/ports/{forwarding.port['id']}").expect(204)
    assert api.get(forwarding.path).body["port_forwardings"] == []
    assert api.show("floatingip", forwarding.floating["id"])["router_id"] is None
    detach(api, forwarding.router, subnet_id=forwarding.subnet["id"]).expect(200)


@pytest.mark.every_database
def test_forwardings_to_a_removed_address_are_deleted(api: Api, forwarding: Forwarding) -> None:
    forwarding.make(internal_port=80, external_port=80)
    api.change("port", forwarding.port["id"], fixed_ips=[{"ip_address": "10.0.0.200"}])
    assert api.get(forwarding.path).body["port_forwardings"] == []


# --- conntrack helpers ------------------------------------------------------------------------------------------------


def test_conntrack_helpers(api: Api) -> None:
    router = api.make("router")
    path = f"/routers/{router['id']}/conntrack_helpers"

    def post(**values: Any) -> Response:
        wanted = {"protocol": "udp", "port": 69, "helper": "tftp", **values}
        return api.post(path, {"conntrack_helper": wanted})

    made = post().expect(201).body["conntrack_helper"]
    post().refused(400, "BadRequest")
    post(protocol="tcp").refused(400, "InvalidProtocolForHelper")
    post(helper="nonsense").refused(400, "ConntrackHelperNotAllowed")
    post(port=0).refused(400, "HTTPBadRequest")
    assert api.get(path).expect(200).body["conntrack_helpers"] == [made]
    assert api.show("router", router["id"])["conntrack_helpers"] == [{"protocol": "udp", "port": 69, "helper": "tftp"}]
    changed = api.put(f"{path}/{made['id']}", {"conntrack_helper": {"port": 6969}}).expect(200).body
    assert changed["conntrack_helper"]["port"] == 6969
    api.as_stranger().get(path).refused(404, "RouterNotFound")
    api.as_reader().delete(f"{path}/{made['id']}").refused(403)
    api.delete(f"{path}/{made['id']}").expect(204)
    api.delete(f"{path}/{made['id']}").refused(404, "ConntrackHelperNotFound")
    post().expect(201)
    api.delete(f"/routers/{router['id']}").expect(204)


# --- limits -----------------------------------------------------------------------------------------------------------


def used(api: Api) -> dict[str, int]:
    found: dict[str, int] = api.get(f"/quotas/{api.project}/details").expect(200).body["quota"]["port_forwarding"]
    return found


@pytest.mark.every_database
def test_port_forwardings_have_a_quota(api: Api, admin: Api, server: Server, forwarding: Forwarding) -> None:
    assert used(api) == {"limit": 100, "used": 0, "reserved": 0}
    first = forwarding.make(internal_port=1, external_port=1)  # before there is a limit of the project's own
    admin.put(f"/quotas/{api.project}", {"quota": {"port_forwarding": 2}}).expect(200)
    second = forwarding.make(internal_port=2, external_port=2)
    forwarding.post(internal_port=3, external_port=3).refused(409, "OverQuota")
    assert used(api)["used"] == 2
    api.put(f"{forwarding.path}/{second['id']}", {"port_forwarding": {"external_port": 4}}).expect(200)
    api.delete(f"{forwarding.path}/{first['id']}").expect(204)
    forwarding.make(internal_port=3, external_port=3)
    assert recount(server.db) == []
    api.delete(f"/ports/{forwarding.port['id']}").expect(204)  # its forwardings go with it
    assert used(api)["used"] == 0
    assert recount(server.db) == []


def test_a_forwarding_counts_for_the_project_of_its_floating_ip(admin: Api, external: Object, server: Server) -> None:
    api = admin.as_stranger()
    forwarding = Forwarding(api, external)
    other = admin.as_stranger().as_admin()
    body = {"internal_port_id": forwarding.port["id"], "protocol": "udp", "internal_port": 5, "external_port": 5}
    address = forwarding.port["fixed_ips"][0]["ip_address"]
    other.post(forwarding.path, {"port_forwarding": {**body, "internal_ip_address": address}}).expect(201)
    assert (used(api)["used"], used(other)["used"]) == (1, 0)
    assert recount(server.db) == []


def test_a_long_range_leads_to_the_same_ports_or_to_one(api: Api, forwarding: Forwarding) -> None:
    """Hosts write a range that leads to other ports out, port by port."""
    allowed = [("1:65535", "1:65535", "tcp"), ("1:65535", "22:22", "udp"), ("1:100", "2:101", "sctp")]
    made = {}
    for external, internal, protocol in allowed:
        ports = {"external_port_range": external, "internal_port_range": internal}
        made[protocol] = forwarding.make(**ports, protocol=protocol)
    for one in made.values():
        api.delete(f"{forwarding.path}/{one['id']}").expect(204)
    long = {"external_port_range": "1:101", "internal_port_range": "2:102"}
    assert "at most 100" in forwarding.post(**long).refused(400).message
    short = forwarding.make(external_port_range="1:100", internal_port_range="2:101")
    api.put(f"{forwarding.path}/{short['id']}", {"port_forwarding": long}).refused(400)
