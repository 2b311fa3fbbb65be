"""A VM's DHCP client: isc-dhcp-client in the VM's namespace, with files of its own and a script that touches the VM alone.

The script that the package brings would write the machine's /etc/resolv.conf. Ours sets addresses, routes and the MTU of
the VM's device, and writes what it was told, name servers among it, into a file.

Addresses that a VM forms by itself (SLAAC) are set as the VM would form them, for it would wait for a router that a lab
need not have. So is what no DHCP gives: an IPv6 subnet without a mode, a subnet without DHCP.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.lab import processes
from neutrino.lab.errors import LabError
from neutrino.lab.plug import DEVICE

Object = Mapping[str, Any]
Run = Callable[[Sequence[str]], str]  # in the VM: the command's output, or a LabError
STATEFUL = "dhcpv6-stateful"
ANSWER_SECONDS = 10
ROUTES = "option rfc3442-classless-static-routes code 121 = array of unsigned integer 8;"
CONFIGURATION = f"""{ROUTES}
timeout {ANSWER_SECONDS};
initial-interval 1;
backoff-cutoff 2;
initial-delay 0;
retry 5;
request subnet-mask, routers, rfc3442-classless-static-routes, domain-name, domain-name-servers, host-name, interface-mtu;
also request dhcp6.name-servers, dhcp6.domain-search;
"""

SCRIPT = r"""#!/bin/sh
# Called by dhclient with what it was told in the environment. Written by `neutrino lab`.
length() {
    bits=0
    for part in $(echo "$1" | tr . ' '); do
        while [ "$part" -gt 0 ]; do bits=$((bits + (part & 1))); part=$((part >> 1)); done
    done
    echo $bits
}
classless() {
    while [ $# -ge 5 ]; do
        size=$1 net='' octets=$((($1 + 7) / 8)); shift
        for number in 1 2 3 4; do
            if [ "$number" -le "$octets" ]; then net=$net.$1; shift; else net=$net.0; fi
        done
        via=$1.$2.$3.$4; shift 4
        if [ "$via" = 0.0.0.0 ]; then ip route replace "${net#.}/$size" dev "$interface" scope link
        else ip route replace "${net#.}/$size" via "$via" dev "$interface" onlink; fi
    done
}
case $reason in
PREINIT | PREINIT6) ip link set "$interface" up ;;
BOUND | RENEW | REBIND | REBOOT)
    if [ -n "$old_ip_address" ] && [ "$old_ip_address" != "$new_ip_address" ]; then
        ip -4 address flush dev "$interface"
    fi
    [ -z "$new_interface_mtu" ] || ip link set "$interface" mtu "$new_interface_mtu"
    ip address replace "$new_ip_address/$(length "$new_subnet_mask")" dev "$interface"
    if [ -n "$new_rfc3442_classless_static_routes" ]; then
        classless $new_rfc3442_classless_static_routes
    else
        for router in $new_routers; do ip route replace default via "$router" dev "$interface" onlink; break; done
    fi ;;
EXPIRE | RELEASE | STOP) [ -z "$old_ip_address" ] || ip -4 address flush dev "$interface" ;;
BOUND6 | RENEW6 | REBIND6)
    if [ -n "$old_ip6_address" ] && [ "$old_ip6_address" != "$new_ip6_address" ]; then
        ip -6 address delete "$old_ip6_address/$old_ip6_prefixlen" dev "$interface"
    fi
    [ -z "$new_ip6_address" ] ||
        ip -6 address replace "$new_ip6_address/$new_ip6_prefixlen" dev "$interface" nodad ;;
DEPREF6 | EXPIRE6 | RELEASE6 | STOP6)
    [ -z "$old_ip6_address" ] || ip -6 address delete "$old_ip6_address/$old_ip6_prefixlen" dev "$interface" ;;
esac
{ env | grep -E '^(new_|old_|reason=)'; echo ===; } >> "${0%/*}/told"
exit 0
"""


def asks(port: Object, subnets: Sequence[Object]) -> tuple[frozenset[str], int | None]:
    """The port's subnets that DHCP addresses, and the length of an IPv6 prefix among them."""
    by_id = {subnet["id"]: subnet for subnet in subnets}
    wanted = [by_id[fixed["subnet_id"]] for fixed in port["fixed_ips"]]
    given = [s for s in wanted if s["enable_dhcp"] and (s["ip_version"] == 4 or s["ipv6_address_mode"] == STATEFUL)]
    lengths = [ipaddress.ip_network(s["cidr"]).prefixlen for s in given if s["ip_version"] == 6]
    return frozenset(s["id"] for s in given), lengths[0] if lengths else None


class DhcpClient:
    """The clients of one VM, one for each family."""

    def __init__(self, directory: Path, run: Run) -> None:
        self.directory = directory
        self._run = run

    def lease(self, *, ipv4: bool, ipv6_prefix: int | None) -> None:
        """Get leases, from scratch, and keep them: the clients stay and renew. No answer is a LabError."""
        if shutil.which("dhclient") is None:
            raise LabError("a VM with DHCP needs dhclient: apt-get install isc-dhcp-client; --no-dhcp does without")
        self.forget()
        self.directory.mkdir(parents=True)
        script = self.directory / "script"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        (self.directory / "conf").write_text(CONFIGURATION)
        if ipv4:
            self._run(self.argv(4, "-1"))
        if ipv6_prefix is not None:
            self._run(self.argv(6, "-1", "--address-prefix-len", str(ipv6_prefix)))

    def argv(self, version: int, *words: str) -> list[str]:
        """`-r` gives a lease back, `-x` ends the client, `-1` asks once."""
        names = {"-cf": "conf", "-sf": "script", "-lf": f"leases{version}", "-pf": f"pid{version}"}
        files = [word for option, name in names.items() for word in (option, str(self.directory / name))]
        return ["dhclient", f"-{version}", *words, *files, DEVICE]

    def forget(self) -> None:
        """The clients end without a word, as in a machine that loses its power, and their files go."""
        for version in (4, 6):
            self.end(version)
        shutil.rmtree(self.directory, ignore_errors=True)

    def end(self, version: int) -> None:
        file = self.directory / f"pid{version}"
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            if str(file).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                processes.wait_for_end(pid, processes.STOP_SECONDS)

    def told(self) -> dict[str, str]:
        """What the last call of the script was told, by dhclient's names."""
        try:
            text = (self.directory / "told").read_text()
        except OSError:
            return {}
        last = text.split("===\n")[-2]
        return {name: value for name, equals, value in (line.partition("=") for line in last.splitlines()) if equals}
