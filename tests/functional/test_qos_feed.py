"""QoS policies in the feed: hosts receive those of their ports, networks and routers, and a rule as one change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.model.qos import BandwidthLimit, MinimumBandwidth, PacketRateLimit, QosPolicy
from neutrino.model.routing import Router
from neutrino.model.state import Network, Port
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, gateway, inside, l3_agent, outside
from tests.api.qos import delete_rule, policy, put_rule, rule
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, connected, until

HOSTS = ("h1", "h2")
MANY = 60


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {})
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number}")
    l3_agent(made, "h2")
    yield made
    made.close()


def has(end: HostEnd, key: str) -> QosPolicy | None:
    found = end.client.state.get("qos_policy", key)
    assert found is None or isinstance(found, QosPolicy)
    return found


async def doing(call: Callable[..., Any], *args: Any, **values: Any) -> Any:
    return await asyncio.to_thread(lambda: call(*args, **values))


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_a_host_receives_the_policies_of_its_ports_and_networks(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    network = admin.network()
    admin.subnet(network)
    gold, silver = policy(admin)["id"], policy(admin)["id"]
    limit = rule(admin, gold, "bandwidth_limit")
    for type_ in ("dscp_marking", "minimum_bandwidth", "packet_rate_limit", "minimum_packet_rate"):
        rule(admin, gold, type_)

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, h2):
            port = await doing(admin.port, network, binding__host_id="h1", qos_policy_id=gold)
            await until(lambda: has(h1, gold) is not None, "h1 has the policy of its port")
            assert has(h1, gold) == QosPolicy(
                id=gold,
                bandwidth_limits=(BandwidthLimit(direction="egress", max_kbps=10_000, max_burst_kbps=800),),
                packet_rate_limits=(PacketRateLimit(direction="egress", max_kpps=10, max_burst_kpps=5),),
                minimum_bandwidths=(MinimumBandwidth(direction="egress", min_kbps=500),),
                dscp_mark=26,
            )
            assert isinstance(h1.client.state.get("port", port["id"]), Port)
            assert has(h2, gold) is None
            await doing(put_rule, admin, gold, "bandwidth_limit", limit["id"], max_kbps=20_000)
            await until(lambda: _limit(h1, gold) == 20_000, "h1 has the new limit")
            await doing(delete_rule, admin, gold, "bandwidth_limit", limit["id"])
            await until(lambda: _limit(h1, gold) is None, "h1 has no limit")
            await doing(admin.change, "network", network["id"], qos_policy_id=silver)
            await until(lambda: has(h1, silver) is not None, "h1 has the policy of the network")
            found = h1.client.state.get("network", network["id"])
            assert isinstance(found, Network)
            assert found.qos_policy_id == silver
            await doing(admin.change, "port", port["id"], qos_policy_id=None)
            await until(lambda: has(h1, gold) is None, "h1 has lost the policy of its port")
            await doing(admin.change, "network", network["id"], qos_policy_id=None)
            await until(lambda: has(h1, silver) is None, "h1 has lost the policy of the network")
            for end in (h1, h2):
                await end.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))


def _limit(end: HostEnd, key: str) -> int | None:
    found = has(end, key)
    assert found is not None
    return found.bandwidth_limits[0].max_kbps if found.bandwidth_limits else None


def test_a_rule_is_one_change_however_many_ports_have_the_policy(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    gold = policy(admin)["id"]
    limit = rule(admin, gold, "bandwidth_limit")
    network = admin.network(qos_policy_id=gold)
    admin.subnet(network)
    ports = [{"network_id": network["id"], "binding:host_id": "h1", "qos_policy_id": gold} for _ in range(MANY)]
    admin.post("/ports", {"ports": ports}).expect(201)

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, h2):
            assert len(h1.client.state.objects["port"]) == MANY
            before = len(h1.changes), len(h2.changes)
            await doing(put_rule, admin, gold, "bandwidth_limit", limit["id"], max_kbps=20_000)
            await until(lambda: _limit(h1, gold) == 20_000, "h1 has the new limit")
            await until(lambda: len(h1.changes) > before[0], "h1 has been notified")
            assert [(each.kind, each.id) for each in h1.changes[before[0] :]] == [("qos_policy", gold)]
            assert len(h2.changes) == before[1]
            # A new name is nothing that hosts have.
            await doing(admin.change, "policy", gold, name="other")
            await doing(put_rule, admin, gold, "bandwidth_limit", limit["id"], max_kbps=30_000)
            await until(lambda: _limit(h1, gold) == 30_000, "h1 has the newest limit")
            await until(lambda: len(h1.changes) == before[0] + 2, "no other change was sent")

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_a_router_has_the_policies_of_its_gateway_and_floating_ips(server: Server, tmp_path: Path) -> None:
    """Their own, or that of the external network, whose change is a change of the router."""
    admin = Api(server.app).as_admin()
    gold, silver, bronze = (policy(admin, name=name)["id"] for name in ("gold", "silver", "bronze"))
    external = outside(admin)
    network, subnet = inside(admin)
    router = admin.make("router", external_gateway_info=gateway(external))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    port = admin.port(network)
    floating = admin.make("floatingip", floating_network_id=external["id"], port_id=port["id"])

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, h2):

            def policies() -> tuple[str, str]:
                found = h2.client.state.get("router", router["id"])
                assert isinstance(found, Router)
                return found.gateway_qos_policy_id, found.floating_ips[0].qos_policy_id

            async def become(gateway_policy: str, floating_policy: str) -> None:
                await until(lambda: policies() == (gateway_policy, floating_policy), "the router has the policies")
                await h2.equals_the_database(server)
                assert set(h2.client.state.objects["qos_policy"]) >= {gateway_policy, floating_policy} - {""}

            async def set_gateway(value: str | None) -> None:
                info = gateway(external, qos_policy_id=value)
                await doing(admin.change, "router", router["id"], external_gateway_info=info)

            await become("", "")
            await doing(admin.change, "network", external["id"], qos_policy_id=gold)
            await become(gold, gold)
            await doing(admin.change, "floatingip", floating["id"], qos_policy_id=silver)
            await become(gold, silver)
            await set_gateway(bronze)
            await become(bronze, silver)
            await doing(admin.change, "network", external["id"], qos_policy_id=None)
            await become(bronze, silver)
            await doing(admin.change, "floatingip", floating["id"], qos_policy_id=None)
            await become(bronze, "")
            await set_gateway(None)
            await become("", "")
            assert not h1.client.state.objects.get("qos_policy")

    asyncio.run(asyncio.wait_for(run(), 60))
