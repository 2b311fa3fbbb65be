"""Servers of the project `demo`, as the checks see them: through the APIs, the console, and the external network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from qa.openstack.checks.expect import CheckError, expect, until
from qa.openstack.cloud import EXTERNAL, Cloud
from qa.openstack.guest import WEB_PORT
from qa.openstack.services.keystone import OPERATOR
from qa.openstack.services.nova import instances_path
from qa.openstack.services.resources import DEMO, EXTERNAL_NETWORK, FLAVOR, IMAGE, NETWORK, PING_GROUP

# Emulated guests on a busy machine: bounds, not expectations.
ACTIVE_SECONDS = 240.0
GUEST_SECONDS = 240.0
LEASE = re.compile(r"GUEST \S+: lease (\S+) (\S+)/\d+ mtu=(\d*)")
IDENTITY = re.compile(r"GUEST \S+: instance-id (\S+), hostname (\S+), address (\S+)")


class Server:
    """A server by its id; every question is asked anew."""

    def __init__(self, cloud: Cloud, server_id: str) -> None:
        self.cloud = cloud
        self.id = server_id
        self.demo = cloud.connect(*DEMO)
        self.admin = cloud.connect()

    # --- Nova and neutrino ----------------------------------------------------------------------------------------

    def show(self) -> Any:
        return self.admin.compute.get_server(self.id)

    @property
    def host(self) -> str:
        return str(self.show().compute_host)

    def ports(self) -> list[Any]:
        return list(self.admin.network.ports(device_id=self.id))

    @property
    def port(self) -> Any:
        """The port on the network with the router, which is the only one of most servers."""
        network = self.demo.network.find_network(NETWORK).id
        return next(port for port in self.ports() if port.network_id == network)

    @property
    def address(self) -> str:
        return str(self.port.fixed_ips[0]["ip_address"])

    def wait_for(self, status: str, seconds: float = ACTIVE_SECONDS) -> float:
        """Wait for a status without a task; an ERROR ends the check with Nova's fault."""

        def reached() -> bool:
            shown = self.show()
            if shown.status == "ERROR" and status != "ERROR":
                raise CheckError(f"server {shown.name}: {(shown.fault or {}).get('message', 'ERROR without a fault')}")
            return shown.status == status and shown.task_state is None

        return until(reached, f"server {self.id} is {status}", seconds)

    def wait_for_port(self, port_id: str, status: str = "ACTIVE", seconds: float = 60.0) -> float:
        return until(
            lambda: self.admin.network.get_port(port_id).status == status, f"port {port_id} is {status}", seconds
        )

    # --- the guest ------------------------------------------------------------------------------------------------

    def console(self) -> str:
        """The console's log, on the host where it was written last."""
        paths = [instances_path(self.cloud, host) / self.id / "console.log" for host in self.cloud.hosts]
        found = sorted((path for path in paths if path.exists()), key=lambda path: path.stat().st_mtime)
        return found[-1].read_text(errors="replace") if found else ""

    def wait_for_line(self, text: str, *, count: int = 1, seconds: float = GUEST_SECONDS) -> float:
        try:
            return until(lambda: self.console().count(text) >= count, f"the guest writes {text!r}", seconds)
        except CheckError as error:
            raise CheckError(f"{error}; end of its console:\n{self.console()[-1500:]}") from None

    def leases(self) -> dict[str, str]:
        """By interface, the address that the guest got by DHCP."""
        return {match[1]: match[2] for match in LEASE.finditer(self.console())}

    def mtu(self) -> int:
        found = LEASE.search(self.console())
        return int(found[3] or 0) if found else 0

    def identity(self) -> tuple[str, str, str]:
        """Instance id, host name and address, as the metadata service has them."""
        found = IDENTITY.search(self.console())
        expect(found, "the guest has no metadata")
        assert found is not None
        return found[1], found[2], found[3]

    # --- traffic from the external machine ------------------------------------------------------------------------

    def floating_ip(self) -> str:
        network = self.demo.network
        external = network.find_network(EXTERNAL_NETWORK)
        return str(network.create_ip(floating_network_id=external.id, port_id=self.port.id).floating_ip_address)

    def delete(self) -> None:
        """Delete the server with its floating IPs, and wait until Nova has no such server."""
        network = self.demo.network
        ports = [port.id for port in self.ports()]
        for port in ports:
            for each in network.ips(port_id=port):
                network.delete_ip(each)
        self.demo.compute.delete_server(self.id, ignore_missing=True)
        until(lambda: self.admin.compute.find_server(self.id, all_projects=True) is None, "the server is gone", 120)


def create(cloud: Cloud, name: str, *, host: str = "", **options: Any) -> Server:
    """Ask for a server of `demo`, on a given host (by the administrator) or wherever Nova's scheduler decides."""
    demo = cloud.connect(*DEMO)
    network = demo.network
    values: dict[str, Any] = {
        "image_id": demo.image.find_image(IMAGE).id,
        "flavor_id": demo.compute.find_flavor(FLAVOR).id,
        "networks": [{"uuid": network.find_network(NETWORK).id}],
        "security_groups": [{"name": "default"}, {"name": PING_GROUP}],
        **options,
    }
    compute = demo.compute
    if host:
        compute, values["availability_zone"] = cloud.connect(*OPERATOR).compute, f"nova:{host}"
    made = compute.create_server(name=name, **values)
    return Server(cloud, made.id)


@contextmanager
def running(cloud: Cloud, name: str, *, host: str = "", **options: Any) -> Iterator[Server]:
    """A server that is ACTIVE with its guest ready; deleted at the end."""
    server = create(cloud, name, host=host, **options)
    try:
        server.wait_for("ACTIVE")
        server.wait_for_line("READY")
        yield server
    finally:
        server.delete()


def ping(cloud: Cloud, address: str) -> bool:
    return cloud.run(["ping", "-c1", "-W1", address], host=EXTERNAL, check=False).returncode == 0


def web(cloud: Cloud, address: str, seconds: int = 2) -> str | None:
    """The page that a guest serves, or None."""
    argv = ["curl", "--silent", "--max-time", str(seconds), "--noproxy", "*", f"http://{address}:{WEB_PORT}/"]
    done = cloud.run(argv, host=EXTERNAL, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def figures(values: Mapping[str, float]) -> str:
    """`ACTIVE 5.1 s, lease 9.3 s`."""
    return ", ".join(f"{name} {value:.1f} s" for name, value in values.items())
