"""radvd is replaced without an instance losing its IPv6 default route; with a real radvd and a client in a namespace."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.l3.services.api import Serving
from neutrino.agent.l3.services.radvd.service import Radvd
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.real import RealProcesses
from neutrino.model.routing import Router
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l3_host import Feed, Flushes
from tests.support.process import wait_until
from tests.support.routing import address, interface, router

PREFIX = "2001:db8:77"
THEIR_LIFETIME, OUR_LIFETIME = 1800, 12  # seconds of the default route; ours is three times max_rtr_adv_interval
DEVICE = "qr-00000001-aa"


def command(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout


class Link:
    """A router's namespace with Neutron's radvd, and a client behind it that has its default route."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.router_id = directory, str(uuid.uuid4())
        self.name, self.client = f"qrouter-{self.router_id}", f"client-{self.router_id}"
        self.monitor: subprocess.Popen[bytes] | None = None
        self.theirs: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Link:
        for name in (self.name, self.client):
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
        sysctl = ("ip", "netns", "exec", self.name, "sysctl", "-q", "-w")
        command(*sysctl, "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.default.accept_dad=0")
        command(
            "ip", "-n", self.name, "link", "add", DEVICE, "type", "veth", "peer", "name", "eth0", "netns", self.client
        )
        command("ip", "-n", self.name, "link", "set", DEVICE, "up")
        command("ip", "-n", self.name, "address", "add", f"{PREFIX}::1/64", "dev", DEVICE, "nodad")
        command("ip", "-n", self.client, "link", "set", "eth0", "up")
        self._watch()
        self._advertise()
        wait_until(lambda: bool(self.lifetime), timeout=60, what="a default route", failed=lambda: None)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.monitor, self.theirs):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        for name in (self.name, self.client):
            for pid in command("ip", "netns", "pids", name).split():
                with contextlib.suppress(subprocess.CalledProcessError):
                    command("kill", "-9", pid)
            command("ip", "netns", "delete", name)

    def _watch(self) -> None:
        self.routes = self.directory / "routes"
        argv = ["ip", "netns", "exec", self.client, "stdbuf", "-oL", "ip", "-6", "monitor", "route"]
        with self.routes.open("wb") as output:
            self.monitor = subprocess.Popen(argv, stdout=output)

    def _advertise(self) -> None:
        file = self.directory / f"{self.router_id}.radvd.conf"
        file.write_text(
            f"interface {DEVICE} {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; "
            f"AdvDefaultLifetime {THEIR_LIFETIME}; prefix {PREFIX}::/64 {{ AdvOnLink on; AdvAutonomous on; }}; }};\n"
        )
        file.chmod(0o600)
        arguments = ["-n", "-C", str(file), "-p", str(self.directory / "neutron.pid"), "-m", "stderr"]
        with (self.directory / "neutron.log").open("wb") as output:
            argv = ["ip", "netns", "exec", self.name, "radvd", *arguments]
            self.theirs = subprocess.Popen(argv, stdout=output, stderr=output)

    @property
    def lifetime(self) -> int:
        """Seconds that the client's default route still has; 0 without one."""
        found = re.search(r"expires (\d+)sec", command("ip", "-n", self.client, "-6", "route", "show", "default"))
        return int(found[1]) if found else 0

    @property
    def was_withdrawn(self) -> bool:
        return "Deleted default" in self.routes.read_text()

    @property
    def radvds(self) -> int:
        pids = command("ip", "netns", "pids", self.name).split()
        return sum(Path(f"/proc/{pid}/comm").read_text() == "radvd\n" for pid in pids)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    with Link(tmp_path) as made:
        yield made


class Agent:
    """The parts of the L3 role that replace a radvd."""

    def __init__(self, link: Link) -> None:
        state, namespaces = str(link.directory / "state"), Namespaces()
        self.options = L3Options(host="h1", state_path=state, min_rtr_adv_interval=3, max_rtr_adv_interval=4)
        self.supervisor = Supervisor(RealProcesses(state))
        services = ServiceNamespaces(RealNetlink(namespaces), FakeOvsdb, RealNft(), state)
        self.leftovers = Leftovers(services, RealForeignProcesses(namespaces), state)
        desired = DesiredRouters(Feed(), lambda router: None)
        self.routers = Routers(services, lambda name: Flushes(), self.options, desired, leftovers=self.leftovers)
        self.radvd = Radvd(self.supervisor, self.options)
        own = address(f"{PREFIX}::1", f"{PREFIX}::/64", ra_mode="slaac")
        self.router: Router = msgspec.structs.replace(router(interface(1, own)), id=link.router_id, gateway=None)

    async def ensure(self) -> None:
        await self.radvd.ensure(self.router, Serving())


def test_stopping_radvd_withdraws_the_route(link: Link) -> None:
    """What replacing it has to avoid."""
    Agent(link).leftovers.end_processes(link.name)
    wait_until(lambda: link.was_withdrawn, timeout=30, what="a withdrawn route", failed=lambda: None)
    assert link.lifetime == 0


def test_the_other_agents_radvd_is_replaced_without_withdrawing_the_route(link: Link) -> None:
    agent = Agent(link)

    async def take_over() -> None:
        agent.leftovers.end_processes(link.name, but=("radvd",))
        await agent.ensure()
        both = link.radvds
        agent.routers.complete_takeover(agent.router, [link.name])
        assert both > link.radvds > 0
        try:
            await asyncio.to_thread(
                lambda: wait_until(
                    lambda: 0 < link.lifetime <= OUR_LIFETIME, timeout=60, what="our RAs", failed=lambda: None
                )
            )
        finally:
            await agent.radvd.stop(link.router_id, moved=True)

    asyncio.run(take_over())
    assert link.theirs is not None
    assert link.theirs.wait(10) == -9
    assert not link.was_withdrawn
    assert link.radvds == 0, "a router that has moved leaves none"


def test_our_own_radvd_is_restarted_without_withdrawing_the_route(link: Link) -> None:
    """As by an upgrade that changes its command line."""
    agent = Agent(link)

    async def restart() -> None:
        await agent.ensure()
        agent.routers.complete_takeover(agent.router, [link.name])
        before = agent.supervisor.running(f"radvd {link.router_id}")
        agent.radvd.options = replace(agent.options, radvd_user="root")
        await agent.ensure()
        after = agent.supervisor.running(f"radvd {link.router_id}")
        assert before is not None
        assert after is not None
        assert before.pid != after.pid
        await agent.radvd.stop(link.router_id, moved=True)

    asyncio.run(restart())
    assert link.lifetime > 0
    assert not link.was_withdrawn
