"""Binding: by what the host's agents report, to several hosts at once, and when a port becomes ACTIVE."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.feed.messages import PortUp
from neutrino.model.agents import DHCP, NIC_SWITCH
from neutrino.server.db import tables as t
from neutrino.server.events.nova import NovaEvent, events_for_port
from neutrino.server.feed.readers.l2 import read_ports
from neutrino.server.feed.reports.reports import Reports
from neutrino.server.main import Server
from tests.api.agents import report, set_clock, switch
from tests.api.client import Api
from tests.api.races import before_next_write

VM = {"device_owner": "compute:nova", "device_id": "vm"}


@pytest.fixture
def nova(api: Api) -> Api:
    """Nova: the service, in the same project."""
    return api.as_service()


def test_a_port_without_a_host_is_unbound(api: Api, admin: Api) -> None:
    port = api.port(api.network())
    assert "binding:host_id" not in port
    seen = admin.show("port", port["id"])
    assert (seen["binding:host_id"], seen["binding:vif_type"], seen["binding:vif_details"]) == ("", "unbound", {})
    assert seen["status"] == "DOWN"


def test_a_tunnel_is_bound_where_the_agent_reports_its_type(server: Server, admin: Api) -> None:
    switch(server, "h1")
    port = admin.port(admin.network(), binding__host_id="h1")
    assert port["binding:vif_type"] == "ovs"
    details = port["binding:vif_details"]
    assert details["port_filter"] is True
    assert details["bridge_name"] == "br-int"
    assert details["datapath_type"] == "system"
    assert details["ovs_hybrid_plug"] is False
    assert details["ovs_create_tap"] is True
    switch(server, "h2", tunnel_types=["gre"])
    assert admin.port(admin.network(), binding__host_id="h2")["binding:vif_type"] == "binding_failed"


@pytest.mark.parametrize(
    ("network", "mappings", "vif"),
    [
        ({"provider__network_type": "vlan", "provider__physical_network": "physnet1"}, {"physnet1": "br1"}, "ovs"),
        (
            {"provider__network_type": "vlan", "provider__physical_network": "physnet1"},
            {"physnet2": "br1"},
            "binding_failed",
        ),
        ({"provider__network_type": "local"}, {}, "ovs"),
        ({"provider__network_type": "geneve"}, {}, "binding_failed"),
    ],
)
def test_binding_by_configuration(server: Server, admin: Api, network: Any, mappings: Any, vif: str) -> None:
    switch(server, "mapped", bridge_mappings=mappings)
    assert admin.port(admin.network(**network), binding__host_id="mapped")["binding:vif_type"] == vif


def test_a_flat_network_is_bound_on_its_bridge(server: Server, admin: Api) -> None:
    switch(server, "flat", bridge_mappings={"dmz": "br-dmz"})
    network = admin.network(provider__network_type="flat", provider__physical_network="dmz")
    assert admin.port(network, binding__host_id="flat")["binding:vif_type"] == "ovs"
    switch(server, "elsewhere", bridge_mappings={})
    assert admin.port(network, binding__host_id="elsewhere")["binding:vif_type"] == "binding_failed"


DPDK = {"datapath_type": "netdev", "vhostuser_socket_dir": "/run/vhost"}
VHOST_TYPES = ["dpdkvhostuser", "dpdkvhostuserclient"]


@pytest.mark.parametrize("types, mode", [(VHOST_TYPES, "server"), (VHOST_TYPES[:1], "client")])
def test_dpdk_gives_a_socket(server: Server, admin: Api, types: list[str], mode: str) -> None:
    """The mode is that of QEMU: with the type dpdkvhostuserclient the switch is the client."""
    switch(server, f"dpdk-{mode}", ovs_capabilities={"iface_types": types}, **DPDK)
    port = admin.port(admin.network(), binding__host_id=f"dpdk-{mode}")
    assert port["binding:vif_type"] == "vhostuser"
    details = port["binding:vif_details"]
    assert details["vhostuser_mode"] == mode
    assert details["vhostuser_socket"] == f"/run/vhost/{('vhu' + port['id'])[:14]}"
    assert (details["vhostuser_ovs_plug"], details["port_filter"]) == (True, False)
    assert (details["ovs_hybrid_plug"], details["ovs_create_tap"]) == (False, False)
    assert (details["datapath_type"], details["bridge_name"]) == ("netdev", "br-int")


@pytest.mark.parametrize("values", [{"datapath_type": "system"}, {"ovs_capabilities": {"iface_types": ["vxlan"]}}])
def test_a_switch_without_dpdk_gives_none(server: Server, admin: Api, values: Any) -> None:
    """The types alone do not tell: a switch with DPDK may have bridges of the kernel's datapath."""
    switch(server, "no-socket", **{"ovs_capabilities": {"iface_types": VHOST_TYPES}, **DPDK, **values})
    assert admin.port(admin.network(), binding__host_id="no-socket")["binding:vif_type"] == "ovs"


def test_a_virtual_function_of_a_dpdk_host_has_no_socket(server: Server, admin: Api) -> None:
    switch(server, "dpdk-card", ovs_capabilities={"iface_types": VHOST_TYPES}, **DPDK)
    values = {"binding__vnic_type": "direct", "hardware_offload_type": "switchdev"}
    port = admin.port(admin.network(), binding__host_id="dpdk-card", **values)
    assert port["binding:vif_type"] == "ovs"
    assert "vhostuser_socket" not in port["binding:vif_details"]


def test_a_renamed_integration_bridge_reaches_nova(server: Server, admin: Api) -> None:
    switch(server, "renamed", integration_bridge="br-main")
    port = admin.port(admin.network(), binding__host_id="renamed")
    assert port["binding:vif_details"]["bridge_name"] == "br-main"


def test_hybrid_plug(server: Server, admin: Api) -> None:
    switch(server, "hybrid", ovs_hybrid_plug=True)
    port = admin.port(admin.network(), binding__host_id="hybrid")
    assert port["binding:vif_details"]["ovs_hybrid_plug"] is True
    assert port["binding:vif_details"]["ovs_create_tap"] is False  # os-vif refuses it for a port behind a bridge


def test_a_virtual_function(server: Server, admin: Api) -> None:
    report(server, NIC_SWITCH, "nic", device_mappings={"physnet1": ["eth3"]})
    vlan = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    port = admin.port(vlan, binding__host_id="nic", binding__vnic_type="direct")
    assert port["binding:vif_type"] == "hw_veb"
    assert port["binding:vif_details"]["vlan"] == str(vlan["provider:segmentation_id"])
    whole = admin.port(vlan, binding__host_id="nic", binding__vnic_type="direct-physical")
    assert whole["binding:vif_type"] == "hostdev_physical"
    tunnel = admin.port(admin.network(), binding__host_id="nic", binding__vnic_type="direct")
    assert tunnel["binding:vif_type"] == "binding_failed"
    assert admin.port(vlan, binding__host_id="nic")["binding:vif_type"] == "binding_failed"


def test_no_dead_or_disabled_agent_binds(server: Server, admin: Api, nova: Api) -> None:
    agent = switch(server, "fading")
    network = admin.network()
    admin.put(f"/agents/{agent.agent_id}", {"agent": {"admin_state_up": False}}).expect(200)
    port = admin.port(network, binding__host_id="fading")
    assert port["binding:vif_type"] == "binding_failed"
    admin.put(f"/agents/{agent.agent_id}", {"agent": {"admin_state_up": True}}).expect(200)
    set_clock(server, 1000)
    try:
        assert admin.port(network, binding__host_id="fading")["binding:vif_type"] == "binding_failed"
    finally:
        set_clock(server, -1000)
    # Nova tries again by giving the host anew.
    nova.change("port", port["id"], binding__host_id="")
    assert nova.change("port", port["id"], binding__host_id="fading")["binding:vif_type"] == "ovs"


def test_another_host_rebinds_the_port(server: Server, admin: Api) -> None:
    switch(server, "from")
    switch(server, "to", ovs_hybrid_plug=True)
    port = admin.port(admin.network(), binding__host_id="from", **VM)
    server.core.provisioning.complete(port["id"], "L2", "from")
    assert admin.show("port", port["id"])["status"] == "ACTIVE"
    moved = admin.change("port", port["id"], binding__host_id="to")
    assert (moved["binding:host_id"], moved["status"]) == ("to", "DOWN")
    assert moved["binding:vif_details"]["ovs_hybrid_plug"] is True
    assert [b["host"] for b in admin.all(f"/ports/{port['id']}/bindings")] == ["to"]
    assert not server.core.provisioning.complete(port["id"], "L2", "from")
    assert admin.show("port", port["id"])["status"] == "DOWN"
    unbound = admin.change("port", port["id"], binding__host_id="")
    assert (unbound["binding:vif_type"], unbound["binding:vif_details"]) == ("unbound", {})
    assert admin.all(f"/ports/{port['id']}/bindings") == []


def test_an_ordinary_change_does_not_rebind(server: Server, admin: Api) -> None:
    switch(server, "steady")
    port = admin.port(admin.network(), binding__host_id="steady")
    server.core.provisioning.complete(port["id"], "L2", "steady")
    changed = admin.change("port", port["id"], name="new", binding__host_id="steady")
    assert changed["status"] == "ACTIVE"
    assert changed["revision_number"] == admin.show("port", port["id"])["revision_number"]


# --- several hosts ------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_live_migration(server: Server, admin: Api, nova: Api) -> None:
    switch(server, "src")
    switch(server, "dst", ovs_hybrid_plug=True)
    port = admin.port(admin.network(), binding__host_id="src", **VM)
    server.core.provisioning.complete(port["id"], "L2", "src")
    path = f"/ports/{port['id']}/bindings"
    made = nova.post(path, {"binding": {"host": "dst", "profile": {"k": "v"}}}).expect(201).body["binding"]
    assert (made["status"], made["vif_type"], made["profile"]) == ("INACTIVE", "ovs", {"k": "v"})
    assert admin.show("port", port["id"])["binding:host_id"] == "src"
    assert {b["host"]: b["status"] for b in admin.all(path)} == {"src": "ACTIVE", "dst": "INACTIVE"}
    for host in ("src", "dst"):
        assert [each["id"] for each in admin.all("/ports", {"binding:host_id": host})] == [port["id"]]
    assert port["id"] not in [each["id"] for each in admin.all("/ports", {"binding:host_id": ""})]
    assert nova.get(f"{path}/dst").expect(200).body["binding"] == made
    assert nova.get(f"{path}/src?fields=host&fields=status").expect(200).body["binding"] == {
        "host": "src",
        "status": "ACTIVE",
    }
    nova.get(f"{path}/elsewhere").refused(404, "PortBindingNotFound")
    nova.post(path, {"binding": {"host": "dst"}}).refused(409, "PortBindingAlreadyExists")
    updated = nova.put(f"{path}/dst", {"binding": {"profile": {"k": "w"}}}).expect(200).body["binding"]
    assert updated["profile"] == {"k": "w"}
    nova.put(f"{path}/src/activate").refused(409, "PortBindingAlreadyActive")
    active = nova.put(f"{path}/dst/activate").expect(200).body
    assert (active["host"], active["status"]) == ("dst", "ACTIVE")
    seen = admin.show("port", port["id"])
    assert (seen["binding:host_id"], seen["status"], seen["binding:profile"]) == ("dst", "DOWN", {"k": "w"})
    assert {b["host"]: b["status"] for b in admin.all(path)} == {"src": "INACTIVE", "dst": "ACTIVE"}
    assert server.core.provisioning.complete(port["id"], "L2", "dst")
    nova.delete(f"{path}/src").expect(204)
    assert [b["host"] for b in admin.all(path)] == ["dst"]
    assert admin.show("port", port["id"])["status"] == "ACTIVE"


def test_nova_is_notified_when_the_target_of_a_live_migration_has_plugged_the_port(
    server: Server, admin: Api, nova: Api
) -> None:
    for host in ("src", "dst", "other"):
        switch(server, host)
    vm = {**VM, "device_id": str(uuid.uuid4())}
    port = admin.port(admin.network(), binding__host_id="src", **vm)
    server.core.provisioning.complete(port["id"], "L2", "src")
    events: list[NovaEvent] = []
    provisioning = dataclasses.replace(
        server.core.provisioning, notify=lambda before, after: events.extend(events_for_port(before, after))
    )
    reports = Reports(None, None, provisioning, {})  # type: ignore[arg-type]

    def plugged_on(host: str) -> None:
        reports.write([(host, [PortUp(port_id=port["id"], revision=1, inactive=True)])])

    plugged_on("dst")  # before there is a binding
    nova.post(f"/ports/{port['id']}/bindings", {"binding": {"host": "dst"}}).expect(201)
    plugged_on("other")
    plugged_on("src")
    assert events == []
    plugged_on("dst")
    assert events == [NovaEvent("network-vif-plugged", vm["device_id"], port["id"], "completed")]
    seen = admin.show("port", port["id"])
    assert (seen["status"], seen["binding:host_id"]) == ("ACTIVE", "src")


def test_a_cancelled_migration(server: Server, admin: Api, nova: Api) -> None:
    switch(server, "stay")
    switch(server, "leave")
    port = admin.port(admin.network(), binding__host_id="stay", **VM)
    path = f"/ports/{port['id']}/bindings"
    nova.post(path, {"binding": {"host": "leave"}}).expect(201)
    nova.delete(f"{path}/leave").expect(204)
    nova.delete(f"{path}/leave").refused(404, "PortBindingNotFound")
    nova.put(f"{path}/leave/activate").refused(404, "PortBindingNotFound")
    assert admin.show("port", port["id"])["binding:host_id"] == "stay"
    nova.delete(f"{path}/stay").expect(204)
    assert admin.show("port", port["id"])["binding:vif_type"] == "unbound"


@pytest.mark.every_database
def test_a_binding_that_is_activated_while_it_is_deleted_leaves_the_port_unbound(
    server: Server, admin: Api, nova: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not bound to a host without a binding: the delete sees the binding as ACTIVE when it is repeated."""
    switch(server, "src")
    switch(server, "dst")
    port = admin.port(admin.network(), binding__host_id="src", **VM)
    path = f"/ports/{port['id']}/bindings"
    nova.post(path, {"binding": {"host": "dst"}}).expect(201)
    before_next_write(server, monkeypatch, lambda: nova.put(f"{path}/dst/activate").expect(200))
    nova.delete(f"{path}/dst").expect(204)
    seen = admin.show("port", port["id"])
    assert (seen["binding:host_id"], seen["binding:vif_type"]) == ("", "unbound")


def test_refusals_of_bindings(server: Server, api: Api, admin: Api, nova: Api) -> None:
    switch(server, "here")
    network = admin.network()
    port, no_vm = admin.port(network, binding__host_id="here", **VM), admin.port(network)
    path = f"/ports/{port['id']}/bindings"
    nova.post(path, {"binding": {"host": "unknown"}}).refused(409, "PortBindingError")
    nova.post(path, {"binding": {}}).expect(400)
    nova.post(f"/ports/{no_vm['id']}/bindings", {"binding": {"host": "here"}}).expect(400)
    api.post(path, {"binding": {"host": "here"}}).refused(403)
    assert api.get(path).status in (403, 404)
    nova.get("/ports/00000000-0000-0000-0000-000000000000/bindings").refused(404, "PortNotFound")


@pytest.mark.every_database
def test_bindings_are_deleted_with_their_port(server: Server, admin: Api, nova: Api) -> None:
    switch(server, "one")
    switch(server, "two")
    port = admin.port(admin.network(), binding__host_id="one", **VM)
    nova.post(f"/ports/{port['id']}/bindings", {"binding": {"host": "two"}}).expect(201)
    nova.delete(f"/ports/{port['id']}").expect(204)
    nova.get(f"/ports/{port['id']}/bindings").expect(404)


# --- ACTIVE -------------------------------------------------------------------------------------------------------


def test_a_wired_port_is_active(server: Server, admin: Api) -> None:
    switch(server, "host-l2")
    port = admin.port(admin.network(), binding__host_id="host-l2")
    provisioning = server.core.provisioning
    assert port["status"] == "DOWN"
    assert not provisioning.complete(port["id"], "L2", "another-host")
    assert provisioning.complete(port["id"], "L2", "host-l2")
    active = admin.show("port", port["id"])
    assert (active["status"], active["revision_number"]) == ("ACTIVE", port["revision_number"] + 1)
    assert not provisioning.complete(port["id"], "L2", "host-l2")
    assert admin.show("port", port["id"]) == active
    provisioning.lost(port["id"], "host-l2")
    assert admin.show("port", port["id"])["status"] == "DOWN"
    assert provisioning.complete(port["id"], "L2", "host-l2")


def test_an_unbound_port_is_never_active(server: Server, admin: Api) -> None:
    network = admin.network()
    failed = admin.port(network, binding__host_id="no-agent-there")
    assert failed["binding:vif_type"] == "binding_failed"
    for port in (failed, admin.port(network)):
        assert not server.core.provisioning.complete(port["id"], "L2", port["binding:host_id"])
        assert admin.show("port", port["id"])["status"] == "DOWN"
    assert not server.core.provisioning.complete("no-such-port", "L2", "h")


def test_dhcp_blocks_a_port_on_a_served_subnet(another_server: Any) -> None:
    server = another_server()
    admin = Api(server.app).as_admin()
    switch(server, "h")
    report(server, DHCP, "dhcp-host")
    network = admin.network()
    admin.subnet(network)
    assert [a["host"] for a in admin.get(f"/networks/{network['id']}/dhcp-agents").body["agents"]] == ["dhcp-host"]
    port = admin.port(network, binding__host_id="h")
    assert not server.core.provisioning.complete(port["id"], "L2", "h")
    assert admin.show("port", port["id"])["status"] == "DOWN"
    assert server.core.provisioning.complete(port["id"], "DHCP", "h")
    assert admin.show("port", port["id"])["status"] == "ACTIVE"
    # A dead agent gives no leases, so it does not block the port.
    set_clock(server, 1000)
    switch(server, "h")
    second = admin.port(network, binding__host_id="h")
    assert server.core.provisioning.complete(second["id"], "L2", "h")


# --- bindings that a migration has left -------------------------------------------------------------------------------


def copies_to(server: Server, port: dict[str, Any]) -> tuple[str, list[str]]:
    """The host that gets copies of a port's packets, and the hosts that know of a migration, as the feed reads the port."""
    with server.db.read() as connection:
        ((_, record),) = read_ports(connection, [port["id"]])
    assert record.forwarding is not None
    return record.forwarding.migrates_to, [host for host, bound in record.bound.items() if bound.migrating]


@pytest.mark.every_database
def test_copies_to_an_inactive_binding_end(another_server: Any) -> None:
    """Nova has left it. The binding stays, as Nova may still activate it."""
    server = another_server({"ml2": {"inactive_binding_timeout": "3600"}})
    nova = Api(server.app).as_service()
    for host in ("h1", "h2"):
        switch(server, host)
    port = nova.as_admin().port(nova.as_admin().network(), binding__host_id="h1", **VM)
    path = f"/ports/{port['id']}/bindings"
    nova.post(path, {"binding": {"host": "h2"}}).expect(201)
    server.core.bindings.expire()
    assert copies_to(server, port) == ("h2", ["h1"])
    set_clock(server, 3700)
    logged = changes_of(server, port)
    server.core.bindings.expire()
    assert copies_to(server, port) == ("", [])
    assert changes_of(server, port) == logged + 1, "hosts are notified"
    server.core.bindings.expire()
    assert changes_of(server, port) == logged + 1, "once"
    shown = {one["host"]: one["status"] for one in nova.get(path).expect(200).body["bindings"]}
    assert shown == {"h1": "ACTIVE", "h2": "INACTIVE"}
    nova.put(f"{path}/h2/activate", {}).expect(200)
    assert copies_to(server, port) == ("h1", ["h2"]), "the source has it for as long, until Nova deletes its binding"
    set_clock(server, 3700)
    server.core.bindings.expire()
    assert copies_to(server, port) == ("", [])


def test_copies_need_not_end(another_server: Any) -> None:
    server = another_server({"ml2": {"inactive_binding_timeout": "0"}})
    nova = Api(server.app).as_service()
    for host in ("h1", "h2"):
        switch(server, host)
    port = nova.as_admin().port(nova.as_admin().network(), binding__host_id="h1", **VM)
    nova.post(f"/ports/{port['id']}/bindings", {"binding": {"host": "h2"}}).expect(201)
    set_clock(server, 10**7)
    server.core.bindings.expire()
    assert copies_to(server, port) == ("h2", ["h1"])


def changes_of(server: Server, port: dict[str, Any]) -> int:
    with server.db.read() as connection:
        count = sa.select(sa.func.count()).where(t.changes.c.object_id == port["id"])
        return int(connection.execute(count).scalar_one())
