"""The DHCP role on fakes: which ports it reports as ready, and what it keeps of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.dhcp.render import daemon_name
from neutrino.agent.runtime.supervisor import Service
from neutrino.dataplane.ovsdb.api import DeletePort, Interface, SetPort
from neutrino.feed.state import StateChange
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from tests.support.dhcp import NETWORK, Network
from tests.support.dhcp_fakes import DhcpHost
from tests.support.unsynced import eventually

THIS = Network()
V4 = THIS.subnet(1)
OWN = THIS.dhcp_port(1, "10.0.0.2", on=(V4,))


def vm(number: int, revision: int = 0) -> DhcpPort:
    return THIS.port(number, f"10.0.0.{number}", on=(V4,), revision=revision)


def removed(host: DhcpHost, kind: str, key: str) -> None:
    old = host.feed.state.objects[kind].pop(key)
    host.role.changed(StateChange(kind, key, old, None))


def kept(host: DhcpHost) -> set[str]:
    return {port_id for ports in host.role._ready.values() for port_id in ports}


def test_ports_are_reported_once_and_forgotten_with_their_deletion() -> None:
    host = DhcpHost()

    async def scenario() -> None:
        host.cache("dhcp_network", DhcpNetwork(id=NETWORK, subnets=(V4,)))
        host.cache("dhcp_port", OWN, vm(5))
        host.feed.is_synced = True
        host.role.synced()
        running = asyncio.create_task(host.role.run())
        try:
            await eventually(lambda: host.feed.ready == [(vm(5).id, 0)], "the first port is ready")
            for number in range(10, 40):  # ports come and go
                host.cache("dhcp_port", vm(number))
                await eventually(lambda number=number: (vm(number).id, 0) in host.feed.ready, "a port is ready")  # type: ignore[misc]
                removed(host, "dhcp_port", vm(number).id)
            await eventually(lambda: kept(host) == {vm(5).id}, lambda: f"{len(kept(host))} ports are kept")
            assert host.feed.ready.count((vm(5).id, 0)) == 1
            host.cache("dhcp_port", vm(5, revision=7), vm(10))
            await eventually(lambda: (vm(5).id, 7) in host.feed.ready, "a new revision is reported")
            await eventually(
                lambda: host.feed.ready.count((vm(10).id, 0)) == 2, "so is a port with the id of a deleted one"
            )
            removed(host, "dhcp_port", vm(10).id)
            removed(host, "dhcp_network", NETWORK)
            await eventually(lambda: not kept(host), lambda: f"{kept(host)} are kept of a network that is gone")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_new_network_is_reconciled_once_and_again_when_its_switch_port_is_changed_by_hand() -> None:
    host, reconciled = DhcpHost(), list[str]()
    prepare = host.reconciler.prepare

    def counted(network: ServedNetwork, *, complete: bool = True) -> tuple[Service, Sequence[str]]:
        reconciled.append(network.id)
        return prepare(network, complete=complete)

    host.reconciler.prepare = counted  # type: ignore[method-assign]

    def plugged() -> list[Interface]:
        return [each for name, (_, _, each) in host.ovsdb.read().interfaces().items() if name.startswith("tap")]

    def is_served() -> bool:
        return [each.external_ids["iface-id"] for each in plugged()] == [OWN.id]

    async def scenario() -> None:
        host.cache("dhcp_network", DhcpNetwork(id=NETWORK, subnets=(V4,)))
        host.cache("dhcp_port", OWN)
        host.feed.is_synced = True
        host.role.synced()
        running = asyncio.create_task(host.role.run())
        try:
            await eventually(lambda: is_served() and host.is_running(NETWORK), "the network is served")
            await host.role.finish()
            await asyncio.sleep(0.05)  # nothing happens that could be awaited
            assert reconciled == [NETWORK], "its own port and the ofport are no reason to reconcile it again"
            host.ovsdb.apply([SetPort("br-int", plugged()[0].name, external_ids={"iface-id": "another"})])
            await eventually(is_served, "the id is set again")
            host.ovsdb.apply([DeletePort("br-int", plugged()[0].name)])
            await eventually(is_served, "it is plugged again")
            await host.role.finish()
            before = len(reconciled)
            host.ovsdb.lose_device(plugged()[0].name)
            await eventually(lambda: len(reconciled) > before, "the device is looked for")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_other_processes_are_looked_for_only_where_this_agent_has_not_ended_the_dnsmasq_of_a_network() -> None:
    """That reads all of /proc, for each network that is deleted."""
    host, searched = DhcpHost(), list[str]()
    stop_all = host.reconciler.dnsmasq.stop_all

    def counted(network_id: str) -> None:
        searched.append(network_id)
        stop_all(network_id)

    host.reconciler.dnsmasq.stop_all = counted  # type: ignore[method-assign]

    async def scenario() -> None:
        host.cache("dhcp_network", DhcpNetwork(id=NETWORK, subnets=(V4,)))
        host.cache("dhcp_port", OWN)
        host.feed.is_synced = True
        host.role.synced()
        running = asyncio.create_task(host.role.run())
        try:
            for other_is_left in (False, True):
                host.cache("dhcp_network", DhcpNetwork(id=NETWORK, subnets=(V4,)))
                await eventually(lambda: host.is_running(NETWORK), "the network is served")
                await host.role.finish()
                if other_is_left:
                    await host.role._supervisor.stop(daemon_name(NETWORK))
                removed(host, "dhcp_network", NETWORK)
                await eventually(lambda: not host.reconciler.known(), "nothing is left of it")
                assert searched == [NETWORK] * other_is_left
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
