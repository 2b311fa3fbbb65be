"""Output of `ofproto/trace`, as recorded from Open vSwitch 3.1 and in later forms, and actions of datapaths."""

# ruff: noqa: E501  # recorded lines

from __future__ import annotations

import pytest

from neutrino.dataplane.openflow.datapath_actions import Copy, Tunnelled, copies, top_level
from neutrino.dataplane.openflow.trace import Fork, Lookup, parse_fields, parse_ports, parse_trace

LINE = "=" * 79
# A port to a port on another host, up to its way into conntrack.
TRACKED = f"""\
Flow: tcp,in_port=6,vlan_tci=0x0000,dl_src=fa:16:3e:bb:4f:84,dl_dst=fa:16:3e:c0:b3:e9,nw_src=10.0.1.12,nw_dst=10.0.1.183,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,tp_src=40000,tp_dst=80,tcp_flags=0

bridge("br-int")
----------------
 0. in_port=6, priority 9, cookie 0x6e74726ec853a248
    resubmit(,25)
25. in_port=6,dl_src=fa:16:3e:bb:4f:84, priority 2, cookie 0x6e74726ec853a248
    resubmit(,72)
72. ct_state=-trk,ip, priority 5, cookie 0x6e74726e48011b7e
    set_field:0x1->reg7
    ct(table=72,zone=NXM_NX_REG6[0..15])
    drop
     -> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 72.
     -> Sets the packet to an untracked state, and clears all the conntrack fields.

Final flow: tcp,reg5=0x6,reg6=0x1,reg7=0x1,in_port=6,vlan_tci=0x0000
Megaflow: recirc_id=0,ct_state=-est-rel-rpl-inv-trk,eth,tcp,in_port=6
Datapath actions: ct(zone=1),recirc(0x14)

{LINE}
recirc(0x14) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
{LINE}

Flow: recirc_id=0x14,ct_state=new|trk,ct_zone=1,eth,tcp,reg5=0x6,reg6=0x1,reg7=0x1,in_port=6,vlan_tci=0x0000,dl_src=fa:16:3e:bb:4f:84,dl_dst=fa:16:3e:c0:b3:e9,nw_src=10.0.1.12,nw_dst=10.0.1.183,nw_ttl=64,nw_frag=no,tp_src=40000,tp_dst=80,tcp_flags=0

bridge("br-int")
----------------
    thaw
        Resuming from table 72
72. ct_state=+trk,ip,reg5=0x6, priority 77, cookie 0x6e74726ec853a248
    resubmit(,73)

Final flow: unchanged
Megaflow: recirc_id=0x14
Datapath actions: 2
"""
TUNNEL = """\
Flow: tcp,in_port=6

bridge("br-int")
----------------
94. reg6=0x1,dl_dst=00:00:00:00:00:00/01:00:00:00:00:00, priority 10, cookie 0x6e74726e9c92e75b
    push_vlan:0x8100
    set_field:4097->vlan_vid
    output:2

bridge("br-tun")
----------------
 0. in_port=1, priority 1, cookie 0x6e74726e69780f9f
    resubmit(,20)
20. dl_vlan=1,dl_dst=fa:16:3e:c0:b3:e9, priority 2, cookie 0x6e74726e9c92e75b
    pop_vlan
    set_field:0xb36284->tun_id
    output:2
     -> output to native tunnel
     -> tunneling to 10.255.0.2 via br-underlay
     -> tunneling from 02:4c:61:62:00:01 10.255.0.1 to 02:4c:61:62:00:02 10.255.0.2

bridge("br-underlay")
---------------------
 0. priority 0
    NORMAL
     -> forwarding to learned port

Final flow: tcp
Megaflow: recirc_id=0x14
Datapath actions: ct(commit,zone=1),tnl_push(tnl_port(9),header(size=50,type=4,eth(dst=02:4c:61:62:00:02,src=02:4c:61:62:00:01,dl_type=0x0800),ipv4(src=10.255.0.1,dst=10.255.0.2,proto=17,tos=0,ttl=64,frag=0x4000),udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0xb36284)),out_port(1)),2
"""


def test_tables_flows_and_copies_for_conntrack() -> None:
    found = parse_trace(TRACKED)
    assert [(each.bridge, each.table, each.priority) for each in found.lookups] == [
        ("br-int", 0, 9),
        ("br-int", 25, 2),
        ("br-int", 72, 5),
    ]
    assert found.lookups[0] == Lookup("br-int", 0, "in_port=6", 9, 0x6E74726EC853A248, ("resubmit(,25)",))
    # `drop` is the empty list of actions inside ct.
    assert found.lookups[2].actions == ("set_field:0x1->reg7", "ct(table=72,zone=NXM_NX_REG6[0..15])")
    assert found.actions == "ct(zone=1),recirc(0x14)"
    (fork,) = found.forks
    assert (fork.bridge, fork.table) == ("br-int", 72)
    assert (fork.fields["reg5"], fork.fields["ct_zone"], fork.fields["dl_src"]) == ("0x6", "1", "fa:16:3e:bb:4f:84")


def test_a_header_with_simulated_translation() -> None:
    """Newer versions print it between the two lines."""
    extra = "Replacing src/dst IP/ports to simulate NAT:\n Initial flow: \n Modified flow: \n"
    changed = TRACKED.replace(f"to customize)\n{LINE}", f"to customize)\n{extra}{LINE}")
    assert changed != TRACKED
    assert parse_trace(changed) == parse_trace(TRACKED)


def test_flows_of_a_conjunction_are_notes() -> None:
    """Newer versions list the flows of all dimensions."""
    text = (
        'bridge("br-int")\n----------------\n'
        "82. conj_id=7, priority 70, cookie 0x1\n"
        "     -> conj. priority=70,ip,nw_src=10.0.1.12\n     -> conj. priority=70,tcp,reg5=0x5,tp_dst=80\n"
        "    resubmit(,92)\n92. priority 0\n    output:NXM_NX_REG5[]\n     -> output port is 5\n\nDatapath actions: 13\n"
    )
    first, second = parse_trace(text).lookups
    assert (first.match, first.actions, len(first.notes)) == ("conj_id=7", ("resubmit(,92)",), 2)
    assert (second.cookie, second.match, second.actions) == (0, "", ("output:5",))


def test_several_bridges_and_a_tunnel_of_the_userspace_datapath() -> None:
    found = parse_trace(TUNNEL)
    assert found.bridges == ("br-int", "br-tun", "br-underlay")
    assert found.lookups[2].notes[1] == "tunneling to 10.255.0.2 via br-underlay"
    assert copies(found.actions) == [Copy(2, tags=(), tunnel=Tunnelled("10.255.0.2", 0xB36284, "vxlan"))]


def test_a_table_without_a_flow() -> None:
    found = parse_trace('bridge("br-int")\n----------------\n 0. No match.\n    drop\n\nDatapath actions: drop\n')
    assert found.lookups == (Lookup("br-int", 0, actions=("drop",)),)
    assert found.lookups[0].missed
    assert not copies(found.actions)


def test_what_is_no_trace() -> None:
    found = parse_trace("something else\n")
    assert (found.lookups, found.actions, found.forks) == ((), "", ())


@pytest.mark.parametrize(
    "actions, expected",
    [
        ("drop", []),
        ("ct(zone=1),recirc(0x28)", []),
        ("14", [Copy(14, tags=())]),
        ("4,3", [Copy(4, tags=()), Copy(3, tags=())]),
        ("push_vlan(vid=205,pcp=0),5,pop_vlan,6", [Copy(5, tags=(205,)), Copy(6, tags=())]),
        (
            "set(eth(src=fa:16:3f:00:00:01,dst=fa:16:3e:00:00:02)),7",
            [Copy(7, "fa:16:3f:00:00:01", "fa:16:3e:00:00:02", tags=())],
        ),
        ("set(eth(src=fa:16:3f:00:00:01/ff:ff:ff:ff:ff:ff)),7", [Copy(7, "fa:16:3f:00:00:01", tags=())]),
        # What a clone changes is seen by its own copies alone.
        ("clone(push_vlan(vid=1,pcp=0),5),6", [Copy(5, tags=(1,)), Copy(6, tags=())]),
        ("meter(3),6", [Copy(6, tags=(), meters=(3,))]),
        # The kernel's datapath: the outer header is set, then the packet goes to the port of all tunnels of a type.
        (
            "set(tunnel(tun_id=0x64,src=192.0.2.1,dst=192.0.2.2,ttl=64,tp_dst=4789,flags(df|key))),pop_vlan,3",
            [Copy(3, tags=(), tunnel=Tunnelled("192.0.2.2", 0x64))],
        ),
        (
            "set(tunnel(tun_id=0x64,ipv6_src=2001:db8::1,ipv6_dst=2001:db8::2,ttl=64,flags(df|key))),3",
            [Copy(3, tags=(), tunnel=Tunnelled("2001:db8::2", 0x64))],
        ),
        (
            "clone(tnl_push(tnl_port(4),header(size=42,type=3,eth(dst=02:00:00:00:00:02,src=02:00:00:00:00:01,"
            "dl_type=0x0800),ipv4(src=192.0.2.1,dst=192.0.2.2,proto=47,tos=0,ttl=64,frag=0x4000),"
            "gre((flags=0x2000,proto=0x6558),key=0x64)),out_port(1)),2),5",
            [Copy(2, tags=(), tunnel=Tunnelled("192.0.2.2", 0x64, "gre")), Copy(5, tags=())],
        ),
        (
            "tnl_push(tnl_port(6),header(size=50,type=5,eth(dst=02:00:00:00:00:02,src=02:00:00:00:00:01,dl_type=0x86dd),"
            "ipv6(src=2001:db8::1,dst=2001:db8::2,label=0,proto=17,tclass=0x0,hlimit=64),udp(src=0,dst=6081,csum=0xffff),"
            "geneve(oam,vni=0x65)),out_port(1)),2",
            [Copy(2, tags=(), tunnel=Tunnelled("2001:db8::2", 0x65, "geneve"))],
        ),
        ("check_pkt_len(size=1500,gt(drop),le(8))", [Copy(8, tags=())]),
        ("userspace(pid=0,controller(reason=1)),trunc(100),sample(sample=50.0%,actions(9)),7", [Copy(7, tags=())]),
    ],
)
def test_actions_of_the_datapath(actions: str, expected: list[Copy]) -> None:
    assert copies(actions) == expected


def test_the_tag_that_a_packet_came_with_stays_unless_popped() -> None:
    assert [each.tags for each in copies("4,pop_vlan,5", tags=(205,))] == [(205,), ()]


def test_commas_inside_parentheses_do_not_split() -> None:
    assert top_level("a(b,c(d,e)),f, g") == ["a(b,c(d,e))", "f", "g"]
    assert parse_fields("tcp,reg5=0x6,tun_flags=-df-csum") == {"tcp": "", "reg5": "0x6", "tun_flags": "-df-csum"}


PORTS = """\
netdev@ovs-netdev: hit:116 missed:192
  br-int:
    br-int 65534/8: (tap)
    int-br-ex 1/none: (patch: peer=phy-br-ex)
    tap0e20961c-32 6/14: (system)
  br-tun:
    vxlan-0aff0002 2/9: (vxlan: key=flow, local_ip=10.255.0.1, remote_ip=10.255.0.2)
system@ovs-system: hit:0 missed:0
  br-other:
    eth1 1/2: (system)
"""


def test_ports_of_the_switch() -> None:
    found = {each.name: each for each in parse_ports(PORTS, "netdev@ovs-netdev")}
    assert set(found) == {"br-int", "int-br-ex", "tap0e20961c-32", "vxlan-0aff0002"}
    assert (found["tap0e20961c-32"].ofport, found["tap0e20961c-32"].datapath_port) == (6, 14)
    assert found["int-br-ex"].datapath_port is None
    assert found["int-br-ex"].options["peer"] == "phy-br-ex"
    assert (found["vxlan-0aff0002"].kind, found["vxlan-0aff0002"].options["remote_ip"]) == ("vxlan", "10.255.0.2")
    assert found["br-int"].is_local
    assert {each.name for each in parse_ports(PORTS)} == {*found, "eth1"}


def test_a_fork_is_a_value() -> None:
    assert Fork("br-int", 72, {}) == Fork("br-int", 72, {})


def test_a_packet_comes_back_from_a_bridge_that_a_copy_left_by() -> None:
    """A copy through a tunnel in the middle: the lookups after it are of the outer bridge again."""
    found = parse_trace(
        'bridge("br-int")\n----------------\n50. in_port=5, priority 10, cookie 0x1\n    output:6\n'
        '     -> output to native tunnel\n\n    bridge("br-underlay")\n    ---------------------\n'
        "         0. priority 0\n            NORMAL\n             -> forwarding to learned port\n    resubmit(,72)\n"
        "72. ip, priority 5, cookie 0x1\n    ct(table=72,zone=NXM_NX_REG6[0..15])\n    drop\n"
        "     -> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 72.\n"
        "\nFinal flow: ip\nMegaflow: ip\nDatapath actions: ct(zone=2),recirc(0xa)\n\n"
        "===============================================================================\n"
        "recirc(0xa) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)\n"
        "===============================================================================\n\nFlow: ip,reg5=0x5\n"
    )
    assert [(each.bridge, each.table) for each in found.lookups] == [("br-int", 50), ("br-underlay", 0), ("br-int", 72)]
    assert [(fork.bridge, fork.table) for fork in found.forks] == [("br-int", 72)]
