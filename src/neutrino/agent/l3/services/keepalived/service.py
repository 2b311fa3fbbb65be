"""Runs keepalived for each HA router, in the namespace that fails over. It outlives the agent."""

import asyncio
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from neutrino import daemon_files
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.services.api import RouterService, Serving
from neutrino.agent.l3.services.fifo import Fifo
from neutrino.agent.l3.services.keepalived.render import Failover, advertisement_interval, render_keepalived
from neutrino.agent.runtime.context import PortHolds
from neutrino.agent.runtime.supervisor import Service, Supervisor, list_directory
from neutrino.dataplane.process.api import Daemon
from neutrino.model.routing import Router

FIFO = "state"
READY = "Startup complete"  # in keepalived's log: before it, a SIGHUP is lost or ends it
WIRED_SECONDS = 10.0  # for a port to be wired; after that keepalived is started anyway: the switch may be down for long


@dataclass
class Keepalived(RouterService):
    supervisor: Supervisor
    options: L3Options
    others_files: Callable[[Router], list[str]] = lambda router: []  # configurations of another agent's keepalived
    port_holds: PortHolds | None = None
    notify: Callable[[str, Iterable[str]], None] = lambda router_id, lines: None  # of states; set by the role
    _taken: dict[str, int] = field(default_factory=dict)  # by router: the interval of a keepalived that ours replaces
    _fifos: dict[str, Fifo] = field(default_factory=dict)  # by router

    @property
    def _base(self) -> Path:
        return Path(self.options.ha_confs_path or f"{self.options.state_path}/ha_confs")

    def fifo(self, router_id: str) -> Path:
        """keepalived writes its VRRP state here."""
        return self._base / router_id / FIFO

    def orphans(self) -> list[str]:
        """HA routers whose keepalived has exited without us, as after a reboot of the host. Blocking."""
        return [router_id for router_id in list_directory(self._base) if not self.is_running(router_id)]

    def is_running(self, router_id: str) -> bool:
        """Blocking."""
        return self.supervisor.is_running(self._daemon(router_id))

    # --- one router -------------------------------------------------------------------------------------------------

    async def release(self, router: Router, serving: Serving) -> None:
        """Stop a keepalived that the router no longer has, which removes the addresses it set.

        Of another agent's keepalived, which ends when the router is applied, the interval is kept.
        """
        if router.ha is None:
            await self._stop(router.id)
        else:
            await asyncio.to_thread(self._take_interval, router)

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        if serving.failover is None or router.ha is None:
            return []
        if router.id not in self._fifos:
            self._fifos[router.id] = Fifo(self.fifo(router.id), functools.partial(self.notify, router.id))
        # A keepalived that receives no advertisements becomes active: its port is wired before it is started.
        if self.port_holds is not None and not await asyncio.to_thread(self.is_running, router.id):
            await self.port_holds.wait_wired(router.ha.interface.id, WIRED_SECONDS)
        await self.supervisor.ensure(self._service(router.id, serving.failover), complete=serving.synced)
        problem = await asyncio.to_thread(self._interval_problem, router.id)
        return [problem] if problem else []

    async def stop(self, router_id: str, *, moved: bool) -> None:
        await self._stop(router_id)

    def find(self, router: Router, serving: Serving) -> list[str]:
        if serving.failover is None:
            return []
        return self.supervisor.plan(self._service(router.id, serving.failover))

    async def close(self) -> None:
        for fifo in self._fifos.values():
            fifo.close()

    async def _stop(self, router_id: str) -> None:
        if router_id in self._fifos:
            self._fifos.pop(router_id).close()
        directory, daemon = self._base / router_id, self._daemon(router_id)
        self._taken.pop(router_id, None)
        if directory.exists():
            await self.supervisor.stop(daemon.name, pid_file=daemon.pid_file)
            for path in directory.iterdir():
                path.unlink(missing_ok=True)
            directory.rmdir()

    # --- the interval of advertisements -----------------------------------------------------------------------------

    def _take_interval(self, router: Router) -> None:
        known = (advertisement_interval(daemon_files.read(path) or "") for path in self.others_files(router))
        first = next((interval for interval in known if interval is not None), None)
        if first is not None:
            self._taken[router.id] = first

    def _interval(self, router_id: str) -> int:
        """Seconds between the router's VRRP advertisements on this host.

        A keepalived ignores advertisements with another interval than its own, so that two hosts with different ones are
        both active: a group keeps the interval that it was started with, whatever the option has become. Blocking.
        """
        known = advertisement_interval(daemon_files.read(self._file(router_id)) or "")
        if known is None:
            known = self._taken.get(router_id)
        return known if known is not None else self.options.ha_vrrp_advert_int

    def _interval_problem(self, router_id: str) -> str:
        """What to do where the option differs from the interval that is kept; empty if it does not. Blocking."""
        kept, option = self._interval(router_id), self.options.ha_vrrp_advert_int
        if kept == option:
            return ""
        return (
            f"keepalived goes on with advert_int {kept}, and ha_vrrp_advert_int is {option}: all hosts of a router need "
            f"the same, else each is active. Set ha_vrrp_advert_int = {kept}; or, for {option}, set it on all hosts, and "
            "disable and enable the router"
        )

    # --- the daemon -------------------------------------------------------------------------------------------------

    def _service(self, router_id: str, failover: Failover) -> Service:
        daemon = self._daemon(router_id, failover.namespace)
        options = replace(self.options, ha_vrrp_advert_int=self._interval(router_id))
        text = render_keepalived(failover, options, str(self.fifo(router_id)))
        # The log is emptied: a line READY in it then is of this start.
        clear = Path(daemon.log_file).unlink
        return Service(
            daemon,
            {str(self._file(router_id)): text},
            reloadable_after=READY,
            before_start=lambda: clear(missing_ok=True),
        )

    def _file(self, router_id: str) -> Path:
        return self._base / router_id / "keepalived.conf"

    def _daemon(self, router_id: str, namespace: str = "") -> Daemon:
        """Without a namespace: only to look for it, or to stop it."""
        directory = self._base / router_id
        return Daemon(
            name=f"keepalived {router_id}",
            argv=(
                *("keepalived", "--dont-fork", "--vrrp", "--log-console", "--no-syslog"),  # VRRP alone, no checkers
                *("--use-file", str(self._file(router_id))),
                *("--pid", str(directory / "parent.pid"), "--vrrp_pid", str(directory / "vrrp.pid")),
            ),
            namespace=namespace,
            pid_file=str(directory / "keepalived.pid"),
            log_file=str(directory / "keepalived.log"),
        )
