"""Runs the DHCPv6 clients of routers (dibbler), which get delegated prefixes from a server on the external network.

Each client has a directory, state_path/pd/ROUTER/SUBNET, with its configuration, its own state and the prefix that it
holds. The prefix is compared with what the server knows whenever the router is reconciled, so that a lost report is
repeated.

A client that stops because its subnet or the gateway was deleted releases the prefix. It sends the release through the
gateway's port, which stays wired until then (`PortHolds`). A client that stops because the router moves to another host
is killed instead: the client there has the same DUID, and must keep the prefix.
"""

import asyncio
import hashlib
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from neutrino import daemon_files
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import gateway_namespace
from neutrino.agent.l3.services.api import Put, RouterService, Serving
from neutrino.agent.l3.services.dibbler import render as pd
from neutrino.agent.l3.services.fifo import Fifo
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


@dataclass
class Delegations(RouterService):
    supervisor: Supervisor
    options: L3Options
    report: Callable[[str, str], None]  # of a subnet's prefix, to the server
    port_holds: PortHolds
    _reported: dict[str, float] = field(default_factory=dict)  # subnet → mtime of the prefix file last reported
    _fifo: Fifo | None = None

    @property
    def _base(self) -> Path:
        return Path(self.options.pd_confs or f"{self.options.state_path}/{DIRECTORY}")

    async def start(self, put: Put) -> None:
        """Routers whose clients have a new prefix or lost one are queued."""

        def read(lines: list[str]) -> None:
            for router_id in {Path(line).parent.name for line in lines if line}:
                put(router_id)

        self._fifo = Fifo(self._base / pd.NOTIFY_FIFO, read)

    async def close(self) -> None:
        if self._fifo is not None:
            self._fifo.close()

    # --- one router -------------------------------------------------------------------------------------------------

    async def release(self, router: Router, serving: Serving) -> None:
        """Release prefixes that the router no longer requests, while its gateway still works."""
        requested = {delegation.subnet_id for delegation in router.delegations}
        for subnet_id in self._clients(router.id):
            if subnet_id in requested and not self._has_moved(router, subnet_id):
                continue
            LOG.info("router %s releases the prefix of subnet %s", router.id, subnet_id)
            await self._stop_client(router.id, subnet_id, release=True)
        self._remove_empty(router.id)

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        """Run the router's clients where it is active, and report their prefixes."""
        if not (serving.active and pd.asked_here(router)):
            if serving.may_stop:
                await self.stop(router.id, moved=True)
            return []
        problems = []
        for delegation in router.delegations:
            if not serving.may_stop and self._has_moved(router, delegation.subnet_id):
                continue
            try:
                await self._start_client(router, delegation.subnet_id)
                self._report_prefix(router.id, delegation)
            except (ProcessError, OSError, ValueError) as error:  # of this subnet alone: the router works without it
                problems.append(f"no prefix for subnet {delegation.subnet_id}: {error}")
        return problems

    async def stop(self, router_id: str, *, moved: bool) -> None:
        """Prefixes are not released, as the next host takes them over."""
        for subnet_id in self._clients(router_id):
            await self._stop_client(router_id, subnet_id, release=False)
        self._remove_empty(router_id)

    def find(self, router: Router, serving: Serving) -> list[str]:
        asked = serving.active and pd.asked_here(router)
        requested = [delegation.subnet_id for delegation in router.delegations] if asked else []
        lines = [line for each in requested for line in self.supervisor.plan(self._service(router, each))]
        return lines + [
            f"stop {_name(router.id, client)}" for client in sorted(self._clients(router.id) - set(requested))
        ]

    def _clients(self, router_id: str) -> set[str]:
        """The subnets that have a client, by its directory."""
        return set(list_directory(self._base / router_id))

    def _remove_empty(self, router_id: str) -> None:
        directory = self._base / router_id
        if directory.is_dir() and not self._clients(router_id):
            directory.rmdir()

    # --- one client -------------------------------------------------------------------------------------------------

    async def _start_client(self, router: Router, subnet_id: str) -> None:
        if self._has_moved(router, subnet_id):
            await self._stop_client(router.id, subnet_id, release=True)
        assert router.gateway is not None, "prefixes are requested through the gateway"
        self.port_holds.hold(_name(router.id, subnet_id), router.gateway.id)  # until its release is sent
        self._directory(router.id, subnet_id).mkdir(parents=True, exist_ok=True, mode=0o700)
        await self.supervisor.ensure(self._service(router, subnet_id))

    async def _stop_client(self, router_id: str, subnet_id: str, *, release: bool) -> None:
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
