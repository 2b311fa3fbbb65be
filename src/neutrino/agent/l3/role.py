"""The L3 role: reconciles each router of this host until actual state is desired state.

A router is queued when the server changes it or an object that it depends on, when keepalived reports a failover, when
a device of it is removed from the bridge, and periodically, to repair drift. A worker takes a router from the queue and
reconciles its newest state, so a thousand updates cost as many rounds as there is time for.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from neutrino.agent.l3.announcements import Announcements
from neutrino.agent.l3.daemons import RouterDaemons
from neutrino.agent.l3.extension_api import L3Extension, RouterResult
from neutrino.agent.l3.ha_state import ACTIVE, STANDBY, HaConflicts, HaStateReader
from neutrino.agent.l3.reports import ROUTER, RouterFeed, RouterReports
from neutrino.agent.l3.router import BUILT_IN, RenderError
from neutrino.agent.l3.routers import Applied, Routers
from neutrino.agent.plugging import is_service
from neutrino.agent.port_holds import PortHolds
from neutrino.agent.queue import WorkQueue, work
from neutrino.agent.role import Drift
from neutrino.agent.supervisor import Supervisor
from neutrino.agent.switch import Events, subscribe, wait_connected
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.nft.api import NftError
from neutrino.dataplane.ovsdb.api import Ovsdb, OvsdbError, What
from neutrino.dataplane.process.api import ProcessError
from neutrino.feed.state import StateChange
from neutrino.model import agents
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
SUBNET = "subnet"
WORKERS = 8
URGENT, USUAL, CLEANING = 1, 10, 20  # priorities in the queue
FAILURES = (NetlinkError, NftError, OvsdbError, ProcessError, RenderError, OSError)
WIRED_SECONDS = 10.0  # for a port to be wired; while the switch is down for longer, waiting helps nobody


class L3Role:
    name = "l3"

    def __init__(
        self,
        feed: RouterFeed,
        routers: Routers,
        daemons: RouterDaemons,
        supervisor: Supervisor,
        description: agents.AgentState,
        *,
        switch: Callable[[], Ovsdb] | None = None,
        extensions: Iterable[L3Extension] = (),
        refuses: Callable[[Router], str | None] = lambda router: None,
        announce_interval: float = 180.0,
        repair: Callable[[], float] = lambda: 60.0,
        news: Callable[[], None] = lambda: None,
        port_holds: PortHolds | None = None,
    ) -> None:
        self._feed = feed
        self._routers = routers
        self._daemons = daemons
        self._supervisor = supervisor
        self._switch = switch
        self._extensions = tuple(extensions)
        self._delegations = daemons.delegations
        self._refuses = refuses
        self._announcements = Announcements(routers.announce, self._announces, self._served, announce_interval)
        self._repair = repair
        self._port_holds = port_holds
        self._reports = RouterReports(feed, description, news)
        self._queue: WorkQueue[str] = WorkQueue()
        self._synced = asyncio.Event()  # set for good with the first `synced`
        self._ha_reader = HaStateReader(self._ha_changed)
        self._ha_states: dict[str, str] = {}  # by router, as reported to the server
        self._ha_conflicts = HaConflicts(description.host)
        self._applied: dict[str, Router] = {}  # as last applied here
        self._periodic: set[str] = set()  # queued by the periodic check alone: a change of these is a repair
        self._unsynced: set[str] = set()  # reconciled from the cache alone: again after the first `synced`

    # --- called by the agent ----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        if change.kind == ROUTER:
            self._put(change.id, USUAL if change.old is None else URGENT)
        for extension in (*BUILT_IN, *self._extensions):
            if change.kind in extension.kinds:
                for router_id in extension.routers_affected(change, self._known()):
                    self._put(router_id)

    def synced(self) -> None:
        if self._synced.is_set():
            return
        self._synced.set()
        removed = self._routers.known() - self._feed.state.objects[ROUTER].keys()
        for router_id in self._unsynced | removed:
            self._put(router_id, CLEANING)
        self._unsynced.clear()

    def applied(self) -> int | None:
        return None

    def describe(self) -> Iterable[agents.AgentState]:
        return self._reports.describe(self._known())

    async def settle(self) -> None:
        await self._queue.idle()

    async def find(self) -> Drift:
        try:
            return Drift(self.name, "\n".join(await asyncio.to_thread(self._plan)))
        except (*FAILURES, ValueError) as error:
            return Drift(self.name, problems={"routers": str(error)})

    def _plan(self) -> list[str]:
        served = self._served()
        lines = [text for router in served if (text := self._routers.plan(router))]
        for router in served:
            active = self._routers.is_active(router)
            lines += self._daemons.find(router, active=active) + self._delegations.find(router, active=active)
        if self._feed.is_synced:
            stale = self._routers.known() - {router.id for router in served}
            lines += [f"router {each} is not served here any more" for each in sorted(stale)]
        return lines

    def _known(self) -> list[Router]:
        return [each for each in self._feed.state.objects[ROUTER].values() if isinstance(each, Router)]

    def _served(self) -> list[Router]:
        return [each for each in self._known() if each.admin_state_up and self._refuses(each) is None]

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await asyncio.to_thread(self._deactivate_orphans)
        self._delegations.listen(self._put, lambda subnet_id, prefix: self._feed.status(SUBNET, subnet_id, prefix))
        for router_id in self._feed.state.objects[ROUTER]:
            self._put(router_id)  # from the cache, while the server is away
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(work(self._queue, self._one, workers=WORKERS))
                group.create_task(self._announcements.run())
                group.create_task(self._supervisor.run())
                group.create_task(self._check_periodically())
                group.create_task(self._watch_switch())
                group.create_task(self._report_initialized())
        finally:
            self._ha_reader.close_all()
            self._delegations.close()

    def _deactivate_orphans(self) -> None:
        """Before anything is wired: a host that was lost must not send with the MAC of routers that failed over."""
        for router_id in self._daemons.orphans():
            try:
                self._routers.deactivate(router_id)
            except NetlinkError as error:
                LOG.warning("router %s may have addresses here that another host has too: %s", router_id, error)

    def _put(self, router_id: str, priority: int = USUAL) -> None:
        self._periodic.discard(router_id)
        self._queue.put(router_id, priority)

    async def _one(self, router_id: str) -> None:
        text = ""
        try:
            await self._reconcile(router_id)
        except FAILURES as error:
            delay, text = self._queue.failed(router_id), str(error)
            LOG.warning("router %s cannot be applied, retrying in %.1f s: %s", router_id, delay, text)
        except Exception as error:  # of this router alone: the others, and the agent, go on
            delay, text = self._queue.failed(router_id), f"{type(error).__name__}: {error}"
            if self._reports.problem_of(router_id) != text:
                LOG.exception("router %s cannot be applied, retrying in %.1f s", router_id, delay)
        else:
            self._queue.done(router_id)
        if text:
            self._reports.problem(router_id, text)
            self._report_failed(router_id)
            await self._notify_extensions(RouterResult(router_id, self._feed.state.get(ROUTER, router_id), text))

    async def _report_initialized(self) -> None:
        """Once after the start, for those that wait for all routers of the host."""
        await self._synced.wait()
        await self._queue.tried()
        await wait_connected(self._routers.report_initialized)
        LOG.info("all routers of the first snapshot have been applied; this host has %d", len(self._applied))

    # --- one router -------------------------------------------------------------------------------------------------

    async def _reconcile(self, router_id: str) -> None:
        """Before the first `synced` only what is missing is added: the cache may be older than actual state."""
        synced = self._synced.is_set()
        if not synced:
            self._unsynced.add(router_id)
        router = self._feed.state.get(ROUTER, router_id)
        refusal = self._refuses(router) if router is not None else None
        if router is None or not router.admin_state_up or refusal is not None:
            if synced:
                problems = await self._remove(router_id)
                self._reports.problem(router_id, refusal or "; ".join(problems))
            return
        if self._routers.has_other_kind(router):
            if not synced:
                return
            await self._remove(router_id)
        known_state = self._ha_states.get(router_id)
        if synced:
            await self._delegations.leave(router)
            await self._daemons.release(router)
        had_keepalived = await asyncio.to_thread(self._daemons.has_keepalived, router_id)
        applied = await asyncio.to_thread(self._apply, router, synced)
        self._ha_applied(router, applied, known_state)
        await self._wait_ha_port(router)
        await self._daemons.ensure(router, active=self._is_active(router), complete=synced)
        # A running keepalived that is standby proves that another host is active: that is newer than any cache.
        standby = router.ha is not None and had_keepalived and not self._is_active(router)
        problems = await self._delegations.ensure(router, active=self._is_active(router), complete=synced or standby)
        if router.ha is not None:
            self._ha_reader.open(router_id, self._daemons.fifo(router_id))
        self._applied[router_id] = router
        if applied.changes:
            self._log_changes(router_id, applied.changes)
            self._announcements.repeat(router)
        self._reports.floating_ips_active(router, active=self._is_active(router))
        problems += await self._notify_extensions(RouterResult(router_id, router))
        self._reports.problem(router_id, "; ".join((*problems, *self._conflict(router))))

    def _apply(self, router: Router, synced: bool) -> Applied:
        keepalived = router.ha is None or self._daemons.has_keepalived(router.id)
        return self._routers.apply(router, keepalived=keepalived, complete=synced)

    async def _wait_ha_port(self, router: Router) -> None:
        """A keepalived that receives no advertisements becomes active: its port is wired before it is started."""
        if self._port_holds is None or router.ha is None:
            return
        if not await asyncio.to_thread(self._daemons.has_keepalived, router.id):
            await self._port_holds.wait_wired(router.ha.interface.id, WIRED_SECONDS)

    async def _remove(self, router_id: str) -> list[str]:
        self._forget_ha(router_id)
        await self._delegations.stop(router_id)  # first: it uses the gateway port, which may be another host's by now
        await self._daemons.stop(router_id)
        await asyncio.to_thread(self._routers.remove, router_id)
        self._reports.forget(router_id)
        self._applied.pop(router_id, None)
        self._announcements.cancel(router_id)
        return await self._notify_extensions(RouterResult(router_id))

    async def _notify_extensions(self, result: RouterResult) -> list[str]:
        """Problems of the extensions that failed."""
        problems = []
        for extension in self._extensions:
            try:
                await asyncio.to_thread(extension.applied, result)
            except Exception as error:  # third-party code: it must not stop the router
                LOG.exception("extension %s failed in `applied` of router %s", extension.name, result.router_id)
                problems.append(f"extension {extension.name}: {error}")
        return problems

    def _log_changes(self, router_id: str, changes: int) -> None:
        LOG.info("router %s: %d changes applied", router_id, changes)
        if router_id in self._periodic:
            LOG.warning("router %s had drifted from its desired state: repaired by %d changes", router_id, changes)
            self._reports.repaired(router_id, changes)

    def _report_failed(self, router_id: str) -> None:
        router = self._feed.state.get(ROUTER, router_id)
        if isinstance(router, Router) and self._queue.failures(router_id) == 1:
            active = self._ha_states.get(router_id, ACTIVE) == ACTIVE
            self._reports.floating_ips_failed(router, self._applied.get(router_id), active=active)

    # --- HA ---------------------------------------------------------------------------------------------------------

    def _ha_applied(self, router: Router, applied: Applied, known_state: str | None) -> None:
        if router.ha is None:
            self._forget_ha(router.id)
        elif self._ha_states.get(router.id) == known_state:  # else keepalived has reported since, which is newer
            self._ha_changed(router.id, ACTIVE if applied.active else STANDBY, requeue=False)
            if applied.active and not router.ha.active_host:
                # Another host, which was active too, has stepped back and left the server without an active host.
                self._feed.status(ROUTER, router.id, ACTIVE)

    def _ha_changed(self, router_id: str, state: str, *, requeue: bool = True) -> None:
        """Reports a failover to the server, and queues the router: some daemons run on the active host alone."""
        if self._ha_states.get(router_id) == state:
            return
        self._ha_states[router_id] = state
        LOG.info("router %s is %s on this host", router_id, state)
        self._feed.status(ROUTER, router_id, state)
        if requeue:
            self._put(router_id, URGENT)
        router = self._applied.get(router_id)
        if state == ACTIVE and router is not None:
            self._announcements.now(router)
            self._announcements.repeat(router)

    def _is_active(self, router: Router) -> bool:
        """Whether this host has the part of a router that only the active host has."""
        return router.ha is None or self._ha_states.get(router.id) == ACTIVE

    def _announces(self, router: Router) -> bool:
        """A distributed router is announced on every host, except a SNAT part that is active elsewhere."""
        return self._feed.state.get(ROUTER, router.id) is not None and (router.distributed or self._is_active(router))

    def _forget_ha(self, router_id: str) -> None:
        self._ha_reader.close(router_id)
        self._ha_states.pop(router_id, None)
        self._ha_conflicts.forget(router_id)

    def _conflict(self, router: Router) -> list[str]:
        loop = asyncio.get_running_loop()
        active = self._ha_states.get(router.id) == ACTIVE
        problem, check_again = self._ha_conflicts.check(router, active=active, now=loop.time())
        if problem and problem not in self._reports.problem_of(router.id):
            LOG.error("router %s %s", router.id, problem)
        if check_again is not None:
            loop.call_later(check_again, self._put, router.id)
        return [problem] if problem else []

    # --- drift ------------------------------------------------------------------------------------------------------

    async def _check_periodically(self) -> None:
        """Queues every router once in the repair interval, evenly spread: never all at once."""
        while True:
            served = [router.id for router in self._served()]
            if not served or not self._repair():
                await asyncio.sleep(1.0)
                continue
            for router_id in served:
                await asyncio.sleep(self._repair() / len(served))
                if not self._queue.is_working(router_id) and router_id in self._applied:
                    self._queue.put(router_id, CLEANING)
                    self._periodic.add(router_id)

    async def _watch_switch(self) -> None:
        """A device of a router that is removed from the bridge is plugged again at once."""
        if self._switch is not None:
            subscribe(await wait_connected(self._switch), self._unplugged)

    def _unplugged(self, events: Events) -> None:
        removed = frozenset(
            event.interface.external_ids.get("iface-id", "")
            for event in events
            if event.what is What.REMOVED and is_service(event.interface.external_ids)
        )
        for router in self._served() if removed else ():
            if not removed.isdisjoint(router.port_ids):
                self._put(router.id, URGENT)
