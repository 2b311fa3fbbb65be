"""Local IPs on real packets: one address leads to the associated instance of each host."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    EVERYTHING,
    PATIENCE,
    SOON,
    Guest,
    Spec,
    make_group,
    make_guests,
    make_network,
)
from tests.support.lab_trace import check_arrives

PORT = 7000


@dataclasses.dataclass
class Site:
    """Host h1 and h2 have a client and a server each; h3 has a client."""

    lab: Lab
    network: Object
    clients: dict[str, Guest]
    servers: dict[str, Guest]

    def local_ip(self, address: str, mode: str = "translate") -> str:
        body = {"network_id": self.network["id"], "local_ip_address": address, "ip_mode": mode}
        return str(self.lab.api.request("POST", "/v2.0/local-ips", {"local_ip": body})["local_ip"]["id"])

    def associate(self, local_ip: str, guest: Guest) -> None:
        body = {"fixed_port_id": guest.port_id, "fixed_ip": guest.addresses[4]}
        self.lab.api.request("POST", f"/v2.0/local_ips/{local_ip}/port_associations", {"port_association": body})

    def disassociate(self, local_ip: str, guest: Guest) -> None:
        self.lab.api.request("DELETE", f"/v2.0/local_ips/{local_ip}/port_associations/{guest.port_id}")

    def delete(self, local_ip: str) -> None:
        found = self.lab.api.request("GET", f"/v2.0/local_ips/{local_ip}/port_associations")["port_associations"]
        for one in found:
            self.lab.api.request("DELETE", f"/v2.0/local_ips/{local_ip}/port_associations/{one['fixed_port_id']}")
        self.lab.api.request("DELETE", f"/v2.0/local-ips/{local_ip}")

    def flows(self, host: str) -> str:
        return self.lab.run(host, ["ovs-ofctl", "-O", "OpenFlow14", "dump-flows", "br-int"]).stdout


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    group, _ = make_group(lab, "open", *EVERYTHING)
    net = make_network(lab, "local")
    specs = [Spec(f"client-{host}", net, host, [group]) for host in ("h1", "h2", "h3")]
    specs += [Spec(f"server-{host}", net, host, [group]) for host in ("h1", "h2")]
    guests = {guest.name: guest for guest in make_guests(lab, *specs)}
    return Site(
        lab,
        net,
        {host: guests[f"client-{host}"] for host in ("h1", "h2", "h3")},
        {host: guests[f"server-{host}"] for host in ("h1", "h2")},
    )


def answer(client: Guest, server: Guest, address: str, to: str = "") -> tuple[str, str] | None:
    """Who a server sees as the sender and what address it is asked at, and the address that the client gets it from."""
    with (
        server.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
        client.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
    ):
        there.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        there.bind((to or "0.0.0.0", PORT))
        there.settimeout(1.0)
        here.settimeout(1.0)
        try:
            here.sendto(b"question", (address, PORT))
            _, sender = there.recvfrom(100)
            there.sendto(b"answer", sender)
            _, answered_by = here.recvfrom(100)
        except OSError:  # no answer, or no neighbour has the address
            return None
        return sender[0], answered_by[0]


def wait_for_answer(client: Guest, server: Guest, address: str, to: str = "") -> None:
    wanted = client.addresses[4], address
    wait_until(lambda: answer(client, server, address, to) == wanted, SOON, f"{client.name} does not reach {address}")


def traced(client: Guest, address: str) -> tuple[str, str]:
    """The port at which a trace ends, and the address from which the client gets the answer."""
    values = {"source_port_id": client.port_id, "destination_address": address}
    found = check_arrives(client.lab, **values, protocol="udp", destination_port=PORT)
    return found["steps"][-1]["resource_id"], found["return_steps"][-1]["packet"]["source"]


def test_the_same_address_leads_to_the_instance_of_each_host(site: Site) -> None:
    address = "10.0.0.200"
    local_ip = site.local_ip(address)
    for server in site.servers.values():
        site.associate(local_ip, server)
    for host, server in site.servers.items():
        wait_for_answer(site.clients[host], server, address)
        assert traced(site.clients[host], address) == (server.port_id, address)
        # The port's own address is not translated.
        assert answer(site.clients[host], server, server.addresses[4]) == (
            site.clients[host].addresses[4],
            server.addresses[4],
        )
    assert answer(site.clients["h3"], site.servers["h1"], address) is None  # no instance there
    site.disassociate(local_ip, site.servers["h1"])
    wait_until(lambda: address not in site.flows("h1"), SOON, "flows are left")
    assert answer(site.clients["h1"], site.servers["h1"], address) is None
    wait_for_answer(site.clients["h2"], site.servers["h2"], address)
    site.delete(local_ip)
    wait_until(lambda: address not in site.flows("h2"), SOON, "flows are left")


def test_tcp_through_a_local_ip_and_a_restart_of_the_agent(site: Site) -> None:
    address, client, server = "10.0.0.201", site.clients["h1"], site.servers["h1"]
    local_ip = site.local_ip(address)
    site.associate(local_ip, server)
    wait_for_answer(client, server, address)
    with server.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.settimeout(PATIENCE)
        listening.bind(("0.0.0.0", PORT))
        listening.listen()
        with client.socket(socket.AF_INET, socket.SOCK_STREAM) as here:
            here.settimeout(PATIENCE)
            here.connect((address, PORT))
            there, sender = listening.accept()
            with there:
                there.settimeout(PATIENCE)
                assert sender[0] == client.addresses[4]
                site.lab.stop_agent("h1")
                site.lab.start_agent("h1")
                payload = b"x" * 50_000
                there.sendall(payload)
                received = b""
                while len(received) < len(payload):
                    received += here.recv(65536)
                assert received == payload
    site.delete(local_ip)


def test_passthrough_delivers_the_address_itself(site: Site) -> None:
    address, client, server = "10.0.0.202", site.clients["h2"], site.servers["h2"]
    local_ip = site.local_ip(address, "passthrough")
    server.update(allowed_address_pairs=[{"ip_address": address}])
    server.ip("address", "add", f"{address}/32", "dev", "eth0")
    site.associate(local_ip, server)
    wait_for_answer(client, server, address, to=address)
    server.ip("address", "del", f"{address}/32", "dev", "eth0")
    server.update(allowed_address_pairs=[])
    site.delete(local_ip)
