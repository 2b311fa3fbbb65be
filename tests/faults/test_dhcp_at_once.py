"""Concurrent changes of subnets and agents, and failover: in the end each DHCP agent of a network has its port."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from neutrino.model.agents import DHCP
from neutrino.server.main import Server
from tests.api.agents import report, switch
from tests.api.client import Api, Response
from tests.faults import integrity
from tests.faults.test_at_once import at_once


def check(server: Server, api: Api, network: dict[str, Any]) -> None:
    agents = {a["host"] for a in api.get(f"/networks/{network['id']}/dhcp-agents").body["agents"]}
    wanted = {s["id"] for s in api.all("/subnets", {"network_id": network["id"]}) if s["enable_dhcp"]}
    ports = api.all("/ports", {"network_id": network["id"], "device_owner": "network:dhcp"})
    if wanted:
        assert sorted(p["binding:host_id"] for p in ports) == sorted(agents)
    else:
        assert ports == []
    for port in ports:
        assert {f["subnet_id"] for f in port["fixed_ips"]} == wanted
        assert port["binding:vif_type"] == "ovs"
    integrity.check(server.db)


def test_dhcp_ports_follow_concurrent_changes(another_server: Any) -> None:
    server = another_server({"DEFAULT": {"dhcp_agents_per_network": "2"}})
    api = Api(server.app).as_admin()
    for host in ("h1", "h2", "h3"):
        switch(server, host)
    network = api.network()
    first = api.subnet(network, "10.0.0.0/24")
    rng = random.Random(7)

    def appear(host: str) -> Response:
        report(server, DHCP, host, dhcp_port_by_server=True)
        return api.get("/networks")

    def make(i: int) -> Response:
        body = {"network_id": network["id"], "ip_version": 4, "cidr": f"10.0.{i + 1}.0/24"}
        return api.post("/subnets", {"subnet": body})

    def toggle(i: int) -> Response:
        return api.put(f"/subnets/{first['id']}", {"subnet": {"enable_dhcp": i % 2 == 0}})

    actions: list[Callable[[], Response]] = [
        *(lambda h=h: appear(h) for h in ("h1", "h2", "h3")),
        *(lambda i=i: make(i) for i in range(8)),
        *(lambda i=i: toggle(i) for i in range(5)),
    ]
    rng.shuffle(actions)
    at_once(lambda i: actions[i](), len(actions))
    check(server, api, network)
    subnets = [s["id"] for s in api.all("/subnets", {"network_id": network["id"]})]
    at_once(lambda i: api.delete(f"/subnets/{subnets[i]}"), len(subnets) - 1)
    check(server, api, network)
    api.delete(f"/subnets/{subnets[-1]}").expect(204)
    check(server, api, network)
