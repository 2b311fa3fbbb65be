"""Runs keepalived for each HA router, in the namespace that fails over. It outlives the agent.

A keepalived that Neutron's agent has started is adopted as long as it lives: ending it is a failover. It reloads our
configuration, which is written to its own file too (`-f` on its command line), without an address or a route being removed.
When it exits, ours is started like any other daemon.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from neutrino import daemon_files
from neutrino.agent.l3.config import L3Options, as_configured
from neutrino.agent.l3.services.api import RouterService, Serving
from neutrino.agent.l3.services.fifo import Fifo
from neutrino.agent.l3.services.keepalived.render import (
    Agreement,
    Failover,
    agreement_of,
    read_agreement,
    render_keepalived,
)
from neutrino.agent.leftovers.recognise import arguments
from neutrino.agent.runtime.context import PortHolds
from neutrino.agent.runtime.supervisor import Service, Supervisor, list_directory
from neutrino.dataplane.process.api import Daemon, ForeignProcess
from neutrino.model.routing import Router

FIFO = "notify"  # Neutron has a file `state` in its directory of a router, which may be this one
ADOPTED_FILE = "adopted"  # has the path of the configuration that an adopted keepalived was started with
NEUTRON_HA_CONFS = "/var/lib/neutron/ha_confs"
CHECK = "check_gateways"  # a copy, as the directory of this package may be gone after an upgrade
CHECK_TEXT = (resources.files(__package__) / f"{CHECK}.sh").read_text()
UNREACHED = "unreached"  # the script's: this host is active, and no gateway answers
LOG = logging.getLogger(__name__)
READY = "Startup complete"  # in keepalived's log: before it, a SIGHUP is lost or ends it
WIRED_SECONDS = 10.0  # for a port to be wired; after that keepalived is started anyway: the switch may be down for long


@dataclass(frozen=True)
class OtherKeepaliveds:
    """Those of another agent. Blocking."""

    find: Callable[[Router], tuple[bool, ForeignProcess | None]] = lambda router: (False, None)
    """Whether a router's namespaces are another agent's, and its keepalived there."""
    end: Callable[[str], None] = lambda namespace: None


@dataclass
class Keepalived(RouterService):
    supervisor: Supervisor
    options: L3Options
    others: OtherKeepaliveds = OtherKeepaliveds()
    port_holds: PortHolds | None = None
    state_changed: Callable[[str, Failover], tuple[str, ...]] = lambda router_id, failover: ()
    """The command that keepalived runs when its state changes, by router."""
    notify: Callable[[str, Iterable[str]], None] = lambda router_id, lines: None  # of states; set by the role
    _others_files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By router: configurations of another agent's keepalived, of which we have none yet."""
    _fifos: dict[str, Fifo] = field(default_factory=dict)  # by router

    @property
    def _base(self) -> Path:
        return Path(self.options.ha_confs_path or f"{self.options.state_path}/ha_confs")

    def fifo(self, router_id: str) -> Path:
        """keepalived writes its VRRP state here."""
        return self._base / router_id / FIFO

    def orphans(self) -> list[str]:
        """HA routers whose keepalived has exited without us, as after a reboot of the host. Blocking.

        The directory may be Neutron's, which has other routers too: one whose keepalived is not adopted is not ours.
        """
        return [
            router_id
            for router_id in list_directory(self._base)
            if self._is_ours(router_id) and not self.is_running(router_id)
        ]

    def _is_ours(self, router_id: str) -> bool:
        pid_file = Path(self._daemon(router_id).pid_file)
        return any(path.name.startswith(pid_file.name) for path in pid_file.parent.glob("*"))

    def is_running(self, router_id: str) -> bool:
        """Blocking."""
        return self.supervisor.is_running(self._daemon(router_id))

    # --- one router -------------------------------------------------------------------------------------------------

    async def release(self, router: Router, serving: Serving) -> None:
        """Stop a keepalived that the router no longer has, which removes the addresses it set."""
        if router.ha is None:
            await self._stop(router.id)

    def adopt(self, router: Router) -> None:
        """Have another agent's keepalived of an HA router as ours. Changes nothing that it does. Blocking."""
        is_others, process = self.others.find(router) if router.ha is not None else (False, None)
        path = next(arguments(process.command, "-f", "--use-file"), "") if process is not None else ""
        # Also where the keepalived has exited: its group still has the agreement of the file.
        self._others_files[router.id] = (path, f"{NEUTRON_HA_CONFS}/{router.id}/keepalived.conf") if is_others else ()
        if process is not None and path and not self.is_running(router.id):
            daemon_files.write(self._base / router.id / ADOPTED_FILE, path)
            self.supervisor.processes.adopt(self._daemon(router.id), process)
            LOG.info("router %s: keepalived (%d) of another agent is adopted", router.id, process.pid)

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        if serving.failover is None or router.ha is None:
            return []
        if router.id not in self._fifos:
            self._fifos[router.id] = Fifo(self.fifo(router.id), functools.partial(self.notify, router.id))
        # A keepalived that receives no advertisements becomes active: its port is wired before it is started.
        if self.port_holds is not None and not await asyncio.to_thread(self.is_running, router.id):
            await self.port_holds.wait_wired(router.ha.interface.id, WIRED_SECONDS)
        await self.supervisor.ensure(self._service(router.id, serving.failover), complete=serving.synced)
        problems = self._agreement_problem, self._gateway_problem
        return [text for text in [await asyncio.to_thread(find, router.id) for find in problems] if text]

    async def stop(self, router_id: str, *, moved: bool) -> None:
        await self._stop(router_id)

    def find(self, router: Router, serving: Serving) -> list[str]:
        if serving.failover is None:
            return []
        _, other = self.others.find(router)
        if other is not None and not self.is_running(router.id):
            return [f"adopt keepalived ({other.pid}) of another agent, and reload it"]
        return self.supervisor.plan(self._service(router.id, serving.failover))

    async def close(self) -> None:
        for fifo in self._fifos.values():
            fifo.close()

    async def _stop(self, router_id: str) -> None:
        if router_id in self._fifos:
            self._fifos.pop(router_id).close()
        directory, daemon = self._base / router_id, self._daemon(router_id)
        self._others_files.pop(router_id, None)
        if directory.exists():
            await self.supervisor.stop(daemon.name, pid_file=daemon.pid_file)
            for path in directory.iterdir():
                path.unlink(missing_ok=True)
            directory.rmdir()

    # --- what the hosts of a router agree on ------------------------------------------------------------------------

    def _agreement(self, router_id: str) -> Agreement:
        """The interval and authentication of the router's VRRP advertisements on this host.

        A keepalived ignores advertisements that differ from its own in these, so that two hosts with different ones are
        both active: a group keeps what it was started with, whatever the options have become. Blocking.
        """
        files = (str(self._file(router_id)), *self._others_files.get(router_id, ()))
        known = (read_agreement(daemon_files.read(path) or "") for path in files)
        return next((each for each in known if each is not None), agreement_of(self.options))

    def _agreement_problem(self, router_id: str) -> str:
        """What to do where the options differ from what is kept; empty if they do not. Blocking."""
        kept, options = self._agreement(router_id), agreement_of(self.options)
        if kept.interval != options.interval:
            intervals = as_configured(kept.interval), as_configured(options.interval)
            differs = "advert_int {}, and ha_vrrp_advert_int is {}".format(*intervals)
        elif kept.authentication != options.authentication:
            differs = "another password or type of authentication than ha_vrrp_auth_password and ha_vrrp_auth_type"
        else:
            return ""
        return (
            f"keepalived goes on with {differs}: all hosts of a router need the same, else each is active. Set the option "
            "to the value in keepalived.conf; or, for the new value, set it on all hosts, and disable and enable the router"
        )

    def _gateway_problem(self, router_id: str) -> str:
        """Blocking."""
        if not self.options.ha_vrrp_health_check_interval or not daemon_files.read(self._base / router_id / UNREACHED):
            return ""
        return "is active here, and its gateways do not answer: check the link of the external network on this host"

    # --- the daemon -------------------------------------------------------------------------------------------------

    def _service(self, router_id: str, failover: Failover) -> Service:
        daemon = self._daemon(router_id, failover.namespace)
        agreement = self._agreement(router_id)
        kind, password = agreement.authentication
        options = replace(
            self.options,
            ha_vrrp_advert_int=agreement.interval,
            ha_vrrp_auth_type=kind,
            ha_vrrp_auth_password=password,
        )
        check = str(self._base / router_id / CHECK)
        state_changed = self.state_changed(router_id, failover)
        text = render_keepalived(failover, options, str(self.fifo(router_id)), check, state_changed)
        scripts = {check: CHECK_TEXT} if check in text else {}
        adopted = self._base / router_id / ADOPTED_FILE
        paths = {str(self._file(router_id)), daemon_files.read(adopted) or str(self._file(router_id))}

        def before_start() -> None:
            Path(daemon.log_file).unlink(missing_ok=True)  # a line READY in it is then of this start
            if adopted.exists() or self._others_files.get(router_id):
                self.others.end(failover.namespace)  # of one that was killed, its child may go on
                adopted.unlink(missing_ok=True)

        files = {**dict.fromkeys(sorted(paths), text), **scripts}
        return Service(daemon, files, reloadable_after=READY, before_start=before_start)

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
