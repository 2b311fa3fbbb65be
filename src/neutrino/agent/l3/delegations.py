"""The clients by which routers get prefixes from outside: started, watched, heard, and ended.

Each has a directory, state_path/pd/ROUTER/SUBNET, with its configuration, its own memory and the prefix that it has. It
outlives the agent. What a client has is compared with what the server knows whenever the router is looked at, so news that
was lost on its way is told again.

A client that ends because its subnet or the gateway has gone gives the prefix back; for that the gateway's port, which it
speaks through, stays wired until it has. One that ends because the router is another host's now does not: the other one is
known to the DHCPv6 server by the same name, and has the same prefix.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.delegation import (
    NEWS_FIFO,
    NOTIFY,
    PREFIX_FILE,
    PROVISIONAL,
    SCRIPT_FILE,
    asked_here,
    client_namespace,
    parse_prefix,
    render_client,
)
from neutrino.agent.port_holds import PortHolds
from neutrino.agent.supervisor import Supervisor
from neutrino.dataplane.process.api import Daemon, ProcessError, Processes
from neutrino.model.routing import Delegation, Router

LOG = logging.getLogger(__name__)
DIRECTORY = "pd"
CONFIGURATION = "client.conf"  # the name by which the client looks for it
# Before it is started: it does not start while its own note names a process, which may be any by now, and with what it
# remembers of its prefix it renews it at an address that is none. It is known to the server outside anyway.
FORGOTTEN = ("client.pid", "client-AddrMgr.xml")


class Delegations:
    def __init__(
        self, watch: Supervisor, processes: Processes, options: L3Options, port_holds: PortHolds | None = None
    ) -> None:
        self._watch = watch
        self._port_holds = port_holds or PortHolds()
        self._processes = processes
        self._options = options
        self._base = Path(options.delegations or f"{options.state_path}/{DIRECTORY}")
        self.tell: Callable[[str, str], None] = lambda subnet_id, prefix: None
        self._fifo: int | None = None
        self._rest = ""
        self._said: dict[str, float] = {}  # by subnet, when what was told last was written

    # --- news -------------------------------------------------------------------------------------------------------

    def listen(self, news: Callable[[str], None], tell: Callable[[str, str], None]) -> None:
        """From now on `news` hears of routers whose clients have something new, and `tell` which prefix a subnet has."""
        self.tell = tell
        self._base.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._base / NEWS_FIFO
        if not path.exists():
            os.mkfifo(path, 0o600)
        # For writing too: a fifo whose last writer goes would be readable for ever.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._fifo, self._heard, news)

    def close(self) -> None:
        if self._fifo is not None:
            asyncio.get_running_loop().remove_reader(self._fifo)
            os.close(self._fifo)
            self._fifo = None

    def _heard(self, news: Callable[[str], None]) -> None:
        assert self._fifo is not None
        try:
            data = os.read(self._fifo, 4096).decode(errors="replace")
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + data).split("\n")
        for router_id in {Path(line).parent.name for line in lines if line}:
            news(router_id)

    # --- one router -------------------------------------------------------------------------------------------------

    async def leave(self, router: Router) -> None:
        """Before the router is made: prefixes that it asks for no more, or elsewhere, are given back while it still can."""
        asked = {each.subnet_id for each in router.delegations}
        for subnet_id in self._known(router.id):
            if subnet_id in asked and not self._is_elsewhere(router, subnet_id):
                continue
            LOG.info("router %s gives back the prefix of subnet %s", router.id, subnet_id)
            await self._end(router.id, subnet_id, release=True)
        self._tidy(router.id)

    async def ensure(self, router: Router, *, active: bool, complete: bool = True) -> list[str]:
        """After it: its clients run where it is active, and the server knows what they have. Gives why it is not so.

        Not `complete`: the router is from the cache. Clients are started where there are none, and none is ended.
        """
        if not (active and asked_here(router)):
            if complete:
                await self.stop(router.id)
            return []
        problems = []
        for each in router.delegations:
            if not complete and self._is_elsewhere(router, each.subnet_id):
                continue
            try:
                await self._keep(router, each.subnet_id)
                self._compare(router.id, each)
            except (ProcessError, OSError, ValueError) as error:
                problems.append(f"no prefix for subnet {each.subnet_id}: {error}")
        return problems

    async def stop(self, router_id: str) -> None:
        """The router is not here any more: what it has is for another host to have."""
        for subnet_id in self._known(router_id):
            await self._end(router_id, subnet_id, release=False)
        self._tidy(router_id)

    def find(self, router: Router, *, active: bool) -> list[str]:
        """What the three above would do, a line for each. Blocking."""
        asked = [each.subnet_id for each in router.delegations] if active and asked_here(router) else []
        lines = []
        for subnet_id in asked:
            path = self._directory(router.id, subnet_id) / CONFIGURATION
            if self._running(router.id, subnet_id) is None:
                lines.append(f"start {_name(router.id, subnet_id)}")
            elif _read(path) != self._render(router, subnet_id):
                lines.append(f"load {path}")
        return lines + [f"stop {_name(router.id, each)}" for each in sorted(self._known(router.id) - set(asked))]

    def _known(self, router_id: str) -> set[str]:
        directory = self._base / router_id
        return {path.name for path in directory.iterdir()} if directory.is_dir() else set()

    def _tidy(self, router_id: str) -> None:
        directory = self._base / router_id
        if directory.is_dir() and not self._known(router_id):
            directory.rmdir()

    # --- one client -------------------------------------------------------------------------------------------------

    async def _keep(self, router: Router, subnet_id: str) -> None:
        directory, text = self._directory(router.id, subnet_id), self._render(router, subnet_id)
        if self._is_elsewhere(router, subnet_id):
            await self._end(router.id, subnet_id, release=True)
        assert router.gateway is not None, "prefixes are asked for outside"
        self._port_holds.hold(_name(router.id, subnet_id), router.gateway.id)
        await asyncio.to_thread(_prepare, directory, text)
        if await asyncio.to_thread(self._running, router.id, subnet_id) is None:
            for name in FORGOTTEN:
                (directory / name).unlink(missing_ok=True)
        await self._watch.keep(self._daemon(router, subnet_id, text))

    async def _end(self, router_id: str, subnet_id: str, *, release: bool) -> None:
        directory = self._directory(router_id, subnet_id)
        name, pid_file = _name(router_id, subnet_id), str(directory / "pid")
        await self._watch.drop(name, pid_file=pid_file, kill=not release)
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        self._port_holds.release(name)
        self._said.pop(subnet_id, None)

    def _is_elsewhere(self, router: Router, subnet_id: str) -> bool:
        """Whether the client is another gateway's: there is another server outside."""
        text = _read(self._directory(router.id, subnet_id) / CONFIGURATION)
        return text is not None and asked_here(router) and text != self._render(router, subnet_id)

    def _compare(self, router_id: str, known: Delegation) -> None:
        """Between what the client has and what the server knows; a client that has just started has nothing to say.

        It is told once more with each renewal: a port that was made while the prefix came may have missed it.
        """
        path = self._directory(router_id, known.subnet_id) / PREFIX_FILE
        text = _read(path)
        if text is None:
            return
        written = path.stat().st_mtime
        prefix = parse_prefix(text, time.time() - written)
        if prefix != known.prefix:
            LOG.info("router %s: subnet %s has %s", router_id, known.subnet_id, prefix or "no prefix any more")
        if prefix != known.prefix or self._said.get(known.subnet_id) != written:
            self.tell(known.subnet_id, prefix or PROVISIONAL)
            self._said[known.subnet_id] = written

    def _running(self, router_id: str, subnet_id: str) -> object | None:
        pid_file = str(self._directory(router_id, subnet_id) / "pid")
        return self._processes.find(_name(router_id, subnet_id), pid_file)

    def _directory(self, router_id: str, subnet_id: str) -> Path:
        return self._base / router_id / subnet_id

    def _render(self, router: Router, subnet_id: str) -> str:
        script = str(self._directory(router.id, subnet_id) / SCRIPT_FILE)
        return render_client(router, subnet_id, self._options.vendor_pen, script)

    def _daemon(self, router: Router, subnet_id: str, text: str) -> Daemon:
        directory = self._directory(router.id, subnet_id)
        return Daemon(
            name=_name(router.id, subnet_id),
            argv=("dibbler-client", "run", "-w", str(directory)),
            namespace=client_namespace(router),
            pid_file=str(directory / "pid"),
            # It reads its configuration once: with another one it is another daemon.
            environment={"NEUTRINO_CONFIGURATION": hashlib.blake2b(text.encode(), digest_size=8).hexdigest()},
        )


def _name(router_id: str, subnet_id: str) -> str:
    return f"dibbler-client {router_id} {subnet_id}"


def _prepare(directory: Path, configuration: str) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text, mode in ((CONFIGURATION, configuration, 0o600), (SCRIPT_FILE, NOTIFY, 0o700)):
        if _read(directory / name) != text:
            new = directory / f"{name}.new"
            new.touch(mode=mode)
            new.write_text(text)
            new.replace(directory / name)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
