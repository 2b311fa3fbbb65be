"""A prefix is delegated while ports, the interface and the gateway change: no address is left on an earlier prefix."""

from __future__ import annotations

import pytest

from neutrino.features.router.routers.prefix_delegation import PrefixDelegation
from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api, Response
from tests.api.l3 import attach, detach, gateway, l3_agent, outside
from tests.faults import integrity
from tests.faults.test_at_once import at_once

ASKING: Object = {
    "ip_version": 6,
    "subnetpool_id": "prefix_delegation",
    "ipv6_ra_mode": "slaac",
    "ipv6_address_mode": "slaac",
}
PREFIXES = [f"2001:db8:aa:{number:x}::/64" for number in range(1, 9)]


@pytest.fixture(scope="module")
def external(server: Server) -> Object:
    l3_agent(server, "h1")
    return outside(Api(server.app).as_admin(), "172.24.0.0/22")


def test_prefix_ports_interface_and_gateway_change_concurrently(server: Server, api: Api, external: Object) -> None:
    delegation = PrefixDelegation(server.db, server.core.operations, server.core.subnets, server.core.ports)
    network = api.network()
    subnet = api.make("subnet", network_id=network["id"], **ASKING)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    path = f"/routers/{router['id']}"

    def act(i: int) -> Response:
        what = i % 8
        if what in (0, 3):
            delegation.set_prefix("h1", subnet["id"], PREFIXES[i // 8 % len(PREFIXES)])
            return api.get(f"/subnets/{subnet['id']}")
        if what in (1, 4, 6):
            return api.post("/ports", {"port": {"network_id": network["id"]}})
        if what == 2:
            return detach(api, router, subnet_id=subnet["id"])
        if what == 5:
            return attach(api, router, subnet_id=subnet["id"])
        return api.put(path, {"router": {"external_gateway_info": gateway(external) if i % 16 > 8 else None}})

    at_once(act, 48)
    api.put(path, {"router": {"external_gateway_info": gateway(external)}}).expect(200)
    attach(api, router, subnet_id=subnet["id"])  # if it is not there
    for prefix in (PREFIXES[0], PREFIXES[1]):  # as with the next renewal
        delegation.set_prefix("h1", subnet["id"], prefix)
    assert api.show("subnet", subnet["id"])["cidr"] == PREFIXES[1]
    assert len({f["ip_address"] for p in api.all("/ports") for f in p["fixed_ips"]}) == len(api.all("/ports"))
    integrity.check(server.db)
    detach(api, router, subnet_id=subnet["id"]).expect(200)
    assert api.show("subnet", subnet["id"])["cidr"] == "::/64"
    integrity.check(server.db)
