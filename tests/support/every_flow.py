"""Clouds in which a host has every flow that can be rendered, to compare fake and real switches.

`tests/unit/test_l2_every_flow.py` checks that they cover every line of the code that renders.
"""

from __future__ import annotations

import dataclasses
from functools import cache

from msgspec import structs

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extension_api import L2Extension
from neutrino.dataplane.openflow.api import DatapathFeatures
from neutrino.model import state
from neutrino.model.firewall import FirewallGroup, FirewallRule
from neutrino.model.packet_log import PacketLog
from neutrino.model.qos import BandwidthLimit, MinimumBandwidth, PacketRateLimit, QosPolicy
from neutrino.model.routing import Router, RouterInterface
from neutrino.model.state import AddressGroup, AddressPair, DvrMac, GroupMembers, Member
from neutrino.model.taps import Tap, TapMirror, TapOrigin, Taps
from tests.support.l2 import OPEN, OUT, Cloud, FakeHost, Passing, group, mac, network, port, rule

RULES = [
    *(rule(direction, family) for direction in ("egress",) for family in ("IPv4", "IPv6")),
    rule(protocol=6, port_min=80, port_max=443),
    rule(protocol=1, port_min=8, port_max=0),
    rule("ingress", "IPv6", protocol=58, port_min=128),
    rule(protocol=17, remote_ip_prefix="10.0.0.0/30"),
    rule(protocol=132, port_min=5, port_max=5, remote_group_id="g"),
    rule(protocol=6, port_min=1000, port_max=1001, remote_group_id="g"),
    rule(protocol=6, port_min=1000, port_max=1000, remote_address_group_id="a"),
    rule("ingress", "IPv6", remote_group_id="g"),
]
MEMBERS = frozenset({Member("10.0.0.1", mac(1)), Member("2001:db8::1", mac(1)), Member("10.0.9.0/24", mac(9))})
OBJECTS = (
    network("net", "vxlan", 5000),
    network("vlan", "vlan", 205, "physnet1"),
    network("flat", "flat", 0, "physnet1"),
    OPEN,
    OUT,
    group("web", *RULES),
    group("free", rule(protocol=17, port_min=7, port_max=7), stateful=False),
    GroupMembers(id="g", members=MEMBERS),
    AddressGroup(id="a", addresses=frozenset({"10.0.0.3/32", "10.0.0.0/31"})),
    port("p1", 1, groups=["out"]),
    port("p2", 2, groups=["web", "free"], allowed_address_pairs=(AddressPair("00:00:5e:00:01:01", "10.0.0.250"),)),
    port("p3", 3, groups=["out"], allowed_address_pairs=(AddressPair("00:00:5e:00:01:01", "10.0.0.250"),)),
    port("p4", 4, "vlan", groups=["web"]),
    port("p5", 5, "flat", port_security_enabled=False),
    port("p6", 6, admin_state_up=False),
    port("p7", 7, host="h2"),
    port("p8", 8, host="h3"),
    port("p9", 9, "vlan", groups=["open"], hybrid_plug=True),
    port("p10", 10, groups=["free"]),
)
ETHERTYPES = (0x88CC, 0x8847, 0x8848, 0x894F, 0x0842)  # some have names of their own when they are read back


@dataclasses.dataclass(frozen=True)
class Variant:
    options: L2Options = L2Options()  # noqa: RUF009
    more: tuple[state.Object, ...] = ()
    extensions: tuple[L2Extension, ...] = ()


OTHER_TUNNELS = (
    *(network("gre", "gre", 9), network("geneve", "geneve", 10), network("local", "local")),
    *(port("p11", 11, "gre", groups=["open"]), port("p12", 12, "gre", host="h2", groups=["open"])),
    *(port("p13", 13, "geneve", groups=["open"]), port("p14", 14, "geneve", host="h3", groups=["open"])),
    port("p15", 15, "local", groups=["open"]),
)


def gateway(name: str, number: int, network_id: str, host: str) -> state.Port:
    """The interface of a distributed router, which is on every host."""
    owner = "network:router_interface_distributed"
    return port(f"{name}-{host}", number, network_id, host, device_owner=owner, distributed=True)


DISTRIBUTED = (
    *(DvrMac(id=f"h{number}", mac_address=f"fa:16:3f:00:00:{number:02x}") for number in (1, 2, 3)),
    *(
        gateway(f"gw-{kind}", number, kind, host)
        for number, kind in ((251, "net"), (252, "vlan"), (253, "flat"))
        for host in ("h1", "h2")
    ),
)
FILTERED_ROUTER = Router(
    id="r1",
    distributed=True,
    interfaces=tuple(
        RouterInterface(id=f"gw-{kind}-h1", network_id=kind, mac_address=mac(number), firewall_group_id=group_id)
        for number, kind, group_id in ((251, "net", "f1"), (252, "vlan", ""))
    ),
)
ROLES = (
    port("dhcp", 20, device_owner="network:dhcp", copy=True),
    port("dhcp-here", 21, "vlan", device_owner="network:dhcp"),
    port("ha", 22, device_owner="network:ha_router_replicated_interface", replicated=True),
    port("free", 23, groups=[], port_security_enabled=False),
    port("ha-vlan", 24, "vlan", device_owner="network:ha_router_replicated_interface", replicated=True),
)
POLICY = (
    FirewallRule(id="1", action="allow", ip_version=4, protocol=6, destination_port_first=80, destination_port_last=90),
    FirewallRule(
        id="2", action="deny", ip_version=4, source_ip_address="10.0.0.0/24", source_port_first=5, protocol=17
    ),
    FirewallRule(id="3", action="reject", ip_version=6, protocol=1, destination_ip_address="2001:db8::/64"),
    FirewallRule(id="4", action="allow", ip_version=6, source_ip_address="::/0"),
    FirewallRule(id="5", action="allow", ip_version=6, source_ip_address="10.0.0.0/24"),
    FirewallRule(id="6", action="allow", ip_version=4, protocol=47, source_port_first=1),
)
FIREWALL_GROUPS = (
    FirewallGroup(id="f1", ingress=POLICY, egress=POLICY[2:]),
    port("p40", 40, groups=["web"], firewall_group_id="f1"),
    port("p41", 41, "vlan", port_security_enabled=False, firewall_group_id="f1"),
    port("p42", 42, "vlan", groups=["web"], hybrid_plug=True, firewall_group_id="unknown"),
)
LIMITED = (
    QosPolicy(
        id="qos",
        bandwidth_limits=(
            BandwidthLimit(max_kbps=1000),
            BandwidthLimit(max_kbps=2000, max_burst_kbps=500, direction="ingress"),
        ),
        packet_rate_limits=(PacketRateLimit(max_kpps=1), PacketRateLimit(max_kpps=2, direction="ingress")),
        minimum_bandwidths=(MinimumBandwidth(min_kbps=100),),
        dscp_mark=46,
    ),
    *(port(f"qos{n}", n, kind, qos_policy_id="qos", groups=["open"]) for n, kind in ((30, "net"), (31, "vlan"))),
    QosPolicy(id="marks", minimum_bandwidths=(MinimumBandwidth(min_kbps=50),)),
    port("marked", 34, groups=["open"], qos_policy_id="marks"),
    port("shaped", 33, groups=["open"], qos_policy_id="qos"),
    port("qos-free", 32, port_security_enabled=False, qos_policy_id="qos"),
)
LOGGED = (
    PacketLog(id="everything", project_id="project"),
    PacketLog(id="drops", event="DROP", resource_id="web"),
    PacketLog(id="elsewhere", event="ACCEPT", target_id="p7", network_id="net"),
    state.SecurityGroup(id="of-project", project_id="project"),
    port("p50", 50, groups=["of-project"]),
    port("p51", 51, "vlan", groups=["out"], hybrid_plug=True),
)
LOCAL_IPS = (
    port("p60", 60, groups=["open"], local_ips=(state.LocalIp("10.0.0.200", "10.0.0.60", network_id="net"),)),
    port("p61", 61, groups=["open"], local_ips=(state.LocalIp("10.0.0.200", "10.0.0.61", network_id="net"),)),
    port(
        "p62", 62, "vlan", groups=["open"], local_ips=(state.LocalIp("10.0.0.201", "10.0.0.62", "passthrough", "vlan"),)
    ),
    port(
        "p63", 63, "flat", groups=["open"], local_ips=(state.LocalIp("2001:db8::1", "2001:db8::3f", network_id="flat"),)
    ),
)
MIRROR = TapMirror(id="m1", direction="BOTH", tunnel_id=7, remote_ip="198.51.100.9", mirror_type="gre")
TAPS = (
    port("p70", 70, groups=["open"], trunk_id="t1", taps=Taps(flows=(
        Tap(id="f1", port_id="p71", host="h1", direction="BOTH", tunnel_id=1, vlans=((0, 0), (5, 12))),
        Tap(id="f2", port_id="p7", host="h2", direction="BOTH", tunnel_id=2),
    ), mirrors=(MIRROR, structs.replace(MIRROR, id="m2", direction="IN", mirror_type="erspanv1")))),
    port("p71", 71, "vlan", taps=Taps(services=("s1",), origins=(
        TapOrigin(id="f1", host="h1", tunnel_id=1), TapOrigin(id="f3", host="h2", tunnel_id=3),
    ))),
    port("p72", 72, groups=["open"], trunk_id="t1", trunk_vlan=10),
)  # fmt: skip
TAGGING = (
    structs.replace(network("tags", "vxlan", 6000), vlan_transparent=True),
    structs.replace(network("stacked", "vlan", 206, "physnet1"), qinq=True),
    port("tags1", 51, "tags", groups=["web"], tx_steering="hash"),
    port("tags2", 52, "tags", port_security_enabled=False),
    port("tags3", 53, "tags", host="h2", groups=["web"]),
    *(port(f"stacked{n}", n, "stacked", host=host, groups=["open"]) for n, host in ((54, "h1"), (55, "h2"))),
)
VARIANTS = {
    "usual": Variant(more=OTHER_TUNNELS),
    "learning": Variant(L2Options(l2_population=False), OTHER_TUNNELS),
    "no responder": Variant(L2Options(arp_responder=False)),
    "no filters": Variant(L2Options(filters=False)),
    "ethertypes": Variant(L2Options(permitted_ethertypes=ETHERTYPES)),
    "ports of our own": Variant(more=ROLES),
    "limits": Variant(L2Options(underlay_bridge="br-phys", datapath_type="netdev"), (*ROLES, *LIMITED)),
    "an extension's tables": Variant(more=ROLES, extensions=(Passing(),)),
    "tags of instances": Variant(more=TAGGING),
    "firewall groups": Variant(more=(*ROLES, *FIREWALL_GROUPS)),
    "logs": Variant(more=LOGGED),
    "local IPs": Variant(more=(*ROLES, *LOCAL_IPS)),
    "taps": Variant(L2Options(local_ip="192.0.2.1"), TAPS),
    "distributed": Variant(L2Options(distributed=True), (*OTHER_TUNNELS, *DISTRIBUTED, *ROLES)),
    "distributed, with firewall groups": Variant(L2Options(distributed=True), (*DISTRIBUTED, FILTERED_ROUTER)),
    "distributed, without its own MAC": Variant(
        L2Options(distributed=True), tuple(entry for entry in DISTRIBUTED if entry.id != "h1")
    ),
}


@cache
def hosts(features: DatapathFeatures) -> dict[str, FakeHost]:
    """A host for each variant, with its flows on a fake switch."""
    return {name: _host(variant, features) for name, variant in VARIANTS.items()}


def _host(variant: Variant, features: DatapathFeatures) -> FakeHost:
    cloud = Cloud("h1", "h2", "h3", options=variant.options, features=features, extensions=variant.extensions)
    cloud.apply(*OBJECTS, *variant.more)
    return cloud.hosts["h1"]
