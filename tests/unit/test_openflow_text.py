"""Two spellings of one flow are one flow."""

import pytest

from neutrino.dataplane.openflow.api import flow, parse_flow
from neutrino.dataplane.openflow.text import canonical_actions, canonical_match


@pytest.mark.parametrize(
    "one, other",
    [
        ("tcp,tp_dst=80", "dl_type=0x0800,nw_proto=6,tcp_dst=0x50"),
        ("ip,nw_src=10.1.2.3/8", "nw_src=10.0.0.0/255.0.0.0,eth_type=0x800"),
        ("ip,nw_src=10.1.2.3/32", "ip,nw_src=10.1.2.3"),
        ("ip,nw_src=0.0.0.0/0", "ip"),
        ("ipv6,ipv6_src=2001:DB8:0::1/32", "ipv6,ipv6_src=2001:db8::/32"),
        ("dl_vlan=5", "vlan_tci=0x1005/0x1fff"),
        ("ct_state=+trk-new+est", "ct_state=-new+est+trk"),
        ("reg5=10,in_port=0x3", "in_port=3,reg5=0xa"),
        ("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", "eth_dst=FF:00:00:00:00:00/01:00:00:00:00:00"),
        ("icmp6,icmpv6_type=135", "icmp6,icmp_type=135"),
        ("ip,nw_frag=yes,ct_tp_src=67,ct_state=-rpl-inv+trk", "ct_state=+trk-rpl-inv,ct_tp_src=0x43,ip_frag=yes,ip"),
        ("tcp,tp_dst=0x50/0xffff", "tcp,tp_dst=80"),
        ("arp,arp_op=1", "dl_type=0x806,arp_op=0x1"),
        ("ip,nw_proto=51", "dl_type=0x0800,ip_proto=0x33"),
    ],
)
def test_matches(one, other):
    assert canonical_match(one) == canonical_match(other)
    assert canonical_match(canonical_match(one)) == canonical_match(one)


@pytest.mark.parametrize(
    "one, other",
    [
        ("", "drop"),
        ("strip_vlan,output:3", "pop_vlan,output:3"),
        ("goto_table:7", "resubmit(,7)"),
        ("set_field:16->reg5", "set_field:0x10->reg5"),
        ("set_field:0x1005->vlan_vid", "set_field:4101->vlan_vid"),
        ("conjunction(9,1/2),conjunction(3,1/2)", "conjunction(3,1/2),conjunction(9,1/2)"),
        ("ct(zone=3,commit,exec(set_field:1->ct_mark))", "ct(commit,zone=3,exec(set_field:0x1->ct_mark))"),
        ("learn(table=20,priority=1,NXM_OF_VLAN_TCI[0..11])", "learn(priority=1,table=20,NXM_OF_VLAN_TCI[0..11])"),
        ("learn(table=9,limit=7,delete_learned,cookie=0x5)", "learn(delete_learned,cookie=5,limit=7,table=9)"),
    ],
)
def test_actions(one, other):
    assert canonical_actions(one) == canonical_actions(other)


def test_the_order_of_actions_is_kept():
    assert canonical_actions("output:2,pop_vlan,output:1") == "output:2,pop_vlan,output:1"


@pytest.mark.parametrize(
    "line",
    [
        " cookie=0x1122, duration=0.08s, table=0, n_packets=0, n_bytes=0, priority=5,in_port=1,dl_vlan=7 actions=drop",
        "cookie=0x1122,table=0,priority=5,dl_vlan=7,in_port=1 actions=drop",
        " cookie=0x1122, priority=5,vlan_tci=0x1007/0x1fff,in_port=1 actions=",
    ],
)
def test_lines_of_a_dump(line):
    assert parse_flow(line) == flow(0, 5, "in_port=1,dl_vlan=7", "drop", cookie=0x1122)


def test_a_flow_reads_its_own_text():
    made = flow(20, 2, "dl_vlan=5,dl_dst=fa:16:3e:00:00:09", "pop_vlan,output:9", cookie=7, hard_timeout=300)
    assert parse_flow(made.text()) == made


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="nw_sorce"):
        canonical_match("ip,nw_sorce=10.0.0.1")
