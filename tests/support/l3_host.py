"""A host of the L3 role on fakes: routers of every kind, daemons and the switch, and an agent that can be restarted."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.agent.l3.config import L3Options, refusal
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace, RouterResult
from neutrino.agent.l3.extensions import BUILT_IN
from neutrino.agent.l3.role import L3Role
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.l3.services.api import RouterService, in_order
from neutrino.agent.l3.services.bfd.supervision import BfdSessions
from neutrino.agent.l3.services.conntrackd.service import Conntrackd, InNamespace
from neutrino.agent.l3.services.dibbler.service import SUBNET, Delegations
from neutrino.agent.l3.services.keepalived.service import Keepalived, OtherKeepaliveds
from neutrino.agent.l3.services.radvd.service import Radvd
from neutrino.agent.runtime.context import PortHolds
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.conntrack.api import Connection, ConntrackFlush, translated_elsewhere
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.feed.state import State, StateChange
from neutrino.model.agents import L3, PROBLEMS, AgentState
from neutrino.model.rates import Counted
from neutrino.model.routing import MeteredTraffic, Router
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.fakes.ovsdb import FakeOvsdb
from tests.fakes.process import FakeProcesses

NAMESPACE = "qrouter-r1"


class Feed:
    """The feed: state from the server, and reports to it."""

    def __init__(self) -> None:
        self.state = State()
        self.is_synced, self.position = True, 1
        self.statuses: list[tuple[str, str, str]] = []
        self.status_details: list[tuple[int, str]] = []  # revision and reason of each
        self.errors: list[str] = []
        self.reported: list[tuple[MeteredTraffic, ...]] = []  # metering counters

    def status(self, kind: str, key: str, status: str, revision: int = 0, reason: str = "", role: str = "") -> None:
        self.statuses.append((kind, key, status))
        self.status_details.append((revision, reason))

    def rates(self, seconds: int, ports: Mapping[str, Counted], tunnels: Mapping[str, Counted]) -> None: ...

    def traffic(self, counters: Sequence[MeteredTraffic], *, granular: bool) -> None:
        self.reported.append(tuple(counters))

    @property
    def is_traffic_acknowledged(self) -> bool:
        return True

    def error(self, kind: str, key: str, text: str) -> None:
        self.errors.append(text)

    def port_up(self, port_id: str, revision: int, *, inactive: bool = False) -> None: ...

    def port_down(self, port_id: str, reason: str = "") -> None: ...

    def port_ready(self, port_id: str, revision: int) -> None: ...


class Flushes(list[ConntrackFlush]):
    """The flushes of a router's connections, of which those with a translated source are in `connections`."""

    def __init__(self, *connections: Connection) -> None:
        self.connections = set(connections)
        self.reads = 0

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        self.extend(entries)

    def flush_translated(self, kept: Collection[str]) -> int:
        self.reads += 1
        stale = set(translated_elsewhere(self.connections, kept))
        self.connections -= stale
        return len(stale)


class Recorder(L3Extension):
    """An extension that renders `contribution`, or fails, and records the results that it is notified of."""

    name = "recorder"

    def __init__(self) -> None:
        self.contribution = Contribution()
        self.results: list[RouterResult] = []
        self.render_error = self.applied_error = ""

    def render(self, namespace: RouterNamespace) -> Contribution:
        if self.render_error:
            raise RuntimeError(self.render_error)
        return self.contribution

    def applied(self, result: RouterResult) -> None:
        self.results.append(result)
        if self.applied_error:
            raise RuntimeError(self.applied_error)


class Host:
    def __init__(self, state_path: Path, repair: float = 3600.0, announce: float = 3600.0, **settings: Any) -> None:
        """`settings`: of L3Options."""
        self.announce, self.settings = announce, settings
        self.feed, self.netlink, self.ovsdb, self.flushes = Feed(), FakeNetlink(), FakeOvsdb(), Flushes()
        self.nft, self.processes, self.extension = FakeNft(self.netlink), FakeProcesses(), Recorder()
        self.ovsdb.apply([SetBridge("br-int")])
        self.state_path, self.repair = state_path, repair
        self.port_holds: PortHolds | None = None
        self.meters = self.firewall_logs = RouterService()
        self.ran: list[tuple[str, Sequence[str]]] = []  # commands in namespaces
        self.device_index = 7  # of devices on HA networks
        self.refusals: dict[str, str] = {}  # routers that this host does not serve, and why
        self.restart()

    def restart(self) -> None:
        """An agent that remembers nothing but what the feed's cache does."""
        whole = {"host": "h1", "state_path": str(self.state_path), "veth": True, "agent_mode": "dvr_snat"}
        options = L3Options(**{**whole, **self.settings})  # type: ignore[arg-type]
        services = ServiceNamespaces(self.netlink, lambda: self.ovsdb, self.nft)
        supervisor = Supervisor(self.processes)
        kinds = frozenset(kind for each in BUILT_IN for kind in each.kinds)
        desired = DesiredRouters(
            self.feed, lambda router: self.refusals.get(router.id) or refusal(router, options), kinds
        )
        bfd = BfdSessions(supervisor, options)
        routers = Routers(
            *(services, lambda namespace: self.flushes, options, desired, [self.extension]),
            lost_next_hops=bfd.lost_next_hops,
        )
        inside = InNamespace(lambda *command: self.ran.append(command), lambda namespace, name: self.device_index)
        conntrackd = Conntrackd(supervisor, options, inside)
        keepalived = Keepalived(
            supervisor,
            options,
            OtherKeepaliveds(routers.other_keepalived, routers.end_other_keepaliveds),
            self.port_holds,
            conntrackd.command,
        )
        self.role = L3Role(
            routers,
            keepalived,
            in_order(
                meters=self.meters,
                keepalived=keepalived,
                conntrackd=conntrackd,
                radvd=Radvd(supervisor, options),
                bfd=bfd,
                charon=RouterService(),
                firewall_logs=self.firewall_logs,
                dibbler=Delegations(supervisor, options, functools.partial(self.feed.status, SUBNET), PortHolds()),
            ),
            AgentState(L3, "neutron-l3-agent", "h1", "l3_agent"),
            announce_interval=self.announce,
            repair=lambda: self.repair,
        )

    def send(self, new: Router | None, key: str = "r1") -> None:
        self.send_object("router", key, new)

    def send_object(self, kind: str, key: str, new: Any) -> None:
        known = self.feed.state.objects[kind]
        old = known.pop(key, None)
        if new is not None:
            known[key] = new
        self.role.changed(StateChange(kind, key, old, new))

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(30):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(what) from None

    def routes(self) -> set[str]:
        return {each.destination for each in self.netlink.read(NAMESPACE).routes} if self.is_there else set()

    @property
    def is_there(self) -> bool:
        return NAMESPACE in self.netlink.namespaces()

    @property
    def problems(self) -> dict[str, str]:
        (described,) = self.role.describe()
        return described.configurations[PROBLEMS]  # type: ignore[return-value]

    async def verified(self) -> bool:
        found = await self.role.find()
        return not found.plan and not found.problems


def run(host: Host, test: Callable[[], object], *, synced: bool = True) -> None:
    async def bounded() -> None:
        task = asyncio.create_task(host.role.run())
        try:
            if synced:
                host.role.synced()
            async with asyncio.timeout(30):
                await test()  # type: ignore[misc]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(bounded())
