"""A keepalived of Neutron's is adopted without a transition: two real ones, of which the other host's stays Neutron's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.ha_states import last_state
from neutrino.agent.l3.router import DesiredRouters, render, router_namespaces
from neutrino.agent.l3.routers import Routers
from neutrino.agent.l3.services.api import Serving
from neutrino.agent.l3.services.keepalived.service import Keepalived, OtherKeepaliveds
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime import supervisor
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.process.api import ADOPTED
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.real import RealProcesses
from neutrino.model.routing import RouterRoute
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l3_host import Feed, Flushes
from tests.support.process import wait_until
from tests.support.routing import GATEWAY, address, floating, interface, membership, router

HA, QR, QG = "ha-ffffffff-aa", "qr-00000001-aa", "qg-eeeeeeee-aa"
PRIMARY = "169.254.0.7/24"
ELECTED = 30.0  # seconds, on a busy machine
QUIET = 4.0  # seconds: a standby host takes over after three advertisements

# As Neutron 29 writes it for the router below.
NEUTRONS = """global_defs {
    notification_email_from neutron@openstack.local
    router_id neutron
}
vrrp_instance VR_7 {
    state BACKUP
    interface ha-ffffffff-aa
    virtual_router_id 7
    priority 50
    garp_master_delay 60
    nopreempt
    advert_int 1
    authentication {
        auth_type PASS
        auth_pass secret
    }
    track_interface {
        ha-ffffffff-aa
    }
    virtual_ipaddress {
        169.254.0.7/24 dev ha-ffffffff-aa
    }
    virtual_ipaddress_excluded {
        10.0.1.1/24 dev qr-00000001-aa no_track
        2001:db8:1::1/64 dev qr-00000001-aa no_track
        203.0.113.5/24 dev qg-eeeeeeee-aa no_track
        203.0.113.9/32 dev qg-eeeeeeee-aa no_track
        fe80::f816:3eff:fe00:101/64 dev qr-00000001-aa scope link no_track
        fe80::f816:3eff:fe00:201/64 dev qg-eeeeeeee-aa scope link no_track
    }
    virtual_routes {
        0.0.0.0/0 via 203.0.113.1 dev qg-eeeeeeee-aa no_track protocol static
        192.0.2.0/24 via 10.0.1.9 no_track protocol static
        198.51.100.0/24 dev qg-eeeeeeee-aa scope link no_track protocol static
    }
}
"""


def command(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout


class Member:
    """A host of the router with Neutron's keepalived."""

    def __init__(self, directory: Path, router_id: str, name: str, number: int) -> None:
        self.directory, self.router_id, self.name, self.number = directory, router_id, name, number
        self.monitor: subprocess.Popen[bytes] | None = None
        directory.mkdir()

    def create(self) -> None:
        command("ip", "netns", "add", self.name)
        for device, mac in ((QR, "fa:16:3e:00:01:01"), (QG, "fa:16:3e:00:02:01")):
            self.ip("link", "add", device, "address", mac, "type", "veth", "peer", "name", f"x{device[:2]}")
            command("ip", "netns", "exec", self.name, "sysctl", "-qw", f"net.ipv6.conf.{device}.addr_gen_mode=1")
            command("ip", "netns", "exec", self.name, "sysctl", "-qw", f"net.ipv6.conf.{device}.accept_dad=0")
            self.ip("link", "set", f"x{device[:2]}", "up")
            self.ip("link", "set", device, "up")
        self.ip("link", "set", "lo", "up")

    def connect(self) -> None:
        self.ip("address", "add", f"169.254.192.{self.number}/18", "dev", HA)
        self.ip("link", "set", HA, "up")

    def ip(self, *words: str) -> str:
        return command("ip", "-n", self.name, *words)

    @property
    def file(self) -> Path:
        return self.directory / self.router_id / "keepalived.conf"

    def start(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text(NEUTRONS)
        base = self.directory / "pid"
        argv = ("keepalived", "-P", "-f", str(self.file), "-p", f"{base}.keepalived", "-r", f"{base}.keepalived-vrrp")
        command("ip", "netns", "exec", self.name, *argv)

    def watch(self) -> None:
        """Addresses and routes from now on."""
        argv = ["ip", "netns", "exec", self.name, "stdbuf", "-oL", "ip", "monitor", "address", "route"]
        with (self.directory / "events").open("wb") as output:
            self.monitor = subprocess.Popen(argv, stdout=output)

        def has_begun() -> bool:
            self.ip("address", "add", "192.0.2.77/32", "dev", "lo")
            self.ip("address", "delete", "192.0.2.77/32", "dev", "lo")
            return "Deleted" in self.events

        wait_until(has_begun, timeout=10, what="an event", failed=lambda: None)

    @property
    def events(self) -> str:
        return (self.directory / "events").read_text()

    @property
    def changes(self) -> list[str]:
        of_watch = ("192.0.2.77", "valid_lft")
        return [line for line in self.events.splitlines() if not any(word in line for word in of_watch)]

    @property
    def is_active(self) -> bool:
        return PRIMARY in self.ip("-4", "-o", "address", "show", "dev", HA)

    @property
    def keepaliveds(self) -> set[str]:
        found = command("ip", "netns", "pids", self.name).split()
        return {pid for pid in found if Path(f"/proc/{pid}/comm").read_text() == "keepalived\n"}

    def remove(self) -> None:
        for pid in command("ip", "netns", "pids", self.name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if self.monitor is not None:
            self.monitor.wait(10)
        command("ip", "netns", "delete", self.name)


@pytest.fixture
def members(tmp_path: Path) -> Iterator[tuple[Member, Member]]:
    """The one that is converted, and one that stays Neutron's."""
    router_id = str(uuid.uuid4())
    one = Member(tmp_path / "one", router_id, f"qrouter-{router_id}", 7)
    other = Member(tmp_path / "other", router_id, f"other-{router_id}", 8)
    with contextlib.ExitStack() as stack:
        for member in (one, other):
            member.create()
            stack.callback(member.remove)
        one.ip("link", "add", HA, "type", "veth", "peer", "name", HA, "netns", other.name)
        for member in (one, other):
            member.connect()
        yield one, other


class Agent:
    """The parts of the L3 role that run keepalived; `options` are those of this project, with other values."""

    def __init__(self, member: Member) -> None:
        state, namespaces = str(member.directory / "state"), Namespaces()
        self.options = L3Options(host="h1", state_path=state, ha_vrrp_advert_int=2)
        services = ServiceNamespaces(RealNetlink(namespaces), FakeOvsdb, RealNft(), state)
        leftovers = Leftovers(services, RealForeignProcesses(namespaces), state)
        self.routers = Routers(
            services, lambda name: Flushes(), self.options, DesiredRouters(Feed()), leftovers=leftovers
        )
        self.lines: list[str] = []
        others = OtherKeepaliveds(self.routers.other_keepalived, self.routers.end_other_keepaliveds)
        self.keepalived = Keepalived(Supervisor(RealProcesses(state)), self.options, others)
        self.keepalived.notify = lambda router_id, lines: self.lines.extend(lines)
        inside = interface(
            1, address("10.0.1.1", "10.0.1.0/24", "10.0.1.1"), address("2001:db8:1::1", "2001:db8:1::/64")
        )
        self.router = router(
            inside,
            id=member.router_id,
            gateway=msgspec.structs.replace(GATEWAY, other_subnets=("198.51.100.0/24",)),
            floating_ips=(floating(9, "10.0.1.9"),),
            routes=(RouterRoute(destination="192.0.2.0/24", nexthop="10.0.1.9"),),
            ha=membership(priority=200),
        )
        self.failover = next(render(each).failover for each in router_namespaces(self.router, self.options))

    async def ensure(self) -> list[str]:
        self.keepalived.adopt(self.router)
        return await self.keepalived.ensure(self.router, Serving(failover=self.failover))

    @property
    def process(self) -> tuple[int, str]:
        found = self.keepalived.supervisor.running(f"keepalived {self.router.id}")
        assert found is not None
        return found.pid, found.digest


def elect(first: Member, second: Member) -> None:
    first.start()
    wait_until(lambda: first.is_active, timeout=ELECTED, what="an active host", failed=lambda: None)
    second.start()
    wait_until(lambda: len(second.keepaliveds) == 2, timeout=ELECTED, what="a second host", failed=lambda: None)


@pytest.mark.parametrize("is_active", [True, False])
def test_neither_host_notices_the_adoption(
    members: tuple[Member, Member], is_active: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "YOUNG_SECONDS", 2.0)  # a keepalived that runs for days needs no waiting
    one, other = members
    elect(*((one, other) if is_active else (other, one)))
    before = one.keepaliveds
    for member in members:
        member.watch()

    async def adopt() -> None:
        agent = Agent(one)
        assert agent.keepalived.find(agent.router, Serving(failover=agent.failover))[0].startswith("adopt keepalived")
        problems = await agent.ensure()
        assert "advert_int 1, and ha_vrrp_advert_int is 2" in problems[0]
        assert agent.process[1] == ADOPTED
        await asyncio.sleep(QUIET)
        assert (one.changes, other.changes) == ([], [])
        assert one.keepaliveds == before
        assert (one.is_active, other.is_active) == (is_active, not is_active)
        assert agent.routers.is_active(agent.router) is is_active
        written = one.file.read_text()
        assert written == (one.directory / "state" / "ha_confs" / one.router_id / "keepalived.conf").read_text()
        assert all(words in written for words in ("priority 200", "auth_pass secret", "nopreempt", "advert_int 1"))
        await agent.keepalived.close()
        # The agent is restarted: it knows the process again, and reloads nothing.
        again = Agent(one)
        assert again.keepalived.is_running(one.router_id)
        assert again.keepalived.orphans() == []
        assert again.keepalived.find(again.router, Serving(failover=again.failover)) == []
        await again.ensure()
        assert again.process == agent.process
        if is_active:
            await fail_over(again)
            await replace(again)
        await again.keepalived.close()

    async def fail_over(agent: Agent) -> None:
        """The next transition is notified through the fifo, which the reload has named."""
        one.ip("link", "set", HA, "down")
        async with asyncio.timeout(ELECTED):
            while last_state(agent.lines) != "standby":
                await asyncio.sleep(0.05)

    async def replace(agent: Agent) -> None:
        """When it exits, ours is started, and what is left of it is ended."""
        watching = asyncio.create_task(agent.keepalived.supervisor.run())
        former, _ = agent.process
        os.kill(former, signal.SIGKILL)
        async with asyncio.timeout(ELECTED):
            while (
                agent.keepalived.supervisor.running(f"keepalived {one.router_id}") is None or agent.process[0] == former
            ):
                await asyncio.sleep(0.05)
        assert agent.process[1] != ADOPTED
        assert one.keepaliveds.isdisjoint(before)
        watching.cancel()
        await agent.keepalived.stop(one.router_id, moved=False)

    asyncio.run(adopt())
