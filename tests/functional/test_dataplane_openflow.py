"""The contract of OpenFlow, on the fake switch and on a real one; and that both make the same of our flows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from neutrino.agent.l2.desired import HostState
from neutrino.agent.l2.plan import plan
from neutrino.dataplane.openflow.api import (
    COOKIE,
    COOKIE_MASK,
    LEARNED_COOKIE,
    DatapathFeatures,
    FlowsRejected,
    Meter,
    MetersRejected,
    OpenFlow,
    OpenFlowError,
    flow,
)
from neutrino.dataplane.openflow.real import OvsOfctl
from tests.fakes import packet
from tests.fakes.openflow import FakeSwitch
from tests.fakes.packet import Packet
from tests.support.every_flow import OBJECTS, VARIANTS, hosts
from tests.support.l2 import Cloud, FakeHost, Passing, mac
from tests.support.openvswitch import OpenVSwitch


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        yield server


@pytest.fixture(params=["fake", "real"])
def openflow(request: pytest.FixtureRequest) -> Iterator[OpenFlow]:
    """A switch with an empty bridge `br-test`."""
    if request.param == "fake":
        fake = FakeSwitch()
        fake.add_bridge("br-test")
        yield fake
        return
    server: OpenVSwitch = request.getfixturevalue("switch")
    server.vsctl("add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy", "fail_mode=secure")
    yield OvsOfctl(server.run_directory)
    server.vsctl("del-br", "br-test")


def test_packets_are_counted_by_flow(switch: OpenVSwitch) -> None:
    switch.vsctl("add-br", "br-count", "--", "set", "bridge", "br-count", "datapath_type=dummy", "fail_mode=secure")
    real, request = OvsOfctl(switch.run_directory), "udp,tp_src=68,tp_dst=67"
    several = [
        flow(71, 80, f"{request},reg5=1", "resubmit(,73)"),
        flow(71, 80, f"{request},reg5=2", "drop"),
        flow(72, 80, request, "drop"),
        flow(71, 80, "udp,tp_src=67,tp_dst=68", "drop"),
    ]
    try:
        real.apply_flows("br-count", add=several, delete=())
        before = real.count_packets("br-count", request, (71,))
        ethernet, ip = "fffffffffffffa163e0000010800", "4500001c000000004011000000000000ffffffff"
        sent = f"{ethernet}{ip}0044004300080000"  # UDP from port 68 to 67
        actions = "set_field:1->reg5,resubmit(,71)"
        packet_out = f"in_port=controller,packet={sent},actions={actions}"
        switch.call(
            "ovs-ofctl", "-O", "OpenFlow14", "packet-out", f"unix:{switch.run_directory}/br-count.mgmt", packet_out
        )
        after = real.count_packets("br-count", request, (71,))
    finally:
        switch.vsctl("del-br", "br-count")
    assert [key.split()[0] for key in before] == ["71", "71"]
    assert sum(count.packets for count in before.values()) == 0
    assert before.keys() == after.keys()
    assert sorted((count.packets, "reg5=0x1" in key) for key, count in after.items()) == [(0, False), (1, True)]


OURS, THEIRS = COOKIE | 7, 0x1234
FLOWS = [
    flow(0, 5, "in_port=1,vlan_tci=0x0000/0x1fff", "push_vlan:0x8100,set_field:4097->vlan_vid,resubmit(,60)"),
    flow(0, 4, "in_port=1,dl_vlan=7", "strip_vlan,output:3"),
    flow(0, 3, "", "NORMAL"),
    flow(24, 2, "arp,in_port=1,arp_sha=fa:16:3e:00:00:01,arp_spa=10.0.0.7/24", "resubmit(,25)"),
    flow(24, 2, "icmp6,icmp_type=136,nd_target=2001:DB8::1", "drop"),
    flow(
        72,
        70,
        "reg5=5,ct_state=+trk,dl_type=0x800,nw_proto=6,tp_dst=0x50/0xfff0",
        "conjunction(7,2/2),conjunction(3,2/2)",
    ),
    flow(72, 70, "ipv6,ipv6_src=2001:db8:ffff::1/32,nw_proto=50", "output:NXM_NX_REG5[]"),
    flow(72, 40, "ip,ct_state=+est+trk", "ct(commit,zone=NXM_NX_REG6[0..15],exec(set_field:1->ct_mark))"),
    flow(73, 40, "dl_dst=fa:16:3e:00:00:01", "clone(ct_clear,set_field:5->reg5,resubmit(,81)),resubmit(,91)"),
]


def apply(openflow: OpenFlow, *flows: object, delete: object = ()) -> None:
    openflow.apply_flows("br-test", add=flows, delete=delete)  # type: ignore[arg-type]


def ours(entry, cookie=OURS):
    return flow(entry.table, entry.priority, entry.match, entry.actions, cookie=cookie)


def test_what_is_written_is_read_back_equal(openflow):
    written = [ours(entry) for entry in FLOWS]
    apply(openflow, *written)
    assert openflow.read_flows("br-test", COOKIE, COOKIE_MASK) == frozenset(written)


def test_flows_of_others_are_not_seen_and_not_deleted(openflow):
    apply(openflow, ours(FLOWS[0], THEIRS), ours(FLOWS[1]))
    assert openflow.read_flows("br-test", COOKIE, COOKIE_MASK) == {ours(FLOWS[1])}
    apply(openflow, delete=[ours(FLOWS[1])])
    assert openflow.read_flows("br-test", COOKIE, COOKIE_MASK) == frozenset()
    assert openflow.read_flows("br-test", THEIRS, (1 << 64) - 1) == {ours(FLOWS[0], THEIRS)}


def test_a_flow_of_the_same_key_is_replaced(openflow):
    old, new = ours(FLOWS[2]), flow(0, 3, "", "drop", cookie=COOKIE | 8)
    apply(openflow, old)
    apply(openflow, new)
    assert openflow.read_flows("br-test", COOKIE, COOKIE_MASK) == {new}


def test_deletion_is_by_priority_and_exact_match(openflow):
    apply(openflow, *(ours(entry) for entry in FLOWS[:3]))
    apply(openflow, delete=[ours(FLOWS[2])])
    assert openflow.read_flows("br-test", COOKIE, COOKIE_MASK) == {ours(FLOWS[0]), ours(FLOWS[1])}


def test_a_bridge_that_is_not_there(openflow):
    with pytest.raises(OpenFlowError):
        openflow.read_flows("br-none", COOKIE, COOKIE_MASK)


def test_meters_are_read_back_equal_and_changed_in_place(openflow):
    meters = {40000: Meter(100), 40001: Meter(2000, "kbps", burst=500), 40002: Meter(5, "pktps", burst=2)}
    openflow.apply_meters("br-test", add=meters, change={}, delete=())
    assert openflow.read_meters("br-test") == meters
    metered = flow(0, 5, "in_port=1", "meter:40000,set_queue:1,output:2", cookie=OURS)
    apply(openflow, metered)
    openflow.apply_meters("br-test", add={}, change={40000: Meter(7)}, delete=[40001, 40009])
    assert openflow.read_meters("br-test") == {40000: Meter(7), 40002: Meter(5, "pktps", burst=2)}
    assert openflow.read_flows("br-test", COOKIE, COOKIE_MASK) == {metered}


def test_a_deleted_meter_takes_its_flows_along(openflow):
    openflow.apply_meters("br-test", add={40000: Meter(100)}, change={}, delete=())
    apply(openflow, flow(0, 5, "in_port=1", "meter:40000,output:2", cookie=OURS), ours(FLOWS[2]))
    openflow.apply_meters("br-test", add={}, change={}, delete=[40000])
    assert openflow.read_flows("br-test", COOKIE, COOKIE_MASK) == {ours(FLOWS[2])}


def test_rejected_meters_are_named_and_the_others_applied(openflow):
    openflow.apply_meters("br-test", add={40000: Meter(100)}, change={}, delete=())
    with pytest.raises(MetersRejected) as raised:
        openflow.apply_meters("br-test", add={40000: Meter(1), 40001: Meter(2)}, change={40002: Meter(1)}, delete=())
    assert raised.value.reasons == {40000: "OFPMMFC_METER_EXISTS", 40002: "OFPMMFC_UNKNOWN_METER"}
    assert openflow.read_meters("br-test") == {40000: Meter(100), 40001: Meter(2)}
    with pytest.raises(OpenFlowError):
        openflow.read_meters("br-none")


def test_many_meters_are_changed_at_once(openflow):
    numbers = range(40000, 40500)
    openflow.apply_meters("br-test", add={number: Meter(100) for number in numbers}, change={}, delete=())
    changed = {number: Meter(number, "kbps", number) for number in numbers}
    unknown = {number: Meter(1) for number in range(50000, 50250)}
    with pytest.raises(MetersRejected) as raised:
        openflow.apply_meters("br-test", add={}, change={**changed, **unknown}, delete=())
    assert raised.value.reasons == dict.fromkeys(unknown, "OFPMMFC_UNKNOWN_METER")
    assert openflow.read_meters("br-test") == changed
    openflow.apply_meters("br-test", add={}, change={}, delete=numbers)
    assert openflow.read_meters("br-test") == {}
    with pytest.raises(OpenFlowError):
        openflow.apply_meters("br-none", add={40000: Meter(1)}, change={}, delete=())


def test_a_flow_with_an_unknown_meter_is_rejected(openflow):
    metered = flow(0, 5, "in_port=1", "meter:40000,output:2", cookie=OURS)
    with pytest.raises(FlowsRejected) as raised:
        apply(openflow, metered)
    assert raised.value.reasons == {metered.key: "OFPMMFC_INVALID_METER"}


@pytest.fixture
def restricted(request: pytest.FixtureRequest, openflow: OpenFlow) -> Iterator[OpenFlow]:
    """The same, on a datapath that can do no more than the kernel's."""
    if isinstance(openflow, FakeSwitch):
        openflow.features = DatapathFeatures(nd_extension=False)
        yield openflow
        return
    server: OpenVSwitch = request.getfixturevalue("switch")
    server.appctl("dpif/set-dp-features", "br-test", "nd_ext", "false")
    yield openflow
    server.appctl("dpif/set-dp-features", "br-test", "nd_ext", "true")


def test_the_features_of_the_datapath_are_read(openflow):
    assert openflow.read_features("br-test") == DatapathFeatures(nd_extension=True)
    with pytest.raises(OpenFlowError):
        openflow.read_features("br-none")


ANSWERS = [
    flow(21, 1, f"icmp6,dl_vlan=7,icmp_code=0,icmp_type=135,nd_target=2001:db8::{number}", actions, cookie=OURS)
    for number, actions in enumerate(("set_field:2->nd_options_type,resubmit(,22)", "set_field:0->nd_reserved,IN_PORT"))
]


def test_flows_that_the_datapath_does_not_support_are_named_and_undo_the_whole_bundle(restricted):
    assert restricted.read_features("br-test") == DatapathFeatures(nd_extension=False)
    apply(restricted, ours(FLOWS[0]))
    with pytest.raises(FlowsRejected) as caught:
        apply(restricted, ours(FLOWS[3]), *ANSWERS, ours(FLOWS[4]), delete=[ours(FLOWS[0])])
    assert caught.value.reasons == {entry.key: "OFPBAC_BAD_SET_ARGUMENT" for entry in ANSWERS}
    assert restricted.read_flows("br-test", COOKIE, COOKIE_MASK) == {ours(FLOWS[0])}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_restricted_datapath_accepts_the_flows_rendered_for_it(restricted, name):
    host = hosts(DatapathFeatures(nd_extension=False))[name]
    rendered = host.renderer.render(host.desired)
    for bridge, wanted in rendered.flows.items():
        restricted.apply_meters("br-test", add=rendered.meters.get(bridge, {}), change={}, delete=())
        apply(restricted, *wanted.values())


def test_a_flow_that_cannot_be_written_down_is_rejected_by_name(switch):
    switch.vsctl("add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy", "fail_mode=secure")
    try:
        real = OvsOfctl(switch.run_directory)
        gone, bad = ours(FLOWS[1]), ours(FLOWS[0])._replace(actions="ct(commit)")
        with pytest.raises(FlowsRejected) as caught:
            real.apply_flows("br-test", add=[ours(FLOWS[2]), bad], delete=[gone])
        assert caught.value.reasons.keys() == {bad.key}
    finally:
        switch.vsctl("del-br", "br-test")


def test_a_flow_too_many_for_its_table_is_rejected_by_name(switch):
    """Which the switch notices only when it carries out the change, so it names the first alone."""
    switch.vsctl(
        "add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy", "fail_mode=secure",
        "flow_tables:24=@table", "--", "--id=@table", "create", "Flow_Table", "flow_limit=1",
    )  # fmt: skip
    try:
        real = OvsOfctl(switch.run_directory)
        with pytest.raises(FlowsRejected) as caught:
            real.apply_flows("br-test", add=[ours(FLOWS[2]), ours(FLOWS[3]), ours(FLOWS[4])], delete=[])
        assert caught.value.reasons == {FLOWS[4].key: "OFPFMFC_TABLE_FULL"}
    finally:
        switch.vsctl("del-br", "br-test")


def test_a_rejected_flow_undoes_the_whole_bundle(switch):
    switch.vsctl("add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy", "fail_mode=secure")
    try:
        real = OvsOfctl(switch.run_directory)
        refused = flow(0, 1, "", "ct(commit)", cookie=OURS)  # conntrack needs to know that it is IP
        with pytest.raises(OpenFlowError):
            real.apply_flows("br-test", add=[ours(FLOWS[0]), refused], delete=[])
        assert real.read_flows("br-test", COOKIE, COOKIE_MASK) == frozenset()
    finally:
        switch.vsctl("del-br", "br-test")


# --- what the agent renders, on both ---


def wired(switch: OpenVSwitch, host: FakeHost) -> None:
    """The bridges and ports of a fake host, by the same numbers, on the real switch; tunnels are devices like others."""
    for bridge in host.switch.bridges.values():
        switch.vsctl(
            "add-br", bridge.name, "--", "set", "bridge", bridge.name, "datapath_type=dummy", "fail_mode=secure"
        )
        for entry in bridge.ports.values():
            kind = ["type=dummy"]
            if entry.peer:
                kind = ["type=patch", f"options:peer={entry.peer[1]}"]
            tag = [f"tag={entry.tag}"] if entry.tag else []
            switch.vsctl(
                "add-port", bridge.name, entry.name, *tag,
                "--", "set", "interface", entry.name, f"ofport_request={entry.number}", *kind,
            )  # fmt: skip


@pytest.fixture(scope="module", params=[(), (Passing(),)], ids=["built-in", "extension tables"])
def twin(switch, request) -> Iterator[tuple[Cloud, OpenVSwitch]]:
    """A host on the fake switch, and the same on the real one."""
    cloud = Cloud("h1", "h2", "h3", extensions=request.param)
    cloud.apply(*OBJECTS)
    host = cloud.hosts["h1"]
    wired(switch, host)
    real = OvsOfctl(switch.run_directory)
    for bridge_plan in host.plans(host.desired, real):
        assert not bridge_plan.delete
        real.apply_flows(bridge_plan.bridge, add=bridge_plan.set, delete=bridge_plan.delete)
    yield cloud, switch
    for bridge in host.switch.bridges:
        switch.vsctl("del-br", bridge)


def test_the_second_plan_is_empty(twin):
    cloud, server = twin
    host = cloud.hosts["h1"]
    for openflow in (host.switch, OvsOfctl(server.run_directory)):
        assert [bridge_plan.text() for bridge_plan in host.plans(host.desired, openflow)] == ["", "", ""]


@pytest.mark.parametrize("name", VARIANTS)
def test_flows_of_every_bridge_are_read_back_equal(openflow, name):
    host = hosts(DatapathFeatures())[name]
    rendered = host.renderer.render(host.desired)
    for bridge, wanted in rendered.flows.items():
        meters = rendered.meters.get(bridge, {})
        openflow.apply_meters("br-test", add=meters, change={}, delete=())
        before = openflow.read_flows("br-test", COOKIE, COOKIE_MASK)
        planned = plan("br-test", wanted, before)
        apply(openflow, *planned.set, delete=planned.delete)
        assert not plan(
            *("br-test", wanted, openflow.read_flows("br-test", COOKIE, COOKIE_MASK)),
            *(meters, openflow.read_meters("br-test")),
        )
        openflow.apply_meters("br-test", add={}, change={}, delete=meters)


def test_repair_and_removal(twin):
    cloud, server = twin
    host, real = cloud.hosts["h1"], OvsOfctl(server.run_directory)
    some = sorted(real.read_flows("br-int", COOKIE, COOKIE_MASK))[::3]
    foreign = flow(200, 7, "in_port=9", "drop", cookie=THEIRS)
    real.apply_flows("br-int", add=[foreign], delete=some)
    planned = {entry.bridge: entry for entry in host.plans(host.desired, real)}["br-int"]
    assert (planned.set, planned.flows.change, planned.delete) == (some, {}, [])
    real.apply_flows("br-int", add=planned.set, delete=planned.delete)
    assert not any(host.plans(host.desired, real))
    host.ofports, kept = {}, host.ofports
    for bridge_plan in host.plans(host.resolve(HostState()), real):
        real.apply_flows(bridge_plan.bridge, add=bridge_plan.set, delete=bridge_plan.delete)
    left = real.read_flows("br-int", COOKIE, COOKIE_MASK)
    assert not [entry for entry in left if "in_port=1" in entry.match and entry.table == 60]
    assert foreign in real.read_flows("br-int", THEIRS, (1 << 64) - 1)
    host.ofports = kept
    for bridge_plan in host.plans(host.desired, real):
        real.apply_flows(bridge_plan.bridge, add=bridge_plan.set, delete=bridge_plan.delete)


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def end6(number: int) -> tuple[str, str]:
    return mac(number), f"2001:db8::{number:x}"


SHARED = ("00:00:5e:00:01:01", "10.0.0.250")
QUESTIONS: list[tuple[str, Packet]] = [
    *(("p1", packet.tcp(end(1), end(2), number)) for number in (22, 80, 200, 443, 444, 1000, 1001, 1002)),
    *(("p3", packet.tcp(end(3), end(2), number)) for number in (1000, 1001)),
    *(("p1", packet.udp(end(1), end(2), number)) for number in (7, 9)),
    *(("p10", packet.udp(end(10), end(2), number)) for number in (7, 9)),
    ("p1", packet.udp(end(1), end(10), 7)),
    ("p1", packet.udp(end(1), end(10), 8)),
    ("p1", packet.icmp(end(1), end(2))),
    ("p1", packet.icmp(end(1), end(2), 13)),
    ("p1", packet.icmp(end6(1), end6(2), 128)),
    ("p1", packet.tcp(end6(1), end6(2), 5)),
    ("p3", packet.tcp(end6(3), end6(2), 5)),
    ("p1", packet.ip(end(1), end(2), 132, tp_src=1, tp_dst=5)),
    ("p1", packet.tcp(end(1), end(7), 80)),
    ("p1", packet.tcp(end6(1), end6(8), 80)),
    ("p1", packet.tcp(end(1), (mac(77), "10.0.0.77"), 80)),
    ("p1", packet.tcp(end(1), SHARED, 80)),
    ("p1", packet.tcp((mac(9), "10.0.0.1"), end(3), 80)),
    ("p1", packet.tcp((mac(1), "10.0.0.9"), end(3), 80)),
    ("p1", packet.arp_request(mac(1), "10.0.0.1", "10.0.0.3")),
    ("p1", packet.arp_request(mac(1), "10.0.0.1", "10.0.0.7")),
    ("p1", packet.arp_request(mac(1), "10.0.0.9", "10.0.0.3")),
    ("p1", packet.neighbour(135, end6(1), ("33:33:ff:00:00:07", "ff02::1:ff00:7"), "2001:db8::7")),
    ("p1", packet.neighbour(136, end6(1), end6(3), "2001:db8::1")),
    ("p1", packet.neighbour(136, end6(1), end6(3), "2001:db8::9")),
    ("p1", packet.udp(end(1), ("ff:ff:ff:ff:ff:ff", "255.255.255.255"), 68, source_port=67)),
    ("p1", packet.udp(end(1), end(2), 9).having(vlan=2)),
    ("p4", packet.tcp(end(4), (mac(77), "10.0.0.77"), 80)),
    ("p4", packet.tcp(end(4), end(9), 80)),
    ("p9", packet.tcp(end(9), end(4), 80)),
    ("p5", packet.tcp(end(5), (mac(77), "10.0.0.77"), 80)),
    ("p6", packet.tcp(end(6), end(1), 80)),
]
ARRIVING: list[tuple[str, str, Packet]] = [
    ("br-phys", "eth1", packet.tcp(end(77), end(4), 80).having(vlan=205)),
    ("br-phys", "eth1", packet.tcp(end(77), end(4), 81).having(vlan=205)),
    ("br-phys", "eth1", packet.tcp(end(77), end(4), 22).having(vlan=205)),
    ("br-phys", "eth1", packet.tcp(end(77), end(4), 80).having(vlan=206)),
    ("br-phys", "eth1", packet.tcp(end(77), end(5), 80)),
]


def traced(server: OpenVSwitch, host: FakeHost, bridge: str, entry: str, sent: Packet) -> set[str]:
    """The names of the ports at which a packet leaves the real switch; every connection is new to it."""
    ofport = host.switch.bridges[bridge].port_named(entry).number
    new = ["--ct-next", "new,trk"] * 4
    text = sent.text()
    if (protocol := text.partition(",")[0].rstrip("6")) in ("udp", "sctp"):  # a trace wants the names of the protocol
        text = text.replace(",tp_", f",{protocol}_")
    if text.startswith("icmp6"):
        text = text.replace("icmp_", "icmpv6_")
    output = server.appctl("ofproto/trace", bridge, f"in_port={ofport},{text}", *new)
    names = dict(re.findall(r"port (\d+): (\S+)", server.appctl("dpctl/show")))
    left: set[str] = set()
    for actions in re.findall(r"Datapath actions: (.*)", output):
        bare = actions.replace("clone(", "").replace(")", ") ")
        while "(" in bare:
            bare, before = re.sub(r"\w+\([^()]*\)", "", bare), bare
            if bare == before:
                break
        seen = {names[number] for number in re.findall(r"\b\d+\b", bare)}
        left |= {name for name in seen if not name.startswith("br-")}
    return left


def forget(host: FakeHost, server: OpenVSwitch) -> None:
    host.switch.conntrack.flush()
    for bridge in host.switch.bridges.values():
        bridge.macs.clear()
        learned = host.switch.read_flows(bridge.name, LEARNED_COOKIE, COOKIE_MASK)
        host.switch.apply_flows(bridge.name, add=[], delete=learned)
    server.appctl("fdb/flush")


def asked(value: object) -> str:
    return value.text() if isinstance(value, Packet) else str(value)


@pytest.mark.parametrize(
    "bridge, entry, sent", [*(("br-int", *question) for question in QUESTIONS), *ARRIVING], ids=asked
)
def test_the_real_switch_agrees_with_the_fake(twin, bridge, entry, sent):
    cloud, server = twin
    host = cloud.hosts["h1"]
    forget(host, server)
    expected = {left.port for left in host.switch.send(bridge, entry, sent)}
    assert traced(server, host, bridge, entry, sent) == expected


def test_both_learn_the_same_flows_and_delete_them_with_the_learning_flow(twin):
    cloud, server = twin
    host, real = cloud.hosts["h1"], OvsOfctl(server.run_directory)
    forget(host, server)
    behind = packet.udp(end(88), end(77), 9)
    incoming = packet.udp(end(77), end(88), 9)
    for bridge, entry, sent in (("br-int", "p5", behind), ("br-phys", "eth1", incoming)):
        host.switch.send(bridge, entry, sent)
        ofport = host.switch.bridges[bridge].port_named(entry).number
        text = sent.text().replace(",tp_", ",udp_")
        server.appctl("ofproto/trace", bridge, f"in_port={ofport},{text}", "-generate")
    learned = host.switch.read_flows("br-int", LEARNED_COOKIE, COOKIE_MASK)
    assert {re.findall(r"dl_dst=([^,]+)", entry.match)[0] for entry in learned} == {mac(88), mac(77)}
    on_real = real.read_flows("br-int", LEARNED_COOKIE, COOKIE_MASK)
    assert {(entry.key, entry.cookie) for entry in on_real} == {(entry.key, entry.cookie) for entry in learned}

    gone = [entry for entry in real.read_flows("br-int", COOKIE, COOKIE_MASK) if "learn(" in entry.actions]
    for openflow in (host.switch, real):
        openflow.apply_flows("br-int", add=[], delete=gone)
        assert openflow.read_flows("br-int", LEARNED_COOKIE, COOKIE_MASK) == frozenset()
        openflow.apply_flows("br-int", add=gone, delete=[])
    assert not any(host.plans(host.desired, real))


def test_counters_of_ports(switch: OpenVSwitch) -> None:
    """The real switch's: `in` is what it sends to a port, `out` what it receives from it."""
    switch.vsctl("add-br", "br-rates", "--", "set", "bridge", "br-rates", "datapath_type=dummy", "fail_mode=secure")
    for number in (1, 2):
        name = f"rate{number}"
        switch.vsctl(
            *("add-port", "br-rates", name, "--", "set", "interface", name, "type=dummy", f"ofport_request={number}")
        )
    real = OvsOfctl(switch.run_directory)
    try:
        real.apply_flows("br-rates", add=[flow(0, 1, "in_port=1", "output:2")], delete=())
        assert set(real.read_port_counters("br-rates")[1]) == {0}
        packet_out = "in_port=1,packet=" + "fa163e000002" + "fa163e000001" + "0800" + "00" * 86 + ",actions=output:2"
        address = f"unix:{switch.run_directory}/br-rates.mgmt"
        for _ in range(3):
            switch.call("ovs-ofctl", "-O", "OpenFlow14", "packet-out", address, packet_out)
        counted = real.read_port_counters("br-rates")
        assert counted[2][:4] == (300, 0, 3, 0)
        assert counted.keys() == {1, 2}
    finally:
        switch.vsctl("del-br", "br-rates")
