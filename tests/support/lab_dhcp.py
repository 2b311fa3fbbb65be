"""DHCP in a lab: the hosts that serve a network, options of clients, leases of dnsmasq."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neutrino.model.objects import Object
from tests.support.lab import network, wait_until
from tests.support.lab_control import Lab

# As the scripts of small images have it: the address, and the routes of option 121, in udhcpc's own words.
APPLIED = r"""#!/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address replace "$ip/$mask" dev "$interface"
set -- $staticroutes
while [ $# -ge 2 ]; do
    if [ "$2" = 0.0.0.0 ]; then ip route replace "$1" dev "$interface" scope link
    else ip route replace "$1" via "$2" dev "$interface"; fi
    shift 2
done
"""
UDHCPC = '#!/bin/sh\n[ "$1" = bound ] || [ "$1" = renew ] || exit 0\nenv > "%s"\n'


def served(lab: Lab, name: str, cidrs: tuple[str, ...] = ("10.0.0.0/24",), **attributes: Any) -> str:
    """Create a network and wait until it is served; returns its id."""
    made = network(lab, name, cidrs, enable_dhcp=True, **attributes)
    wait_until(lambda: home(lab, made["id"]) != "", 60, f"{name} is scheduled to no agent")
    return str(made["id"])


def servers(lab: Lab, network_id: str) -> list[Object]:
    return lab.api.list("port", network_id=network_id, device_owner="network:dhcp")


def home(lab: Lab, network_id: str) -> str:
    """The host to which the network is scheduled."""
    found = servers(lab, network_id)
    return str(found[0]["binding:host_id"]) if found else ""


def elsewhere(lab: Lab, network_id: str) -> list[str]:
    hosts = {port["binding:host_id"] for port in servers(lab, network_id)}
    return [host for host in lab.hosts if host not in hosts]


def pid(lab: Lab, host: str, network_id: str) -> int:
    """Of the dnsmasq that serves it; 0 if there is none."""
    try:
        number = int((lab.paths.host(host) / "dhcp" / network_id / "pid").read_text())
        return number if b"dnsmasq" in Path(f"/proc/{number}/cmdline").read_bytes() else 0
    except (OSError, ValueError):
        return 0


def leases(lab: Lab, host: str, network_id: str) -> str:
    return (lab.paths.host(host) / "dhcp" / network_id / "leases").read_text()


def udhcpc(lab: Lab, vm: str, *words: str, tries: int = 10) -> dict[str, str]:
    """The options that busybox's client got, by its own names; empty without a reply. It sets no address."""
    out, script = lab.paths.vms / f".{vm}.options", lab.paths.vms / f".{vm}.udhcpc"
    out.unlink(missing_ok=True)
    script.write_text(UDHCPC % out)
    script.chmod(0o755)
    argv = ["udhcpc", "-f", "-n", "-q", "-t", str(tries), "-T", "1", "-i", "eth0", "-s", str(script), *words]
    lab.run(vm, argv, check=False)
    text = out.read_text() if out.exists() else ""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def configured_by_udhcpc(lab: Lab, vm: str) -> None:
    """busybox' client sets the VM's address and routes by itself; nothing of an earlier client is left."""
    lab.dhcp(vm).remove()
    lab.run(vm, ["ip", "-4", "address", "flush", "dev", "eth0"])
    script = lab.paths.vms / f".{vm}.udhcpc"
    script.write_text(APPLIED)
    script.chmod(0o755)
    options = ["-O", "staticroutes", "-s", str(script)]
    lab.run(vm, ["udhcpc", "-f", "-n", "-q", "-t", "5", "-T", "1", "-i", "eth0", *options])


def addresses(lab: Lab, vm: str) -> set[str]:
    """The global addresses of the VM's device."""
    lines = lab.run(vm, ["ip", "-o", "address", "show", "dev", "eth0", "scope", "global"]).stdout.splitlines()
    return {line.split()[3] for line in lines}


def renewals(lab: Lab, vm: str) -> int:
    """How often the VM's client has had its lease confirmed."""
    return (lab.dhcp(vm).directory / "events").read_text().count("reason=RENEW\n")


def wait_for_renewal(lab: Lab, vm: str, seconds: float = 60) -> None:
    before = renewals(lab, vm)
    wait_until(lambda: renewals(lab, vm) > before, seconds, f"the lease of {vm} is not renewed")
