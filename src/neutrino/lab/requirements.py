"""Checks that this machine can run a lab: privileges, programs, kernel modules, and the port of the API."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping

from neutrino.agent.programs import CAP_NET_ADMIN, has_capability
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.ovs import SCHEMA
from neutrino.lab.settings import NETDEV, SYSTEM

PACKAGES: Mapping[str, str] = {
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-common",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-common",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "nsenter": "util-linux",
    "sleep": "coreutils",
}


def load_module(name: str) -> str | None:
    """Load a kernel module unless it is loaded; the reason if that fails."""
    if os.path.exists(f"/sys/module/{name}"):
        return None
    try:
        done = subprocess.run(["modprobe", name], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"modprobe: {error.strerror}"
    return None if done.returncode == 0 else done.stderr.strip() or f"modprobe: exit status {done.returncode}"


def check_root(status: str = "/proc/self/status") -> None:
    if not has_capability(CAP_NET_ADMIN, status):
        raise LabError("the lab creates network namespaces, which needs CAP_NET_ADMIN: run it as root")


def check_programs(found: Callable[[str], str | None] = shutil.which) -> None:
    missing = [program for program in PACKAGES if found(program) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES[program] for program in missing}))
        raise LabError(f"the lab needs {', '.join(missing)}: apt-get install {packages}")
    if not os.path.exists(SCHEMA):
        raise LabError(f"the lab needs {SCHEMA}: apt-get install openvswitch-switch")


def check_datapath(datapath: str, load: Callable[[str], str | None] = load_module) -> None:
    """Load the modules of the kernel datapath here, as a process in the network namespace of a host cannot."""
    for module in ("openvswitch", "vport_vxlan") if datapath == SYSTEM else ():
        reason = load(module)
        if reason is not None:
            raise LabError(
                f"--datapath {SYSTEM}: this kernel has no module {module} ({reason}); "
                f"use --datapath {NETDEV}, the userspace datapath"
            )


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LabError(f"the API cannot listen on 127.0.0.1 port {port}: {error.strerror}; use --port") from None
