"""The DHCP role: decides when a network is reconciled.

A network is queued when the feed changes it or one of its ports, when its switch port changes, when its dnsmasq cannot be
respawned, and by the periodic resync. The worker that takes it reconciles the newest state, so a thousand ports created at
once cost only as many reconciliations as there is time for.

Before the first `synced` only networks without a running dnsmasq are served, from the cache: the state of a running one
may be newer than the cache.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from neutrino.agent.dhcp.network import NAMESPACE_PREFIX, PortsByNetwork, ServedNetwork, served_network
from neutrino.agent.dhcp.reconcile import Reconciler, marked_network
from neutrino.agent.dhcp.render import daemon_name
from neutrino.agent.runtime.measures import Measure, of_daemons
from neutrino.agent.runtime.queue import WorkQueue
from neutrino.agent.runtime.reconcile_loop import ReconcileLoop
from neutrino.agent.runtime.role import Drift, RoleFeed, described
from neutrino.agent.runtime.supervisor import RESPAWN, Action, ProcessEvent, Supervisor
from neutrino.agent.runtime.switch import FIRST_RETRY, LONGEST_RETRY, Events, subscribe, wait_connected
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.nft.api import NftError
from neutrino.dataplane.ovsdb.api import Interface, OvsdbError, Port
from neutrino.dataplane.process.api import ProcessError
from neutrino.feed.state import StateChange
from neutrino.metrics.catalog import DRIFT
from neutrino.model import agents
from neutrino.model.dhcp import OWNER, DhcpNetwork

LOG = logging.getLogger(__name__)
NETWORK, PORT = "dhcp_network", "dhcp_port"
MAX_PROBLEMS = 3  # that are listed for one network


@dataclasses.dataclass(eq=False)
class DhcpRole:
    feed: RoleFeed
    reconciler: Reconciler
    description: agents.AgentState
    _: dataclasses.KW_ONLY
    workers: int = 4
    repair: Callable[[], float] = lambda: 60.0
    child_action: Literal["respawn", "exit"] = RESPAWN
    report_soon: Callable[[], None] = lambda: None
    # Tables of others in a namespace that drop packets.
    foreign_tables: Callable[[str], Sequence[str]] = lambda namespace: ()
    name: str = dataclasses.field(default="dhcp", init=False)

    def __post_init__(self) -> None:
        self._supervisor = Supervisor(self.reconciler.processes, action=self.child_action, notify=self._daemon_event)
        self._loop = ReconcileLoop(
            self.feed,
            NETWORK,
            "network",
            self._reconcile,
            self.reconciler.known,
            failures=(OvsdbError, NetlinkError, ProcessError, OSError),
            interval=self.repair,
            role=self.name,
            served=lambda: self.feed.state.objects[NETWORK],
            report_soon=self.report_soon,
            workers=self.workers,
            queue=WorkQueue(first_delay=FIRST_RETRY, longest_delay=LONGEST_RETRY),
        )
        self._ports = PortsByNetwork()
        # Network → its ports as last reported ready, with the revision and the device id of the DHCP port that served them.
        self._ready: dict[str, dict[str, tuple[int, str]]] = {}
        self._foreign: dict[str, dict[str, str]] = {}  # network → its problems with rules of others
        self._searched: set[str] = set()  # networks whose namespace was searched for rules of others
        self._plugged: dict[str, tuple[str, Interface, bool]] = {}  # switch ports by name, as `_as_plugged` has them

    # --- calls of the agent -----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        if change.kind == NETWORK:
            self._loop.put(change.id)
        elif change.kind == PORT:
            for port in self._ports.changed(change):
                # The feed also sends ports of networks behind routers served here, for metadata.
                if port.network_id in self.feed.state.objects[NETWORK]:
                    self._loop.put(port.network_id)

    def synced(self) -> None:
        self._loop.synced()

    def applied(self) -> int | None:
        return self._loop.position

    def describe(self) -> Iterable[agents.AgentState]:
        networks = self.feed.state.objects[NETWORK].values()
        foreign = {name: text for each in self._foreign.values() for name, text in each.items()}
        problems = {**self.feed.state.problems_of(NETWORK, PORT), **self._loop.problems, **foreign}
        values = {
            agents.NETWORKS: len(networks),
            "subnets": sum(len(network.subnets) for network in networks),
            "ports": len(self.feed.state.objects[PORT]),
            **self._supervisor.described(),
        }
        yield described(self.description, values, problems)

    def measures(self) -> Iterator[Measure]:
        yield from self._loop.measures()
        yield from of_daemons(self._supervisor)

    async def finish(self) -> None:
        await self._loop.queue.idle()

    async def find(self) -> Drift:
        await asyncio.to_thread(self.reconciler.services.ovsdb)  # without the switch there is nothing to compare
        self._ports.index(self.feed.state.objects[PORT].values())  # the feed may have loaded them from its cache
        return await asyncio.to_thread(self._loop.find, self.name, self._plan)

    def _plan(self, network_id: str) -> tuple[list[str], str]:
        network = self._network(network_id)
        changes, problems = self.reconciler.plan(network)
        foreign = self._find_foreign(network_id) if network.is_served else {}
        return [*changes, *(f"{name}: {text}" for name, text in foreign.items())], _text(problems)

    def _find_foreign(self, network_id: str) -> dict[str, str]:
        """Tables of others in the network's namespace that drop packets, as problems. They are left alone."""
        name = f"{NAMESPACE_PREFIX}{network_id}"
        try:
            tables = self.foreign_tables(name)
        except NftError as error:  # DHCP itself does not need it
            LOG.warning("%s: rules of others are not known: %s", name, error)
            return {}
        what = f"tables that are not this agent's, and drop packets: {', '.join(tables)}"
        return {f"{agents.FOREIGN}tables in {name}": what} if tables else {}

    def _set_foreign(self, network_id: str, found: dict[str, str]) -> None:
        if found == self._foreign.get(network_id, {}):
            return
        self._foreign.pop(network_id, None)
        if found:
            self._foreign[network_id] = found
            LOG.warning("network %s: %s", network_id, "; ".join(f"{name}: {text}" for name, text in found.items()))
        self.report_soon()

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        ovsdb = await wait_connected(self.reconciler.services.ovsdb)
        self._plugged = {name: _as_plugged(*row) for name, row in ovsdb.read().interfaces().items()}
        subscribe(ovsdb, self._switch_event)
        self._ports.index(self.feed.state.objects[PORT].values())  # the feed may have loaded them from its cache
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run())
            group.create_task(self._supervisor.run())

    def _switch_event(self, events: Events) -> None:
        """Queue networks whose port was removed or changed by hand, or has lost its device.

        Not for a port that was added, which this role has done itself, nor for its ofport and tag: a new network would be
        reconciled twice.
        """
        for event in events:
            network_id, name = marked_network(event.interface.external_ids), event.interface.name
            if not network_id:
                continue
            now = _as_plugged(event.bridge, event.port, event.interface)
            before = self._plugged.pop(name, None)
            if event.what != "removed":
                self._plugged[name] = now
            if event.what == "removed" or (before is not None and before != now):
                self._loop.put(network_id)

    def _daemon_event(self, event: ProcessEvent) -> None:
        """A dnsmasq that cannot be respawned may lack its device or namespace: reconciling creates them."""
        if event.what == "failed":
            self._loop.put(event.name.removeprefix(daemon_name("")))

    def _network(self, network_id: str) -> ServedNetwork:
        network = self.feed.state.get(NETWORK, network_id) or DhcpNetwork(id=network_id)
        distributed = self.description.configurations.get(agents.DHCP_DISTRIBUTED) is True
        return served_network(network, self._ports.of(network_id), self.description.host, distributed=distributed)

    async def _reconcile(self, network_id: str) -> str:
        """Reconcile one network; gives what of it is not served, and why."""
        network = self._network(network_id)
        # A running dnsmasq may know ports that the cache lacks; a missing one is started even without a server.
        if not self._loop.is_synced and (
            not network.is_served or await asyncio.to_thread(self.reconciler.is_running, network_id)
        ):
            return ""
        if not network.is_served:
            name = daemon_name(network_id)
            is_running = self._supervisor.running(name) is not None
            await self._supervisor.stop(name)  # first, or it would be respawned while it is removed
            await asyncio.to_thread(self.reconciler.remove, network_id, is_stopped=is_running)
            self._set_foreign(network_id, {})
            self._searched.discard(network_id)
            if self.feed.state.get(NETWORK, network_id) is None:
                # The network may be scheduled here again: its ports are then reported ready once more.
                self._ready.pop(network_id, None)
            return ""
        prepare = self.reconciler.prepare
        service, problems = await asyncio.to_thread(prepare, network, complete=self._loop.is_synced)
        action, _ = await self._supervisor.ensure(service)
        if action is not Action.NOTHING:
            LOG.info("network %s: %s of dnsmasq", network_id, action.value)
            if self._loop.is_drift(network_id):
                DRIFT.inc(self.name)
        self._report_ready(network)
        # A program is run for it, which takes as long as all else of a new port: not with each change of a network.
        if self._loop.is_drift(network_id) or (network_id not in self._searched and action is not Action.START):
            self._set_foreign(network_id, await asyncio.to_thread(self._find_foreign, network_id))
        self._searched.add(network_id)
        return _text(problems)

    def _report_ready(self, network: ServedNetwork) -> None:
        """Report ports whose lease can be given now, each revision once; with a copied DHCP port only this host's ports.

        Repeated when the network was scheduled to this host meanwhile: a report from before that completed no
        provisioning block, as the port waited for another host's.
        """
        served_from = network.own.device_id if network.own is not None else ""
        served = {subnet.id for subnet in network.dhcp_subnets}
        before, ready = self._ready.get(network.id, {}), dict[str, tuple[int, str]]()
        for port in network.ports:
            if network.is_copy and port.host != self.description.host:  # a copy is not reachable for them
                continue
            on_dhcp = any(fixed.subnet_id in served for fixed in port.fixed_ips)
            if port.device_owner == OWNER or not on_dhcp:
                continue
            ready[port.id] = port.revision, served_from
            if before.get(port.id) != ready[port.id]:
                self.feed.port_ready(port.id, port.revision)
        self._ready[network.id] = ready  # without the ports that were deleted since


def _as_plugged(bridge: str, _: Port, interface: Interface) -> tuple[str, Interface, bool]:
    """What this role sets of a switch port, and whether its device is lost; the switch itself gives the ofport."""
    return bridge, dataclasses.replace(interface, ofport=None), (interface.ofport or 0) < 0


def _text(problems: Sequence[str]) -> str:
    more = len(problems) - MAX_PROBLEMS
    return "; ".join(problems[:MAX_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
