"""A router with FRR on a lab's external machine: a BGP peer that puts what it learns into its kernel."""

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


class FrrPeer:
    def __init__(self, lab: Lab, where: str, directory: Path) -> None:
        self._lab, self._where, self._directory = lab, where, directory

    def vtysh(self, *commands: str) -> str:
        arguments = [part for command in commands for part in ("-c", command)]
        argv = ["vtysh", "--vty_socket", str(self._directory), *arguments]
        return str(self._lab.run(self._where, argv).stdout)

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


@contextlib.contextmanager
def frr_peer(
    lab: Lab, where: str, local_as: int, neighbors: Iterable[str], remote_as: int, password: str
) -> Iterator[FrrPeer]:
    """It waits for sessions with the neighbors, each in the family of its address."""
    directory = Path(tempfile.mkdtemp(prefix="frr-"))
    shutil.chown(directory, "frr", "frr")  # whom the daemons run as
    (directory / "zebra.conf").write_text("frr defaults traditional\n")
    (directory / "bgpd.conf").write_text(
        f"frr defaults traditional\nrouter bgp {local_as}\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n"
        + "".join(_neighbor(each, remote_as, password) for each in neighbors)
        + "exit\n"
    )
    shared = ("-P", "0", "--vty_socket", str(directory), "-z", str(directory / "zserv.api"))
    started: list[subprocess.Popen[str]] = []
    try:
        for name in ("zebra", "bgpd"):
            files = ("-f", str(directory / f"{name}.conf"), "-i", str(directory / f"{name}.pid"))
            with open(directory / f"{name}.log", "w") as log:
                argv = [f"{FRR}/{name}", *shared, *files, "--log", "stdout"]
                started.append(lab.popen(where, argv, stdout=log, stderr=log))
            socket = directory / f"{name}.vty"
            wait_until(socket.exists, SOON, f"{name} of the peer does not start")
        yield FrrPeer(lab, where, directory)
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
