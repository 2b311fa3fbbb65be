"""libvirt and QEMU on each host: directories of its own, and TCP between the hosts for live migration."""

from __future__ import annotations

import uuid
from functools import partial

from neutrino.lab.settings import host_number
from qa.openstack.cloud import Cloud
from qa.openstack.hosts import management_address

# Each host's own below its directory: libvirt's paths are fixed, and the hosts share a file system.
DIRECTORIES = ("/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt")
CONNECTION = ("virsh", "--connect", "qemu:///system")
QEMU = """user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
migration_address = "{address}"
migration_host = "{address}"
"""
# Hosts are one machine: the UUID of its firmware, by which libvirt tells hosts apart, is one too.
LIBVIRTD = """listen_tls = 0
listen_tcp = 1
listen_addr = "{address}"
auth_tcp = "none"
auth_unix_rw = "none"
host_uuid = "{uuid}"
log_outputs = "3:stderr"
"""


def start(cloud: Cloud) -> None:
    for host in cloud.hosts:
        address = management_address(host)
        for path in DIRECTORIES:
            own = cloud.directory(host, "libvirt", path.strip("/").replace("/", "-"))
            # A copy of what the packages have installed: permissions and directories that the daemon expects.
            cloud.run(["sh", "-c", f"cp -a {path}/. {own}/ && mount --bind {own} {path}"], host=host)
        etc = cloud.state / host / "libvirt" / "etc-libvirt"
        host_uuid = uuid.UUID(int=(1 << 127) + (0x4 << 76) + host_number(host))
        (etc / "qemu.conf").write_text(QEMU.format(address=address))
        (etc / "libvirtd.conf").write_text(LIBVIRTD.format(address=address, uuid=host_uuid))
        cloud.run(["mkdir", "-p", "/run/dbus", "/run/libvirt"], host=host)
        cloud.start(f"{host}-dbus", ["dbus-daemon", "--system", "--nofork", "--nopidfile"], host=host)
        cloud.start(f"{host}-virtlogd", ["virtlogd"], host=host)
        cloud.start(f"{host}-libvirtd", ["libvirtd", "--listen"], host=host)
    for host in cloud.hosts:
        cloud.wait(partial(_responds, cloud, host), "libvirtd does not respond", process=f"{host}-libvirtd")


def _responds(cloud: Cloud, host: str) -> bool:
    return cloud.run([*CONNECTION, "version"], host=host, check=False).returncode == 0


def virsh(cloud: Cloud, host: str, *arguments: str) -> str:
    return cloud.run([*CONNECTION, *arguments], host=host).stdout
