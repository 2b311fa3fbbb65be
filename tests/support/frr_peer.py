"""FRR on a lab's external machine: a BGP peer that puts what it learns into its kernel, and the other end of BFD."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from neutrino.lab.errors import wait_until
from tests.support.lab_control import Lab

FRR = "/usr/lib/frr"
SOON = 60.0


class Frr:
    """Daemons of FRR on a machine of the lab."""

    def __init__(self, lab: Lab, where: str, directory: Path) -> None:
        self._lab, self._where, self._directory = lab, where, directory

    def vtysh(self, *commands: str) -> str:
        arguments = [part for command in commands for part in ("-c", command)]
        argv = ["vtysh", "--vty_socket", str(self._directory), *arguments]
        return str(self._lab.run(self._where, argv).stdout)


class FrrPeer(Frr):
    def neighbor(self, address: str) -> Any:
        return json.loads(self.vtysh(f"show bgp neighbors {address} json"))[address]

    def sessions(self, address: str) -> int:
        """How often a session with the neighbor was established."""
        return int(self.neighbor(address)["connectionsEstablished"])

    def routes(self, version: int = 4) -> dict[str, str]:
        """The routes that the kernel has by BGP: destination → next hop."""
        text = self._lab.run(self._where, ["ip", f"-{version}", "-j", "route", "show", "proto", "bgp"]).stdout
        return {
            route["dst"] if "/" in route["dst"] else f"{route['dst']}/32": route["gateway"]
            for route in json.loads(text or "[]")
        }

    def wait_for_routes(self, wanted: dict[str, str], version: int = 4) -> None:
        wait_until(lambda: self.routes(version) == wanted, SOON, f"the peer does not have the routes {wanted}")


class FrrBfd(Frr):
    """The other end of BFD sessions."""

    def add(self, router: str, local: str, device: str, interval: int) -> None:
        timers = [f"{name}-interval {interval}" for name in ("receive", "transmit")]
        self.vtysh("configure terminal", "bfd", f"peer {router} local-address {local} interface {device}", *timers)

    def clear(self) -> None:
        self.vtysh("configure terminal", "no bfd")

    def sessions(self) -> dict[str, str]:
        """The states of all sessions, by the router's address."""
        return {each["peer"]: each["status"] for each in json.loads(self.vtysh("show bfd peers json"))}

    def failures(self) -> dict[str, int]:
        """How often each session has failed."""
        found = json.loads(self.vtysh("show bfd peers counters json"))
        return {each["peer"]: each["session-down"] for each in found}

    def wait_until_up(self, *routers: str) -> None:
        wanted = dict.fromkeys(routers, "up")
        wait_until(lambda: self.sessions() == wanted, SOON, f"not all BFD sessions are up: {wanted}")


@contextlib.contextmanager
def frr_bfd(lab: Lab, where: str) -> Iterator[FrrBfd]:
    with _daemons(lab, where, {"zebra": "", "bfdd": ""}) as directory:
        yield FrrBfd(lab, where, directory)


@contextlib.contextmanager
def frr_peer(
    lab: Lab, where: str, local_as: int, neighbors: Iterable[str], remote_as: int, password: str
) -> Iterator[FrrPeer]:
    """It waits for sessions with the neighbors, each in the family of its address."""
    bgpd = (
        f"router bgp {local_as}\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n"
        + "".join(_neighbor(each, remote_as, password) for each in neighbors)
        + "exit\n"
    )
    with _daemons(lab, where, {"zebra": "", "bgpd": bgpd}) as directory:
        yield FrrPeer(lab, where, directory)


@contextlib.contextmanager
def _daemons(lab: Lab, where: str, configurations: dict[str, str]) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="frr-"))
    shutil.chown(directory, "frr", "frr")  # whom the daemons run as
    shared = ("-P", "0", "--vty_socket", str(directory), "-z", str(directory / "zserv.api"))
    more = {"bfdd": ("--bfdctl", str(directory / "bfdctl"))}
    started: list[subprocess.Popen[str]] = []
    try:
        for name, text in configurations.items():
            (directory / f"{name}.conf").write_text(f"frr defaults traditional\n{text}")
            files = ("-f", str(directory / f"{name}.conf"), "-i", str(directory / f"{name}.pid"))
            with open(directory / f"{name}.log", "w") as log:
                argv = [f"{FRR}/{name}", *shared, *files, *more.get(name, ()), "--log", "stdout"]
                started.append(lab.popen(where, argv, stdout=log, stderr=log))
            socket = directory / f"{name}.vty"
            wait_until(socket.exists, SOON, f"{name} of the peer does not start")
        yield directory
    finally:
        for each in reversed(started):
            each.terminate()
            each.wait()
        shutil.rmtree(directory)


def _neighbor(address: str, remote_as: int, password: str) -> str:
    family = "ipv6" if ":" in address else "ipv4"
    return (
        f" neighbor {address} remote-as {remote_as}\n neighbor {address} password {password}\n"
        f" neighbor {address} passive\n"
        f" address-family {family} unicast\n  neighbor {address} activate\n exit-address-family\n"
    )
