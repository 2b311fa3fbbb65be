"""The daemons beside a router: radvd, which announces its prefixes, and keepalived, which says who is active. Those that
ask for prefixes outside are in `delegations`.

They outlive the agent. A changed configuration is loaded by a signal; a daemon is started again only when it has to be.
Which configuration a daemon has loaded is noted beside it, after the signal: an agent that was killed in between finds that
the daemon has yet to be told. A keepalived that is just starting loses the signal, or ends by it: it is told when ready.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time
from pathlib import Path

from neutrino.agent.l3.delegations import Delegations
from neutrino.agent.l3.moving import moving_part
from neutrino.agent.l3.names import router_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.advertising import render_radvd
from neutrino.agent.l3.parts.ha import render_keepalived
from neutrino.agent.port_holds import PortHolds
from neutrino.agent.supervisor import Supervisor
from neutrino.dataplane.process.api import Daemon, Process, Processes
from neutrino.model.routing import Router

ADVERTISING, HA = "ra", "ha_confs"
FIFO = "state"
READY = "Startup complete"  # says keepalived
YOUNG_SECONDS = 10.0  # older than that it is, whatever its log has
LOOK_SECONDS = 0.02


class RouterDaemons:
    def __init__(
        self, watch: Supervisor, processes: Processes, options: L3Options, port_holds: PortHolds | None = None
    ) -> None:
        self._watch = watch
        self._processes = processes
        self._options = options
        self.delegations = Delegations(watch, processes, options, port_holds)
        self._state = Path(options.state_path)

    def fifo(self, router_id: str) -> Path:
        """Where keepalived writes whether this host is active."""
        return self._state / HA / router_id / FIFO

    async def release(self, router: Router) -> None:
        """Before a router is made: a keepalived that it has no more takes along the addresses that it had set."""
        if moving_part(router, self._options) is None:
            await self._end_keepalived(router.id)

    async def ensure(self, router: Router, *, active: bool, complete: bool = True) -> None:
        """What should run for the router here.

        Only the active host of an HA router announces prefixes; a distributed router's ports are on every host, and each
        host announces them to its own instances.

        Not `complete`: the router is from the cache. Daemons that are missing are started; one that runs keeps its
        configuration, and ends only where a running keepalived says that the router is active elsewhere.
        """
        moving = moving_part(router, self._options)
        had_keepalived = await asyncio.to_thread(self.has_keepalived, router.id)
        if moving is not None:
            directory = self._state / HA / router.id
            directory.mkdir(parents=True, exist_ok=True)
            fifo = self.fifo(router.id)
            if not fifo.exists():
                os.mkfifo(fifo, 0o600)
            text = render_keepalived(moving, self._options, str(fifo))
            daemon = self._keepalived(router.id, moving.namespace)
            if not had_keepalived:
                Path(daemon.log_file).unlink(missing_ok=True)  # what is in it is then of this start
            await self._keep(daemon, self._keepalived_file(router.id), text, complete, heard_when=READY)
        announces = active or router.distributed
        text = render_radvd(router, self._options) if announces else ""
        if text:
            await self._keep(self._radvd(router.id), self._radvd_file(router.id), text, complete)
        elif complete or (had_keepalived and not announces):
            await self._end_radvd(router.id)

    def orphans(self) -> list[str]:
        """HA routers whose keepalived has ended without us, as with a host that was lost. Blocking."""
        directory = self._state / HA
        known = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return [router_id for router_id in known if not self.has_keepalived(router_id)]

    def has_keepalived(self, router_id: str) -> bool:
        """Whether it runs. Blocking."""
        daemon = self._keepalived(router_id)
        return self._processes.find(daemon.name, daemon.pid_file) is not None

    def find(self, router: Router, *, active: bool) -> list[str]:
        """What `ensure` would do, a line for each. Blocking."""
        wanted = []
        moving = moving_part(router, self._options)
        if moving is not None:
            text = render_keepalived(moving, self._options, str(self.fifo(router.id)))
            wanted.append((self._keepalived(router.id, moving.namespace), self._keepalived_file(router.id), text))
        if (active or router.distributed) and (text := render_radvd(router, self._options)):
            wanted.append((self._radvd(router.id), self._radvd_file(router.id), text))
        lines = []
        for daemon, path, text in wanted:
            if self._processes.find(daemon.name, daemon.pid_file) is None:
                lines.append(f"start {daemon.name}")
            elif _read(path) != text or _read(_loaded(path)) != _digest(text):
                lines.append(f"load {path}")
        return lines

    async def stop(self, router_id: str) -> None:
        await self._end_radvd(router_id)
        await self._end_keepalived(router_id)

    async def _keep(self, daemon: Daemon, path: Path, text: str, complete: bool, heard_when: str = "") -> None:
        before = await asyncio.to_thread(self._processes.find, daemon.name, daemon.pid_file)
        if before is not None and not complete and _read(path) != text:
            return  # what it has loaded may be newer than the cache
        await asyncio.to_thread(_write, path, text)
        process = await self._watch.keep(daemon)
        digest, loaded = _digest(text), _loaded(path)
        if process == before and _read(loaded) != digest:
            await until_it_hears(process, Path(daemon.log_file), heard_when)
            await asyncio.to_thread(self._processes.send, process, signal.SIGHUP)
        await asyncio.to_thread(_write, loaded, digest)

    async def _end_radvd(self, router_id: str) -> None:
        path = self._radvd_file(router_id)
        if path.exists():
            await self._watch.drop(f"radvd {router_id}", pid_file=self._radvd(router_id).pid_file)
            for each in (path, _loaded(path), *(Path(name) for name in self._radvd_files(router_id))):
                each.unlink(missing_ok=True)

    def _radvd_files(self, router_id: str) -> tuple[str, ...]:
        daemon = self._radvd(router_id)
        return daemon.log_file, daemon.pid_file, str(self._state / ADVERTISING / f"{router_id}.radvd.own.pid")

    async def _end_keepalived(self, router_id: str) -> None:
        directory = self._state / HA / router_id
        if directory.exists():
            await self._watch.drop(f"keepalived {router_id}", pid_file=self._keepalived(router_id).pid_file)
            for path in directory.iterdir():
                path.unlink(missing_ok=True)
            directory.rmdir()

    def _keepalived_file(self, router_id: str) -> Path:
        return self._state / HA / router_id / "keepalived.conf"

    def _radvd_file(self, router_id: str) -> Path:
        return self._state / ADVERTISING / f"{router_id}.radvd.conf"

    def _radvd(self, router_id: str) -> Daemon:
        directory = self._state / ADVERTISING
        own = str(directory / f"{router_id}.radvd.own.pid")
        return Daemon(
            name=f"radvd {router_id}",
            argv=("radvd", "-n", "-C", str(self._radvd_file(router_id)), "-p", own, "-m", "stderr"),
            namespace=router_namespace(router_id),
            pid_file=str(directory / f"{router_id}.radvd.pid"),
            log_file=str(directory / f"{router_id}.radvd.log"),
        )

    def _keepalived(self, router_id: str, namespace: str = "") -> Daemon:
        """Without a namespace it is only looked for, or ended."""
        directory = self._state / HA / router_id
        return Daemon(
            name=f"keepalived {router_id}",
            argv=(
                *("keepalived", "--dont-fork", "--vrrp", "--log-console", "--no-syslog"),
                *("--use-file", str(self._keepalived_file(router_id))),
                *("--pid", str(directory / "parent.pid"), "--vrrp_pid", str(directory / "vrrp.pid")),
            ),
            namespace=namespace,
            pid_file=str(directory / "keepalived.pid"),
            log_file=str(directory / "keepalived.log"),
        )


async def until_it_hears(process: Process, log: Path, word: str) -> None:
    """Until the daemon has said the word that it is ready, or must be, by its age."""
    while word and _age(process) < YOUNG_SECONDS and word not in (_read(log) or ""):
        await asyncio.sleep(LOOK_SECONDS)


def _age(process: Process) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK")


def _loaded(path: Path) -> Path:
    return path.with_name(f"{path.name}.loaded")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if _read(path) == text:
        return
    new = path.with_name(f"{path.name}.new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(path)
