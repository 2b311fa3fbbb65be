"""What a lab needs of the machine, and the words for what is missing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping

from neutrino.agent.programs import CAP_NET_ADMIN, has_capability
from neutrino.lab.errors import LabError
from neutrino.lab.settings import NETDEV, SYSTEM

OVS_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
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
    """Have the kernel load a module, unless it is there; why it cannot."""
    if os.path.exists(f"/sys/module/{name}"):
        return None
    try:
        done = subprocess.run(["modprobe", name], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"modprobe: {error.strerror}"
    return None if done.returncode == 0 else done.stderr.strip() or f"modprobe ended with {done.returncode}"


def check_root(status: str = "/proc/self/status") -> None:
    if not has_capability(CAP_NET_ADMIN, status):
        raise LabError("the lab makes network namespaces, which only root may: run this as root")


def check_programs(found: Callable[[str], str | None] = shutil.which, programs: Iterable[str] = PACKAGES) -> None:
    missing = [program for program in programs if found(program) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES[program] for program in missing}))
        raise LabError(f"the lab needs {', '.join(missing)}: apt-get install {packages}")
    if not os.path.exists(OVS_SCHEMA):
        raise LabError(f"the lab needs {OVS_SCHEMA}: apt-get install openvswitch-switch")


def check_datapath(datapath: str, load: Callable[[str], str | None] = load_module) -> None:
    """The kernel's datapath needs its modules; hosts, which are namespaces, cannot load them themselves."""
    for module in ("openvswitch", "vport_vxlan") if datapath == SYSTEM else ():
        reason = load(module)
        if reason is not None:
            raise LabError(
                f"--datapath {SYSTEM}: this kernel has no module {module} ({reason}); "
                f"--datapath {NETDEV} has the switches run in userspace"
            )


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LabError(
                f"the API cannot listen on 127.0.0.1 port {port}: {error.strerror}; --port takes another"
            ) from None
