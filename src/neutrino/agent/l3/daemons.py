"""The daemons of a router: radvd sends its RAs, keepalived elects the active host of an HA router. And named pipes.

Both daemons run in the router's namespace and outlive the agent; the supervisor starts, reloads and respawns them. The
DHCPv6 clients of delegated prefixes are in `delegations`.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import router_namespace
from neutrino.agent.l3.parts.ha import Failover, render_keepalived
from neutrino.agent.l3.parts.ra import render_radvd
from neutrino.agent.supervisor import Service, Supervisor
from neutrino.dataplane.process.api import Daemon
from neutrino.model.routing import Router

ADVERTISING, HA = "ra", "ha_confs"
FIFO = "state"
READY = "Startup complete"  # in keepalived's log: before it, a SIGHUP is lost or ends it


@dataclass
class RouterDaemons:
    supervisor: Supervisor
    options: L3Options

    @property
    def _state(self) -> Path:
        return Path(self.options.state_path)

    def fifo(self, router_id: str) -> Path:
        """keepalived writes its VRRP state here."""
        return self._state / HA / router_id / FIFO

    async def release(self, router: Router) -> None:
        """Before the router is applied: stop a keepalived that it no longer has, which removes the addresses it set."""
        if router.ha is None:
            await self._stop_keepalived(router.id)

    async def ensure(self, router: Router, failover: Failover | None, *, active: bool, complete: bool = True) -> None:
        """Start, reload or stop the router's daemons.

        Not `complete`: the router is from the cache, so that missing daemons are started and running ones stay as they
        are; radvd stops only where a running keepalived proves another host active.
        """
        had_keepalived = await asyncio.to_thread(self.has_keepalived, router.id)
        keepalived, radvd = self._services(router, failover, active)
        for service in (keepalived, radvd):
            if service is not None:
                await self.supervisor.ensure(service, complete=complete)
        if radvd is None and (complete or (had_keepalived and not _sends_ras(router, active))):
            await self._stop_radvd(router.id)

    def find(self, router: Router, failover: Failover | None, *, active: bool) -> list[str]:
        """What `ensure` would start or reload, a line for each. Blocking."""
        services = filter(None, self._services(router, failover, active))
        return [line for each in services for line in self.supervisor.plan(each)]

    def orphans(self) -> list[str]:
        """HA routers whose keepalived has exited without us, as after a reboot of the host. Blocking."""
        directory = self._state / HA
        known = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return [router_id for router_id in known if not self.has_keepalived(router_id)]

    def has_keepalived(self, router_id: str) -> bool:
        """Whether it is running. Blocking."""
        return self.supervisor.is_running(self._keepalived(router_id))

    async def stop(self, router_id: str) -> None:
        await self._stop_radvd(router_id)
        await self._stop_keepalived(router_id)

    async def _stop_radvd(self, router_id: str) -> None:
        directory, daemon = self._state / ADVERTISING, self._radvd(router_id)
        # The configuration shows that one was started: most routers have no IPv6, and need no look at processes.
        if (directory / f"{router_id}.radvd.conf").exists():
            await self.supervisor.stop(daemon.name, pid_file=daemon.pid_file)
            for path in directory.glob(f"{router_id}.radvd.*"):
                path.unlink(missing_ok=True)

    async def _stop_keepalived(self, router_id: str) -> None:
        directory, daemon = self._state / HA / router_id, self._keepalived(router_id)
        if directory.exists():
            await self.supervisor.stop(daemon.name, pid_file=daemon.pid_file)
            for path in directory.iterdir():
                path.unlink(missing_ok=True)
            directory.rmdir()

    def _services(
        self, router: Router, failover: Failover | None, active: bool
    ) -> tuple[Service | None, Service | None]:
        """keepalived and radvd; None where the router does not need it on this host."""
        text = render_radvd(router, self.options) if _sends_ras(router, active) else ""
        path = str(self._state / ADVERTISING / f"{router.id}.radvd.conf")
        keepalived = self._keepalived_service(router.id, failover) if failover is not None else None
        return keepalived, Service(self._radvd(router.id), {path: text}) if text else None

    def _radvd(self, router_id: str) -> Daemon:
        base = str(self._state / ADVERTISING / f"{router_id}.radvd")
        return Daemon(
            name=f"radvd {router_id}",
            argv=("radvd", "-n", "-C", f"{base}.conf", "-p", f"{base}.own.pid", "-m", "stderr"),
            namespace=router_namespace(router_id),
            pid_file=f"{base}.pid",
            log_file=f"{base}.log",
        )

    def _keepalived_service(self, router_id: str, failover: Failover) -> Service:
        daemon = self._keepalived(router_id, failover.namespace)
        path = str(self._state / HA / router_id / "keepalived.conf")
        text = render_keepalived(failover, self.options, str(self.fifo(router_id)))
        # The log is emptied: a line READY in it then is of this start.
        clear = Path(daemon.log_file).unlink
        return Service(daemon, {path: text}, reloadable_after=READY, before_start=lambda: clear(missing_ok=True))

    def _keepalived(self, router_id: str, namespace: str = "") -> Daemon:
        """Without a namespace: only to look for it, or to stop it."""
        directory = self._state / HA / router_id
        return Daemon(
            name=f"keepalived {router_id}",
            argv=(
                *("keepalived", "--dont-fork", "--vrrp", "--log-console", "--no-syslog"),
                *("--use-file", str(directory / "keepalived.conf")),
                *("--pid", str(directory / "parent.pid"), "--vrrp_pid", str(directory / "vrrp.pid")),
            ),
            namespace=namespace,
            pid_file=str(directory / "keepalived.pid"),
            log_file=str(directory / "keepalived.log"),
        )


def _sends_ras(router: Router, active: bool) -> bool:
    """A distributed router's ports are on every host, and each host sends RAs to its own instances."""
    return active or router.distributed


class Fifo:
    """A named pipe that daemons write lines to, opened at once. `notify` gets the complete lines of each read."""

    def __init__(self, path: Path, notify: Callable[[list[str]], None]) -> None:
        self._notify = notify
        self._partial_line = ""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():  # a writer would create a regular file
            os.mkfifo(path, 0o600)
        # Opened for writing too: with no writer left, a fifo is readable (end of file) all the time.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 4096).decode(errors="replace")
        except BlockingIOError:
            return
        *lines, self._partial_line = (self._partial_line + data).split("\n")
        self._notify(lines)
