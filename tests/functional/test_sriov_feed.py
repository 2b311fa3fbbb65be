"""Ports with virtual functions: bound by the server, sent to their host, set there on cards in memory, and reported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.sriov.config import SriovOptions
from neutrino.agent.sriov.reconciler import Reconciler
from neutrino.agent.sriov.record import RecordFile
from neutrino.agent.sriov.role import SriovRole
from neutrino.dataplane.sriov.api import LinkState, Settings
from neutrino.feed.address import Address
from neutrino.model import agents
from neutrino.model.agents import NIC_SWITCH
from neutrino.model.roles import SRIOV
from neutrino.model.state import Port, VirtualFunction
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import report, switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.qos import policy, put_rule, rule
from tests.fakes.sriov import FakeSriov, slot
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving, until

CARD = "ens1"
Post = Callable[..., Any]


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, "sqlite", tmp_path), {})
    report(made, NIC_SWITCH, "h1", device_mappings={"physnet1": [CARD]})
    switch(made, "h2")
    yield made
    made.close()


@contextlib.asynccontextmanager
async def sriov_host(server: Server, directory: Path, sriov: FakeSriov) -> AsyncIterator[tuple[HostEnd, SriovRole]]:
    """The host h1, whose credential has the role sriov alone."""
    address = Address(path=str(directory / "feed.sock"))
    credential = Credentials(server.db).add("h1", (SRIOV,))
    async with serving(server, address), HostEnd(address, "h1", credential) as end:
        description = agents.AgentState(NIC_SWITCH, "neutron-sriov-nic-agent", "h1", "N/A")
        options = SriovOptions({"physnet1": (CARD,)})
        role = SriovRole(end.client, Reconciler(sriov, RecordFile(str(directory)), options), description)
        end.client.on_synced(role.synced)
        task = asyncio.create_task(role.run())
        try:
            yield end, role
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def bound(nova: Api, network: Any, number: int = 1, host: str = "h1", **values: Any) -> Any:
    profile = {"pci_slot": slot(number), "physical_network": "physnet1", "trusted": "true"}
    given = {"device_owner": "compute:nova", "binding__vnic_type": "direct", "binding__profile": profile, **values}
    return nova.port(network, binding__host_id=host, **given)


def test_a_port_from_its_binding_to_its_function_and_back(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    nova = admin.as_service()
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    gold = policy(admin)["id"]
    limit = rule(admin, gold, "bandwidth_limit")
    port = bound(nova, network, qos_policy_id=gold, propagate_uplink_status=False)
    others = [bound(nova, network, 2, "h2", binding__vnic_type="normal")["id"]]
    sriov, tag = FakeSriov(CARD), network["provider:segmentation_id"]

    def settings() -> Settings:
        return sriov.function(CARD, 1).settings

    async def doing(call: Post, *args: Any, **values: Any) -> Any:
        return await asyncio.to_thread(lambda: call(*args, **values))

    async def status(wanted: str) -> None:
        async def shown() -> str:
            return str((await doing(admin.show, "port", port["id"]))["status"])

        async with asyncio.timeout(20):
            while await shown() != wanted:
                await asyncio.sleep(0.05)

    async def run() -> None:
        async with sriov_host(server, tmp_path, sriov) as (end, _):
            await until(lambda: end.client.state.get("port", port["id"]) is not None, "h1 has its port")
            found = end.client.state.get("port", port["id"])
            assert isinstance(found, Port)
            assert found.function == VirtualFunction(slot(1), trusted=True, propagate_uplink_status=False)
            assert end.client.state.objects.keys() >= {"port"}
            assert not end.client.state.objects["security_group"]
            assert not set(others) & end.client.state.objects["port"].keys()
            assert port["status"] == "DOWN"
            sriov.plug(CARD, 1, port["mac_address"], tag)
            await status("ACTIVE")
            wanted = Settings(tag, trust=True, link_state=LinkState.ENABLE, max_rate=10)
            assert settings() == wanted
            await doing(put_rule, admin, gold, "bandwidth_limit", limit["id"], max_kbps=20_000)
            await until(lambda: settings().max_rate == 20, "the limit is changed")
            await doing(admin.change, "port", port["id"], admin_state_up=False)
            await status("DOWN")
            assert settings().link_state is LinkState.DISABLE
            await doing(admin.change, "port", port["id"], admin_state_up=True, propagate_uplink_status=True)
            await status("ACTIVE")
            assert settings().link_state is LinkState.AUTO
            unfiltered = {"port_security_enabled": False, "security_groups": []}
            await doing(admin.change, "port", port["id"], **unfiltered)
            await until(lambda: settings().spoof_check is False, "the card checks no MAC")
            sriov.unplug(CARD, 1)
            await status("DOWN")
            assert settings() == Settings()
            sriov.plug(CARD, 1, port["mac_address"], tag)
            await status("ACTIVE")
            await doing(admin.delete, f"/ports/{port['id']}")
            await until(lambda: settings().link_state is LinkState.DISABLE, "the instance is cut off")

    asyncio.run(run())


def test_ports_with_whole_cards_need_no_agent(server: Server) -> None:
    admin = Api(server.app).as_admin()
    nova = admin.as_service()
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    admin.subnet(network)
    whole = bound(nova, network, host="nobody", binding__vnic_type="direct-physical")
    assert (whole["binding:vif_type"], whole["status"]) == ("hostdev_physical", "ACTIVE")
    assert whole["binding:vif_details"]["vlan"] == str(network["provider:segmentation_id"])
    part = bound(nova, network, host="nobody")
    assert part["binding:vif_type"] == "binding_failed"
    tunnelled = bound(nova, admin.network(), host="nobody", binding__vnic_type="direct-physical")
    assert tunnelled["binding:vif_type"] == "binding_failed"
    for kind in ("direct", "macvtap", "accelerator-direct"):
        port = bound(nova, network, binding__vnic_type=kind)
        assert (port["binding:vif_type"], port["status"]) == ("hw_veb", "DOWN")
