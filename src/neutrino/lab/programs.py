"""What a lab needs of the machine, and the words for what is missing."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping

from neutrino.agent.programs import CAP_NET_ADMIN, has_capability
from neutrino.lab.errors import LabError

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


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LabError(
                f"the API cannot listen on 127.0.0.1 port {port}: {error.strerror}; --port takes another"
            ) from None
