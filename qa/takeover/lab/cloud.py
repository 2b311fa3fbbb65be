"""The cloud that is taken over, built through Neutron's API: all network and router types, instances on three hosts."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from neutrino.lab.api_client import ApiClient
from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import in_network, ip_batch, vm_network
from neutrino.lab.instances.addressing import apply_static
from neutrino.lab.instances.instances import DEVICE_OWNER
from neutrino.lab.instances.plug import DEVICE, Vm
from neutrino.lab.settings import EXTERNAL
from neutrino.model.objects import Object
from qa.takeover.lab.neutron_lab import NeutronLab
from tests.support import vlan_device

ACTIVE_SECONDS = 180.0
ROUTERS_SECONDS = 600.0
TAG = 7  # of the trunk's subport
PAIR = "10.1.0.200"  # an allowed address pair, which an instance has beside its own address
FORWARDED = 8080  # the port of a floating IP that is forwarded
STREAM = 7000  # the first of the ports that instances receive streams on
SPARE = "spare"  # a network that is deleted after the takeover
_STREAMS = {"port_range_min": STREAM, "port_range_max": STREAM + 99}


@dataclass(frozen=True)
class Subnet:
    network: str
    cidr: str
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Router:
    name: str
    networks: Sequence[str]
    more: Mapping[str, object]


@dataclass(frozen=True)
class Instance:
    name: str
    host: str
    network: str
    more: Mapping[str, object] = field(default_factory=dict)  # of its port
    by_dhcp: bool = False
    floating_ip: bool = False


NETWORKS: Mapping[str, Mapping[str, object]] = {
    "public": {"router:external": True, "provider:network_type": "flat", "provider:physical_network": "external"},
    "blue": {},
    "green": {},
    "red": {},
    "orange": {},
    "purple": {},
    "scoped": {},
    "vlan": {
        "provider:network_type": "vlan",
        "provider:physical_network": "physnet1",
        "provider:segmentation_id": 105,
        "mtu": 1450,  # of the trunk's parent, which a subport must not exceed
    },
    "gre": {"provider:network_type": "gre"},
    "geneve": {"provider:network_type": "geneve"},
    SPARE: {},
}
_SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
_STATEFUL = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}
SUBNETS = (
    Subnet(
        "public",
        "203.0.113.0/24",
        {"enable_dhcp": False, "allocation_pools": [{"start": "203.0.113.10", "end": "203.0.113.200"}]},
    ),
    Subnet("public", "2001:db8:203:113::/64", {"enable_dhcp": False, "gateway_ip": "2001:db8:203:113::1"}),
    Subnet("blue", "10.1.0.0/24"),
    Subnet("blue", "2001:db8:1::/64", _SLAAC),
    Subnet("green", "10.2.0.0/24"),
    Subnet("red", "10.3.0.0/24"),
    Subnet("orange", "10.4.0.0/24", {"enable_dhcp": False}),
    Subnet("purple", "10.8.0.0/24", {"enable_dhcp": False}),
    Subnet("vlan", "10.5.0.0/24", {"gateway_ip": None}),
    Subnet("vlan", "2001:db8:5::/64", {**_STATEFUL, "gateway_ip": None}),
    Subnet("gre", "10.6.0.0/24", {"enable_dhcp": False}),
    Subnet("geneve", "10.7.0.0/24", {"enable_dhcp": False}),
)
ROUTERS = (
    Router("legacy", ("blue", "scoped"), {"distributed": False, "ha": False}),
    Router("ha", ("green",), {"distributed": False, "ha": True}),
    Router("dvr", ("red", "orange"), {"distributed": True, "ha": False}),
    Router("dvr-ha", ("purple",), {"distributed": True, "ha": True}),
)
INSTANCES = (
    Instance("b1", "h1", "blue", by_dhcp=True),
    Instance("b2", "h1", "blue", by_dhcp=True),
    Instance("b3", "h3", "blue", {"allowed_address_pairs": [{"ip_address": PAIR}]}, floating_ip=True),
    Instance("g2", "h2", "green"),
    Instance("g3", "h3", "green", by_dhcp=True, floating_ip=True),
    Instance("r1", "h1", "red", floating_ip=True),
    Instance("r3", "h3", "red", by_dhcp=True, floating_ip=True),
    Instance("o2", "h2", "orange"),
    Instance("p2", "h2", "purple"),
    Instance("p3", "h3", "purple", floating_ip=True),
    Instance("v1", "h1", "vlan", by_dhcp=True),
    Instance("v2", "h2", "vlan", by_dhcp=True),
    Instance("x1", "h1", "gre"),
    Instance("x3", "h3", "gre"),
    Instance("y2", "h2", "geneve"),
    Instance("y3", "h3", "geneve"),
    Instance("c2", "h2", "scoped"),
    Instance("t3", "h3", "blue"),
)
PARENT = "t3"  # of the trunk
SOLICITING = "b1"  # has its IPv6 default route by router advertisements only
LIMITED = "b2"  # has a bandwidth limit
MANY_HOST = "h1"  # has the instances of further routers


@dataclass
class Cloud:
    """Objects by their names, as the API has answered."""

    networks: dict[str, Object] = field(default_factory=dict)
    subnets: list[Object] = field(default_factory=list)
    routers: dict[str, Object] = field(default_factory=dict)
    ports: dict[str, Object] = field(default_factory=dict)
    floating_ips: dict[str, Object] = field(default_factory=dict)  # by instance
    forwarding: Object = field(default_factory=dict)  # the floating IP with a forwarded port
    subport: Object = field(default_factory=dict)

    def subnets_of(self, network: str) -> list[Object]:
        return [subnet for subnet in self.subnets if subnet["network_id"] == self.networks[network]["id"]]

    def address(self, instance: str, version: int = 4) -> str:
        return address_of(self.ports[instance], version)

    def floating(self, instance: str) -> str:
        return str(self.floating_ips[instance]["floating_ip_address"])


def address_of(port: Object, version: int = 4) -> str:
    addresses: Iterable[str] = (fixed["ip_address"] for fixed in port["fixed_ips"])
    return next(address for address in addresses if (":" in address) == (version == 6))


def build(neutron: NeutronLab) -> Cloud:
    """Create all objects, plug the instances, and wait until their ports are ACTIVE."""
    api, cloud = neutron.api, Cloud()
    _create_networks(api, cloud)
    _create_routers(api, cloud)
    groups = _create_groups(api)
    neutron.output("networks, routers and security groups of the cloud")
    _create_instances(neutron, cloud, groups)
    _create_floating_ips(api, cloud)
    neutron.output(f"{len(cloud.ports)} instances, {len(cloud.floating_ips) + 1} floating IPs")
    _wait_until_active(neutron, cloud)
    neutron.output("all ports ACTIVE")
    _address_instances(neutron, cloud)
    _address_external_machine(neutron, cloud)
    return cloud


def add_routers(neutron: NeutronLab, cloud: Cloud, number: int) -> None:
    """Further legacy routers with a gateway, a network and an instance each; the instances are on one host."""
    gateway = {"network_id": cloud.networks["public"]["id"]}

    def add(index: int) -> str:
        api, name = neutron.api, f"m{index}"
        network = api.create("network", name=name)
        cidr = f"10.{100 + index // 250}.{index % 250}.0/24"
        values = {"network_id": network["id"], "ip_version": 4, "cidr": cidr, "enable_dhcp": False}
        subnet = api.create("subnet", **values)
        more = {"distributed": False, "ha": False}
        router = api.create("router", name=name, external_gateway_info=gateway, **more)
        path = f"/v2.0/routers/{router['id']}/add_router_interface"
        api.request("PUT", path, {"subnet_id": subnet["id"]})
        neutron.instances.define(name, network=name, host=MANY_HOST, dhcp=False, security_groups=["members"])
        return name

    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(add, range(number)))
    neutron.output(f"{number} further routers")
    neutron.instances.plug(names, MANY_HOST)
    for name in names:
        neutron.instances.wait_for_port(neutron.instances.vms.get(name), timeout=ACTIVE_SECONDS)
        neutron.instances.address(name)
    neutron.output(f"{number} further instances on {MANY_HOST}")

    def unready() -> list[str]:
        """Neutron's agents may need minutes for the routers; what they do meanwhile would be missing in an import."""
        neutron.check_agents()
        networks = {network["id"] for network in neutron.api.list("network") if network["name"] in names}
        routers = {router["id"] for router in neutron.api.list("router") if router["name"] in names}
        ports = neutron.api.list("port")
        mine = [port for port in ports if port["network_id"] in networks or port["device_id"] in routers]
        return [port["id"] for port in mine if port["status"] != "ACTIVE"]

    wait_until(lambda: not unready(), ROUTERS_SECONDS, "ports of further routers are not ACTIVE")
    neutron.output(f"ports of {number} further routers ACTIVE")


def read(api: ApiClient) -> Cloud:
    """The cloud that another process has built."""
    ports, floating_ips = api.list("port"), api.list("floatingip")
    named = {port["name"]: port for port in ports}
    by_port = {floating["port_id"]: floating for floating in floating_ips if floating["port_id"]}
    return Cloud(
        {network["name"]: network for network in api.list("network")},
        api.list("subnet"),
        {router["name"]: router for router in api.list("router")},
        {instance.name: named[instance.name] for instance in INSTANCES},
        {i.name: by_port[named[i.name]["id"]] for i in INSTANCES if i.floating_ip},
        next(floating for floating in floating_ips if not floating["port_id"]),
        next(port for port in ports if port["device_owner"] == "trunk:subport"),
    )


def _create_networks(api: ApiClient, cloud: Cloud) -> None:
    for name, values in NETWORKS.items():
        cloud.networks[name] = api.create("network", name=name, **values)
    for subnet in SUBNETS:
        version = 6 if ":" in subnet.cidr else 4
        network = cloud.networks[subnet.network]["id"]
        values = {"network_id": network, "cidr": subnet.cidr, "ip_version": version, **subnet.more}
        cloud.subnets.append(api.create("subnet", **values))
    scope = api.create("address_scope", name="scope", ip_version=4)
    pool = api.create("subnetpool", name="pool", prefixes=["10.64.0.0/16"], address_scope_id=scope["id"])
    network = cloud.networks["scoped"]["id"]
    scoped = {"ip_version": 4, "subnetpool_id": pool["id"], "prefixlen": 24}
    cloud.subnets.append(api.create("subnet", network_id=network, **scoped))


def _create_routers(api: ApiClient, cloud: Cloud) -> None:
    gateway = {"network_id": cloud.networks["public"]["id"]}
    for router in ROUTERS:
        created = api.create("router", name=router.name, external_gateway_info=gateway, **router.more)
        cloud.routers[router.name] = created
        for network in router.networks:
            for subnet in cloud.subnets_of(network):
                path = f"/v2.0/routers/{created['id']}/add_router_interface"
                api.request("PUT", path, {"subnet_id": subnet["id"]})


def _create_groups(api: ApiClient) -> Object:
    """A group whose members reach each other; from outside only ping and streams come in."""
    group = api.create("security_group", name="members")
    outside: Sequence[Object] = (
        {"protocol": "icmp", "ethertype": "IPv4", "remote_ip_prefix": "203.0.113.0/24"},
        {"protocol": "icmp", "ethertype": "IPv6"},
        {"protocol": "tcp", "ethertype": "IPv4", **_STREAMS},
        {"protocol": "tcp", "ethertype": "IPv6", **_STREAMS},
        {"ethertype": "IPv4", "remote_group_id": group["id"]},
        {"ethertype": "IPv6", "remote_group_id": group["id"]},
    )
    for rule in outside:
        api.create("security_group_rule", security_group_id=group["id"], direction="ingress", **rule)
    return group


def _create_instances(neutron: NeutronLab, cloud: Cloud, group: Object) -> None:
    api, instances = neutron.api, neutron.instances
    policy = api.request("POST", "/v2.0/qos/policies", {"policy": {"name": "limit"}})["policy"]
    for direction in ("egress", "ingress"):
        rule = {"max_kbps": 50_000, "max_burst_kbps": 5_000, "direction": direction}
        body = {"bandwidth_limit_rule": rule}
        api.request("POST", f"/v2.0/qos/policies/{policy['id']}/bandwidth_limit_rules", body)
    for instance in INSTANCES:
        values = {"security_groups": [group["id"]], "name": instance.name, **instance.more}
        if instance.name == LIMITED:
            values["qos_policy_id"] = policy["id"]
        if instance.name != PARENT:  # bound when the trunk is there
            device = {"device_owner": DEVICE_OWNER, "device_id": str(uuid.uuid4()), "binding:host_id": instance.host}
            values |= device
        port = api.create("port", network_id=cloud.networks[instance.network]["id"], **values)
        cloud.ports[instance.name] = port
        if instance.name != PARENT:
            mtu = cloud.networks[instance.network]["mtu"]
            vm = Vm(
                *(instance.name, instance.host, port["id"], port["device_id"], port["mac_address"], mtu),
                hybrid=bool(port["binding:vif_details"].get("ovs_hybrid_plug")),
            )
            instances.vms.add(vm)
    cloud.subport = api.create("port", network_id=cloud.networks["vlan"]["id"], security_groups=[group["id"]])
    subport = {"port_id": cloud.subport["id"], "segmentation_type": "vlan", "segmentation_id": TAG}
    api.create("trunk", port_id=cloud.ports[PARENT]["id"], sub_ports=[subport])
    instances.define(PARENT, port=cloud.ports[PARENT]["id"], host="h3")
    for host in neutron.lab.hosts:
        instances.plug([instance.name for instance in INSTANCES if instance.host == host], host)


def _create_floating_ips(api: ApiClient, cloud: Cloud) -> None:
    network = cloud.networks["public"]["id"]
    for instance in INSTANCES:
        if instance.floating_ip:
            port = cloud.ports[instance.name]["id"]
            cloud.floating_ips[instance.name] = api.create("floatingip", floating_network_id=network, port_id=port)
    cloud.forwarding = api.create("floatingip", floating_network_id=network)
    forwarding = {
        "internal_port_id": cloud.ports["b1"]["id"],
        "internal_ip_address": cloud.address("b1"),
        "internal_port": STREAM,
        "external_port": FORWARDED,
        "protocol": "tcp",
    }
    path = f"/v2.0/floatingips/{cloud.forwarding['id']}/port_forwardings"
    api.request("POST", path, {"port_forwarding": forwarding})


def _wait_until_active(neutron: NeutronLab, cloud: Cloud) -> None:
    ids = {port["id"]: name for name, port in cloud.ports.items()} | {cloud.subport["id"]: "subport"}
    missing: list[str] = []

    def ready() -> bool:
        neutron.check_agents()
        status = {port["id"]: port["status"] for port in neutron.api.list("port")}
        missing[:] = [name for key, name in ids.items() if status[key] != "ACTIVE"]
        return not missing

    wait_until(ready, ACTIVE_SECONDS, "ports are not ACTIVE")


def _address_instances(neutron: NeutronLab, cloud: Cloud) -> None:
    instances = neutron.instances
    for instance in INSTANCES:
        if instance.by_dhcp:
            instances.address(instance.name)
        else:
            network = vm_network(neutron.lab.holder(instance.host), f"vm-{instance.name}")
            port = cloud.ports[instance.name]
            apply_static(network, port, cloud.subnets_of(instance.network))
    gateway = next(subnet["gateway_ip"] for subnet in cloud.subnets_of("blue") if subnet["ip_version"] == 6)
    neutron.lab.run(SOLICITING, ["ip", "-6", "route", "delete", "default", "via", gateway])
    holder = neutron.lab.holder("h3")
    in_network(vm_network(holder, "vm-b3"), lambda: ip_batch([f"address add {PAIR}/24 dev {DEVICE}"]))
    _add_subport_device(neutron, cloud)


def _add_subport_device(neutron: NeutronLab, cloud: Cloud) -> None:
    """A VLAN device in the trunk's instance, in userspace, as a kernel may lack 802.1Q."""
    device, port = f"vlan{TAG}", cloud.subport
    argv = [sys.executable, "-P", str(vlan_device.__file__), DEVICE, device, str(TAG)]
    neutron.lab.processes.start("t3-vlan", neutron.lab.command("t3", argv))
    network = vm_network(neutron.lab.holder("h3"), "vm-t3")
    wait_until(
        lambda: neutron.lab.run("t3", ["ip", "link", "show", device], check=False).returncode == 0,
        ACTIVE_SECONDS,
        "the VLAN device of the trunk is not there",
    )
    lines = [
        f"link set {device} mtu 1450 address {port['mac_address']}",
        f"address add {address_of(port)}/24 dev {device}",
        f"link set {device} up",
    ]
    in_network(network, lambda: ip_batch(lines))


def _address_external_machine(neutron: NeutronLab, cloud: Cloud) -> None:
    """Routes to the IPv6 subnet behind the legacy router, which is not translated."""
    gateway = neutron.api.show("router", cloud.routers["legacy"]["id"])["external_gateway_info"]
    nexthop = next(fixed["ip_address"] for fixed in gateway["external_fixed_ips"] if ":" in fixed["ip_address"])
    ip = ["ip", "-6", "route", "replace", "2001:db8:1::/64", "via", nexthop]
    neutron.lab.run(EXTERNAL, ip)
