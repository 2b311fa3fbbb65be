"""The daemons of a router: radvd sends its RAs, keepalived elects the active host of an HA router, and DHCPv6 clients
(dibbler) get delegated prefixes from the DHCPv6 server of the external network.

All run in the router's namespace and outlive the agent; the supervisor starts, reloads and respawns them.

Each DHCPv6 client has a directory, state_path/pd/ROUTER/SUBNET, with its configuration, its own state and the prefix
that it holds. The prefix is compared with what the server knows whenever the router is reconciled, so that a lost report
is repeated.

A client that stops because its subnet or the gateway was deleted releases the prefix. It sends the release through the
gateway's port, which stays wired until then (`PortHolds`). A client that stops because the router moves to another host
is killed instead: the client there has the same DUID, and must keep the prefix.
"""

import asyncio
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from neutrino import daemon_files, private
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extensions import delegation as pd
from neutrino.agent.l3.extensions.ha import Failover, advertisement_interval, render_keepalived
from neutrino.agent.l3.extensions.ra import render_radvd
from neutrino.agent.l3.names import gateway_namespace, router_namespace
from neutrino.agent.runtime.context import PortHolds
from neutrino.agent.runtime.supervisor import Service, Supervisor, list_directory
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.model.routing import Delegation, Router

LOG = logging.getLogger(__name__)
SUBNET = "subnet"  # the kind of object that a prefix is reported of
DIRECTORY = "pd"
CONFIGURATION = "client.conf"  # the name is fixed by dibbler
# Removed before a start. dibbler refuses to start while its pid file names a live process, which may be any by now; and
# from a remembered prefix it sends a renewal from an address that no device has.
STALE_STATE = ("client.pid", "client-AddrMgr.xml")
FIFO = "state"
READY = "Startup complete"  # in keepalived's log: before it, a SIGHUP is lost or ends it


class Fifo:
    """A named pipe that daemons write lines to, opened at once. `notify` gets the complete lines of each read."""

    def __init__(self, path: Path, notify: Callable[[list[str]], None]) -> None:
        self._notify = notify
        self._partial_line = ""
        private.make_directory(path.parent)
        # Opened for writing too: with no writer left, a fifo is readable (end of file) all the time.
        self._descriptor = daemon_files.open_fifo(path)
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


@dataclass
class RouterDaemons:
    supervisor: Supervisor
    options: L3Options
    _taken: dict[str, int] = field(default_factory=dict)  # by router: the interval of a keepalived that ours replaces

    @property
    def _ha(self) -> Path:
        return Path(self.options.ha_confs_path or f"{self.options.state_path}/ha_confs")

    @property
    def _ra(self) -> Path:
        return Path(self.options.ra_confs or f"{self.options.state_path}/ra")

    def fifo(self, router_id: str) -> Path:
        """keepalived writes its VRRP state here."""
        return self._ha / router_id / FIFO

    async def release(self, router: Router) -> None:
        """Before the router is applied: stop a keepalived that it no longer has, which removes the addresses it set."""
        if router.ha is None:
            await self._stop_keepalived(router.id)

    def take_interval(self, router_id: str, files: Iterable[str]) -> None:
        """Keep the advertisement interval of another agent's keepalived, whose configuration is in `files`. Blocking."""
        found = (advertisement_interval(daemon_files.read(path) or "") for path in files)
        first = next((each for each in found if each is not None), None)
        if first is not None:
            self._taken[router_id] = first

    def interval(self, router_id: str) -> int:
        """Seconds between the router's VRRP advertisements on this host.

        A keepalived ignores advertisements with another interval than its own, so that two hosts with different ones are
        both active: a group keeps the interval that it was started with, whatever the option has become. Blocking.
        """
        known = advertisement_interval(daemon_files.read(self._keepalived_file(router_id)) or "")
        if known is None:
            known = self._taken.get(router_id)
        return known if known is not None else self.options.ha_vrrp_advert_int

    def interval_problem(self, router_id: str) -> str:
        """What to do where the option differs from the interval that is kept; empty if it does not. Blocking."""
        kept, option = self.interval(router_id), self.options.ha_vrrp_advert_int
        if kept == option:
            return ""
        return (
            f"keepalived goes on with advert_int {kept}, and ha_vrrp_advert_int is {option}: all hosts of a router need "
            f"the same, else each is active. Set ha_vrrp_advert_int = {kept}; or, for {option}, set it on all hosts, and "
            "disable and enable the router"
        )

    async def ensure(self, router: Router, failover: Failover | None, *, active: bool, complete: bool = True) -> None:
        """Start, reload or stop the router's daemons.

        Not `complete`: the router is from the cache, so that missing daemons are started and running ones stay as they
        are; radvd stops only where a running keepalived proves another host active.
        """
        had_keepalived = await asyncio.to_thread(self.has_keepalived, router.id)
        keepalived, radvd = self._services(router, failover, active)
        # keepalived first: a radvd that cannot be started must not keep the router from failing over.
        for service in (keepalived, radvd):
            if service is not None:
                await self.supervisor.ensure(service, complete=complete)
        if radvd is None and (complete or (had_keepalived and not _sends_ras(router, active))):
            # On a standby host it must not withdraw the default route that the active host advertises.
            await self._stop_radvd(router.id, kill=self.advertises(router))

    def advertises(self, router: Router) -> bool:
        """Whether RAs are sent for the router, by this host or by the active one."""
        return bool(render_radvd(router, self.options))

    def find(self, router: Router, failover: Failover | None, *, active: bool) -> list[str]:
        """What `ensure` would start or reload, a line for each. Blocking."""
        services = filter(None, self._services(router, failover, active))
        return [line for each in services for line in self.supervisor.plan(each)]

    def orphans(self) -> list[str]:
        """HA routers whose keepalived has exited without us, as after a reboot of the host. Blocking."""
        return [each for each in list_directory(self._ha) if not self.has_keepalived(each)]

    def has_keepalived(self, router_id: str) -> bool:
        """Whether it is running. Blocking."""
        return self.supervisor.is_running(self._keepalived(router_id))

    async def stop(self, router_id: str, *, moved: bool = False) -> None:
        """`moved`: another host serves the router by now, and advertises it."""
        await self._stop_radvd(router_id, kill=moved)
        await self._stop_keepalived(router_id)

    async def _stop_radvd(self, router_id: str, *, kill: bool) -> None:
        """Without `kill` it withdraws the default route of the instances."""
        directory, daemon = self._ra, self._radvd(router_id)
        # The configuration shows that one was started: most routers have no IPv6, and need no look at processes.
        if (directory / f"{router_id}.radvd.conf").exists():
            await self.supervisor.stop(daemon.name, pid_file=daemon.pid_file, kill=kill)
            for path in directory.glob(f"{router_id}.radvd.*"):
                path.unlink(missing_ok=True)

    async def _stop_keepalived(self, router_id: str) -> None:
        directory, daemon = self._ha / router_id, self._keepalived(router_id)
        self._taken.pop(router_id, None)
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
        path = str(self._ra / f"{router.id}.radvd.conf")
        keepalived = self._keepalived_service(router.id, failover) if failover is not None else None
        mode = 0o644 if self.options.radvd_user else 0o600  # with a user of its own, it reloads the file as that user
        return keepalived, Service(self._radvd(router.id), {path: text}, mode=mode, kill=True) if text else None

    def _radvd(self, router_id: str) -> Daemon:
        base = str(self._ra / f"{router_id}.radvd")
        user = ("-u", self.options.radvd_user) if self.options.radvd_user else ()
        return Daemon(
            name=f"radvd {router_id}",
            argv=("radvd", "-n", "-C", f"{base}.conf", "-p", f"{base}.own.pid", "-m", "stderr", *user),
            namespace=router_namespace(router_id),
            pid_file=f"{base}.pid",
            log_file=f"{base}.log",
        )

    def _keepalived_service(self, router_id: str, failover: Failover) -> Service:
        daemon = self._keepalived(router_id, failover.namespace)
        path = str(self._keepalived_file(router_id))
        options = replace(self.options, ha_vrrp_advert_int=self.interval(router_id))
        text = render_keepalived(failover, options, str(self.fifo(router_id)))
        # The log is emptied: a line READY in it then is of this start.
        clear = Path(daemon.log_file).unlink
        return Service(daemon, {path: text}, reloadable_after=READY, before_start=lambda: clear(missing_ok=True))

    def _keepalived_file(self, router_id: str) -> Path:
        return self._ha / router_id / "keepalived.conf"

    def _keepalived(self, router_id: str, namespace: str = "") -> Daemon:
        """Without a namespace: only to look for it, or to stop it."""
        directory = self._ha / router_id
        return Daemon(
            name=f"keepalived {router_id}",
            argv=(
                *("keepalived", "--dont-fork", "--vrrp", "--log-console", "--no-syslog"),  # VRRP alone, no checkers
                *("--use-file", str(self._keepalived_file(router_id))),
                *("--pid", str(directory / "parent.pid"), "--vrrp_pid", str(directory / "vrrp.pid")),
            ),
            namespace=namespace,
            pid_file=str(directory / "keepalived.pid"),
            log_file=str(directory / "keepalived.log"),
        )


def _sends_ras(router: Router, active: bool) -> bool:
    """A distributed router's ports are on every host, and each host sends RAs to its own instances."""
    return active or router.distributed


# --- DHCPv6 clients of delegated prefixes ---


@dataclass
class Delegations:
    supervisor: Supervisor
    options: L3Options
    report: Callable[[str, str], None]  # of a subnet's prefix, to the server
    port_holds: PortHolds
    _reported: dict[str, float] = field(default_factory=dict)  # subnet → mtime of the prefix file last reported

    @property
    def _base(self) -> Path:
        return Path(self.options.pd_confs or f"{self.options.state_path}/{DIRECTORY}")

    def listen(self, notify: Callable[[str], None]) -> Fifo:
        """`notify` gets routers whose clients have a new prefix or lost one."""

        def read(lines: list[str]) -> None:
            for router_id in {Path(line).parent.name for line in lines if line}:
                notify(router_id)

        return Fifo(self._base / pd.NOTIFY_FIFO, read)

    # --- one router -------------------------------------------------------------------------------------------------

    async def leave(self, router: Router) -> None:
        """Before the router is applied: release prefixes that it no longer requests, while its gateway still works."""
        requested = {each.subnet_id for each in router.delegations}
        for subnet_id in self._clients(router.id):
            if subnet_id in requested and not self._has_moved(router, subnet_id):
                continue
            LOG.info("router %s releases the prefix of subnet %s", router.id, subnet_id)
            await self._stop(router.id, subnet_id, release=True)
        self._remove_empty(router.id)

    async def ensure(self, router: Router, *, active: bool, complete: bool = True) -> list[str]:
        """After the router is applied: run its clients where it is active, and report their prefixes. Gives problems.

        Not `complete`: the router is from the cache. Missing clients are started, and none is stopped.
        """
        if not (active and pd.asked_here(router)):
            if complete:
                await self.stop(router.id)
            return []
        problems = []
        for each in router.delegations:
            if not complete and self._has_moved(router, each.subnet_id):
                continue
            try:
                await self._start(router, each.subnet_id)
                self._report_prefix(router.id, each)
            except (ProcessError, OSError, ValueError) as error:  # of this subnet alone: the router works without it
                problems.append(f"no prefix for subnet {each.subnet_id}: {error}")
        return problems

    async def stop(self, router_id: str) -> None:
        """The router is no longer on this host: its prefixes are not released, as the next host takes them over."""
        for subnet_id in self._clients(router_id):
            await self._stop(router_id, subnet_id, release=False)
        self._remove_empty(router_id)

    def find(self, router: Router, *, active: bool) -> list[str]:
        """What the methods above would start, restart or stop, a line for each. Blocking."""
        requested = [each.subnet_id for each in router.delegations] if active and pd.asked_here(router) else []
        lines = [line for each in requested for line in self.supervisor.plan(self._service(router, each))]
        return lines + [f"stop {_name(router.id, each)}" for each in sorted(self._clients(router.id) - set(requested))]

    def _clients(self, router_id: str) -> set[str]:
        """The subnets that have a client, by its directory."""
        return set(list_directory(self._base / router_id))

    def _remove_empty(self, router_id: str) -> None:
        directory = self._base / router_id
        if directory.is_dir() and not self._clients(router_id):
            directory.rmdir()

    # --- one client -------------------------------------------------------------------------------------------------

    async def _start(self, router: Router, subnet_id: str) -> None:
        if self._has_moved(router, subnet_id):
            await self._stop(router.id, subnet_id, release=True)
        assert router.gateway is not None, "prefixes are requested through the gateway"
        self.port_holds.hold(_name(router.id, subnet_id), router.gateway.id)  # until its release is sent
        self._directory(router.id, subnet_id).mkdir(parents=True, exist_ok=True, mode=0o700)
        await self.supervisor.ensure(self._service(router, subnet_id))

    async def _stop(self, router_id: str, subnet_id: str, *, release: bool) -> None:
        directory, name = self._directory(router_id, subnet_id), _name(router_id, subnet_id)
        await self.supervisor.stop(name, pid_file=str(directory / "pid"), kill=not release)
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        self.port_holds.release(name)  # last: the release was sent through the port
        self._reported.pop(subnet_id, None)

    def _has_moved(self, router: Router, subnet_id: str) -> bool:
        """Whether the client was started for another gateway, and so talks to another DHCPv6 server."""
        text = daemon_files.read(self._directory(router.id, subnet_id) / CONFIGURATION)
        return text is not None and pd.asked_here(router) and text != self._render(router, subnet_id)

    def _report_prefix(self, router_id: str, known: Delegation) -> None:
        """Report a prefix that differs from the server's; nothing while a new client has none.

        Each renewal is reported too: a port that was created while the prefix changed may have missed it.
        """
        path = self._directory(router_id, known.subnet_id) / pd.PREFIX_FILE
        text = daemon_files.read(path)
        if text is None:
            return
        written = path.stat().st_mtime  # the script replaces the file with each renewal
        prefix = pd.parse_prefix(text, time.time() - written)
        if prefix != known.prefix:
            LOG.info("router %s: subnet %s has %s", router_id, known.subnet_id, prefix or "no prefix any more")
        if prefix != known.prefix or self._reported.get(known.subnet_id) != written:
            self.report(known.subnet_id, prefix or pd.PROVISIONAL)
            self._reported[known.subnet_id] = written

    def _directory(self, router_id: str, subnet_id: str) -> Path:
        return self._base / router_id / subnet_id

    def _render(self, router: Router, subnet_id: str) -> str:
        script = str(self._directory(router.id, subnet_id) / pd.SCRIPT_FILE)
        return pd.render_client(router, subnet_id, self.options.vendor_pen, script)

    def _service(self, router: Router, subnet_id: str) -> Service:
        directory, text = self._directory(router.id, subnet_id), self._render(router, subnet_id)

        def prepare() -> None:
            daemon_files.write(directory / pd.SCRIPT_FILE, pd.NOTIFY, mode=0o700)
            for name in STALE_STATE:
                (directory / name).unlink(missing_ok=True)

        daemon = Daemon(
            name=_name(router.id, subnet_id),
            argv=("dibbler-client", "run", "-w", str(directory)),
            namespace=gateway_namespace(router),
            pid_file=str(directory / "pid"),
            # dibbler cannot reload: another configuration makes another digest, and so a restart.
            environment={"NEUTRINO_CONFIGURATION": hashlib.blake2b(text.encode(), digest_size=8).hexdigest()},
        )
        return Service(daemon, {str(directory / CONFIGURATION): text}, before_start=prepare)


def _name(router_id: str, subnet_id: str) -> str:
    return f"dibbler-client {router_id} {subnet_id}"
