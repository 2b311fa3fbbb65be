"""charon of strongSwan, as the agent configures and controls it: every algorithm of the API sets a tunnel up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neutrino.agent.l3.services.charon.plan import installed
from neutrino.agent.l3.services.charon.render import Loaded, connections, render_charon
from neutrino.dataplane.protocols.vici.client import Vici
from neutrino.dataplane.protocols.vici.protocol import Refused, ViciError
from neutrino.features.vpn.resources import AUTH_ALGORITHMS, ENCRYPTION_ALGORITHMS, PFS_GROUPS
from neutrino.lab.timing import Deadline
from neutrino.model.routing import Router
from neutrino.model.vpn import IkePolicy, IpsecPolicy, VpnConnection, VpnService
from tests.support.routing import GATEWAY, address, router

CHARON = "/usr/sbin/charon-systemd"
SECRET = b"0123456789abcdef"
INITIATE_MS = "25000"  # the largest groups need seconds of processor time; the client waits for 30 s
INSTALLED_SECONDS = 30
GATEWAYS, SUBNETS = ("192.0.2.1", "192.0.2.2"), ("10.1.0.0/24", "10.2.0.0/24")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Side:
    """One of two gateways: its namespace, and charon in it."""

    def __init__(self, number: int, directory: Path) -> None:
        self.here, self.there = number, 1 - number
        self.name = f"charon-{uuid.uuid4().hex[:8]}"
        self.directory = directory / str(number)
        self.directory.mkdir()

    def router(self, **values: Any) -> Router:
        tunnel = VpnConnection(
            id="c1",
            peer_address=GATEWAYS[self.there],
            peer_id=GATEWAYS[self.there],
            psk="s3cret",
            local_cidrs=(SUBNETS[self.here],),
            peer_cidrs=(SUBNETS[self.there],),
            **{"initiates": False, **values},
        )
        own = (address(GATEWAYS[self.here], "192.0.2.0/24"),)
        gateway = msgspec.structs.replace(GATEWAY, addresses=own)
        return router(gateway=gateway, vpn_services=(VpnService(id="s1", connections=(tunnel,)),))

    def loaded(self, **values: Any) -> tuple[str, Loaded]:
        ((name, found),) = connections(self.router(**values), SECRET).items()
        return name, found

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        configuration = self.directory / "strongswan.conf"
        aggressive = self.router(ike=IkePolicy(aggressive=True))
        configuration.write_text(render_charon(str(self.directory), aggressive, userspace=True))
        environment = {**os.environ, "STRONGSWAN_CONF": str(configuration)}
        command = ["ip", "netns", "exec", self.name, CHARON]
        with open(self.directory / "log", "w") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def joined(sides: list[Side]) -> Iterator[None]:
    """Both in namespaces with a link between them, and an address of its subnet each."""
    try:
        for side in sides:
            ip("netns", "add", side.name)
            ip("-n", side.name, "link", "set", "lo", "up")
            ip("-n", side.name, "link", "add", "in", "type", "veth", "peer", "name", "other")
        ip("-n", sides[0].name, "link", "add", "out", "type", "veth", "peer", "name", "out", "netns", sides[1].name)
        for side in sides:
            inside = SUBNETS[side.here].replace("0/24", "1/24")
            for device, own in (("out", f"{GATEWAYS[side.here]}/24"), ("in", inside)):
                ip("-n", side.name, "address", "add", own, "dev", device)
                ip("-n", side.name, "link", "set", device, "up")
        yield
    finally:
        for side in sides:
            subprocess.run(["ip", "netns", "delete", side.name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def sides() -> Iterator[list[Side]]:
    # Not pytest's own directory, whose path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="charon-") as directory:
        both = [Side(number, Path(directory)) for number in (0, 1)]
        with joined(both), both[0].running(), both[1].running():
            yield both


@contextlib.asynccontextmanager
async def controlled(sides: list[Side]) -> AsyncIterator[list[Vici]]:
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for side in sides:
            vici = await Vici.open(side.directory / "vici", lambda event: None)
            stack.push_async_callback(vici.close)
            found.append(vici)
        yield found


@contextlib.asynccontextmanager
async def loaded(vici: Vici, side: Side, **values: Any) -> AsyncIterator[tuple[str, Loaded]]:
    name, found = side.loaded(**values)
    await vici.command("load-shared", found.key)
    await vici.command("load-conn", found.connection)
    try:
        yield name, found
    finally:
        with contextlib.suppress(ViciError):
            await vici.command("terminate", {"ike": name, "force": "yes"})
        await vici.command("unload-conn", {"name": name})
        await vici.command("unload-shared", {"id": name})


async def tunnel(sides: list[Side], vicis: list[Vici], **values: Any) -> bool:
    """Whether a tunnel comes up with these policies, on both sides."""
    async with (
        loaded(vicis[1], sides[1], **values) as (other, _),
        loaded(vicis[0], sides[0], **values) as (name, found),
    ):
        try:
            await vicis[0].command("initiate", {"ike": name, "child": found.children[0], "timeout": INITIATE_MS})
        except Refused:
            return False
        # With IKEv1 the initiator is done when it has sent the last message, which the other side has yet to receive.
        deadline = Deadline(INSTALLED_SECONDS)
        while True:
            both = [installed(await vici.stream("list-sas", "list-sa")) for vici in vicis]
            if both == [{name}, {other}] or deadline.has_passed():
                return both == [{name}, {other}]
            await asyncio.sleep(0.05)


def policies() -> Iterator[tuple[IkePolicy, IpsecPolicy]]:
    """Every cipher, every algorithm and every group, in IKE and in ESP, some with IKEv1."""
    for number, cipher in enumerate(ENCRYPTION_ALGORITHMS):
        values: dict[str, Any] = {
            "encryption_algorithm": cipher,
            "auth_algorithm": AUTH_ALGORITHMS[number % len(AUTH_ALGORITHMS)],
            "pfs": PFS_GROUPS[number % len(PFS_GROUPS)],
        }
        # IKEv1 has no GCM, CCM and CTR for its own packets, and no XCBC and CMAC.
        version = 1 if cipher in ("aes-128", "aes-192", "aes-256") else 2
        yield IkePolicy(version=version, **values), IpsecPolicy(**values)


def test_every_algorithm_sets_a_tunnel_up(sides: list[Side]) -> None:
    async def run() -> None:
        async with controlled(sides) as vicis:
            failed = [
                f"IKEv{ike.version} {ike.encryption_algorithm} {ike.auth_algorithm} {ike.pfs}"
                for ike, ipsec in policies()
                if not await tunnel(sides, vicis, ike=ike, ipsec=ipsec)
            ]
            assert failed == []

    asyncio.run(run())


def test_aggressive_mode_and_other_keys(sides: list[Side]) -> None:
    async def run() -> None:
        async with controlled(sides) as vicis:
            assert await tunnel(sides, vicis, ike=IkePolicy(aggressive=True))
            policy = IkePolicy(version=2)  # with IKEv1, nobody is told that keys differ
            async with loaded(vicis[1], sides[1], ike=policy), loaded(vicis[0], sides[0], ike=policy) as (name, found):
                await vicis[0].command("load-shared", {**found.key, "data": "another"})
                with pytest.raises(Refused, match="initiate"):
                    await vicis[0].command("initiate", {"ike": name, "child": "net-0", "timeout": INITIATE_MS})

    asyncio.run(run())


def test_a_tunnel_carries_packets_after_its_keys_were_replaced(sides: list[Side]) -> None:
    def reaches() -> bool:
        words = ["ip", "netns", "exec", sides[0].name, "ping", "-c", "1", "-w", "10", "-I", "10.1.0.1", "10.2.0.1"]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    async def run() -> None:
        async with controlled(sides) as vicis:
            for version in (1, 2):
                policy = IkePolicy(version=version)
                async with loaded(vicis[1], sides[1], ike=policy), loaded(vicis[0], sides[0], ike=policy) as (name, _):
                    await vicis[0].command("initiate", {"ike": name, "child": "net-0", "timeout": INITIATE_MS})
                    assert await asyncio.to_thread(reaches)
                    await vicis[0].command("rekey", {"child": "net-0"})
                    await asyncio.to_thread(reaches)
                    assert await asyncio.to_thread(reaches)

    asyncio.run(run())


def test_commands_that_charon_refuses_or_does_not_know(sides: list[Side]) -> None:
    async def run() -> None:
        async with controlled(sides) as (vici, _):
            with pytest.raises(Refused, match="load-conn"):
                await vici.command("load-conn", {"x": {"proposals": ["nonsense"]}})
            with pytest.raises(ViciError, match="does not know"):
                await vici.command("nonsense")
            assert (await vici.command("version"))["daemon"] == "charon-systemd"

    asyncio.run(run())
