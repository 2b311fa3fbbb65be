"""Addresses and routes of a stand-in instance: by DHCP, or static from its port.

DHCP is isc-dhcp-client in the instance's namespace, with a script that configures the instance's device only: the script
of the package would overwrite the machine's /etc/resolv.conf. Ours sets addresses, routes and MTU, and logs each event with
all options, name servers included, to a file.

Static is whatever DHCP does not provide: subnets without DHCP, IPv6 subnets without a mode, and SLAAC, where the address is
known from the port and the instance would wait for the RA of a router that need not exist.
"""

import contextlib
import ipaddress
import os
import shutil
import signal
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab.errors import LabError
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.namespaces import in_network, ip_batch
from neutrino.lab.instances.plug import DEVICE
from neutrino.lab.timing import scaled
from neutrino.model.objects import Values

Run = Callable[[Sequence[str]], object]  # runs a command in the instance; raises LabError
STATEFUL = "dhcpv6-stateful"
DEFAULT_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}
HERE = Path(__file__).parent
LEASE_SECONDS = 10.0
_NO_LEASE = "exit status 2"  # of dhclient: it has tried for the time that its configuration has


def dhcp_subnets(port: Values, subnets: Sequence[Values]) -> list[Values]:
    """The subnets of the port that are addressed by DHCP."""
    by_id = {subnet["id"]: subnet for subnet in subnets}
    own = [by_id[fixed["subnet_id"]] for fixed in port["fixed_ips"]]
    return [s for s in own if s["enable_dhcp"] and (s["ip_version"] == 4 or s["ipv6_address_mode"] == STATEFUL)]


def render_static(port: Values, subnets: Sequence[Values], by_dhcp: Collection[str] = ()) -> list[str]:
    """`ip` commands in the instance that replace all addresses; subnets `by_dhcp` are left out."""
    by_id = {subnet["id"]: subnet for subnet in subnets}
    lines = [f"address flush dev {DEVICE} scope global"]
    routes: dict[str, str] = {}  # of two routes to one destination the first is used, as a DHCP client does
    for fixed in port["fixed_ips"]:
        if fixed["subnet_id"] in by_dhcp:
            continue
        subnet = by_id[fixed["subnet_id"]]
        address, network = ipaddress.ip_address(fixed["ip_address"]), ipaddress.ip_network(subnet["cidr"])
        nodad = " nodad" if network.version == 6 else ""
        lines.append(f"address add {address}/{network.prefixlen} dev {DEVICE}{nodad}")
        for route in subnet["host_routes"]:
            routes.setdefault(route["destination"], route["nexthop"])
        if subnet["gateway_ip"] and subnet["gateway_ip"] != str(address):
            routes.setdefault(DEFAULT_ROUTES[network.version], subnet["gateway_ip"])
    return lines + [
        f"route replace {destination} via {nexthop} dev {DEVICE} onlink" for destination, nexthop in routes.items()
    ]


def apply_static(network: Path, port: Values, subnets: Sequence[Values], by_dhcp: Collection[str] = ()) -> None:
    in_network(network, lambda: ip_batch(render_static(port, subnets, by_dhcp)))


class NoLease(LabError):
    """No server has answered."""


@dataclass(frozen=True)
class DhcpClient:
    """The dhclient processes of one instance, one per IP version, with their files in `directory`."""

    directory: Path
    run: Run

    def lease(self, subnets: Sequence[Values]) -> None:
        """Get new leases; the clients keep running and renew them. Without an answer from a server, LabError."""
        if shutil.which("dhclient") is None:
            raise LabError("DHCP in a VM needs dhclient: apt-get install isc-dhcp-client, or use --no-dhcp")
        self.remove()
        self.directory.mkdir(parents=True)
        script = self.directory / "script"  # a copy of its own, as it logs to the directory that it is in
        shutil.copyfile(HERE / "dhclient_script.sh", script)
        script.chmod(0o755)
        template = (HERE / "dhclient.conf").read_text()
        (self.directory / "conf").write_text(template.format(timeout=round(scaled(LEASE_SECONDS))))
        if any(subnet["ip_version"] == 4 for subnet in subnets):
            self._try(4)
        for subnet in [subnet for subnet in subnets if subnet["ip_version"] == 6][:1]:
            # dhclient sets a /128 by default, without a route to the subnet.
            length = ipaddress.ip_network(subnet["cidr"]).prefixlen
            self._try(6, "--address-prefix-len", str(length))

    def _try(self, version: int, *options: str) -> None:
        try:
            self.run(self.argv(version, "-1", *options))
        except LabError as error:
            if (self.directory / f"pid{version}").exists() or _NO_LEASE not in str(error):
                raise
            raise NoLease(f"no answer to its DHCPv{version} requests within {scaled(LEASE_SECONDS):.0f} s") from None

    def argv(self, version: int, *options: str) -> list[str]:
        """A dhclient command: `-1` tries once to get a lease, `-r` releases it, `-x` ends the client."""
        names = {"-cf": "conf", "-sf": "script", "-lf": f"leases{version}", "-pf": f"pid{version}"}
        files = [word for option, name in names.items() for word in (option, str(self.directory / name))]
        return ["dhclient", f"-{version}", *options, *files, DEVICE]

    def remove(self) -> None:
        """Kill the clients, which releases no lease, as when a VM loses power; delete their files."""
        for version in (4, 6):
            file = self.directory / f"pid{version}"
            with contextlib.suppress(OSError, ValueError):
                pid = int(file.read_text())
                if str(file).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():  # the pid may have been reused
                    os.kill(pid, signal.SIGKILL)
                    processes.wait_for_end(pid, processes.STOP_SECONDS)
        shutil.rmtree(self.directory, ignore_errors=True)
