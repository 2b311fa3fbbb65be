"""The L3 role: reconciles each router of this host until actual state is desired state.

A router is queued when the server changes it or an object that it depends on, when keepalived reports a failover or BFD a
next hop that is lost or back, when a device of it is removed from the bridge, and by the periodic resync, to repair drift.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from neutrino.agent.l3.extension_api import RouterResult
from neutrino.agent.l3.extensions import BUILT_IN
from neutrino.agent.l3.floating_ip_reports import FloatingIpReports
from neutrino.agent.l3.ha_states import ACTIVE, STANDBY, HaStates
from neutrino.agent.l3.router import ROUTER, RenderError
from neutrino.agent.l3.routers import Routers
from neutrino.agent.l3.services.api import RouterService, Serving
from neutrino.agent.l3.services.keepalived.render import Failover
from neutrino.agent.l3.services.keepalived.service import Keepalived
from neutrino.agent.runtime.measures import Measure, of_daemons
from neutrino.agent.runtime.namespaces import SERVICE
from neutrino.agent.runtime.queue import URGENT, USUAL
from neutrino.agent.runtime.reconcile_loop import ReconcileLoop
from neutrino.agent.runtime.role import Drift, ObjectStatus, StatusReports, described, repaired
from neutrino.agent.runtime.switch import FIRST_RETRY, LONGEST_RETRY, Events, subscribe, wait_connected
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.nft.api import NftError
from neutrino.dataplane.ovsdb.api import MARK, OvsdbError
from neutrino.dataplane.process.api import ProcessError
from neutrino.feed.state import StateChange
from neutrino.metrics.catalog import DRIFT, HA_ROUTERS
from neutrino.model import agents
from neutrino.model.roles import L3
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
WORKERS = 8
FAILURES = (NetlinkError, NftError, OvsdbError, ProcessError, RenderError, OSError)
REPEAT_SECONDS = (1.0, 4.0)  # after a change: a new port may not have been wired the first time


@dataclass(eq=False)
class L3Role:
    routers: Routers
    keepalived: Keepalived
    services: Sequence[RouterService]  # all of them, in their order
    description: agents.AgentState
    _: KW_ONLY
    announce_interval: float = 180.0
    repair: Callable[[], float] = lambda: 60.0
    report_soon: Callable[[], None] = lambda: None
    name: str = field(default="l3", init=False)
    _applied: dict[str, Router] = field(default_factory=dict, init=False)  # as last applied here
    _last_repair: dict[str, object] = field(default_factory=dict, init=False)
    _foreign: dict[str, dict[str, str]] = field(default_factory=dict, init=False)  # by router: tables of others

    def __post_init__(self) -> None:
        self.desired = self.routers.desired
        self._feed = self.desired.feed
        self._loop = ReconcileLoop(
            self._feed,
            ROUTER,
            "router",
            self._reconcile,
            self.routers.known,
            failures=FAILURES,
            interval=self.repair,
            role=self.name,
            served=lambda: [router.id for router in self.desired.served()],
            report_soon=self.report_soon,
            notify_failed=self._failed,
            workers=WORKERS,
        )
        self._announcements = Announcements(
            self.routers.announce, self._announces, self.desired.served, self.announce_interval
        )
        self._floating_ips = FloatingIpReports(self._feed)
        self._statuses = StatusReports(self._feed, L3)
        self.ha = HaStates(self._feed, self.description.host, self._loop.put, self._activated)
        self.keepalived.notify = self.ha.notified

    # --- called by the agent ----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        if change.kind == ROUTER:
            # A change before new routers: the router is in use, and one that failed over waits for nothing else.
            self._loop.put(change.id, USUAL if change.old is None else URGENT)
        for extension in (*BUILT_IN, *self.routers.extensions):
            if change.kind in extension.kinds:
                for router_id in extension.routers_affected(change, self.desired.all()):
                    self._loop.put(router_id)

    def synced(self) -> None:
        self._loop.synced()

    def applied(self) -> int | None:
        return None

    def describe(self) -> Iterable[agents.AgentState]:
        routers = self.desired.all()
        foreign = {name: text for each in self._foreign.values() for name, text in each.items()}
        problems = {**self._feed.state.problems_of(ROUTER), **self._loop.problems, **foreign}
        values: dict[str, object] = {
            "routers": len(routers),
            "ex_gw_ports": sum((router.gateway is not None) + len(router.extra_gateways) for router in routers),
            "interfaces": sum(len(router.interfaces) for router in routers),
            "floating_ips": sum(len(router.floating_ips) for router in routers),
            **({agents.LAST_REPAIR: self._last_repair} if self._last_repair else {}),
            **self.keepalived.supervisor.described(),
        }
        for service in self.services:
            values |= service.described()
        yield described(self.description, values, problems)

    def measures(self) -> Iterator[Measure]:
        yield from self._loop.measures()
        yield from of_daemons(self.keepalived.supervisor)
        for state in (ACTIVE, STANDBY):
            yield HA_ROUTERS, (state,), self.ha.count(state)

    async def finish(self) -> None:
        await self._loop.queue.idle()

    async def find(self) -> Drift:
        try:
            found = await asyncio.to_thread(self._loop.find, self.name, self._plan)
            if not self._feed.is_synced:
                return found
            leftovers = await asyncio.to_thread(self.routers.find_leftovers)
            return replace(found, plan="\n".join(filter(None, (found.plan, *leftovers))))
        except FAILURES as error:
            return Drift(self.name, problems={"routers": str(error)})

    def _plan(self, router_id: str) -> tuple[list[str], str]:
        router = self._feed.state.get(ROUTER, router_id)
        if router is None:  # deleted meanwhile
            return [], ""
        serving = Serving(active=self.routers.is_active(router), failover=self.routers.failover(router))
        lines = [line for service in self.services for line in service.find(router, serving)]
        lines += [f"{name}: {text}" for name, text in self.routers.foreign_tables(router).items()]
        return [*self.routers.find(router), *lines], ""

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await asyncio.to_thread(self._deactivate_orphans)
        try:
            for service in self.services:
                await service.start(self._loop.put)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._loop.run())
                group.create_task(self._announcements.run())
                group.create_task(self.keepalived.supervisor.run())
                group.create_task(self._watch_switch())
                group.create_task(self._remove_leftovers())
                group.create_task(self._report_initialized())
                for service in self.services:
                    group.create_task(service.run())
        finally:
            for service in self.services:
                await service.close()

    def _deactivate_orphans(self) -> None:
        """Before anything is wired: a host that was lost must not send with the MAC of routers that failed over."""
        for router_id in self.keepalived.orphans():
            try:
                self.routers.deactivate(router_id)
            except NetlinkError as error:
                LOG.warning("router %s may have addresses here that another host has too: %s", router_id, error)

    async def _watch_switch(self) -> None:
        """A device of a router that is removed from the bridge is plugged again at once."""
        subscribe(await wait_connected(self.routers.services.ovsdb), self._unplugged)

    def _unplugged(self, events: Events) -> None:
        removed = frozenset(
            event.interface.external_ids.get("iface-id", "")
            for event in events
            if event.what == "removed" and event.interface.external_ids.get(MARK) == SERVICE
        )
        for router in self.desired.served() if removed else ():
            if not removed.isdisjoint(router.port_ids):
                self._loop.put(router.id, URGENT)

    async def _remove_leftovers(self) -> None:
        """After the first `synced`, and by the resync; those of one router are removed by its key (`Routers.known`)."""
        await self._loop.first_sync.wait()
        retry = FIRST_RETRY
        while True:
            try:
                await asyncio.to_thread(self.routers.remove_leftovers)
                delay, retry = self.repair(), FIRST_RETRY
            except FAILURES as error:
                delay, retry = retry, min(2 * retry, LONGEST_RETRY)
                LOG.warning("leftovers of other agents are not removed, next attempt in %.1f s: %s", delay, error)
            await asyncio.sleep(delay)

    async def _report_initialized(self) -> None:
        """Once after the start, for those that wait for all routers of the host."""
        await self._loop.first_sync.wait()
        await self._loop.queue.tried()
        await wait_connected(self.routers.report_initialized)
        LOG.info("all routers of the first snapshot have been applied; this host has %d", len(self._applied))

    # --- one router -------------------------------------------------------------------------------------------------

    async def _reconcile(self, router_id: str) -> str:
        """Gives the router's problem that remains. Before the first `synced` only what is missing is added.

        In order: services release what the router lacks now, through the gateway as it is; namespaces, each with its nft
        tables before its addresses, so that no packet leaves untranslated; services, which need the devices; reports,
        when all is set.
        """
        synced = self._loop.is_synced
        router = self._feed.state.get(ROUTER, router_id)
        refusal = self.desired.refusal(router) if router is not None else None
        if router is None or not router.admin_state_up or refusal is not None:
            if not synced:
                return ""
            problems = await self._remove(router_id, moved=router is None)
            return refusal or "; ".join(problems)
        if self.routers.has_other_kind(router):
            if not synced:
                return ""
            await self._remove(router_id, moved=True)
        await asyncio.to_thread(self.keepalived.adopt, router)
        known_state = self.ha.get(router_id)  # keepalived may report a newer one while the router is applied
        if synced:
            serving = Serving(self.ha.is_active(router), standby=known_state == STANDBY)
            for service in reversed(self.services):
                await service.release(router, serving)
        statuses = self._statuses_of(router)  # before it is rendered: a change meanwhile is applied in another round
        # If keepalived has died, another host is active by now: `apply` removes the addresses that it had set here.
        had_keepalived = await asyncio.to_thread(self.keepalived.is_running, router_id)
        applied = await asyncio.to_thread(
            self.routers.apply, router, keepalived=router.ha is None or had_keepalived, complete=synced
        )
        self.ha.applied(router, active=applied.active, before=known_state)
        problems = []
        for service in self.services:
            serving = self._serving(router, applied.failover, synced=synced, had_keepalived=had_keepalived)
            problems += await service.ensure(router, serving)
        if applied.taken_over:
            await asyncio.to_thread(self.routers.complete_takeover, router, applied.taken_over)
        self._applied[router_id] = router
        if applied.changes:
            self._log_changes(router_id, applied.changes)
            self._announcements.repeat(router)
        self._floating_ips.applied(router, active=self.ha.is_active(router))
        self._statuses.applied(router_id, statuses)
        self._set_foreign(router_id, await asyncio.to_thread(self.routers.foreign_tables, router) if synced else {})
        problems += await self._notify_extensions(RouterResult(router_id, router))
        return "; ".join((*problems, *self.ha.conflict(router)))

    def _serving(self, router: Router, failover: Failover | None, *, synced: bool, had_keepalived: bool) -> Serving:
        """At this moment: keepalived may report another state between two services."""
        active = self.ha.is_active(router)
        # A running keepalived that is standby proves that another host is active.
        return Serving(active, synced, router.ha is not None and had_keepalived and not active, failover)

    async def _remove(self, router_id: str, *, moved: bool = False) -> list[str]:
        """`moved`: the router may be on another host by now."""
        self.ha.forget(router_id)
        for service in reversed(self.services):
            await service.stop(router_id, moved=moved)
        await asyncio.to_thread(self.routers.remove, router_id)
        for service in self.services:
            await service.removed(router_id)
        self._floating_ips.forget(router_id)
        self._statuses.forget(router_id)
        self._applied.pop(router_id, None)
        self._set_foreign(router_id, {})
        self._announcements.cancel(router_id)  # its addresses may be another host's by now
        return await self._notify_extensions(RouterResult(router_id))

    async def _failed(self, router_id: str, problem: str) -> None:
        router = self._feed.state.get(ROUTER, router_id)
        if router is not None and self._loop.queue.failures(router_id) == 1:  # once, not at every retry
            active = self.ha.get(router_id) != STANDBY
            self._floating_ips.failed(router, self._applied.get(router_id), active=active)
            self._statuses.failed(router_id, self._statuses_of(router), problem)
        await self._notify_extensions(RouterResult(router_id, router, problem))

    def _statuses_of(self, router: Router) -> frozenset[ObjectStatus]:
        objects, found = self.desired.objects(), set[ObjectStatus]()
        for extension in (*BUILT_IN, *self.routers.extensions):
            try:
                found.update(extension.statuses(router, objects))
            except Exception:  # third-party code: it must not stop the router
                LOG.exception("extension %s failed in `statuses` of router %s", extension.name, router.id)
        return frozenset(found)

    async def _notify_extensions(self, result: RouterResult) -> list[str]:
        """Problems of the extensions that failed."""
        problems = []
        for extension in self.routers.extensions:
            try:
                await asyncio.to_thread(extension.applied, result)
            except Exception as error:  # third-party code: it must not stop the router
                LOG.exception("extension %s failed in `applied` of router %s", extension.name, result.router_id)
                problems.append(f"extension {extension.name}: {error}")
        return problems

    def _set_foreign(self, router_id: str, found: dict[str, str]) -> None:
        if found == self._foreign.get(router_id, {}):
            return
        self._foreign.pop(router_id, None)
        if found:
            self._foreign[router_id] = found
            LOG.warning("router %s: %s", router_id, "; ".join(f"{name}: {text}" for name, text in found.items()))
        self.report_soon()

    def _log_changes(self, router_id: str, changes: int) -> None:
        LOG.info("router %s: %d changes applied", router_id, changes)
        if self._loop.is_drift(router_id):
            DRIFT.inc(self.name, by=changes)
            LOG.warning("router %s had drifted from its desired state: repaired by %d changes", router_id, changes)
            self._last_repair = repaired({"router": router_id, "changes": changes})
            self.report_soon()

    # --- announcements ----------------------------------------------------------------------------------------------

    def _activated(self, router_id: str) -> None:
        router = self._applied.get(router_id)
        if router is not None:
            self._announcements.now(router)
            self._announcements.repeat(router)

    def _announces(self, router: Router) -> bool:
        """A distributed router is announced on every host, except a SNAT part that is active elsewhere."""
        return self._feed.state.get(ROUTER, router.id) is not None and (router.distributed or self.ha.is_active(router))


@dataclass
class Announcements:
    """When a router's addresses are announced: after a change, twice more, and then periodically."""

    announce: Callable[[Router], None]  # blocks
    is_announced: Callable[[Router], bool]  # by this host
    routers: Callable[[], Iterable[Router]]
    interval: float
    _timers: dict[str, list[asyncio.TimerHandle]] = field(default_factory=dict)  # by router

    def now(self, router: Router) -> None:
        if self.is_announced(router):
            asyncio.get_running_loop().run_in_executor(None, self._announce, router)

    def repeat(self, router: Router) -> None:
        """Repetitions start anew with each change."""
        self.cancel(router.id)
        later = asyncio.get_running_loop().call_later
        self._timers[router.id] = [later(delay, self.now, router) for delay in REPEAT_SECONDS]

    def cancel(self, router_id: str) -> None:
        for timer in self._timers.pop(router_id, ()):
            timer.cancel()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.interval)
            for router in self.routers():
                if self.is_announced(router):
                    await asyncio.to_thread(self._announce, router)

    def _announce(self, router: Router) -> None:
        try:
            self.announce(router)
        except Exception as error:  # one router must not end the announcements of all others
            LOG.warning("addresses of router %s are not announced: %s", router.id, error)
