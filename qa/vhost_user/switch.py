"""A lab with a host whose Open vSwitch has DPDK, from Debian's package openvswitch-switch-dpdk.

Without hugepages, cards and VFIO, which a test machine may not have: DPDK's own memory is ordinary memory (`--no-huge`). A
vhost-user port does not need more, as what both ends share is the memory of the guest. Open vSwitch adds `--in-memory`
unless it finds `--legacy-mem`, and DPDK refuses `--in-memory` together with `--no-huge`.

The program is chosen as Debian's alternatives choose it, in the mount namespace of that host alone: mounted over the path
of the other one. So it has its usual name, and the machine's choice and the other hosts stay as they are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab.errors import LabError
from neutrino.lab.hosts.namespaces import command, host_command, host_file
from neutrino.lab.hosts.ovs import THREADS, OpenVSwitch
from tests.support.lab_control import Lab

PROGRAM = Path("/usr/sbin/ovs-vswitchd")
WITH_DPDK = Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
MEMORY_MB = 512  # 45 MB for a port's buffers, touched as they are created
HOST = "h1"  # the host with DPDK


def dpdk_settings() -> tuple[str, ...]:
    """Columns of Open_vSwitch: one thread that polls, which sleeps while nothing comes, as the processors are shared."""
    processors = sorted(os.sched_getaffinity(0))
    return (
        *THREADS,
        "other_config:dpdk-init=true",
        f'other_config:dpdk-extra="--no-huge --legacy-mem -m {MEMORY_MB} --no-pci --no-telemetry"',
        f"other_config:dpdk-lcore-mask={1 << processors[0]:#x}",
        f"other_config:pmd-cpu-mask={1 << processors[-1]:#x}",
        'other_config:pmd-maxsleep="500"',  # microseconds
        "other_config:per-port-memory=true",  # by default all ports share a pool of 262,144 buffers, 600 MB
    )


@dataclass(frozen=True)
class DpdkSwitch(OpenVSwitch):
    def start(self) -> None:
        if not WITH_DPDK.exists():
            raise LabError(f"there is no {WITH_DPDK}: scripts/setup vhost-user")
        program = PROGRAM.resolve()
        if not os.path.samefile(host_file(self.holder, str(program)), WITH_DPDK):
            command(host_command(self.holder, ["mount", "--bind", str(WITH_DPDK), str(program)]))
        super().start()


class DpdkLab(Lab):
    def ovs(self, host: str) -> OpenVSwitch:
        usual = super().ovs(host)
        if host != HOST:
            return usual
        return DpdkSwitch(usual.paths, host, usual.holder, usual.peers, usual.datapath, dpdk_settings())
