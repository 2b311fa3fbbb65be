"""Flows as Neutron's Open vSwitch agent leaves them on a host, for one port that allows SSH."""

from __future__ import annotations

from neutrino.dataplane.openflow.api import Flow, parse_flow

COOKIE = 0x9C3F1D5A2B7E4608  # Neutron's agent takes a random one at each start
BRIDGES = ("br-int", "br-tun", "br-phys")


def neutron_flows(bridge: str, port: int = 1, vlan: int = 1, mac: str = "fa:16:3e:00:00:01") -> list[Flow]:
    """`port` is the ofport of the instance's device on the integration bridge."""
    address = "10.0.0.1"
    lines = {
        "br-int": (
            "table=0,priority=65535,dl_vlan=4095 actions=drop",
            "table=0,priority=0 actions=resubmit(,60)",
            "table=23,priority=0 actions=drop",
            "table=24,priority=0 actions=drop",
            f"table=60,priority=100,in_port={port} "
            f"actions=load:{port}->NXM_NX_REG5[],load:{vlan}->NXM_NX_REG6[],resubmit(,71)",
            f"table=60,priority=90,dl_vlan={vlan},dl_dst={mac} "
            f"actions=load:{port}->NXM_NX_REG5[],load:{vlan}->NXM_NX_REG6[],strip_vlan,resubmit(,81)",
            "table=60,priority=3 actions=NORMAL",
            f"table=71,priority=95,arp,reg5={port},in_port={port},dl_src={mac},arp_spa={address} actions=resubmit(,94)",
            f"table=71,priority=65,ip,reg5={port},in_port={port},dl_src={mac},nw_src={address} "
            "actions=ct(table=72,zone=NXM_NX_REG6[0..15])",
            "table=71,priority=0 actions=drop",
            f"table=72,priority=75,ct_state=+est-rel-rpl,ip,reg5={port} actions=resubmit(,73)",
            "table=72,priority=0 actions=drop",
            f"table=73,priority=100,reg6={vlan},dl_dst={mac} actions=load:{port}->NXM_NX_REG5[],resubmit(,81)",
            "table=73,priority=0 actions=drop",
            f"table=81,priority=100,arp,reg5={port} actions=output:{port}",
            f"table=81,priority=90,ct_state=-trk,ip,reg5={port} actions=ct(table=82,zone=NXM_NX_REG6[0..15])",
            "table=81,priority=0 actions=drop",
            f"table=82,priority=77,ct_state=+est-rel-rpl,tcp,reg5={port},tp_dst=22 actions=output:{port}",
            f"table=82,priority=77,ct_state=+new-est,tcp,reg5={port},tp_dst=22 "
            f"actions=ct(commit,zone=NXM_NX_REG6[0..15]),output:{port}",
            "table=82,priority=0 actions=drop",
            "table=94,priority=1 actions=NORMAL",
        ),
        "br-tun": (
            "table=0,priority=1,in_port=1 actions=resubmit(,2)",
            "table=0,priority=0 actions=drop",
            "table=2,priority=0,dl_dst=00:00:00:00:00:00/01:00:00:00:00:00 actions=resubmit(,20)",
            "table=4,priority=1,tun_id=0x65 actions=mod_vlan_vid:1,resubmit(,10)",
            "table=10,priority=1 actions=output:1",
            "table=20,priority=2,dl_vlan=1,dl_dst=fa:16:3e:00:00:09 actions=strip_vlan,set_field:0x65->tun_id,output:2",
            "table=20,priority=0 actions=resubmit(,22)",
            "table=21,priority=0 actions=resubmit(,22)",
            "table=22,priority=1,dl_vlan=1 actions=strip_vlan,set_field:0x65->tun_id,output:2",
            "table=22,priority=0 actions=drop",
        ),
        "br-phys": (
            "table=0,priority=4,dl_vlan=1 actions=mod_vlan_vid:101,NORMAL",
            "table=0,priority=0 actions=NORMAL",
        ),
    }[bridge]
    return [parse_flow(f"cookie={COOKIE:#x},{line}") for line in lines]
