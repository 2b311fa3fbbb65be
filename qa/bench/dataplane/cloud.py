"""The cloud that is measured: instances on two hosts, a router of one host and a distributed one, through Neutron's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neutrino.lab.api_client import ApiClient
from neutrino.lab.errors import wait_until
from neutrino.lab.settings import EXTERNAL
from qa.bench.dataplane.traffic import FIRST_PORT, LAST_PORT
from qa.takeover.lab.neutron_lab import NeutronLab
from qa.takeover.lab.paths import TrafficPath, wait_until_passing

ACTIVE_SECONDS = 180.0
_PUBLIC = {
    "cidr": "203.0.113.0/24",
    "enable_dhcp": False,
    "allocation_pools": [{"start": "203.0.113.10", "end": "203.0.113.200"}],
}
_SUBNETS = {"one": "10.1.0.0/24", "two": "10.2.0.0/24", "three": "10.3.0.0/24", "four": "10.4.0.0/24"}
_ROUTERS: Mapping[str, tuple[Sequence[str], bool]] = {
    "legacy": (("one", "two"), False),
    "distributed": (("three", "four"), True),
}
# By name: host and network.
_INSTANCES = {
    "a1": ("h1", "one"),
    "a2": ("h1", "one"),
    "a3": ("h2", "one"),
    "a4": ("h2", "one"),
    "b1": ("h1", "two"),
    "b2": ("h2", "two"),
    "c1": ("h1", "three"),
    "c2": ("h2", "three"),
    "d1": ("h1", "four"),
    "d2": ("h2", "four"),
}
HOSTS = 2


@dataclass(frozen=True)
class Cloud:
    paths: Sequence[TrafficPath]
    router_host: str  # of the router that is not distributed


def build(neutron: NeutronLab) -> Cloud:
    """Create everything, wait until each path passes a ping."""
    api = neutron.api
    networks = _create_networks(api)
    routers = _create_routers(api, networks)
    _create_group(api)
    for name, (host, network) in _INSTANCES.items():
        neutron.instances.define(name, network=network, host=host, dhcp=False, security_groups=["bench"])
    for host in neutron.lab.hosts:
        neutron.instances.plug([name for name, (where, _) in _INSTANCES.items() if where == host], host)
    _wait_until_active(neutron)
    for name in _INSTANCES:
        neutron.instances.address(name)
    addresses = {port["name"]: port["fixed_ips"][0]["ip_address"] for port in api.list("port") if port["name"]}
    router_host = _host_of(api, routers["legacy"])
    near = next(name for name in ("a1", "a3") if _INSTANCES[name][0] == router_host)
    floating = {name: _floating_ip(neutron, networks["public"], name) for name in (near, "c1")}
    paths = [
        TrafficPath("same host", "a1", addresses["a2"], "a2"),
        TrafficPath("tunnel", "a1", addresses["a3"], "a3"),
        TrafficPath("router", "a1", addresses["b2"], "b2"),
        TrafficPath("floating IP", EXTERNAL, floating[near], near),
        TrafficPath("distributed router", "c1", addresses["d2"], "d2"),
        TrafficPath("floating IP, distributed", EXTERNAL, floating["c1"], "c1"),
    ]
    wait_until_passing(neutron, paths)
    return Cloud(paths, router_host)


def _create_networks(api: ApiClient) -> dict[str, str]:
    external = {"router:external": True, "provider:network_type": "flat", "provider:physical_network": "external"}
    made = {"public": api.create("network", name="public", **external)["id"]}
    api.create("subnet", network_id=made["public"], ip_version=4, **_PUBLIC)
    for name, cidr in _SUBNETS.items():
        made[name] = api.create("network", name=name)["id"]
        api.create("subnet", network_id=made[name], ip_version=4, cidr=cidr)
    return made


def _create_routers(api: ApiClient, networks: Mapping[str, str]) -> dict[str, str]:
    made = {}
    subnets = {subnet["network_id"]: subnet["id"] for subnet in api.list("subnet")}
    for name, (attached, distributed) in _ROUTERS.items():
        gateway = {"network_id": networks["public"]}
        values = {"external_gateway_info": gateway, "distributed": distributed, "ha": False}
        made[name] = api.create("router", name=name, **values)["id"]
        for network in attached:
            path = f"/v2.0/routers/{made[name]}/add_router_interface"
            api.request("PUT", path, {"subnet_id": subnets[networks[network]]})
    return made


def _create_group(api: ApiClient) -> None:
    """As users have it: what is published is open to everybody, and members reach each other."""
    group = api.create("security_group", name="bench")["id"]
    published = {"port_range_min": FIRST_PORT, "port_range_max": LAST_PORT}
    rules: Sequence[Mapping[str, object]] = (
        {"protocol": "icmp"},
        {"protocol": "tcp", **published},
        {"protocol": "udp", **published},
        {"remote_group_id": group},
    )
    for rule in rules:
        api.create("security_group_rule", security_group_id=group, direction="ingress", ethertype="IPv4", **rule)


def _wait_until_active(neutron: NeutronLab) -> None:
    def ready() -> bool:
        neutron.check_agents()
        status = {port["name"]: port["status"] for port in neutron.api.list("port")}
        return all(status[name] == "ACTIVE" for name in _INSTANCES)

    wait_until(ready, ACTIVE_SECONDS, "ports are not ACTIVE")


def _host_of(api: ApiClient, router: str) -> str:
    (agent,) = api.request("GET", f"/v2.0/routers/{router}/l3-agents")["agents"]
    return str(agent["host"])


def _floating_ip(neutron: NeutronLab, network: str, name: str) -> str:
    port = neutron.instances.vms.get(name).port_id
    made = neutron.api.create("floatingip", floating_network_id=network, port_id=port)
    return str(made["floating_ip_address"])
