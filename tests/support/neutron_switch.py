"""A switch as Neutron 29's agent leaves it: flows, controllers, QoS rows and names, in a compact form of a recorded host.

Of each port the flows of the native firewall; rules let in ICMP and some TCP ports. Of hybrid ports those against
spoofing alone. No distributed routers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

COOKIE = 0xE30D4C4FF02AE21D
CONTROLLER = "tcp:127.0.0.1:6633"
_ZONE = "zone=NXM_NX_REG6[0..15]"


@dataclass(frozen=True)
class NeutronPort:
    ofport: int
    vlan: int
    mac: str
    address: str
    tcp: Sequence[int] | None = ()  # ports that a rule lets in; None: iptables decides (`neutron_iptables.py`)
    udp: Sequence[int] = ()


@dataclass(frozen=True)
class NeutronNetwork:
    vlan: int
    number: int  # VNI or VLAN id
    remotes: Sequence[str] = ()  # MACs of ports on the other host of the tunnel
    is_tunnel: bool = True


def integration(ports: Sequence[NeutronPort], networks: Sequence[NeutronNetwork], uplink: int) -> Iterator[str]:
    """`uplink`: the patch port to the bridge of the physical network."""
    yield "priority=65535,dl_vlan=4095 actions=drop"
    yield "priority=200,reg3=0 actions=set_queue:0,load:0x1->NXM_NX_REG3[0],resubmit(,0)"
    for network in networks:
        if not network.is_tunnel:
            tag = f"set_field:{4096 + network.vlan}->vlan_vid"
            yield f"priority=3,in_port={uplink},dl_vlan={network.number} actions={tag},goto_table:58"
    yield f"priority=2,in_port={uplink} actions=drop"
    yield "priority=0 actions=goto_table:58"
    yield from (f"table={table},priority=0 actions=drop" for table in (23, 24, 25, 71, 72, 73, 81, 82, 92, 93))
    yield from (f"table={table},priority=0 actions=goto_table:{table + 1}" for table in (58, 59))
    yield "table=60,priority=1 actions=NORMAL"
    yield "table=62,priority=3 actions=NORMAL"
    yield "table=71,priority=110,ct_state=+trk actions=ct_clear,resubmit(,71)"
    yield "table=72,priority=50,ct_state=+inv+trk actions=resubmit(,93)"
    yield "table=91,priority=1 actions=resubmit(,94)"
    yield "table=94,priority=1 actions=NORMAL"
    for port in ports:
        yield from _hybrid(port) if port.tcp is None else _filtered(port, port.tcp)


def _hybrid(port: NeutronPort) -> Iterator[str]:
    here = f"in_port={port.ofport}"
    yield f"priority=10,arp,{here} actions=goto_table:24"
    yield f"priority=9,{here} actions=goto_table:25"
    yield f"table=24,priority=2,arp,{here},arp_spa={port.address} actions=goto_table:25"
    yield f"table=25,priority=2,{here},dl_src={port.mac} actions=goto_table:60"


def _filtered(port: NeutronPort, open_ports: Sequence[int]) -> Iterator[str]:
    number, vlan, mac = port.ofport, port.vlan, port.mac
    to, here, out = f"set_field:{number}->reg5", f"reg5={number}", f"output:{number}"
    source = f"{here},in_port={number},dl_src={mac}"
    yield f"table=60,priority=100,in_port={number} actions={to},set_field:{vlan}->reg6,resubmit(,71)"
    yield f"table=60,priority=90,dl_vlan={vlan},dl_dst={mac} actions={to},set_field:{vlan}->reg6,pop_vlan,resubmit(,81)"
    yield f"table=71,priority=95,arp,{source},arp_spa={port.address} actions=resubmit(,94)"
    yield f"table=71,priority=65,ip,{source},nw_src={port.address} actions=ct(table=72,{_ZONE})"
    yield f"table=71,priority=10,{here},in_port={number} actions=ct_clear,resubmit(,93)"
    for state in ("+est-rel-rpl", "+new-est"):
        yield f"table=72,priority=74,ct_state={state},ip,{here} actions=resubmit(,73)"
    yield f"table=73,priority=100,reg6={vlan},dl_dst={mac} actions={to},resubmit(,81)"
    yield f"table=73,priority=90,ct_state=+new-est,ip,{here} actions=ct(commit,{_ZONE}),resubmit(,91)"
    yield f"table=73,priority=80,{here} actions=resubmit(,94)"
    yield f"table=81,priority=100,arp,{here} actions={out}"
    yield f"table=81,priority=90,ct_state=-trk,ip,{here} actions=ct(table=82,{_ZONE})"
    yield f"table=81,priority=80,ct_state=+trk,{here} actions=resubmit(,82)"
    for match in ("icmp", *(f"tcp,tp_dst={tcp}" for tcp in open_ports), *(f"udp,tp_dst={udp}" for udp in port.udp)):
        yield f"table=82,priority=77,ct_state=+est-rel-rpl,{match},{here} actions={out}"
        yield f"table=82,priority=77,ct_state=+new-est,{match},{here} actions=ct(commit,{_ZONE}),{out},resubmit(,92)"
    for table, passing in ((72, "resubmit(,94)"), (82, out)):
        yield f"table={table},priority=50,ct_mark=0x1,{here} actions=resubmit(,93)"
        for state in ("+est-rel+rpl", "-new-est+rel-inv"):
            yield f"table={table},priority=50,ct_state={state},ct_zone={vlan},ct_mark=0,{here} actions={passing}"
        yield f"table={table},priority=40,ct_state=-est,{here} actions=resubmit(,93)"
        marked = f"ct(commit,{_ZONE},exec(set_field:0x1->ct_mark))"
        yield f"table={table},priority=40,ct_state=+est,ip,{here} actions={marked}"


def tunnels(networks: Sequence[NeutronNetwork], patch: int, tunnel: int) -> Iterator[str]:
    """Of one tunnel, to one other host; with l2population."""
    yield f"priority=1,in_port={patch} actions=goto_table:2"
    yield f"priority=1,in_port={tunnel} actions=goto_table:4"
    yield "priority=0 actions=drop"
    yield "table=2,priority=1,arp,dl_dst=ff:ff:ff:ff:ff:ff actions=goto_table:21"
    yield "table=2,priority=0,dl_dst=00:00:00:00:00:00/01:00:00:00:00:00 actions=goto_table:20"
    yield "table=2,priority=0,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=goto_table:22"
    yield from (f"table={table},priority=0 actions=drop" for table in (3, 4, 6, 22))
    learn = (
        f"learn(table=20,hard_timeout=300,priority=1,cookie={COOKIE:#x},NXM_OF_VLAN_TCI[0..11],"
        "NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0->NXM_OF_VLAN_TCI[],load:NXM_NX_TUN_ID[]->NXM_NX_TUN_ID[],"
        "output:OXM_OF_IN_PORT[])"
    )
    yield f"table=10,priority=1 actions={learn},output:{patch}"
    yield from (f"table={table},priority=0 actions=goto_table:22" for table in (20, 21))
    for network in networks:
        if network.is_tunnel:
            push = f"push_vlan:0x8100,set_field:{4096 + network.vlan}->vlan_vid"
            into = f"pop_vlan,set_field:{network.number}->tun_id,output:{tunnel}"
            yield f"table=4,priority=1,tun_id={network.number} actions={push},goto_table:10"
            yield f"table=22,priority=1,dl_vlan={network.vlan} actions={into}"
            for mac in network.remotes:
                yield f"table=20,priority=2,dl_vlan={network.vlan},dl_dst={mac} actions={into}"


def physical(networks: Sequence[NeutronNetwork], patch: int) -> Iterator[str]:
    yield "priority=0 actions=NORMAL"
    yield f"priority=2,in_port={patch} actions=drop"
    for network in networks:
        if not network.is_tunnel:
            tag = f"set_field:{4096 + network.number}->vlan_vid"
            yield f"priority=4,in_port={patch},dl_vlan={network.vlan} actions={tag},NORMAL"


def as_lines(flows: Iterator[str]) -> str:
    return "".join(f"cookie={COOKIE:#x},{flow}\n" for flow in flows)


def qos(device: str) -> list[str]:
    """Arguments of ovs-vsctl: a bandwidth limit in both directions, of 1 Gbit/s."""
    return [
        *("--", "--id=@queue", "create", "queue", "other_config:max-rate=1000000000", "other_config:burst=800000000"),
        *(f"external_ids:port={device}", "external_ids:type=bandwidth_limit", "external_ids:queue-num=0"),
        *("--", "--id=@qos", "create", "qos", "type=linux-htb", "queues:0=@queue", "other_config:max-rate=4294967295"),
        *(f"external_ids:id={device}", "external_ids:_type=bandwidth_limit", "--", "set", "port", device, "qos=@qos"),
        *("--", "set", "interface", device, "ingress_policing_rate=1000000", "ingress_policing_burst=800000"),
    ]
