"""Firewall groups in the feed: hosts receive those of their ports and routers, with every change, and report on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from neutrino.model.firewall import FirewallGroup, FirewallLog, FirewallRule
from neutrino.model.objects import Object
from neutrino.model.routing import Router
from neutrino.model.state import Port
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.firewalls import policy_with
from tests.api.l3 import attach, gateway, inside, l3_agent, outside, ports_of
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, connected, until

HOSTS = ("h1", "h2", "h3")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """h1 has the L3 agent for routers that are not distributed, h2 and h3 have instances."""
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {})
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number}", enable_distributed_routing=True)
        l3_agent(made, host, agent_mode="dvr_snat" if host == "h1" else "dvr")
    yield made
    made.close()


async def _done(server: Server, ends: Iterable[HostEnd], call: Callable[[], Any]) -> Any:
    """The answer of a request, when all hosts have what follows from it."""
    answer = await asyncio.to_thread(call)
    for end in ends:
        await end.equals_the_database(server)
    return answer


def group_on(end: HostEnd, group: Object) -> FirewallGroup | None:
    found = end.client.state.get("firewall_group", group["id"])
    assert found is None or isinstance(found, FirewallGroup)
    return found


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_hosts_receive_groups_and_every_change_and_their_reports_come_back(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    network, subnet = inside(admin)
    router = admin.make("router")
    interface = attach(admin, router, subnet_id=subnet["id"]).expect(200).body["port_id"]
    instance = admin.port(network, device_owner="compute:nova", binding__host_id="h2")
    ingress = policy_with(
        admin,
        {"action": "allow", "protocol": "tcp", "destination_port": "80:90", "source_ip_address": "192.0.2.7/24"},
        {"action": "reject", "protocol": "icmp", "ip_version": 6},
        {"action": "allow", "enabled": False},
    )
    egress = policy_with(admin, {"action": "allow", "protocol": "41"})
    policies = {"ingress_firewall_policy_id": ingress["id"], "egress_firewall_policy_id": egress["id"]}
    web, echo, off = ingress["firewall_rules"]

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as ends:
            h1, h2, h3 = ends

            do = partial(_done, server, ends)

            async def status(wanted: str) -> None:
                def shown() -> str:
                    return str(admin.show("firewall_group", group["id"])["status"])

                for _ in range(500):
                    if await asyncio.to_thread(shown) == wanted:
                        return
                    await asyncio.sleep(0.01)
                assert await asyncio.to_thread(shown) == wanted

            group = await do(lambda: admin.make("firewall_group", ports=[interface, instance["id"]], **policies))
            for end in (h1, h2):
                received = group_on(end, group)
                assert received is not None
                assert received.revision == group["revision_number"]
                assert received.ingress == (
                    FirewallRule(
                        id=web,
                        action="allow",
                        ip_version=4,
                        protocol=6,
                        source_ip_address="192.0.2.0/24",
                        destination_port_first=80,
                        destination_port_last=90,
                    ),
                    FirewallRule(id=echo, action="reject", ip_version=6, protocol=1),
                )
                assert received.ingress[1].ip_protocol == 58
                assert [rule.protocol for rule in received.egress] == [41]
            assert group_on(h3, group) is None
            served, wired = h1.client.state.get("router", router["id"]), h1.client.state.get("port", interface)
            assert isinstance(served, Router)
            assert isinstance(wired, Port)
            assert [each.firewall_group_id for each in served.interfaces] == [group["id"]]
            assert wired.firewall_group_id == ""  # the router filters, not the switch
            bound = h2.client.state.get("port", instance["id"])
            assert isinstance(bound, Port)
            assert bound.firewall_group_id == group["id"]

            # Reports: hosts with its ports, of the current revision.
            revision = group["revision_number"]
            h3.client.status("firewall_group", group["id"], "ACTIVE", revision)
            h2.client.status("firewall_group", group["id"], "ACTIVE", revision)
            await status("ACTIVE")
            h1.client.status("firewall_group", group["id"], "ERROR", revision, "nft: out of memory")
            await status("ERROR")
            h1.client.status("firewall_group", group["id"], "ACTIVE", revision)
            await status("ACTIVE")

            # A rule, the order of a policy, the policies and the state of the group.
            await do(lambda: admin.change("firewall_rule", off, enabled=True))
            assert [rule.id for rule in _of(h2, group).ingress] == [web, echo, off]
            assert _of(h2, group).revision > revision
            await status("PENDING_UPDATE")
            await do(lambda: admin.change("firewall_policy", ingress["id"], firewall_rules=[off, web]))
            assert [rule.id for rule in _of(h1, group).ingress] == [off, web]
            await do(lambda: admin.change("firewall_group", group["id"], admin_state_up=False))
            assert not _of(h2, group).admin_state_up
            await do(lambda: admin.change("firewall_group", group["id"], egress_firewall_policy_id=None))
            assert _of(h2, group).egress == ()
            # Without any policy it filters nothing.
            await do(lambda: admin.change("firewall_group", group["id"], ingress_firewall_policy_id=None))
            assert group_on(h1, group) is None
            assert group_on(h2, group) is None
            await do(lambda: admin.change("firewall_group", group["id"], **policies, admin_state_up=True))
            assert _of(h1, group).revision == _of(h2, group).revision

            # Ports leave it: removed, moved to another host, deleted.
            await do(lambda: admin.change("firewall_group", group["id"], ports=[instance["id"]]))
            assert group_on(h1, group) is None
            await do(lambda: admin.change("port", instance["id"], binding__host_id="h3"))
            assert group_on(h2, group) is None
            assert group_on(h3, group) is not None
            await do(lambda: admin.delete(f"/ports/{instance['id']}").expect(204))
            assert group_on(h3, group) is None
            await do(lambda: admin.delete(f"/fwaas/firewall_groups/{group['id']}").expect(204))

    asyncio.run(asyncio.wait_for(run(), 90))


def _of(end: HostEnd, group: Object) -> FirewallGroup:
    found = group_on(end, group)
    assert found is not None
    return found


def test_a_group_of_a_distributed_router_is_on_all_its_hosts(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    network, subnet = inside(admin)
    router = admin.make("router", distributed=True, external_gateway_info=gateway(outside(admin)))
    interface = attach(admin, router, subnet_id=subnet["id"]).expect(200).body["port_id"]
    admin.port(network, device_owner="compute:nova", binding__host_id="h3")
    policy = policy_with(admin, {"action": "allow"})

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as ends:
            h1, h2, h3 = ends
            group = await asyncio.to_thread(
                lambda: admin.make("firewall_group", ports=[interface], ingress_firewall_policy_id=policy["id"])
            )
            for end in ends:
                await end.equals_the_database(server)
            assert group_on(h2, group) is None
            for end in (h1, h3):
                assert group_on(end, group) is not None
                served, wired = end.client.state.get("router", router["id"]), end.client.state.get("port", interface)
                assert isinstance(served, Router)
                assert isinstance(wired, Port)
                assert wired.firewall_group_id == ""
                # Traffic to the external network passes the SNAT port instead of the interface.
                for each in (*served.interfaces, *served.snat_interfaces):
                    assert each.firewall_group_id == group["id"]
            snat = ports_of(admin, router, "network:router_centralized_snat")
            served = h1.client.state.get("router", router["id"])
            assert isinstance(served, Router)
            assert [each.id for each in served.snat_interfaces] == [port["id"] for port in snat]
            h3.client.status("firewall_group", group["id"], "ACTIVE", group["revision_number"])
            await until(lambda: h3.client.unacknowledged == 0, "the report is written")
            assert (await asyncio.to_thread(lambda: admin.show("firewall_group", group["id"])))["status"] == "ACTIVE"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_hosts_receive_the_logs_of_their_groups_alone(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    _, subnet = inside(admin)
    router = admin.make("router")
    interface = attach(admin, router, subnet_id=subnet["id"]).expect(200).body["port_id"]
    instance = admin.port(inside(admin)[0], device_owner="compute:nova", binding__host_id="h2")
    policy = policy_with(admin)["id"]

    def group(port: str) -> Object:
        return admin.make("firewall_group", ports=[port], ingress_firewall_policy_id=policy)

    routed, other = group(interface), group(instance["id"])

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as ends:
            h1, h2, h3 = ends

            do = partial(_done, server, ends)

            async def made(**values: Any) -> str:
                body = {"resource_type": "firewall_group", "project_id": admin.project, **values}
                return str((await do(lambda: admin.make("log", **body)))["id"])

            of_group = await made(resource_id=routed["id"], name="n", event="DROP")
            of_port = await made(target_id=interface)
            assert [*_of(h1, routed).logs] == sorted(
                (
                    FirewallLog(id=of_group, name="n", project_id=admin.project, event="DROP"),
                    FirewallLog(id=of_port, project_id=admin.project, target_id=interface),
                ),
                key=lambda log: log.id,
            )
            assert _of(h2, other).logs == ()
            of_project, elsewhere = await made(), await made(project_id="another")
            assert {log.id for log in _of(h1, routed).logs} == {of_group, of_port, of_project}
            assert [log.id for log in _of(h2, other).logs] == [of_project]
            for end in ends:  # logs of firewall groups are no objects of their own
                assert not end.client.state.objects["log"]
            assert group_on(h3, routed) is None

            revision = _of(h1, routed).revision
            await do(lambda: admin.change("log", of_project, enabled=False))
            assert {log.id for log in _of(h1, routed).logs} == {of_group, of_port}
            await do(lambda: admin.delete(f"/log/logs/{of_group}").expect(204))
            assert [log.id for log in _of(h1, routed).logs] == [of_port]
            assert _of(h1, routed).revision == revision  # what is filtered has not changed

            # The log of a port follows it into another group, and ends with it.
            await do(lambda: admin.change("firewall_group", routed["id"], ports=[]))
            await do(lambda: admin.change("firewall_group", other["id"], ports=[interface, instance["id"]]))
            assert [log.id for log in _of(h1, other).logs] == [of_port]
            path = f"/routers/{router['id']}/remove_router_interface"
            await do(lambda: admin.put(path, {"port_id": interface}).expect(200))
            assert _of(h2, other).logs == ()
            assert elsewhere in {log["id"] for log in await asyncio.to_thread(admin.all, "/log/logs")}

    asyncio.run(asyncio.wait_for(run(), 90))
