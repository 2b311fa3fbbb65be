"""A switch, a network that is served on it, and DHCP clients: all real, with unique names."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.agent.dhcp.extension_api import DhcpExtension
from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.dhcp.reconcile import Reconciler
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import Action, apply_service
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.ovsdb.real import RealOvsdb
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.real import RealProcesses
from neutrino.model.dhcp import DhcpPort
from tests.support.dhcp import HOST, Network
from tests.support.openvswitch import OpenVSwitch

SCRIPT = '#!/bin/sh\n[ -z "${reason:-$1}" ] || { env; echo "==="; } >> "%s"\nexit 0\n'


def run(*argv: str, timeout: float = 60, check: bool = True) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stdout} {done.stderr}")
    return done.stdout


@dataclass
class Client:
    """An instance: a namespace with one device that has a port's MAC."""

    lab: Lab
    namespace: str
    device: str

    def ip(self, *words: str) -> str:
        return run("ip", "-n", self.namespace, *words)

    def inside(self, *argv: str, timeout: float = 60, check: bool = True) -> str:
        return run("ip", "netns", "exec", self.namespace, *argv, timeout=timeout, check=check)

    def dhclient(self, *words: str, options: str = "", timeout: float = 30) -> dict[str, str]:
        """The lease, by the names that the client passes to its script; empty without a reply.

        The client goes into the background once it has a lease: then the call ends.
        """
        here = self.lab.directory
        family = "6" if "-6" in words else ""  # each keeps its leases
        paths = {kind: here / f"{self.namespace}.{kind}{family}" for kind in ("cf", "lf", "pf")}
        paths["cf"].write_text(f"timeout 20; initial-interval 1;\n{options}\n")
        out = here / f"{self.namespace}.lease"
        out.unlink(missing_ok=True)
        self.lab.dhclients.append(paths["pf"])
        where = [word for kind, path in paths.items() for word in (f"-{kind}", str(path))]
        script = _script(here / f"{self.namespace}.sh", out)
        argv = ("dhclient", "-1", *words, "-sf", str(script), *where, self.device)
        self.inside("timeout", str(timeout), *argv, timeout=timeout + 5, check=False)
        self.lab.end_dhclient(paths["pf"])
        return _last_lease(out, {"BOUND", "RENEW", "REBOOT", "BOUND6", "REBIND6", "RENEW6"})

    def udhcpc(self, *words: str, tries: int = 10) -> dict[str, str]:
        out = self.lab.directory / f"{self.namespace}.lease"
        out.unlink(missing_ok=True)
        script = _script(self.lab.directory / f"{self.namespace}.sh", out)
        argv = ("udhcpc", "-f", "-n", "-q", "-t", str(tries), "-T", "1", "-i", self.device, "-s", str(script), *words)
        self.inside(*argv, check=False)
        return _last_lease(out, None)

    def lookup(self, name: str, server: str) -> str:
        return self.inside("busybox", "nslookup", name, server, timeout=15, check=False)


@dataclass
class Outcome:
    action: Action
    changed: bool
    pid: int
    problems: Sequence[str]


class Lab:
    """`with Lab(switch) as lab`: one network, one host that serves it."""

    def __init__(self, switch: OpenVSwitch, extensions: Sequence[DhcpExtension] = (), **settings: Any) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self.network = Network(str(uuid.uuid4()), mark=self.tag[:5])  # several sessions have such devices at once
        self.bridge = f"bd{self.tag}"
        # dnsmasq reads its files as nobody: a directory that only we may enter would hide them.
        self.directory = Path(tempfile.mkdtemp(prefix="neutrino-dhcp-"))
        self.directory.chmod(0o755)
        values = {"host": HOST, "dhcp_confs": str(self.directory / "dhcp"), "dns_domain": "example.org"}
        more = {"use_veth": True, "integration_bridge": self.bridge, **settings}
        self.settings = DhcpSettings(**{**values, **more})
        self.switch = switch
        self.netlink = RealNetlink()
        self.dnsmasq = Dnsmasq(self.settings.dhcp_confs, Namespaces())
        self.processes = RealProcesses(str(self.directory))
        self.extensions = extensions
        self.dhclients: list[Path] = []
        self.clients: list[tuple[str, str]] = []
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Lab:
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self.switch.vsctl("add-br", self.bridge, "--", "set", "bridge", self.bridge, "datapath_type=netdev")
            stack.callback(self.switch.vsctl, "del-br", self.bridge)
            self.ovsdb = RealOvsdb(self.switch.database)
            stack.callback(self.ovsdb.close)
            services = ServiceNamespaces(self.netlink, lambda: self.ovsdb)
            self.reconciler = Reconciler(
                self.settings,
                services,
                self.processes,
                self.dnsmasq,
                extensions=self.extensions,
                leftovers=Leftovers(services, RealForeignProcesses(), str(self.directory), enabled=False),
            )
            stack.callback(self._remove_networks)
            stack.callback(self._remove_clients)
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def client(self, port: DhcpPort | str, name: str = "") -> Client:
        """A client with a port's MAC, or with any other."""
        number = len(self.clients)
        namespace, outside = f"c{number}{name}-{self.tag}", f"c{number}{self.tag}"
        mac = port if isinstance(port, str) else port.mac_address
        run("ip", "netns", "add", namespace)
        self.clients.append((namespace, outside))
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        made = Client(self, namespace, "eth0")
        made.inside("sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.eth0.accept_ra=0")
        made.ip("link", "set", "eth0", "address", mac)
        for device in ("lo", "eth0"):
            made.ip("link", "set", device, "up")
        run("ip", "link", "set", outside, "up")
        made.inside("ethtool", "-K", "eth0", "tx", "off", check=False)
        self.switch.vsctl("add-port", self.bridge, outside)
        return made

    def serve(self, network: ServedNetwork) -> Outcome:
        """As the role does it, but blocking."""
        changes, _ = self.reconciler.plan(network)
        service, problems = self.reconciler.prepare(network)
        action, process = apply_service(service, self.processes)
        return Outcome(action, bool(changes), process.pid, problems)

    def pid(self, network_id: str) -> int | None:
        process = self.processes.find(f"dnsmasq {network_id}", f"{self.settings.dhcp_confs}/{network_id}/pid")
        return process.pid if process is not None else None

    def leases(self) -> str:
        return self.dnsmasq.read(self.network.id, "leases") or ""

    def end_dhclient(self, file: Path) -> None:
        """One that is killed keeps its lease, as a machine does that loses its power."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            if "dhclient" in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)

    def _remove_networks(self) -> None:
        for network_id in self.reconciler.known():
            self.reconciler.remove(network_id)

    def _remove_clients(self) -> None:
        for file in self.dhclients:
            self.end_dhclient(file)
        for namespace, outside in self.clients:
            for pid in run("ip", "netns", "pids", namespace, check=False).split():  # also one that wrote no pid yet
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            self.switch.vsctl("--if-exists", "del-port", outside)
            run("ip", "link", "del", outside, check=False)
            run("ip", "netns", "del", namespace, check=False)


def _script(path: Path, out: Path) -> Path:
    path.write_text(SCRIPT % out)
    path.chmod(0o755)
    return path


def _last_lease(out: Path, reasons: set[str] | None) -> dict[str, str]:
    """The last call of the script that was about a lease."""
    text = out.read_text() if out.exists() else ""
    calls = [dict(_pairs(part)) for part in text.split("===\n")]
    about = [c for c in calls if (c.get("reason") in reasons if reasons is not None else "ip" in c)]
    return about[-1] if about else {}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            yield name, value
