"""`neutrino lab demo`: two instances on two hosts, a router and a floating IP, with real packets, in a temporary lab.

All objects are created with the `openstack` client as a user would, and every claim is verified by sending packets. Each
step prints its duration; the demo ends with a summary.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab import build
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import run
from neutrino.lab.lab import Lab
from neutrino.lab.settings import EXTERNAL, LabSettings

SECONDS = 20.0
EXTERNAL_NETWORK = (
    "network create public --external --provider-network-type flat --provider-physical-network external",
    "subnet create public-v4 --network public --subnet-range 203.0.113.0/24 --gateway 203.0.113.1 --no-dhcp"
    " --allocation-pool start=203.0.113.100,end=203.0.113.199",
)
TENANT_NETWORK = (
    "network create blue",
    "subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24",
    "router create out",
    "router set out --external-gateway public",
    "router add subnet out blue-v4",
)
SECURITY_GROUP = (
    "security group create web",
    "security group rule create web --protocol icmp",
    "security group rule create web --protocol tcp --dst-port 8080",
)


@dataclass
class Demo:
    lab: Lab
    client: str
    output: build.Output

    def steps(self) -> Sequence[tuple[str, Callable[[], str]]]:
        """What each step does, and the function that does it and returns the result."""
        with_gateway = "10.0.0.0/24, its router with an external gateway"
        return [
            ("an external network", lambda: self._create(EXTERNAL_NETWORK, "203.0.113.0/24")),
            ("a network, its subnet and a router", lambda: self._create(TENANT_NETWORK, with_gateway)),
            ("a security group: ICMP and TCP 8080, nothing else", lambda: self._create(SECURITY_GROUP, "web")),
            ("instance web on h1, addressed by DHCP", lambda: self._instance("web", "h1")),
            ("instance db on h2, addressed by DHCP", lambda: self._instance("db", "h2")),
            ("metadata of web from 169.254.169.254", self._metadata),
            ("ping from web to db, between hosts", lambda: self._ping("web", self._address("db"))),
            ("TCP 8080 to db is allowed", lambda: self._tcp("web", "db", 8080, allowed=True)),
            ("TCP 9090 to db is blocked", lambda: self._tcp("web", "db", 9090, allowed=False)),
            ("ping from db to the external network", lambda: self._ping("db", "203.0.113.1")),
            ("a floating IP for web, pinged from the external network", self._floating_ip),
        ]

    def _create(self, commands: Sequence[str], result: str) -> str:
        for command in commands:
            self._openstack(command)
        return result

    def _instance(self, name: str, host: str) -> str:
        self.lab.instances.create(name, network="blue", host=host, security_groups=["web"])
        return self._address(name)

    def _metadata(self) -> str:
        url = "http://169.254.169.254/latest/meta-data/instance-id"
        # The metadata role configures its proxy independently of the roles that the port waits for.
        wait_until(lambda: self._get("web", url) != "", SECONDS, "the metadata service does not respond")
        return f"instance {self._get('web', url)}"

    def _get(self, where: str, url: str) -> str:
        """The content of a URL; empty if there is no response."""
        done = self.lab.run(where, ["curl", "-fsS", "--max-time", "2", url], check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    def _floating_ip(self) -> str:
        created = self._openstack("floating ip create public --port web -f json")
        return self._ping(EXTERNAL, str(json.loads(created)["floating_ip_address"]))

    def _ping(self, where: str, address: str) -> str:
        def replies() -> bool:
            return self.lab.run(where, ["ping", "-c", "1", "-W", "1", address], check=False).returncode == 0

        # The port is ACTIVE, but flows and ARP entries of other hosts may follow a moment later: the measured pings must
        # not count that.
        wait_until(replies, SECONDS, f"{address} does not reply to {where}")
        done = self.lab.run(where, ["ping", "-c", "5", "-i", "0.2", "-W", "1", address])
        return f"{address}: {done.stdout.strip().splitlines()[-1]}"

    def _tcp(self, source: str, target: str, port: int, *, allowed: bool) -> str:
        address = self._address(target)
        server = self.lab.popen(target, [sys.executable, "-m", "http.server", str(port)])
        try:

            def connects() -> bool:
                return self._get(source, f"http://{address}:{port}/") != ""

            if allowed:
                wait_until(connects, SECONDS, f"{source} cannot connect to {address} port {port}")
            elif connects():
                raise LabError(f"{source} connects to {address} port {port}, which no security group rule allows")
        finally:
            server.kill()
            server.communicate()
        return f"{address} port {port}: {'connected' if allowed else 'no connection'}"

    def _openstack(self, arguments: str) -> str:
        environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(self.lab.paths.clouds), "OS_CLOUD": "neutrino"}
        self.output(f"    $ openstack {arguments}")
        command = [self.client, *arguments.split()]
        return run(command, timeout=120, env=environment, shown=f"openstack {arguments}").stdout

    def _address(self, name: str) -> str:
        port = self.lab.api.show("port", self.lab.vms.get(name).port_id)
        return str(port["fixed_ips"][0]["ip_address"])


def demo(port: int, client: str, output: build.Output) -> None:
    """Run all steps in a temporary lab. `client`: the openstack command."""
    started, results = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="neutrino-demo-") as directory:
        output("… a server and two hosts")
        lab = Lab(Path(directory) / "lab", LabSettings(hosts=2, port=port))
        build.up(lab, lambda text: output(f"    {text}"))
        try:
            output(f"  ✓ the API is on {lab.settings.url}  ({time.monotonic() - started:.1f} s)")
            for what, action in Demo(lab, client, output).steps():
                output(f"… {what}")
                begun = time.monotonic()
                result = action()
                output(f"  ✓ {result}  ({time.monotonic() - begun:.1f} s)")
                results.append(f"  {what}: {result}")
        finally:
            output("… removing the lab")
            build.down(lab.paths.state, lambda text: output(f"    {text}"))
    output("\n".join([f"\nDone in {time.monotonic() - started:.0f} s:", *results]))
