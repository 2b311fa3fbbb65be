"""Runs conntrackd for each HA router, in the namespace that fails over. It outlives the agent.

keepalived runs `sync_connections.sh` when the state of this host changes, so that connections are handed over without the
agent; the agent runs it when conntrackd has started, by which one that was killed has the connections again.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from neutrino import daemon_files
from neutrino.agent.l3.config import CONTROL_SOCKET, L3Options
from neutrino.agent.l3.names import HA, device
from neutrino.agent.l3.services.api import RouterService, Serving
from neutrino.agent.l3.services.conntrackd.render import render_conntrackd, sync_command
from neutrino.agent.l3.services.keepalived.render import Failover
from neutrino.agent.runtime.supervisor import Service, Supervisor
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.dataplane.program import ProgramError
from neutrino.model.routing import Router

CONFIGURATION = "conntrackd.conf"
SCRIPT = "sync_connections"  # a copy, as the directory of this package may be gone after an upgrade
SCRIPT_TEXT = (resources.files(__package__) / f"{SCRIPT}.sh").read_text()
LOCK = "conntrackd.lock"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class InNamespace:
    """Calls in a namespace. Blocking."""

    run: Callable[[str, Sequence[str]], object]  # a command; ProgramError, NetlinkError
    device_index: Callable[[str, str], int]  # of a device, by its name; OSError, NetlinkError


@dataclass
class Conntrackd(RouterService):
    supervisor: Supervisor
    options: L3Options
    inside: InNamespace

    def command(self, router_id: str, failover: Failover) -> tuple[str, ...]:
        """What keepalived runs when its state changes; empty where connections are not handed over."""
        if not self.options.ha_conntrackd_enabled:
            return ()
        return sync_command(failover, str(self._path(router_id, SCRIPT)), str(self._path(router_id, CONFIGURATION)))

    async def release(self, router: Router, serving: Serving) -> None:
        if router.ha is None:
            await self._stop(router.id)

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        if serving.failover is None or not self.options.ha_conntrackd_enabled:
            if serving.may_stop:
                await self._stop(router.id)
            return []
        try:
            service = await asyncio.to_thread(self._service, router.id, serving.failover)
            await self.supervisor.ensure(service, complete=serving.synced)
        except (ProcessError, OSError, NetlinkError) as error:  # the router works and fails over without it
            return [f"connections are not handed over when it fails over: {error}"]
        return []

    async def stop(self, router_id: str, *, moved: bool) -> None:
        await self._stop(router_id)

    def find(self, router: Router, serving: Serving) -> list[str]:
        if serving.failover is None or not self.options.ha_conntrackd_enabled:
            return []
        try:
            return self.supervisor.plan(self._service(router.id, serving.failover))
        except (OSError, NetlinkError):  # its device does not exist yet
            return [f"start {_name(router.id)}"]

    async def _stop(self, router_id: str) -> None:
        # The configuration shows that one was started: with the option off, no router needs a look at processes.
        if not self._path(router_id, CONFIGURATION).exists():
            return
        await self.supervisor.stop(_name(router_id), pid_file=str(self._path(router_id, "conntrackd.pid")))
        for pattern in ("conntrackd.*", SCRIPT):
            for path in self._path(router_id, "").glob(pattern):
                path.unlink(missing_ok=True)

    def _path(self, router_id: str, name: str) -> Path:
        base = Path(self.options.ha_confs_path or f"{self.options.state_path}/ha_confs")
        return base / router_id / name

    def _service(self, router_id: str, failover: Failover) -> Service:
        lock, control, configuration, script = (
            self._path(router_id, name) for name in (LOCK, CONTROL_SOCKET, CONFIGURATION, SCRIPT)
        )
        text = render_conntrackd(failover, self.options, str(lock), str(control))
        name = device(HA, failover.membership.interface.id)
        index = self.inside.device_index(failover.namespace, name)

        def prepare() -> None:
            daemon_files.write(script, SCRIPT_TEXT)
            for path in (lock, control):  # of one that was killed: the next one would not start
                path.unlink(missing_ok=True)

        def synchronise() -> None:
            try:
                self.inside.run(failover.namespace, self.command(router_id, failover))
            except (ProgramError, NetlinkError) as error:
                LOG.warning("router %s: its connections are not synchronised yet: %s", router_id, error)

        daemon = Daemon(
            name=_name(router_id),
            argv=("conntrackd", "-C", str(configuration)),
            namespace=failover.namespace,
            pid_file=str(self._path(router_id, "conntrackd.pid")),
            log_file=str(self._path(router_id, "conntrackd.log")),
            # conntrackd cannot reload: another configuration makes another digest, and so a restart. So does a device
            # that was created anew, which the daemon's sockets are not bound to.
            environment={
                "NEUTRINO_CONFIGURATION": hashlib.blake2b(f"{index} {text}".encode(), digest_size=8).hexdigest()
            },
        )
        return Service(daemon, {str(configuration): text}, before_start=prepare, after_start=synchronise)


def _name(router_id: str) -> str:
    return f"conntrackd {router_id}"
