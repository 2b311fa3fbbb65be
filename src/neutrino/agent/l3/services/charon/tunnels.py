"""Runs charon for each router that ends tunnels on this host, gives it their connections, and reports their statuses.

Charon runs in the namespace of the gateway and outlives the agent. Its directory, state_path/vpn/ROUTER, has its
configuration, its control socket (VICI), its log, and the secret of the digests in connections' names. Pre-shared keys are
in no file and in no argument of a process: charon gets them by the socket.

While an agent runs, it keeps a connection to each charon, by which charon reports tunnels that come up or go down. When
charon exits, the connection ends, and the router is reconciled again: a charon that was respawned has lost its connections.
"""

import asyncio
import contextlib
import logging
import secrets
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from neutrino import daemon_files, private
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import gateway_namespace
from neutrino.agent.l3.services.api import Put, RouterService, Serving
from neutrino.agent.l3.services.charon.plan import (
    ACTIVE,
    CONNECTION,
    DOWN,
    SERVICE,
    connecting,
    installed,
    plan,
    statuses,
    to_initiate,
)
from neutrino.agent.l3.services.charon.render import SOCKET, Loaded, connection_id, connections, render_charon, served
from neutrino.agent.runtime.role import RoleFeed
from neutrino.agent.runtime.supervisor import Service, Supervisor
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.dataplane.protocols.vici.client import Vici
from neutrino.dataplane.protocols.vici.protocol import Message, Refused, ViciError
from neutrino.model.routing import Router
from neutrino.model.vpn import VpnConnection

LOG = logging.getLogger(__name__)
DIRECTORY = "vpn"
CONFIGURATION, SECRET = "strongswan.conf", "secret"
EVENTS = ("ike-updown", "child-updown")
RETRY_SECONDS = 10.0  # before a connection without a tunnel is initiated again
NEGOTIATION_SECONDS = 10.0  # before a new connection without a tunnel is reported as down
LONGEST_NEGOTIATION = 60.0  # the same, while its peer does not answer: it may be new too
NOTHING: Mapping[str, str] = MappingProxyType({})
MAX_SOCKET_PATH = 107  # of a Unix socket


@dataclass(eq=False)
class _Charon:
    """The connection to a router's charon."""

    router: Router
    vici: Vici | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    watching: asyncio.Task[None] | None = None
    desired: dict[str, Loaded] = field(default_factory=dict)  # by name, without those that charon refuses
    refused: dict[str, str] = field(default_factory=dict)  # why charon does not take a connection, by its id
    negotiating: dict[str, float] = field(default_factory=dict)  # ids of new connections, and since when


@dataclass
class Tunnels(RouterService):
    supervisor: Supervisor
    options: L3Options
    feed: RoleFeed
    _put: Put | None = field(default=None, init=False)
    _charons: dict[str, _Charon] = field(default_factory=dict, init=False)
    # What was reported of each object, with the connection that it was reported of: a changed one is reported again.
    _reported: dict[str, dict[tuple[str, str], tuple[str, VpnConnection | None]]] = field(
        default_factory=dict, init=False
    )

    @property
    def _base(self) -> Path:
        return Path(self.options.state_path).absolute() / DIRECTORY

    # --- one router -------------------------------------------------------------------------------------------------

    async def start(self, put: Put) -> None:
        self._put = put

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        """Run the router's charon where it is active."""
        if not serving.active:
            if serving.may_stop:
                await self.stop(router.id, moved=True)
            return []
        if not served(router):
            if serving.may_stop:
                await self._stop(router.id)
                self._report(router, frozenset())
            return []
        try:
            return await self._start(router, complete=serving.may_stop)
        except (ProcessError, ViciError, OSError) as error:  # of tunnels alone: the router works without them
            self._report(router, frozenset(), {each.id: str(error) for each in served(router)})
            return [f"VPN: {error}"]

    async def stop(self, router_id: str, *, moved: bool) -> None:
        """The statuses of the router's tunnels are another host's from now on."""
        await self._stop(router_id)
        self._reported.pop(router_id, None)

    async def _stop(self, router_id: str) -> None:
        await self._disconnect(router_id)
        directory = self._base / router_id
        if directory.exists():
            daemon = self._daemon(router_id)
            await self.supervisor.stop(daemon.name, pid_file=daemon.pid_file)
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def find(self, router: Router, serving: Serving) -> list[str]:
        if serving.active and served(router):
            # Without a charon there is nothing to compare.
            return self.supervisor.plan(self._service(router)) or asyncio.run(self._find_connections(router))
        return [f"stop charon {router.id}"] if (self._base / router.id).exists() else []

    async def _find_connections(self, router: Router) -> list[str]:
        """Find the connections of a charon that runs, by a connection of its own: the agent may be another process."""
        path = self._base / router.id / SECRET
        # Without the secret the names are unknown, and all of charon's are others than it will be given.
        text = daemon_files.read(path)
        secret = bytes.fromhex(text) if text is not None else secrets.token_bytes(16)
        vici = await Vici.open(self._base / router.id / SOCKET, lambda event: None)
        try:
            actual = (await vici.command("get-conns")).get("conns", [])
        finally:
            await vici.close()
        return plan(connections(router, secret), actual, complete=True).lines

    async def close(self) -> None:
        for router_id in list(self._charons):
            await self._disconnect(router_id)

    # --- charon -----------------------------------------------------------------------------------------------------

    async def _start(self, router: Router, *, complete: bool) -> list[str]:
        await asyncio.to_thread(self._prepare, router.id)
        await self.supervisor.ensure(self._service(router), complete=complete)
        charon = self._charons.setdefault(router.id, _Charon(router))
        if charon.vici is None or charon.vici.is_closed or charon.watching is None or charon.watching.done():
            await self._connect(router.id, charon)
        assert charon.vici is not None, "it is connected"
        desired = connections(router, await asyncio.to_thread(self._secret, router.id))
        refused, added = await self._apply(charon.vici, desired, complete=complete)
        # At once, as statuses are reported meanwhile: what is not loaded yet is not down.
        charon.router, charon.refused = router, refused
        charon.desired = {name: each for name, each in desired.items() if each.connection_id not in refused}
        now = asyncio.get_running_loop().time()
        charon.negotiating |= {connection_id(name): now for name in added}
        charon.changed.set()  # its statuses are read and reported
        return [f"VPN connection {key}: {text}" for key, text in charon.refused.items()]

    def _prepare(self, router_id: str) -> None:
        directory = self._base / router_id
        if len(str(directory / SOCKET)) > MAX_SOCKET_PATH:
            raise ProcessError(f"{directory / SOCKET} is too long for a socket: state_path needs to be shorter")
        private.own_directory(self._base)
        private.own_directory(directory)

    def _secret(self, router_id: str) -> bytes:
        path = self._base / router_id / SECRET
        if not path.exists():
            daemon_files.write(path, secrets.token_hex(16))
        return bytes.fromhex(daemon_files.read(path) or "")

    async def _connect(self, router_id: str, charon: _Charon) -> None:
        if charon.watching is not None:
            charon.watching.cancel()
        if charon.vici is not None:
            await charon.vici.close()
        charon.changed.clear()
        charon.vici = await Vici.open(self._base / router_id / SOCKET, lambda event: charon.changed.set())
        await charon.vici.register(*EVENTS)
        charon.watching = asyncio.create_task(self._watch(router_id, charon, charon.vici), name=f"vpn {router_id}")

    async def _disconnect(self, router_id: str) -> None:
        charon = self._charons.pop(router_id, None)
        if charon is None:
            return
        if charon.watching is not None:
            charon.watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await charon.watching
        if charon.vici is not None:
            await charon.vici.close()

    async def _apply(
        self, vici: Vici, desired: dict[str, Loaded], *, complete: bool
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Why charon refuses connections, by their ids; and the names of those that it was given."""
        actual = (await vici.command("get-conns")).get("conns", [])
        changes = plan(desired, actual, complete=complete)
        # Compared by themselves: charon could choose a key that an agent left behind for a new connection to the peer.
        keys = (await vici.command("get-shared")).get("keys", [])
        for name in sorted(set(keys) - desired.keys()) if complete else ():
            await vici.command("unload-shared", {"id": name})
        for name in changes.removed:
            await vici.command("unload-conn", {"name": name})
            with contextlib.suppress(ViciError):  # it may have no tunnel
                await vici.command("terminate", {"ike": name, "force": "yes", "timeout": "-1"})
        refused = {}
        for name in changes.added:
            try:
                # The key first: a connection is initiated as soon as it is there.
                await vici.command("load-shared", desired[name].key)
                await vici.command("load-conn", desired[name].connection)
            except Refused as error:  # of this connection alone
                refused[connection_id(name)] = str(error)
                with contextlib.suppress(Refused):  # the key may be what it refuses
                    await vici.command("unload-shared", {"id": name})
        for line in changes.lines:
            LOG.info("%s", line)
        return refused, changes.added

    async def _watch(self, router_id: str, charon: _Charon, vici: Vici) -> None:
        """Reports statuses when charon tells of a change, and initiates connections that have no tunnel."""
        closed = asyncio.create_task(vici.wait_closed())
        retry_at: float | None = None  # not anew with each change: the router may be reconciled more often
        try:
            await _wait_until(charon.changed, closed, None)  # until it has been given its connections
            while not vici.is_closed:
                charon.changed.clear()
                associations = await vici.stream("list-sas", "list-sa", {"noblock": "yes"})
                charon.negotiating = _still_negotiating(charon.negotiating, associations)
                self._report(charon.router, installed(associations), charon.refused, charon.negotiating)
                retry_at = await self._retry(charon, vici, associations, retry_at)
                await _wait_until(charon.changed, closed, retry_at)
        except ViciError as error:
            LOG.info("charon of router %s: %s", router_id, error)
        finally:
            closed.cancel()
        self._report(charon.router, frozenset())
        if self._put is not None:
            self._put(router_id)

    async def _retry(
        self, charon: _Charon, vici: Vici, associations: list[Message], retry_at: float | None
    ) -> float | None:
        """Initiate what has no tunnel, if it is time; gives the next time, or None if all have one."""
        if charon.desired.keys() <= installed(associations):
            return None
        now = asyncio.get_running_loop().time()
        if retry_at is None or now < retry_at:
            return now + RETRY_SECONDS if retry_at is None else retry_at
        for name, child in to_initiate(charon.desired, associations):
            LOG.info("VPN connection %s has no tunnel yet: it is initiated again", connection_id(name))
            with contextlib.suppress(Refused):  # it has been unloaded meanwhile
                await vici.command("initiate", {"ike": name, "child": child, "timeout": "-1"})
        return now + RETRY_SECONDS

    # --- statuses ---------------------------------------------------------------------------------------------------

    def _report(
        self,
        router: Router,
        names: frozenset[str],
        refused: Mapping[str, str] = NOTHING,
        negotiating: Collection[str] = (),
    ) -> None:
        """`names`: of connections with a tunnel; `refused`: why others cannot have one, by their ids.

        A connection that is being set up for the first time is not down: clients wait while it is PENDING, and Heat
        gives up when it sees another status than ACTIVE after that.
        """
        known = self._reported.setdefault(router.id, {})
        objects = {connection.id: connection for service in router.vpn_services for connection in service.connections}
        found = statuses(router, names, refused)
        for service in router.vpn_services:
            if (SERVICE, service.id) in known:
                found.setdefault((SERVICE, service.id), DOWN)  # it has lost its last connection
        for gone in known.keys() - found.keys():
            del known[gone]
        for (kind, key), status in found.items():
            if kind == CONNECTION and status == DOWN and key in negotiating:
                continue
            value = (status, objects.get(key))
            if known.get((kind, key)) != value:
                known[kind, key] = value
                self.feed.status(kind, key, status, reason=refused.get(key, ""))
                if kind == CONNECTION:
                    LOG.info("VPN connection %s is %s", key, "up" if status == ACTIVE else "down")

    # --- the daemon -------------------------------------------------------------------------------------------------

    def _service(self, router: Router) -> Service:
        directory = self._base / router.id
        text = render_charon(str(directory), router, userspace=self.options.vpn_userspace)
        daemon = self._daemon(router.id, gateway_namespace(router))
        # A socket that a killed charon has left would be taken for that of the next one.
        return Service(
            daemon,
            {str(directory / CONFIGURATION): text},
            before_start=lambda: (directory / SOCKET).unlink(missing_ok=True),
        )

    def _daemon(self, router_id: str, namespace: str = "") -> Daemon:
        """Without a namespace: only to stop it."""
        directory = self._base / router_id
        return Daemon(
            name=f"charon {router_id}",
            argv=(self.options.charon,),
            namespace=namespace,
            pid_file=str(directory / "pid"),
            log_file=str(directory / "log"),
            environment={"STRONGSWAN_CONF": str(directory / CONFIGURATION)},
        )


def _still_negotiating(since: Mapping[str, float], associations: list[Message]) -> dict[str, float]:
    """Without those that have had a tunnel, and those that had time enough for one."""
    now = asyncio.get_running_loop().time()
    up, unanswered = {connection_id(name) for name in installed(associations)}, connecting(associations)
    longest = {key: LONGEST_NEGOTIATION if key in unanswered else NEGOTIATION_SECONDS for key in since}
    return {key: began for key, began in since.items() if key not in up and now < began + longest[key]}


async def _wait_until(changed: asyncio.Event, closed: asyncio.Task[None], at: float | None) -> None:
    """Until charon has reported a change or has closed the connection, or until the time."""
    waiting = asyncio.create_task(changed.wait())
    timeout = None if at is None else max(at - asyncio.get_running_loop().time(), 0.0)
    try:
        await asyncio.wait([waiting, closed], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
