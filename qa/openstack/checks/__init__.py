"""The checks of `make openstack`: functions that raise CheckError, or return what they measured."""

from __future__ import annotations

from collections.abc import Callable

from qa.openstack.checks import bandwidth, bandwidth_ports, boot, hosts, lifecycle, migration
from qa.openstack.cloud import Cloud

Check = Callable[[Cloud], str]

# In the order in which they run. Each makes what it needs and removes it, so that any of them can run alone.
CHECKS: dict[str, Check] = {
    "boot": boot.check_boot,
    "security-groups": lifecycle.check_security_groups,
    "interfaces": lifecycle.check_interfaces,
    "power": lifecycle.check_power,
    "rebuild": lifecycle.check_rebuild,
    "resize": lifecycle.check_resize,
    "bandwidth": bandwidth.check_bandwidth,
    "bandwidth-ports": bandwidth_ports.check_bandwidth_ports,
    "bandwidth-migration": bandwidth_ports.check_bandwidth_migration,
    "live-migration": migration.check_live_migration,
    "hybrid": hosts.check_hybrid,
    "ten-at-once": hosts.check_many,
    "compute-restart": hosts.check_compute_restart,
    "nothing-remains": hosts.check_nothing_remains,
}
