"""Daemons as Neutron 29's agents run them: their command lines, files and environment, in namespaces of a test."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import eventually

CLIENT_MAC = "fa:16:3e:00:00:11"
SERVER, CLIENT = "10.0.0.2", "10.0.0.11"
SERVER6, CLIENT6 = "2001:db8::2", "2001:db8::11"
METADATA = "169.254.169.254"

HAPROXY = """
global
    log         /dev/log local0 info
    log-tag     haproxy-metadata-proxy-{id}
    user        root
    group       root
    maxconn     1024
    nbthread    2
    pidfile     {pid_file}
    daemon

defaults
    log global
    mode http
    option httplog
    option dontlognull
    option http-server-close
    option forwardfor
    retries                 3
    timeout http-request    30s
    timeout connect         30s
    timeout client          32s
    timeout server          32s
    timeout http-keep-alive 30s

listen listener
    bind {address}:{port}
    {ipv6}
    server metadata {socket}

    http-request del-header X-Neutron-{other}-ID
    http-request set-header X-Neutron-{kind}-ID {id}
"""


def command(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stdout} {done.stderr}")
    return done.stdout


class Neutron:
    """The state path of Neutron's agents, and what they have started."""

    def __init__(self, state_path: Path) -> None:
        self.state_path = state_path
        self.pids = state_path / "external/pids"
        self.socket = state_path / "metadata_proxy"
        self.pids.mkdir(parents=True)
        self._namespaces: list[str] = []

    # --- namespaces -------------------------------------------------------------------------------------------------

    def namespace(self, name: str, device: str, *addresses: str) -> str:
        """A namespace with a device whose other end is `eth0` in a client's namespace; gives the client's name."""
        client = f"client-{uuid.uuid4().hex[:8]}"
        for each in (name, client):
            command("ip", "netns", "add", each)
            self._namespaces.append(each)
            command("ip", "-n", each, "link", "set", "lo", "up")
            off = ("net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0")
            command("ip", "netns", "exec", each, "sysctl", "-q", "-w", *off)
        command("ip", "-n", name, "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", client)
        command("ip", "-n", client, "link", "set", "eth0", "address", CLIENT_MAC, "up")
        command("ip", "-n", name, "link", "set", device, "up")
        command("ip", "netns", "exec", name, "ethtool", "-K", device, "tx", "off")
        for each in addresses:
            nodad = ["nodad"] if ":" in each else []
            command("ip", "-n", name, "address", "add", each, "dev", device, *nodad)
        return client

    def close(self) -> None:
        for name in self._namespaces:
            for pid in command("ip", "netns", "pids", name).split():
                with contextlib.suppress(RuntimeError):
                    command("kill", "-9", pid)
            command("ip", "netns", "delete", name)

    def start(self, namespace: str, tag: str, *argv: str) -> None:
        command("ip", "netns", "exec", namespace, "env", f"PROCESS_TAG={tag}", *argv)

    # --- daemons ----------------------------------------------------------------------------------------------------

    def dnsmasq(self, network_id: str, device: str) -> Path:
        """Gives the directory of the network."""
        directory = self.state_path / "dhcp" / network_id
        directory.mkdir(parents=True)
        files = {
            "host": f"{CLIENT_MAC},host-10-0-0-11.example,{CLIENT}\n{CLIENT_MAC},tag:dhcpv6,host-6.example,[{CLIENT6}]\n",
            "addn_hosts": f"{CLIENT}\thost-10-0-0-11.example host-10-0-0-11\n",
            "opts": "tag:subnet-4,option:router,10.0.0.1\n",
            "leases": f"0 {CLIENT_MAC} {CLIENT} host-10-0-0-11 *\n",
            "interface": device,
        }
        for name, text in files.items():
            (directory / name).write_text(text)
        self.start(
            f"qdhcp-{network_id}",
            f"dnsmasq-{network_id}",
            *("dnsmasq", "--no-hosts", "--no-resolv", f"--pid-file={directory}/pid"),
            *(f"--dhcp-hostsfile={directory}/host", f"--addn-hosts={directory}/addn_hosts"),
            *(f"--dhcp-optsfile={directory}/opts", f"--dhcp-leasefile={directory}/leases"),
            *("--dhcp-match=set:ipxe,175", "--dhcp-userclass=set:ipxe6,iPXE", "--local-service", "--bind-dynamic"),
            "--dhcp-range=set:subnet-4,10.0.0.0,static,255.255.255.0,86400s",
            "--dhcp-range=set:subnet-6,2001:db8::,static,64,86400s",
            *("--dhcp-option-force=option:mtu,1450", "--dhcp-lease-max=256", "--conf-file=/dev/null"),
            "--domain=example",
        )
        return directory

    def haproxy_file(self, namespace: str, address: str = "::", port: int = 9697, ipv6: str = "") -> Path:
        """A configuration file. `ipv6`: the line with the second address of a network's namespace."""
        kind, _, object_id = namespace.partition("-")
        kinds = ("Network", "Router") if kind == "qdhcp" else ("Router", "Network")
        pid_file = self.pids / f"{object_id}.pid.haproxy"
        values = {"id": object_id, "pid_file": pid_file, "socket": self.socket, "kind": kinds[0], "other": kinds[1]}
        file = self.state_path / "ns-metadata-proxy" / f"{object_id}.conf"
        file.parent.mkdir(exist_ok=True)
        file.write_text(HAPROXY.format(address=address, port=port, ipv6=ipv6, **values))
        return file

    def haproxy(self, namespace: str) -> None:
        file = self.haproxy_file(namespace)
        self.start(namespace, f"haproxy-{namespace.partition('-')[2]}", "haproxy", "-f", str(file))

    def radvd(self, router_id: str, device: str, prefix: str) -> Path:
        file = self.state_path / "ra" / f"{router_id}.radvd.conf"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            f"interface {device}\n{{\n   AdvSendAdvert on;\n   MinRtrAdvInterval 3;\n   MaxRtrAdvInterval 4;\n"
            f"   prefix {prefix}\n   {{\n        AdvOnLink on;\n        AdvAutonomous on;\n   }};\n"
            "   route fe80::a9fe:a9fe/128 {\n   };\n};\n"
        )
        file.chmod(0o444)
        pid_file = self.pids / f"{router_id}.pid.radvd"
        radvd = ("radvd", "-C", str(file), "-p", str(pid_file), "-m", "syslog", "-u", "root")
        self.start(f"qrouter-{router_id}", f"radvd-{router_id}", *radvd)
        return file


@contextlib.contextmanager
def neutron(directory: Path) -> Iterator[Neutron]:
    made = Neutron(directory)
    try:
        yield made
    finally:
        made.close()


def programs(namespace: str) -> dict[int, str]:
    """The programs that run in a namespace, by pid."""
    found = {}
    for pid in map(int, command("ip", "netns", "pids", namespace).split()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
    return found


def wait_for(namespace: str, *names: str) -> None:
    eventually(lambda: sorted(programs(namespace).values()) == sorted(names), 10)
