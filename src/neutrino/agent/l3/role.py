"""The L3 role: one router at a time for each worker, the newest state of it, until what is there is what should be.

Four things bring a router into the queue: the server told of it, keepalived did, its device was taken off the bridge, or,
for doubts, its turn within the repair interval has come. Whoever takes it out looks at the newest state.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from neutrino.agent.l3.announcing import Announcements
from neutrino.agent.l3.apply import Applied, DeviceMissing, RouterDataplane
from neutrino.agent.l3.conflicts import Conflicts
from neutrino.agent.l3.daemons import RouterDaemons
from neutrino.agent.l3.dvr.dataplane import AnyDataplane
from neutrino.agent.l3.dvr.near import routers_near
from neutrino.agent.l3.extensions import Extensions, event_of
from neutrino.agent.l3.floating_statuses import FloatingStatuses
from neutrino.agent.l3.ha_states import ACTIVE, STANDBY, HaStates
from neutrino.agent.plugging import is_service
from neutrino.agent.port_holds import PortHolds
from neutrino.agent.queue import WorkQueue, work
from neutrino.agent.role import Drift, RoleFeed
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
KIND, SUBNET = "router", "subnet"
WORKERS = 8
URGENT, USUAL, CLEANING = 1, 10, 20
REFUSALS = (NetlinkError, NftError, OvsdbError, ProcessError, DeviceMissing, OSError)
WIRE_SECONDS = 10.0  # for a port to be wired; with a switch that is away for longer, there is nobody to hear


class RouterSpeaker(RoleFeed, Protocol):
    def status(self, kind: str, key: str, status: str) -> None: ...


class L3Role:
    name = "l3"

    def __init__(
        self,
        feed: RouterSpeaker,
        dataplane: RouterDataplane | AnyDataplane,
        daemons: RouterDaemons,
        watch: Supervisor,
        description: agents.AgentState,
        *,
        switch: Callable[[], Ovsdb] | None = None,
        extensions: Extensions | None = None,
        refuses: Callable[[Router], str | None] = lambda router: None,
        announce_interval: float = 180.0,
        repair: Callable[[], float] = lambda: 60.0,
        news: Callable[[], None] = lambda: None,
        port_holds: PortHolds | None = None,
    ) -> None:
        self._feed = feed
        self._dataplane = dataplane
        self._daemons = daemons
        self._watch = watch
        self._description = description
        self._switch = switch
        self._extensions = extensions or Extensions()
        self._delegations = daemons.delegations
        self._refuses = refuses
        self._announcements = Announcements(dataplane.announce, self._speaks, self._wanted, announce_interval)
        self._repair = repair
        self._news = news
        self._port_holds = port_holds
        self._queue: WorkQueue[str] = WorkQueue()
        self._synced = asyncio.Event()  # set for good with the first `synced`: an Event itself is always true
        self._problems: dict[str, str] = {}
        self._ha = HaStates(self._ha_changed)
        self._states: dict[str, str] = {}  # of HA routers, as they were told
        self._conflicts = Conflicts(description.host)
        self._made: dict[str, Router] = {}  # as they were last made here
        self._floating = FloatingStatuses(feed)
        self._doubted: set[str] = set()  # looked at for doubts alone
        self._unsynced: set[str] = set()  # reconciled by the cache alone: again after the first `synced`
        self._last_repair: dict[str, object] = {}

    # --- what the agent asks ----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        if change.kind == KIND:
            self._put(change.id, USUAL if change.old is None else URGENT)
        for router_id in routers_near(change, self._feed.state.objects[KIND].values()):
            self._put(router_id)

    def synced(self) -> None:
        if self._synced.is_set():
            return
        self._synced.set()
        gone = self._dataplane.known() - self._feed.state.objects[KIND].keys()
        for router_id in self._unsynced | gone:
            self._put(router_id, CLEANING)
        self._unsynced.clear()

    def applied(self) -> int | None:
        return None

    def describe(self) -> Iterable[agents.AgentState]:
        routers = [each for each in self._feed.state.objects[KIND].values() if isinstance(each, Router)]
        yield dataclasses.replace(
            self._description,
            configurations={
                **self._description.configurations,
                "routers": len(routers),
                "ex_gw_ports": sum(each.gateway is not None for each in routers),
                "interfaces": sum(len(each.interfaces) for each in routers),
                "floating_ips": sum(len(each.floating_ips) for each in routers),
                agents.PROBLEMS: dict(sorted({**self._feed.state.problems_of(KIND), **self._problems}.items())[:10]),
                **({agents.LAST_REPAIR: self._last_repair} if self._last_repair else {}),
            },
        )

    async def settle(self) -> None:
        await self._queue.idle()

    async def find(self) -> Drift:
        try:
            return Drift(self.name, "\n".join(await asyncio.to_thread(self._look)))
        except (*REFUSALS, ValueError) as error:
            return Drift(self.name, problems={"routers": str(error)})

    def _look(self) -> list[str]:
        wanted = self._wanted()
        lines = [text for router in wanted if (text := self._dataplane.find(router).text())]
        for router in wanted:
            active = self._dataplane.is_active(router)
            lines += self._daemons.find(router, active=active) + self._delegations.find(router, active=active)
        if self._feed.is_synced:
            superfluous = self._dataplane.known() - {router.id for router in wanted}
            lines += [f"router {each} is not served here any more" for each in sorted(superfluous)]
        return lines

    def _wanted(self) -> list[Router]:
        routers = self._feed.state.objects[KIND].values()
        return [each for each in routers if isinstance(each, Router) and self._keeps(each)]

    def _keeps(self, router: Router) -> bool:
        return router.admin_state_up and self._refuses(router) is None

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await asyncio.to_thread(self._quieten)
        self._delegations.listen(self._put, lambda subnet_id, prefix: self._feed.status(SUBNET, subnet_id, prefix))
        for router_id in self._feed.state.objects[KIND]:
            self._put(router_id)  # from the cache, while the server is away
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(work(self._queue, self._one, workers=WORKERS))
                group.create_task(self._announcements.run())
                group.create_task(self._watch.run())
                group.create_task(self._doubt())
                group.create_task(self._follow_switch())
                group.create_task(self._complete())
        finally:
            self._ha.close()
            self._delegations.close()

    def _quieten(self) -> None:
        """Before anything is wired: a host that was lost and is back must not speak as the router that another is now."""
        for router_id in self._daemons.orphans():
            try:
                self._dataplane.quieten(router_id)
            except NetlinkError as error:
                LOG.warning("router %s may have addresses that are another host's: %s", router_id, error)

    def _put(self, router_id: str, priority: int = USUAL) -> None:
        self._doubted.discard(router_id)
        self._queue.put(router_id, priority)

    async def _one(self, router_id: str) -> None:
        try:
            await self._reconcile(router_id)
        except REFUSALS as error:
            delay = self._queue.failed(router_id)
            LOG.warning("router %s is not as it should be, again in %.1f s: %s", router_id, delay, error)
            self._problem(router_id, str(error))
            self._tell_failed(router_id)
        except Exception as error:  # of this router alone: the others, and the agent, go on
            delay, text = self._queue.failed(router_id), f"{type(error).__name__}: {error}"
            if self._problems.get(router_id) != text:
                LOG.exception("router %s cannot be made, again in %.1f s", router_id, delay)
            self._problem(router_id, text)
            self._tell_failed(router_id)
        else:
            self._queue.done(router_id)

    async def _complete(self) -> None:
        """Once after the start: what others may wait for is said on the bridge."""
        await self._synced.wait()
        await self._queue.tried()
        await wait_connected(self._dataplane.say_initialized)
        LOG.info("all %d routers are as they should be", len(self._made))

    async def _reconcile(self, router_id: str) -> None:
        """Before the first `synced` only what is missing is added: the cache may be older than what is here."""
        synced = self._synced.is_set()
        if not synced:
            self._unsynced.add(router_id)
        router = self._feed.state.get(KIND, router_id)
        refusal = self._refuses(router) if router is not None else None
        if router is None or not router.admin_state_up or refusal is not None:
            if synced:
                problems = await self._remove(router_id)
                self._problem(router_id, refusal or "; ".join(problems) or None)
            return
        if self._dataplane.is_recast(router):
            if not synced:
                return
            await self._remove(router_id)
        event = event_of(router_id, self._made.get(router_id), router) if self._extensions else None
        problems = await asyncio.to_thread(self._extensions.before, event) if event is not None else []
        known = self._states.get(router_id)
        if synced:
            await self._delegations.leave(router)
            await self._daemons.release(router)
        had_keepalived = await asyncio.to_thread(self._daemons.has_keepalived, router_id)
        applied = await asyncio.to_thread(self._apply, router, synced)
        if router.ha is None:
            self._forget_ha(router_id)
        elif self._states.get(router_id) == known:  # else keepalived has said it meanwhile, and that is newer
            self._ha_changed(router_id, ACTIVE if applied.active else STANDBY, again=False)
            if applied.active and not router.ha.active_host:  # another host, which was it too, has given it up
                self._feed.status(KIND, router_id, ACTIVE)
        await self._until_heard(router)
        await self._daemons.ensure(router, active=self._is_active(router), complete=synced)
        # A keepalived that runs may say that the router is active elsewhere: that is newer than any cache.
        standby = router.ha is not None and had_keepalived and not self._is_active(router)
        problems += await self._delegations.ensure(router, active=self._is_active(router), complete=synced or standby)
        if router.ha is not None:
            self._ha.listen(router_id, self._daemons.fifo(router_id))
        if event is not None:
            problems += await asyncio.to_thread(self._extensions.after, event)
        self._made[router_id] = router
        if applied.changes:
            self._note(router_id, applied.changes)
            self._announcements.again(router)
        self._floating.works(router, active=self._is_active(router))
        self._problem(router_id, "; ".join((*problems, *self._conflict(router))) or None)

    async def _until_heard(self, router: Router) -> None:
        """A keepalived that hears nobody takes itself for the active one: its port is wired before it is started."""
        if self._port_holds is None or router.ha is None:
            return
        if not await asyncio.to_thread(self._daemons.has_keepalived, router.id):
            await self._port_holds.wait_wired(router.ha.interface.id, WIRE_SECONDS)

    def _apply(self, router: Router, synced: bool) -> Applied:
        alone = router.ha is not None and not self._daemons.has_keepalived(router.id)
        return self._dataplane.apply(router, keepalived=not alone, complete=synced)

    async def _remove(self, router_id: str) -> list[str]:
        made = self._made.get(router_id)
        event = event_of(router_id, made, None) if self._extensions else None
        problems = await asyncio.to_thread(self._extensions.before, event) if event is not None else []
        self._forget_ha(router_id)
        await self._delegations.stop(router_id)  # first: it lets go of the gateway, which may be another host's by now
        await self._daemons.stop(router_id)
        await asyncio.to_thread(self._dataplane.remove, router_id)
        self._floating.forget(router_id)
        self._made.pop(router_id, None)
        self._announcements.forget(router_id)
        if event is not None:
            problems += await asyncio.to_thread(self._extensions.after, event)
        return problems

    def _note(self, router_id: str, changes: int) -> None:
        LOG.info("router %s: %d changes", router_id, changes)
        if router_id in self._doubted:
            self._last_repair = {"router": router_id, "changes": changes}
            LOG.warning("router %s was not as we left it and is put right", router_id)
            self._news()

    # --- who is active ----------------------------------------------------------------------------------------------

    def _ha_changed(self, router_id: str, state: str, *, again: bool = True) -> None:
        """The router has moved here or away: the server is told, and what only the active one does follows."""
        if self._states.get(router_id) == state:
            return
        self._states[router_id] = state
        LOG.info("router %s is %s here", router_id, state)
        self._feed.status(KIND, router_id, state)
        if again:
            self._put(router_id, URGENT)
        router = self._made.get(router_id)
        if state == ACTIVE and router is not None:
            self._announcements.soon(router)
            self._announcements.again(router)

    def _is_active(self, router: Router) -> bool:
        """Whether this host has what of a router only one has."""
        return router.ha is None or self._states.get(router.id) == ACTIVE

    def _speaks(self, router: Router) -> bool:
        """A distributed router is everywhere, but for a part of which the dataplane itself knows where it is."""
        return self._feed.state.get(KIND, router.id) is not None and (router.distributed or self._is_active(router))

    def _forget_ha(self, router_id: str) -> None:
        self._ha.forget(router_id)
        self._states.pop(router_id, None)
        self._conflicts.forget(router_id)

    def _conflict(self, router: Router) -> list[str]:
        now = asyncio.get_running_loop().time()
        active = self._states.get(router.id) == ACTIVE
        problem, look_again = self._conflicts.look(router, active=active, now=now)
        if problem and problem not in self._problems.get(router.id, ""):
            LOG.error("router %s %s", router.id, problem)
        if look_again is not None:
            asyncio.get_running_loop().call_later(look_again, self._put, router.id)
        return [problem] if problem else []

    # --- telling the server -----------------------------------------------------------------------------------------

    def _tell_failed(self, router_id: str) -> None:
        router = self._feed.state.get(KIND, router_id)
        if isinstance(router, Router) and self._queue.failures(router_id) == 1:
            active = self._states.get(router_id, ACTIVE) == ACTIVE
            self._floating.fails(router, self._made.get(router_id), active=active)

    def _problem(self, router_id: str, text: str | None) -> None:
        if text == self._problems.get(router_id):
            return
        if text is None:
            del self._problems[router_id]
        else:
            self._problems[router_id] = text
            self._feed.error(KIND, router_id, text)
        self._news()

    # --- doubts -----------------------------------------------------------------------------------------------------

    async def _doubt(self) -> None:
        """Every router is looked at once in an interval, one after the other: never all at once."""
        while True:
            wanted = [router.id for router in self._wanted()]
            if not wanted or not self._repair():
                await asyncio.sleep(1.0)
                continue
            for router_id in wanted:
                await asyncio.sleep(self._repair() / len(wanted))
                if not self._queue.is_working(router_id) and router_id in self._made:
                    self._queue.put(router_id, CLEANING)
                    self._doubted.add(router_id)

    async def _follow_switch(self) -> None:
        """A device of ours that is taken off the bridge is put back at once."""
        if self._switch is not None:
            subscribe(await wait_connected(self._switch), self._unplugged)

    def _unplugged(self, events: Events) -> None:
        gone = frozenset(
            event.interface.external_ids.get("iface-id", "")
            for event in events
            if event.what is What.REMOVED and is_service(event.interface.external_ids)
        )
        for router in self._wanted() if gone else ():
            if not gone.isdisjoint(router.port_ids):
                self._put(router.id, URGENT)
