"""Runs radvd for each router with IPv6 subnets. It outlives the agent."""

from dataclasses import dataclass
from pathlib import Path

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import router_namespace
from neutrino.agent.l3.services.api import RouterService, Serving
from neutrino.agent.l3.services.radvd.render import render_radvd
from neutrino.agent.runtime.supervisor import Service, Supervisor
from neutrino.dataplane.process.api import Daemon
from neutrino.model.routing import Router


@dataclass
class Radvd(RouterService):
    supervisor: Supervisor
    options: L3Options

    @property
    def _base(self) -> Path:
        return Path(self.options.ra_confs or f"{self.options.state_path}/ra")

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        service = self._service(router, serving)
        if service is not None:
            await self.supervisor.ensure(service, complete=serving.synced)
        elif serving.synced or (serving.standby and not router.distributed):
            # On a standby host it must not withdraw the default route that the active host advertises.
            await self._stop(router.id, kill=bool(render_radvd(router, self.options)))
        return []

    async def stop(self, router_id: str, *, moved: bool) -> None:
        await self._stop(router_id, kill=moved)  # another host advertises it by now

    def find(self, router: Router, serving: Serving) -> list[str]:
        service = self._service(router, serving)
        return self.supervisor.plan(service) if service is not None else []

    async def _stop(self, router_id: str, *, kill: bool) -> None:
        """Without `kill` it withdraws the default route of the instances."""
        daemon = self._daemon(router_id)
        # The configuration shows that one was started: most routers have no IPv6, and need no look at processes.
        if (self._base / f"{router_id}.radvd.conf").exists():
            await self.supervisor.stop(daemon.name, pid_file=daemon.pid_file, kill=kill)
            for path in self._base.glob(f"{router_id}.radvd.*"):
                path.unlink(missing_ok=True)

    def _service(self, router: Router, serving: Serving) -> Service | None:
        """None where the router does not need it on this host."""
        # A distributed router's ports are on every host, and each host sends RAs to its own instances.
        text = render_radvd(router, self.options) if serving.active or router.distributed else ""
        if not text:
            return None
        path = str(self._base / f"{router.id}.radvd.conf")
        mode = 0o644 if self.options.radvd_user else 0o600  # with a user of its own, it reloads the file as that user
        return Service(self._daemon(router.id), {path: text}, mode=mode, kill=True)

    def _daemon(self, router_id: str) -> Daemon:
        base = str(self._base / f"{router_id}.radvd")
        user = ("-u", self.options.radvd_user) if self.options.radvd_user else ()
        return Daemon(
            name=f"radvd {router_id}",
            argv=("radvd", "-n", "-C", f"{base}.conf", "-p", f"{base}.own.pid", "-m", "stderr", *user),
            namespace=router_namespace(router_id),
            pid_file=f"{base}.pid",
            log_file=f"{base}.log",
        )
