"""What changes through our API after a takeover is opened, and Neutron has to serve when it has the cloud again."""

from __future__ import annotations

from neutrino.lab.settings import EXTERNAL
from qa.takeover.lab.cloud import SPARE, STREAM, Cloud
from qa.takeover.lab.neutron_lab import NeutronLab
from qa.takeover.lab.paths import OUTSIDE, TrafficPath

FIRST_PORT = STREAM + 50  # of streams on the changed paths
_NETWORK = "new"
_HOSTS = {"n1": "h1", "n3": "h3"}


def make(neutron: NeutronLab, cloud: Cloud) -> list[TrafficPath]:
    """Create, change and delete objects; the paths that exist because of it.

    A network with instances on two hosts, routed to the outside; a floating IP on an HA router; a rule; a deletion.
    """
    api, instances = neutron.ours, neutron.instances_of(neutron.ours)
    network = api.create("network", name=_NETWORK)
    subnet = api.create("subnet", network_id=network["id"], ip_version=4, cidr="10.9.0.0/24", enable_dhcp=False)
    router = cloud.routers["legacy"]["id"]
    api.request("PUT", f"/v2.0/routers/{router}/add_router_interface", {"subnet_id": subnet["id"]})
    for name, host in _HOSTS.items():
        instances.create(name, network=_NETWORK, host=host, security_groups=["members"])
    near, far = (api.show("port", instances.vms.get(name).port_id)["fixed_ips"][0]["ip_address"] for name in _HOSTS)
    public, port = cloud.networks["public"]["id"], cloud.ports["g2"]["id"]
    floating = api.create("floatingip", floating_network_id=public, port_id=port)
    group = api.find("security_group", "members")["id"]
    rule = {"protocol": "udp", "ethertype": "IPv4", "direction": "ingress", "port_range_min": 53, "port_range_max": 53}
    api.create("security_group_rule", security_group_id=group, **rule)
    api.update("network", cloud.networks["geneve"]["id"], name="renamed")
    api.delete("network", cloud.networks[SPARE]["id"])
    return [
        TrafficPath("new network, h1 → h3", "n1", far, "n3"),
        TrafficPath("new network, h3 → h1", "n3", near, "n1"),
        TrafficPath("new network, SNAT from h1", "n1", OUTSIDE, EXTERNAL),
        TrafficPath("new floating IP of the HA router, to h2", EXTERNAL, floating["floating_ip_address"], "g2"),
    ]
