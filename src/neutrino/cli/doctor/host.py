"""Checks of a host as such: privileges, programs with their versions, kernel."""

import re
from collections.abc import Iterator
from typing import Final

from neutrino.agent.programs import CAP_NET_ADMIN, programs_of
from neutrino.cli.doctor.machine import Machine
from neutrino.cli.doctor.subject import Subject
from neutrino.diagnosis import host_problems
from neutrino.diagnosis.problems import Finding

CONNTRACK_SHARE: Final = 0.9
# The oldest version with what the agent uses: dnsmasq with several addresses per host, nft with maps of concatenations.
VERSIONS: Final = {"dnsmasq": "2.81", "keepalived": "2.0", "nft": "0.9.6", "conntrack": "1.4.5"}
OPTIONAL: Final = {  # program → package, and the routers that need it
    "keepalived": ("keepalived", "HA routers"),
    "radvd": ("radvd", "IPv6 subnets with router advertisements"),
    "dibbler-client": ("dibbler-client", "IPv6 prefix delegation"),
}
TUNNEL_MODULES: Final = {"vxlan": "vxlan", "geneve": "geneve", "gre": "ip_gre"}
HYBRID: Final = "iptables_hybrid"
_VERSION = re.compile(r"(\d+(?:\.\d+)+)")
_SYS = "/proc/sys/net"


def has_net_admin(machine: Machine) -> bool:
    for line in (machine.read("/proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> CAP_NET_ADMIN & 1)
    return False


def privileges(subject: Subject) -> Iterator[Finding]:
    if not has_net_admin(subject.machine):
        yield host_problems.PRIVILEGES("this user has no CAP_NET_ADMIN")


def programs(subject: Subject) -> Iterator[Finding]:
    machine, roles = subject.machine, subject.conf.roles
    required = programs_of(roles, subject.conf.bgp.bgpd, conntrackd=subject.conf.ha_conntrackd_enabled)
    packages = required | {name: package for name, (package, _) in OPTIONAL.items() if "l3" in roles}
    for program, package in sorted(packages.items()):
        if machine.which(program) is not None:
            yield from _old(machine, program, package)
        elif program in required:
            yield host_problems.PROGRAM_MISSING(f"{program} is not installed", package=package)
        else:
            users = OPTIONAL[program][1]
            yield host_problems.PROGRAM_OPTIONAL(
                f"{program} is not installed: it is needed for {users}", package=package
            )


def _old(machine: Machine, program: str, package: str) -> Iterator[Finding]:
    needed = VERSIONS.get(program)
    if needed is None:
        return
    done = machine.run([program, "--version"])
    installed = version(done.out + done.error)
    if installed and as_numbers(installed) < as_numbers(needed):
        yield host_problems.PROGRAM_OLD(f"{program} has version {installed}", version=needed, package=package)


def version(text: str) -> str:
    """Return the first number with a dot in a program's output; empty if there is none."""
    match = _VERSION.search(text)
    return match.group(1) if match else ""


def as_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


# --- kernel -----------------------------------------------------------------------------------------------------------


def kernel(subject: Subject) -> Iterator[Finding]:
    machine, conf = subject.machine, subject.conf
    for module in needed_modules(subject):
        if is_missing(machine, module):
            yield host_problems.KERNEL_MODULE(f"this kernel has no module {module}")
    if "l3" in conf.roles and machine.which("nft") is not None and has_net_admin(machine):
        done = machine.run(["nft", "list", "tables"])
        if done.status != 0:
            yield host_problems.NFTABLES_UNUSABLE(f"nft fails: {done.error.strip() or f'exit status {done.status}'}")
    if (machine.read(f"{_SYS}/ipv6/conf/all/disable_ipv6") or "1").strip() != "0":
        yield host_problems.IPV6_OFF("IPv6 is disabled on this machine")
    if conf.securitygroup.enable_security_group and conf.securitygroup.firewall_driver == HYBRID:
        for name in ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables"):
            if (machine.read(f"{_SYS}/bridge/{name}") or "0").strip() != "1":
                yield host_problems.BRIDGE_NETFILTER(f"firewall_driver = {HYBRID}, and net.bridge.{name} is not 1")
    yield from _conntrack(machine)


def needed_modules(subject: Subject) -> list[str]:
    conf = subject.conf
    modules = []
    if "l2" in conf.roles and conf.ovs.datapath_type == "system":  # the userspace datapath needs none of the kernel's
        modules += ["openvswitch", *(TUNNEL_MODULES[name] for name in conf.agent.tunnel_types)]
    if "l3" in conf.roles or conf.ovs.datapath_type == "system":
        modules.append("nf_conntrack")
    return modules


def is_missing(machine: Machine, module: str) -> bool:
    """Return whether a module is neither loaded, nor built in, nor can be loaded.

    A kernel without any files about its modules, as in a container, leaves it open: then the switch's own list of datapaths
    decides.
    """
    if (
        machine.read(f"/sys/module/{module}/uevent") is not None
        or machine.read(f"/sys/module/{module}/refcnt") is not None
    ):
        return False
    if module == "nf_conntrack" and machine.read(f"{_SYS}/netfilter/nf_conntrack_max") is not None:
        return False
    release = (machine.read("/proc/sys/kernel/osrelease") or "").strip()
    builtin = machine.read(f"/lib/modules/{release}/modules.builtin")
    if builtin is None or machine.which("modprobe") is None:
        return False
    if any(line.endswith(f"/{module}.ko") for line in builtin.splitlines()):
        return False
    return machine.run(["modprobe", "--dry-run", "--quiet", module]).status != 0


def _conntrack(machine: Machine) -> Iterator[Finding]:
    used, most = (machine.read(f"{_SYS}/netfilter/nf_conntrack_{name}") for name in ("count", "max"))
    if used and most and int(most) and int(used) >= CONNTRACK_SHARE * int(most):
        yield host_problems.CONNTRACK_FULL(f"{int(used)} of {int(most)} connections are tracked")
