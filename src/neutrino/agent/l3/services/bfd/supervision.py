"""BFD sessions of this host's routers, as the L3 role sees them: it writes which are wanted, and reads which are lost.

The speaker is one process for all routers, a daemon of the supervisor: it runs while any router of the host
has sessions, and outlives the agent. The states of sessions are in files, so an agent that was restarted renders the same
default routes as the one before.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from neutrino import daemon_files
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extensions.bfd import is_supervised, wanted_sessions
from neutrino.agent.l3.services.bfd import files
from neutrino.agent.l3.services.bfd.files import SessionState, WantedSessions
from neutrino.agent.l3.services.daemons import Fifo
from neutrino.agent.runtime.supervisor import Service, Supervisor, list_directory
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
DIRECTORY = "bfd"
NAME = "bfd"


@dataclass
class BfdSessions:
    supervisor: Supervisor
    options: L3Options
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)  # the speaker is that of all routers
    _known: dict[str, tuple[SessionState, ...]] = field(default_factory=dict, init=False)  # by router, as last reported

    @property
    def _base(self) -> Path:
        return Path(self.options.state_path) / DIRECTORY

    def listen(self, notify: Callable[[str], None]) -> Fifo:
        """`notify` gets routers whose sessions have changed."""

        def read(lines: list[str]) -> None:
            for router_id in {line for line in lines if line}:
                notify(router_id)

        return Fifo(self._base / files.NEWS, read)

    def lost_next_hops(self, router: Router) -> frozenset[tuple[str, str]]:
        """Device and address of each. Blocking."""
        return frozenset((each.device, each.peer) for each in self._states(router) if each.is_lost)

    def counts(self) -> dict[str, int]:
        """The number of sessions of this host by state, and of those that are lost."""
        found = [each for states in self._known.values() for each in states]
        lost = sum(each.is_lost for each in found)
        return {**Counter(each.state for each in found), **({"lost": lost} if lost else {})}

    # --- one router -------------------------------------------------------------------------------------------------

    async def ensure(self, router: Router, *, active: bool, complete: bool = True) -> list[str]:
        """After the router is applied: have its sessions where it is active. Gives its lost next hops as problems.

        Not `complete`: the router is from the cache. Missing sessions are added, others stay as they are.
        """
        wanted = wanted_sessions(router, self.options) if active else None
        if wanted is None:
            if complete:
                await self.stop(router.id)
            return []
        async with self._lock:
            await asyncio.to_thread(self._write, router.id, wanted, complete)
            try:
                await self.supervisor.ensure(self._service(), complete=complete)
            except (ProcessError, OSError) as error:  # the router works without it
                return [f"next hops are not supervised: {error}"]
        states = await asyncio.to_thread(self._states, router)
        self._log(router.id, states)
        lost = [each for each in states if each.is_lost]
        return [f"next hop {each.peer} on {each.device} is lost: its BFD session is {each.state}" for each in lost]

    async def stop(self, router_id: str) -> None:
        """End the router's sessions, and the speaker with the last one."""
        self._known.pop(router_id, None)
        path = self._base / files.WANTED / router_id
        if not path.exists():  # most routers have none
            return
        async with self._lock:
            path.unlink(missing_ok=True)
            (self._base / files.STATES / router_id).unlink(missing_ok=True)
            if not self._routers():
                await self.supervisor.stop(NAME, pid_file=self._service().daemon.pid_file)

    def find(self, router: Router, *, active: bool) -> list[str]:
        """What `ensure` would change, a line for each. Blocking."""
        wanted = wanted_sessions(router, self.options) if active else None
        there = daemon_files.read(self._base / files.WANTED / router.id)
        if wanted is None:
            return [f"end the BFD sessions of router {router.id}"] if there is not None else []
        lines = self.supervisor.plan(self._service())
        return lines if there == files.encode(wanted) else [*lines, f"set the BFD sessions of router {router.id}"]

    def _write(self, router_id: str, wanted: WantedSessions, complete: bool) -> None:
        path, text = self._base / files.WANTED / router_id, files.encode(wanted)
        there = daemon_files.read(path)
        if there is None or (complete and there != text):
            files.replace(path, text)

    def _states(self, router: Router) -> tuple[SessionState, ...]:
        if not is_supervised(router) or not (self._base / files.WANTED / router.id).exists():
            return ()
        return files.read_states(self._base / files.STATES / router.id)

    def _routers(self) -> list[str]:
        return list_directory(self._base / files.WANTED)

    def _log(self, router_id: str, states: tuple[SessionState, ...]) -> None:
        before = {(each.device, each.peer): each.is_lost for each in self._known.get(router_id, ())}
        for each in states:
            if each.is_lost != before.get((each.device, each.peer), False):
                level, what = (logging.WARNING, "lost") if each.is_lost else (logging.INFO, "back")
                LOG.log(level, "router %s: next hop %s on %s is %s", router_id, each.peer, each.device, what)
        self._known[router_id] = states

    def _service(self) -> Service:
        directory = self._base.absolute()
        daemon = Daemon(
            name=NAME,
            argv=(
                *(sys.executable, "-m", "neutrino.cli.main", "bfd"),
                *("--directory", str(directory), "--format", files.FORMAT),
            ),
            pid_file=str(directory / "pid"),
            log_file=str(directory / "log"),
        )
        return Service(daemon)
