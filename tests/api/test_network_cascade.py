"""`DELETE /v2.0/networks/{id}?cascade=true`: the network with all that is on it, or nothing; and who may do that."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from neutrino.features.router.tables import router_ports
from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api, Response
from tests.api.l3 import attach, gateway, inside, l3_agent, outside, ports_of
from tests.api.races import before_next_write
from tests.api.test_bad_input import send
from tests.api.test_taas import make_flow
from tests.api.test_trunks import bind, trunk_on, vlan

VM = {"device_owner": "compute:nova", "device_id": "vm"}


def cascade(api: Api, network: Object, value: str = "true", **headers: str) -> Response:
    return api.delete(f"/networks/{network['id']}", query={"cascade": value}, headers=headers)


def used(api: Api) -> dict[str, int]:
    details = api.get(f"/quotas/{api.project}/details").expect(200).body["quota"]
    return {name: one["used"] for name, one in details.items() if one["used"]}


def remains(server: Server, network: Object) -> dict[str, int]:
    """Rows by table that refer to the network, or to ports and subnets which do not exist."""
    ports, subnets = sa.select(t.ports.c.id), sa.select(t.subnets.c.id)
    conditions = [
        *((table, table.c.network_id == network["id"]) for table in (t.ports, t.subnets, t.network_segments)),
        (t.networks, t.networks.c.id == network["id"]),
        *((table, table.c.port_id.not_in(ports)) for table in (router_ports, trunks, trunk_subports)),
        (t.ip_allocations, t.ip_allocations.c.subnet_id.not_in(subnets)),
        (t.journal, sa.true()),
    ]
    with server.db.read() as connection:
        counts = {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table).where(condition)).scalar_one()
            for table, condition in conditions
        }
    return {name: count for name, count in counts.items() if count}


def deleted(server: Server, *keys: str) -> set[str]:
    """Which of the objects the change log has as deleted: the feed reads it."""
    c = t.changes.c
    with server.db.read() as connection:
        return set(connection.execute(sa.select(c.object_id).where(c.deleted, c.object_id.in_(keys))).scalars())


# --- what is deleted --------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_everything_on_the_network_is_deleted(server: Server, api: Api, admin: Api) -> None:
    switch(server, "h1")
    router = api.make("router", external_gateway_info=gateway(outside(admin)))
    other, other_subnet = inside(api, "10.9.0.0/24")
    attach(api, router, subnet_id=other_subnet["id"]).expect(200)
    elsewhere = api.port(other)
    before = used(api)
    network, subnet = inside(api)
    six = api.subnet(network, "2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    for one in (subnet, six):
        attach(api, router, subnet_id=one["id"]).expect(200)
    plain, bound, parent = api.port(network, tags=["blue"]), api.port(network), api.port(network)
    bind(admin, bound, "h1")
    carried = api.port(network)
    trunk = trunk_on(api, parent, vlan(carried, 10), vlan(elsewhere, 11))
    bind(admin, parent, "h1")
    service = api.make("tap_service", port_id=plain["id"])
    make_flow(api, service, bound)

    cascade(admin, network).expect(204)

    assert remains(server, network) == {}
    api.get(f"/networks/{network['id']}").refused(404, "NetworkNotFound")
    assert api.all("/trunks") == []
    assert [port["network_id"] for port in ports_of(admin, router, "network:router_interface")] == [other["id"]]
    left = admin.show("port", elsewhere["id"])  # of another network: released from the trunk
    assert (left["device_owner"], left["binding:host_id"]) == ("", "")
    keys = [one["id"] for one in (network, subnet, six, plain, bound, parent, carried, trunk)]
    assert deleted(server, *keys) == set(keys)
    assert used(api) == before


def test_a_subport_leaves_its_trunk(server: Server, api: Api) -> None:
    network, kept = api.network(), api.network()
    parent, gone, stays = api.port(kept), api.port(network), api.port(kept)
    trunk = trunk_on(api, parent, vlan(gone, 10), vlan(stays, 11))
    cascade(api, network).expect(204)
    assert api.show("trunk", trunk["id"])["sub_ports"] == [vlan(stays, 11)]
    assert remains(server, network) == {}


@pytest.mark.parametrize("kind", [{"distributed": True}, {"ha": True}, {"distributed": True, "ha": True}])
def test_interfaces_of_every_kind_of_router(server: Server, api: Api, admin: Api, kind: Object) -> None:
    for host in ("h1", "h2"):
        switch(server, host)
        l3_agent(server, host, agent_mode="dvr_snat")
    network, subnet = inside(api)
    router = admin.make("router", external_gateway_info=gateway(outside(admin)), project_id=api.project, **kind)
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    cascade(api, network).expect(204)
    assert remains(server, network) == {}
    assert not [port for port in ports_of(admin, router) if port["network_id"] == network["id"]]


def test_what_services_know_of_the_ports_is_read_once_for_all(server: Server, api: Api) -> None:
    def reads(ports: int) -> int:
        network, _ = inside(api, "10.0.0.0/24")
        for _ in range(ports):
            api.port(network)
        statements: list[str] = []

        def counted(_: object, __: object, statement: str, *rest: object) -> None:
            statements.append(statement)

        sa.event.listen(sa.engine.Engine, "before_cursor_execute", counted)
        try:
            cascade(api, network).expect(204)
        finally:
            sa.event.remove(sa.engine.Engine, "before_cursor_execute", counted)
        return sum(statement.lstrip().startswith("SELECT") for statement in statements)

    assert reads(20) == reads(2)


def test_of_a_network_that_is_empty(server: Server, api: Api) -> None:
    network, _ = inside(api)
    cascade(api, network, "True").expect(204)
    assert remains(server, network) == {}
    cascade(api, network).refused(404, "NetworkNotFound")


def test_only_if_it_is_asked_for(api: Api) -> None:
    network = api.network()
    port = api.port(network)
    path = f"/networks/{network['id']}"
    for response in (api.delete(path), cascade(api, network, "false"), api.delete(path, query={"other": "true"})):
        assert port["id"] in response.refused(409, "NetworkInUse").message
    for wrong in ("maybe", "", "2"):
        assert "cascade" in cascade(api, network, wrong).refused(400, "InvalidInput").message
    cascade(api, {"id": "00000000-0000-0000-0000-00000000dead"}, "maybe").refused(400, "InvalidInput")
    cascade(api, network, If_Match="revision_number=99").refused(412, "RevisionNumberConstraintFailed")
    assert api.show("port", port["id"]) == port
    cascade(api, network, If_Match=f"revision_number={network['revision_number']}").expect(204)


def test_it_is_offered_and_documented(server: Server, api: Api) -> None:
    assert api.get("/extensions/network-cascade-delete").expect(200).body["extension"]["name"]
    document = send(server, "GET", "/openapi.json").body
    networks, subnets = (
        document["paths"][f"/v2.0/{name}s/{{{name}_id}}"]["delete"]["parameters"] for name in ("network", "subnet")
    )
    parameter = {"$ref": "#/components/parameters/cascade"}
    assert parameter in networks
    assert parameter not in subnets


# --- what refuses it --------------------------------------------------------------------------------------------------


def test_what_an_interface_is_needed_for(api: Api, admin: Api) -> None:
    network, subnet = inside(api)
    port = api.port(network)
    external = outside(admin)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    floating = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    refused = cascade(admin, network).refused(409, "RouterInterfaceInUseByFloatingIP")
    assert subnet["id"] in refused.message
    api.delete(f"/floatingips/{floating['id']}").expect(204)
    route = {"destination": "10.99.0.0/24", "nexthop": "10.0.0.9"}
    api.change("router", router["id"], routes=[route])
    cascade(admin, network).refused(409, "RouterInterfaceInUseByRoute")
    api.change("router", router["id"], routes=[])
    assert api.show("port", port["id"])["status"] == port["status"]
    assert len(ports_of(admin, router, "network:router_interface")) == 1
    cascade(api, network).expect(204)


def test_gateways_and_floating_ips_keep_an_external_network(server: Server, api: Api, admin: Api) -> None:
    external = outside(admin)
    port = admin.port(external)
    router = api.make("router", external_gateway_info=gateway(external))
    (own,) = ports_of(admin, router, "network:router_gateway")
    refused = cascade(admin, external).refused(409, "NetworkInUse")
    assert own["id"] in refused.message
    assert port["id"] not in refused.message  # it would be deleted
    assert admin.show("port", port["id"]) == port
    api.delete(f"/routers/{router['id']}").expect(204)
    unused = api.make("floatingip", floating_network_id=external["id"])
    cascade(admin, external).expect(204)
    api.get(f"/floatingips/{unused['id']}").expect(404)
    assert remains(server, external) == {}


def test_a_disabled_trunk_keeps_its_ports(api: Api) -> None:
    network, other = api.network(), api.network()
    parent, subport = api.port(network), api.port(other)
    trunk = trunk_on(api, parent, vlan(subport, 10), admin_state_up=False)
    for one in (network, other):
        assert trunk["id"] in cascade(api, one).refused(409, "TrunkDisabled").message
    api.change("trunk", trunk["id"], admin_state_up=True)
    cascade(api, network).expect(204)
    assert api.all("/trunks") == []
    assert api.show("port", subport["id"])["id"] == subport["id"]


# --- who may ----------------------------------------------------------------------------------------------------------


def test_nothing_is_deleted_if_one_object_is_refused(server: Server, api: Api, admin: Api) -> None:
    network, subnet = inside(api)
    mine = api.port(network)
    stranger = api.as_stranger()
    admin.make(
        "rbac_policy",
        object_type="network",
        object_id=network["id"],
        action="access_as_shared",
        target_tenant=stranger.project,
    )

    def refused(rule: str) -> None:
        assert rule in cascade(api, network).refused(403, "PolicyNotAuthorized").message
        assert api.show("port", mine["id"]) == mine
        assert api.show("subnet", subnet["id"]) == subnet

    # A port of an instance is Nova's to delete, also that of another project; other ports are the network owner's.
    theirs = stranger.port(network, **VM)
    refused("delete_port")
    admin.change("port", theirs["id"], device_owner="", device_id="")
    # Routers and trunks are their owners'.
    router = stranger.make("router")
    joined = stranger.port(network)
    attach(stranger, router, port_id=joined["id"]).expect(200)
    refused("remove_router_interface")
    assert ports_of(admin, router)
    admin.put(f"/routers/{router['id']}/remove_router_interface", {"port_id": joined["id"]}).expect(200)
    trunk = trunk_on(stranger, theirs)
    refused("delete_trunk")
    stranger.delete(f"/trunks/{trunk['id']}").expect(204)
    trunk = trunk_on(stranger, stranger.port(stranger.network()), vlan(theirs, 10))
    refused("remove_subports")
    stranger.delete(f"/trunks/{trunk['id']}").expect(204)
    cascade(api.as_reader(), network).refused(403, "PolicyNotAuthorized")
    cascade(stranger, network).refused(403, "PolicyNotAuthorized")
    cascade(api, network).expect(204)
    assert remains(server, network) == {}


# --- others at the same time ------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_port_that_is_created_meanwhile(server: Server, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = inside(api)
    late: list[Object] = []
    before_next_write(server, monkeypatch, lambda: late.append(api.port(network)))
    cascade(api, network).expect(204)
    assert remains(server, network) == {}
    assert deleted(server, late[0]["id"]) == {late[0]["id"]}

    network, _ = inside(api)
    before_next_write(server, monkeypatch, lambda: cascade(api, network).expect(204))
    api.post("/ports", {"port": {"network_id": network["id"]}}).refused(404, "NetworkNotFound")
    assert remains(server, network) == {}


@pytest.mark.every_database
def test_what_others_change_meanwhile(server: Server, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    network, subnet = inside(api)
    router, parent, subport = api.make("router"), api.port(network), api.port(network)

    def change() -> None:
        attach(api, router, subnet_id=subnet["id"]).expect(200)
        trunk_on(api, parent, vlan(subport, 10))

    before_next_write(server, monkeypatch, change)
    cascade(api, network).expect(204)
    assert remains(server, network) == {}
