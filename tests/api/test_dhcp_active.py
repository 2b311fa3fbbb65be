"""Lease providers: a port is not ACTIVE before one of its live lease providers is ready; without one it does not wait."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.model.agents import DHCP, AgentState
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.ml2.ports.provisioning import Ready
from tests.api.agents import BINARIES, report, set_clock, switch
from tests.api.client import Api
from tests.api.dhcp import dhcp_ports, serve

Fresh = tuple[Server, Api]


@pytest.fixture
def fresh(another_server: Any) -> Fresh:
    server = another_server()
    return server, Api(server.app).as_admin()


def blocks(server: Server, port: dict[str, Any]) -> set[str]:
    c = t.provisioning_blocks.c
    with server.db.read() as connection:
        return set(connection.execute(sa.select(c.component).where(c.port_id == port["id"])).scalars())


def test_a_port_waits_for_l2_and_dhcp(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "d1")
    switch(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    port = api.port(network, binding__host_id="h1", device_owner="compute:nova")
    assert blocks(server, port) == {"L2", "DHCP"}
    provisioning, revision = server.core.provisioning, port["revision_number"]
    assert not provisioning.complete(port["id"], "L2", "h1")
    assert not provisioning.ready_all([Ready(port["id"], "d1", revision - 1)]), "the report is for an older revision"
    assert not provisioning.ready_all([Ready(port["id"], "h1", revision)]), "h1 does not serve the network"
    assert provisioning.ready_all([Ready(port["id"], "d1", revision)])
    assert api.get(f"/ports/{port['id']}").body["port"]["status"] == "ACTIVE"


def test_ports_that_do_not_wait_for_dhcp(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "d1")
    network = api.network()
    served, plain = api.subnet(network, "10.0.0.0/24"), api.subnet(network, "10.0.1.0/24", enable_dhcp=False)
    here = {"binding__host_id": "d1", "device_owner": "compute:nova"}
    both = api.port(network, fixed_ips=[{"subnet_id": s["id"]} for s in (served, plain)], **here)
    assert blocks(server, both) == {"L2", "DHCP"}
    static = api.port(network, fixed_ips=[{"subnet_id": plain["id"]}], **here)
    assert blocks(server, static) == {"L2"}
    assert blocks(server, api.port(network, fixed_ips=[], **here)) == {"L2"}
    assert blocks(server, dhcp_ports(api, network)[0]) == {"L2"}


def test_a_port_does_not_wait_for_agents_that_are_all_dead(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "d1")
    switch(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    port = api.port(network, binding__host_id="h1", device_owner="compute:nova")
    provisioning = server.core.provisioning
    provisioning.complete(port["id"], "L2", "h1")
    server.scheduler.reschedule_dead()
    assert api.show("port", port["id"])["status"] == "DOWN", "d1 is alive, and has not reported the port as ready"
    set_clock(server, server.registry.down_time + 5)
    switch(server, "h1")
    server.scheduler.reschedule_dead()
    assert api.show("port", port["id"])["status"] == "ACTIVE"


# --- ACTIVE where hosts answer their own ports -------------------------------------------------------------------------


def distribute(server: Server, host: str) -> None:
    """A host that answers its own ports itself; its first report arrives when other hosts have the networks already."""
    switch(server, host)
    report(server, DHCP, host, dhcp_port_by_server=True, dhcp_distributed=True)


def test_a_port_waits_for_its_lease_provider(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "d1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    distribute(server, "h1")
    switch(server, "h2")
    here, there = (api.port(network, binding__host_id=host, device_owner="compute:nova") for host in ("h1", "h2"))
    provisioning = server.core.provisioning
    for port, host in ((here, "h1"), (there, "h2")):
        assert blocks(server, port) == {"L2", "DHCP"}
        provisioning.complete(port["id"], "L2", host)
    assert not provisioning.ready_all([Ready(here["id"], "d1", here["revision_number"])]), (
        "h1's requests do not leave it"
    )
    assert not provisioning.ready_all([Ready(there["id"], "h1", there["revision_number"])]), (
        "a copy is for its own ports"
    )
    assert provisioning.ready_all([Ready(here["id"], "h1", here["revision_number"])])
    assert provisioning.ready_all([Ready(there["id"], "d1", there["revision_number"])])


def test_reports_for_many_ports_are_taken_together(fresh: Fresh) -> None:
    """Each port counts the reports of its own providers alone, whatever others are reported with it."""
    server, api = fresh
    serve(server, "d1")
    for host in ("h1", "h2"):
        switch(server, host)
    networks = [api.network(), api.network()]
    for number, network in enumerate(networks):
        api.subnet(network, f"10.0.{number}.0/24")
    hosts = ("h1", "h2")
    ports = [api.port(n, binding__host_id=h, device_owner="compute:nova") for n in networks for h in hosts]
    for port in ports:
        server.core.provisioning.complete(port["id"], "L2", port["binding:host_id"])
    reports = [Ready(port["id"], "d1", port["revision_number"]) for port in ports]
    stale, foreign = reports[1]._replace(revision=-1), reports[2]._replace(host="h1")
    unknown = reports[0]._replace(port_id="none")
    active = server.core.provisioning.ready_all([stale, foreign, unknown, reports[0], reports[3], reports[3]])
    assert active == {ports[0]["id"], ports[3]["id"]}
    statuses = [api.show("port", port["id"])["status"] for port in ports]
    assert statuses == ["ACTIVE", "DOWN", "DOWN", "ACTIVE"]


def test_a_port_waits_for_its_own_host_if_all_others_are_dead(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "d1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    distribute(server, "h1")
    set_clock(server, server.registry.down_time + 5)
    switch(server, "h1")
    configurations = {"dhcp_port_by_server": True, "dhcp_distributed": True}
    server.registry.report(AgentState(DHCP, BINARIES[DHCP], "h1", "topic", configurations=configurations))
    port = api.port(network, binding__host_id="h1", device_owner="compute:nova")
    provisioning = server.core.provisioning
    provisioning.complete(port["id"], "L2", "h1")
    server.scheduler.reschedule_dead()
    assert api.show("port", port["id"])["status"] == "DOWN", "h1 is alive, and has not reported the port as ready"
    assert provisioning.ready_all([Ready(port["id"], "h1", port["revision_number"])])
    late = api.port(network, binding__host_id="h1", device_owner="compute:nova")
    provisioning.complete(late["id"], "L2", "h1")
    set_clock(server, server.registry.down_time + 5)
    server.scheduler.reschedule_dead()
    assert api.show("port", late["id"])["status"] == "ACTIVE", "no lease provider is left to wait for"
