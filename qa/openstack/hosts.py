"""The namespaces of a cloud: the lab's hosts and fabric, and the management network to the controller."""

from __future__ import annotations

from pathlib import Path

import msgspec

from neutrino.lab.hosts.fabric import apply_fabric
from neutrino.lab.hosts.namespaces import host_command, ip_batch
from neutrino.lab.settings import EXTERNAL, FABRIC, host_number
from qa.openstack.cloud import ADDRESS, CONTROLLER, MANAGEMENT, Cloud

BRIDGE = "mgmt"
HOSTS_FILE = "hosts"


def management_address(name: str) -> str:
    return f"{MANAGEMENT}.2" if name == EXTERNAL else f"{MANAGEMENT}.{10 + host_number(name)}"


def render_management(holders: dict[str, int]) -> list[str]:
    """`ip` commands for the controller's namespace: a bridge with an end of each machine's pair."""
    lines = [
        "link set lo up",
        f"link add {BRIDGE} type bridge mcast_snooping 0",
        f"link set {BRIDGE} up",
        f"address add {ADDRESS}/24 dev {BRIDGE}",
    ]
    for name, holder in holders.items():
        lines += [
            f"link add {BRIDGE}-{name} type veth peer name {BRIDGE} netns {holder}",
            f"link set {BRIDGE}-{name} master {BRIDGE} up",
        ]
    return lines


def render_hosts_file(hosts: tuple[str, ...]) -> str:
    names = {"127.0.0.1": "localhost", ADDRESS: CONTROLLER, **{management_address(host): host for host in hosts}}
    return "".join(f"{address} {name}\n" for address, name in names.items())


def start(cloud: Cloud) -> None:
    """Create the directories and the namespaces; the process that runs this is in the controller's namespace."""
    lab, paths = cloud.lab, cloud.lab.paths
    paths.state.mkdir(parents=True, exist_ok=True)
    paths.settings.write_bytes(msgspec.json.encode(lab.settings))  # marks the directory as a lab's, for `down`
    for directory in (paths.mark, paths.server, paths.vms, paths.pids, paths.logs, cloud.etc):
        directory.mkdir()
    hosts_file = cloud.write(HOSTS_FILE, render_hosts_file(cloud.hosts))
    # Holds the controller's network namespace while a cloud is kept: the runner enters it again by this pid.
    lab.processes.start_isolated(CONTROLLER, ["sleep", "infinity"])
    holders = {name: lab.processes.hold(name) for name in (FABRIC, EXTERNAL, *cloud.hosts)}
    on_hosts = {host: holders[host] for host in cloud.hosts}
    apply_fabric(holders[FABRIC], on_hosts, holders[EXTERNAL], lab.settings.mtu)
    ip_batch(render_management({EXTERNAL: holders[EXTERNAL], **on_hosts}))
    for name in (EXTERNAL, *cloud.hosts):
        address = management_address(name)
        lines = ["link set lo up", f"link set {BRIDGE} up", f"address add {address}/24 dev {BRIDGE}"]
        ip_batch(lines, prefix=host_command(holders[name], []))
        # The lab's default for hosts is that their kernel does not answer ARP; this device is not a switch's.
        host = name if name in cloud.hosts else ""
        script = f"echo 0 >/proc/sys/net/ipv4/conf/{BRIDGE}/arp_ignore && mount --bind {hosts_file} /etc/hosts"
        cloud.run(["sh", "-c", script], host=host or EXTERNAL)


def holder_of(state: Path) -> int:
    """The pid that holds the controller's namespace of a kept cloud."""
    return int((state / "pids" / CONTROLLER).read_text())
