"""The VRRP password of HA routers, with keepalived: hosts with one password elect one, others do not know each other."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.services.keepalived.render import Failover, primary_address, render_keepalived
from neutrino.lab.errors import wait_until
from tests.support.capture import Capture
from tests.support.process import ENDS_WITH_US
from tests.support.routing import address, membership
from tests.support.throwaway_namespace import ThrowawayNamespace

HA = "ha-ffffffff-aa"
ELECTED = 30.0  # seconds, on a busy machine


def _inside(place: ThrowawayNamespace, *command: str) -> list[str]:
    return ["nsenter", f"--net={place.path}", *command]


@dataclasses.dataclass
class Member:
    """A host of an HA router, of which there is nothing but the HA port."""

    place: ThrowawayNamespace
    directory: Path
    number: int

    @contextlib.contextmanager
    def runs(self, **settings: str) -> Iterator[None]:
        port = membership().interface
        own = msgspec.structs.replace(port, addresses=(address(f"169.254.192.{self.number}", "169.254.192.0/18"),))
        failover = Failover("", msgspec.structs.replace(membership(), interface=own), {}, (), ())
        text = render_keepalived(failover, L3Options(host=f"h{self.number}", **settings), str(self.directory / "fifo"))  # type: ignore[arg-type]
        (self.directory / "keepalived.conf").write_text(text)
        pids = [f"--{each}={self.directory}/{each}.pid" for each in ("pid", "vrrp_pid")]
        options = ["--dont-fork", "--log-console", "--vrrp", "--use-file", f"{self.directory}/keepalived.conf", *pids]
        with (self.directory / "log").open("w") as log:
            process = subprocess.Popen(
                [*ENDS_WITH_US, *_inside(self.place, "keepalived", *options)], stdout=log, stderr=log
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(10)

    @property
    def is_active(self) -> bool:
        found = self.place.run("ip", "-4", "-o", "address", "show", "dev", HA)
        return primary_address(membership()) in found

    def capture(self) -> Capture:
        def start(argv: Sequence[str]) -> subprocess.Popen[str]:
            return subprocess.Popen(
                _inside(self.place, *argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        return Capture(start, HA, "vrrp or ah")


@pytest.fixture
def members(tmp_path: Path) -> Iterator[tuple[Member, Member]]:
    with ThrowawayNamespace() as one, ThrowawayNamespace() as other:
        one.run("ip", "link", "add", HA, "type", "veth", "peer", "name", HA, "netns", str(other.pid))
        made = []
        for number, place in ((7, one), (8, other)):
            place.run("ip", "address", "add", f"169.254.192.{number}/18", "dev", HA)
            place.run("ip", "link", "set", HA, "up")
            (tmp_path / str(number)).mkdir()
            made.append(Member(place, tmp_path / str(number), number))
        yield made[0], made[1]


@pytest.mark.parametrize(
    ("kind", "password", "seen"),
    [("PASS", "secret", "authtype simple"), ("AH", "secret", "AH("), ("PASS", "", "authtype none")],
)
def test_hosts_with_one_password_elect_one(members: tuple[Member, Member], kind: str, password: str, seen: str) -> None:
    one, other = members
    settings = {"ha_vrrp_auth_type": kind, "ha_vrrp_auth_password": password}
    with one.runs(**settings):
        wait_until(lambda: one.is_active, ELECTED, "no host is active")
        with other.runs(**settings), other.capture() as advertised:
            advertised.wait_for(seen)
            # A host becomes active after three advertisements that it has missed or refused, and at most one second more.
            wait_until(lambda: len(advertised.lines) > 6, ELECTED, "no advertisements")
            assert (one.is_active, other.is_active) == (True, False)


def test_hosts_with_two_passwords_do_not_know_each_other(members: tuple[Member, Member]) -> None:
    one, other = members
    with one.runs(ha_vrrp_auth_password="secret"), other.runs(ha_vrrp_auth_password="another"):
        wait_until(lambda: one.is_active and other.is_active, ELECTED, "they know each other")
