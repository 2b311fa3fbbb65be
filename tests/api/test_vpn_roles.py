"""VPN objects are read and written by members: readers and other roles of the project get neither them nor their PSKs."""

from __future__ import annotations

import pytest

from neutrino.model.objects import Object
from tests.api.client import Api
from tests.api.vpn import CONNECTIONS, GROUPS, IKE, IPSEC, SERVICES, Site, site


@pytest.fixture
def here(admin: Api, api: Api) -> Site:
    return site(admin, api)


@pytest.mark.parametrize("roles", ["reader", "creator", "manager"])
def test_roles_other_than_member(admin: Api, here: Site, roles: str) -> None:
    service = here.service()
    wanted = here.connection(service)
    connection = here.api.make("ipsec_site_connection", **wanted)
    group = here.api.make("endpoint_group", type="cidr", endpoints=["10.9.0.0/24"])
    made: dict[str, tuple[str, Object]] = {
        SERVICES: ("vpnservice", service),
        CONNECTIONS: ("ipsec_site_connection", connection),
        GROUPS: ("endpoint_group", group),
        IKE: ("ikepolicy", here.api.show("ikepolicy", wanted["ikepolicy_id"])),
        IPSEC: ("ipsecpolicy", here.api.show("ipsecpolicy", wanted["ipsecpolicy_id"])),
    }
    other = Api(here.api.app, project=here.api.project, roles=roles)
    for path, (name, one) in made.items():
        assert other.all(path) == []
        other.get(f"{path}/{one['id']}").expect(404)
        other.put(f"{path}/{one['id']}", {name: {"name": "changed"}}).expect(404)
        other.delete(f"{path}/{one['id']}").expect(404)
        assert here.api.get(f"{path}/{one['id']}").expect(200).body[name]["name"] != "changed"
        assert admin.get(f"{path}/{one['id']}").expect(200)
    bodies: dict[str, Object] = {
        "vpnservice": {"router_id": here.router["id"], "subnet_id": here.subnet["id"]},
        "ipsec_site_connection": wanted,
        "endpoint_group": {"type": "cidr", "endpoints": ["10.9.0.0/24"]},
        "ikepolicy": {},
        "ipsecpolicy": {},
    }
    for path, (name, _) in made.items():
        other.post(path, {name: bodies[name]}).refused(403, "PolicyNotAuthorized")
