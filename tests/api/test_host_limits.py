"""Limits of what hosts get as parts of one port or router, where quotas are unlimited."""

from __future__ import annotations

import pytest

from neutrino.features.taas import taps
from neutrino.model.objects import Object
from neutrino.server.host_limits import PER_OBJECT
from tests.api.client import Api
from tests.api.test_local_ips import associate, associations
from tests.api.test_taas import FLOWS, MIRRORS, SERVICES


@pytest.fixture
def port(api: Api) -> Object:
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    return api.port(network)


def test_taps_of_a_port(api: Api, port: Object) -> None:
    service = {"port_id": port["id"], "name": "s"}
    api.post(SERVICES, {"tap_services": [service] * (PER_OBJECT + 1)}).refused(409, "TooManyOfObject")
    made = api.post(SERVICES, {"tap_services": [service] * PER_OBJECT}).expect(201).body["tap_services"][0]
    assert port["id"] in api.post(SERVICES, {"tap_service": service}).refused(409, "TooManyOfObject").message
    flow = {"tap_service_id": made["id"], "source_port": port["id"], "direction": "BOTH"}
    api.post(FLOWS, {"tap_flows": [flow] * (PER_OBJECT + 1)}).refused(409, "TooManyOfObject")
    api.post(FLOWS, {"tap_flows": [flow] * PER_OBJECT}).expect(201)
    api.post(FLOWS, {"tap_flow": flow}).refused(409, "TooManyOfObject")
    mirrors = [
        {"port_id": port["id"], "directions": {"IN": number + 1}, "remote_ip": "192.0.2.9", "mirror_type": "gre"}
        for number in range(PER_OBJECT + 1)
    ]
    api.post(MIRRORS, {"tap_mirrors": mirrors}).refused(409, "TooManyOfObject")
    api.post(MIRRORS, {"tap_mirrors": mirrors[1:]}).expect(201)


def test_tap_flows_to_a_port(api: Api, port: Object, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all its services: each flow from another host is a tunnel on the port's host."""
    monkeypatch.setattr(taps, "MAX_SOURCES", 3)
    source = api.port({"id": port["network_id"]})
    one, two = (api.make("tap_service", port_id=port["id"])["id"] for _ in range(2))

    def flows(*services: str) -> Object:
        same = {"source_port": source["id"], "direction": "IN"}
        return {"tap_flows": [{"tap_service_id": service, **same} for service in services]}

    api.post(FLOWS, flows(one, one, two, two)).refused(409, "TooManyOfObject")
    api.post(FLOWS, flows(one, one)).expect(201)
    assert port["id"] in api.post(FLOWS, flows(two, two)).refused(409, "TooManyOfObject").message
    api.post(FLOWS, flows(two)).expect(201)


def test_local_ips_of_a_port(api: Api, port: Object) -> None:
    several = [{"local_port_id": port["id"]}] * (PER_OBJECT + 1)
    made = api.post("/local_ips", {"local_ips": several}).expect(201).body["local_ips"]
    for local_ip in made[1:]:
        associate(api, local_ip, port)
    body = {"port_association": {"fixed_port_id": port["id"]}}
    api.post(associations(made[0]), body).refused(409, "TooManyOfObject")


def test_conntrack_helpers_of_a_router(api: Api) -> None:
    path = f"/routers/{api.make('router')['id']}/conntrack_helpers"

    def helper(number: int) -> Object:
        return {"conntrack_helper": {"protocol": "udp", "port": number + 1, "helper": "tftp"}}

    made = [api.post(path, helper(number)).expect(201).body["conntrack_helper"] for number in range(PER_OBJECT)]
    api.post(path, helper(PER_OBJECT)).refused(409, "TooManyOfObject")
    api.put(f"{path}/{made[0]['id']}", helper(PER_OBJECT)).expect(200)
