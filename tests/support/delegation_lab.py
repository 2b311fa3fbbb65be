"""ISC's DHCPv6 server on the external machine of a lab, which delegates prefixes, and its log.

with delegating(lab) as isp:
    ...
    wait_until(lambda: isp.has_released(prefix), …)
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.routing_lab import EXTERNAL, SOON

ASKING: dict[str, Any] = {
    "ip_version": 6,
    "subnetpool_id": "prefix_delegation",
    "ipv6_ra_mode": "slaac",
    "ipv6_address_mode": "slaac",
}
PROVISIONAL = "::/64"
POOL = ipaddress.IPv6Network("2001:db8:aa00::/56")
_CONFIGURATION = f"""
authoritative;
default-lease-time %d;
preferred-lifetime %d;
subnet6 2001:db8:203:113::/64 {{ prefix6 {POOL[0]} {list(POOL.subnets(new_prefix=64))[-1][0]} /64; }}
"""


class Isp:
    def __init__(self, log: Path) -> None:
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace").replace("\0", "")

    def has_released(self, prefix: str) -> bool:
        return f"releases prefix {prefix}" in self.log

    def given(self) -> list[str]:
        """The prefixes that it has delegated, one entry for each reply."""
        return re.findall(r"Reply PD: address (\S+) to", self.log)


@contextlib.contextmanager
def delegating(lab: Lab, lifetime: int = 600) -> Iterator[Isp]:
    directory = lab.paths.vms.parent / "isp"
    directory.mkdir(exist_ok=True)
    configuration, leases, log = directory / "dhcpd.conf", directory / "leases", directory / "log"
    configuration.write_text(_CONFIGURATION % (lifetime, lifetime))
    leases.write_text("")
    files = ["-cf", str(configuration), "-lf", str(leases), "-pf", str(directory / "pid")]
    with log.open("w") as output:
        argv = ["dhcpd", "-6", "-f", "-d", *files, "eth0"]
        server = lab.popen(EXTERNAL, argv, stdout=output, stderr=subprocess.STDOUT)
        try:
            isp = Isp(log)
            wait_until(lambda: "Server starting service" in isp.log, SOON, "the DHCPv6 server does not start")
            yield isp
        finally:
            server.terminate()
            server.wait(10)


def asking(lab: Lab, network: Object) -> Object:
    """A subnet that has no prefix yet."""
    return lab.api.create("subnet", network_id=network["id"], **ASKING)


def prefix_of(lab: Lab, subnet: Object) -> str:
    return str(lab.api.show("subnet", subnet["id"])["cidr"])


def wait_for_prefix(lab: Lab, subnet: Object) -> str:
    wait_until(lambda: prefix_of(lab, subnet) != PROVISIONAL, SOON, "the subnet gets no prefix")
    found = prefix_of(lab, subnet)
    assert ipaddress.IPv6Network(found).subnet_of(POOL)
    return found


def wait_for_none(lab: Lab, subnet: Object) -> None:
    wait_until(lambda: prefix_of(lab, subnet) == PROVISIONAL, SOON, "the subnet keeps its prefix")


def clients(lab: Lab, host: str) -> dict[str, int]:
    """The clients that run on a host: subnet → process id."""
    found = {}
    for path in (lab.paths.host(host) / "pd").glob("*/*/pid"):
        with contextlib.suppress(OSError, ValueError):
            number = int(path.read_text())
            if str(path.parent).encode() in Path(f"/proc/{number}/cmdline").read_bytes():
                found[path.parent.name] = number
    return found


@contextlib.contextmanager
def route_back(lab: Lab, prefix: str, via: str) -> Iterator[None]:
    """The provider's routes: packets to a prefix go to the router that it was delegated to."""
    lab.run(EXTERNAL, ["ip", "-6", "route", "replace", prefix, "via", via])
    try:
        yield
    finally:
        lab.run(EXTERNAL, ["ip", "-6", "route", "del", prefix], check=False)


def formed(lab: Lab, vm: str) -> set[str]:
    """The global IPv6 addresses that a VM has formed itself, except tentative ones."""
    lines = lab.run(vm, ["ip", "-6", "-o", "address", "show", "dev", "eth0", "scope", "global"]).stdout.splitlines()
    return {line.split()[3].partition("/")[0] for line in lines if "tentative" not in line}


def expected(lab: Lab, vm: str, prefix: str) -> str:
    """The VM's address on a prefix in the API."""
    fixed = lab.api.show("port", lab.vms.get(vm).port_id)["fixed_ips"]
    network = ipaddress.IPv6Network(prefix)
    return next((f["ip_address"] for f in fixed if ipaddress.ip_address(f["ip_address"]) in network), "")
