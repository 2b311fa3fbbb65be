"""Networks to serve, as tests of DHCP need them."""

from __future__ import annotations

from typing import Any

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import ServedNetwork, served_network
from neutrino.model.dhcp import OWNER, DhcpNetwork, DhcpOption, DhcpPort, DnsName, device_id
from neutrino.model.state import FixedIp, Subnet

HOST = "h1"
NETWORK = "5c0fd3b1-1111-4444-8888-000000000001"


def uuid(number: int, mark: str = "") -> str:
    return f"{mark}{number:0{8 - len(mark)}x}-0000-4000-8000-000000000000"


class Network:
    """Parts of one network. Ports' ids start with the mark, and so do the names of their devices."""

    def __init__(self, network_id: str = NETWORK, host: str = HOST, mark: str = "") -> None:
        self.id = network_id
        self.host = host
        self.mark = mark

    def subnet(self, number: int = 1, cidr: str = "10.0.0.0/24", **more: Any) -> Subnet:
        version = 6 if ":" in cidr else 4
        gateway = {} if version == 6 or "gateway_ip" in more else {"gateway_ip": cidr.replace(".0/24", ".1")}
        key = uuid(0xA00 + number)
        return Subnet(id=key, network_id=self.id, ip_version=version, cidr=cidr, **{**gateway, **more})

    def port(self, number: int, *addresses: str, on: tuple[Subnet, ...], **more: Any) -> DhcpPort:
        """A port with addresses on these subnets, in their order."""
        fixed = tuple(FixedIp(s.id, a) for s, a in zip(on, addresses, strict=True))
        names = tuple(DnsName(a, f"vm{number}", f"vm{number}.example.org.") for a in addresses)
        values: dict[str, Any] = {
            "id": uuid(number, self.mark),
            "network_id": self.id,
            "mac_address": f"fa:16:3e:00:00:{number:02x}",
            "device_owner": "compute:nova",
            "fixed_ips": fixed,
            "names": names,
        }
        return DhcpPort(**{**values, **more})

    def dhcp_port(self, number: int, *addresses: str, on: tuple[Subnet, ...], host: str = "", **more: Any) -> DhcpPort:
        """The port that a host serves from."""
        where = host or self.host
        own = {"device_owner": OWNER, "device_id": device_id(where, self.id), "host": where}
        return self.port(number, *addresses, on=on, **{**own, **more})

    def network(self, subnets: tuple[Subnet, ...], *ports: DhcpPort, **more: Any) -> ServedNetwork:
        return served_network(DhcpNetwork(id=self.id, subnets=subnets, **more), ports, self.host)


_only = Network()
subnet, port, dhcp_port, network = _only.subnet, _only.port, _only.dhcp_port, _only.network


def option(name: str, value: str, ip_version: int = 4) -> DhcpOption:
    return DhcpOption(name, value, ip_version)


def settings(**more: Any) -> DhcpSettings:
    return DhcpSettings(**{"host": HOST, "dhcp_confs": "/state/dhcp", "dns_domain": "example.org", **more})
