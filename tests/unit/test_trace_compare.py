"""Following a packet over the answers of hosts, and comparing them with the server's path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from neutrino.model.trace import Cause, Exit, HostAnswer, Observation, Packet, Point, PointKind, Question, Verdict
from neutrino.server.context import Context
from neutrino.server.trace import visible
from neutrino.server.trace.ask import NoAnswer
from neutrino.server.trace.collect import MAX_QUESTIONS, Collected, directory, follow
from neutrino.server.trace.compare import Result, compare
from neutrino.server.trace.values import Path
from tests.support.traced_cloud import Cloud, Traced, pair, rule
from tests.unit.test_trace_path import routed, two_ports

Answer = HostAnswer | NoAnswer
PORT_B = Point(kind=PointKind.PORT, port_id="b")


@dataclass
class Hosts:
    """Dataplanes that do what the server's path says, unless an answer is given for a host."""

    path: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, Question]] = field(default_factory=list)

    def __call__(self, host: str, question: Question, seconds: float) -> HostAnswer:
        assert seconds > 0
        self.asked.append((host, question))
        given = self.answers.get(host)
        if isinstance(given, NoAnswer):
            raise given
        return given if given is not None else self._obedient(host, question)

    def _obedient(self, host: str, question: Question) -> HostAnswer:
        hops = self.path.hops
        place = next(n for n, hop in enumerate(hops) if (hop.host, hop.entry) == (host, question.point))
        last = place + 1 == len(hops)
        packet = self.path.packet if last else hops[place + 1].packet
        if self.path.verdict is Verdict.DROPPED and last:
            return dropped(packet, self.path.cause)
        point = hops[place].exit
        if last and self.path.end_port_id:
            point = Point(kind=PointKind.PORT, port_id=self.path.end_port_id)
        return HostAnswer(exits=(Exit(packet=packet, point=point),), position=10)


def dropped(packet: Packet, cause: Cause, note: str = "table 72, priority 0", **values: Any) -> HostAnswer:
    return HostAnswer(exits=(Exit(packet=packet, cause=cause, note=note),), **{"position": 10, **values})


def leaves(packet: Packet, *points: Point | None, **values: Any) -> HostAnswer:
    exits = tuple(Exit(packet=packet, point=point) for point in points)
    return HostAnswer(exits=exits, **{"position": 10, **values})


def judge(traced: Traced, newest: int = 5, **answers: Answer) -> tuple[Result, Hosts, Collected]:
    hosts = Hosts(traced.there, answers)
    start = traced.there.hops[0] if traced.there.hops else None
    collected = follow(start, directory(traced.snapshot), hosts, lambda: 0.0, 10.0)
    return compare(traced.there, collected, traced.snapshot, newest), hosts, collected


def outcome(result: Result) -> tuple[str, str, bool | None]:
    return result.verdict.value, result.cause.value, result.agreement


# --- following --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "traced",
    [
        two_ports().trace("a", "b"),
        two_ports().trace("a", "2001:db8:1::11"),
        routed().trace("a", "c", "tcp", 80),
        routed().trace("a", "198.51.100.7"),
    ],
    ids=["tunnel", "ipv6", "router", "outside"],
)
def test_hosts_that_do_what_the_server_says(traced: Traced) -> None:
    result, hosts, _ = judge(traced)
    assert outcome(result) == ("delivered", "", True)
    assert [host for host, _ in hosts.asked] == traced.hosts
    assert [question.packet for _, question in hosts.asked] == [hop.packet for hop in traced.there.hops]


def test_the_next_host_is_asked_about_the_packet_as_the_dataplane_has_rewritten_it() -> None:
    traced = two_ports().trace("a", "b")
    packet = msgspec.structs.replace(traced.there.packet, eth_src="fa:16:3f:00:00:01", ttl=7)
    exit_point = traced.there.hops[0].exit
    _, hosts, _ = judge(traced, h1=leaves(packet, exit_point), h2=leaves(packet, PORT_B))
    assert hosts.asked[1][1].packet == packet
    assert hosts.asked[1][1].point.peer == "192.0.2.1"  # the tunnel, as the receiving host sees it


def test_a_physical_network_leads_to_the_host_of_the_mac() -> None:
    cloud = Cloud()
    cloud.network("net", "10.0.0.0/24", kind="vlan")
    cloud.port("a", "net", "10.0.0.10")
    cloud.port("b", "net", "10.0.0.11", host="h2")
    result, hosts, _ = judge(cloud.trace("a", "b"))
    assert outcome(result) == ("delivered", "", True)
    assert [host for host, _ in hosts.asked] == ["h1", "h2"]


@pytest.mark.parametrize(("host", "verdict"), [("h2", "delivered"), ("h1", "dropped")])
def test_a_service_consumes_its_packets_on_its_own_host_only(host: str, verdict: str) -> None:
    cloud = two_ports()
    cloud.port("dhcp", "blue", "10.0.0.2", host="h2", device_owner="network:dhcp")
    traced = cloud.trace("a", "dhcp", "udp", 67)
    packet, first = traced.there.packet, traced.there.hops[0].exit
    answers = {"h1": leaves(packet, first if host == "h2" else None), "h2": leaves(packet, None)}
    result, _, _ = judge(traced, **answers)
    assert result.verdict.value == verdict


def test_copies_are_followed_and_one_that_arrives_decides() -> None:
    traced = two_ports().trace("a", "b")
    packet, first = traced.there.packet, traced.there.hops[0].exit
    elsewhere = Point(kind=PointKind.TUNNEL, peer="192.0.2.3", network_type="vxlan", segmentation_id=100)
    answers = {
        "h1": leaves(packet, elsewhere, first),
        "h3": dropped(packet, Cause.NO_SUCH_ADDRESS),
        "h2": leaves(packet, PORT_B),
    }
    result, hosts, _ = judge(traced, **answers)
    assert outcome(result) == ("delivered", "", True)
    assert sorted(host for host, _ in hosts.asked) == ["h1", "h2", "h3"]


def test_a_loop_ends() -> None:
    traced = two_ports().trace("a", "b")
    packet, first = traced.there.packet, traced.there.hops[0].exit
    back = Point(kind=PointKind.TUNNEL, peer="192.0.2.1", network_type="vxlan", segmentation_id=100)
    result, hosts, _ = judge(traced, h1=leaves(packet, first), h2=leaves(packet, back))
    assert len(hosts.asked) <= 4
    assert outcome(result) == ("dropped", "drift", False)
    assert "a loop" in result.differences[0].text


def test_questions_are_bounded() -> None:
    traced = two_ports().trace("a", "b")
    first = traced.there.hops[0].exit
    back = Point(kind=PointKind.TUNNEL, peer="192.0.2.1", network_type="vxlan", segmentation_id=100)
    counter = iter(range(1000))

    def ask(host: str, question: Question, seconds: float) -> HostAnswer:
        packet = msgspec.structs.replace(question.packet, source_port=next(counter))
        return leaves(packet, first if host == "h1" else back)

    collected = follow(traced.there.hops[0], directory(traced.snapshot), ask, lambda: 0.0, 10.0)
    assert len(collected.asked) == MAX_QUESTIONS
    assert compare(traced.there, collected, traced.snapshot, 0).verdict.value == "unknown"


def test_no_host_is_asked_after_the_deadline() -> None:
    traced = two_ports().trace("a", "b")
    times = iter([0.0, 11.0])
    collected = follow(traced.there.hops[0], directory(traced.snapshot), Hosts(traced.there), lambda: next(times), 10.0)
    assert [(asked.host, asked.failure) for asked in collected.asked] == [("h1", ""), ("h2", "host-timeout")]
    assert outcome(compare(traced.there, collected, traced.snapshot, 0)) == ("unknown", "host-timeout", None)


def test_a_tunnel_to_a_host_that_is_not_on_the_path() -> None:
    traced = two_ports().trace("a", "b")
    nowhere = Point(kind=PointKind.TUNNEL, peer="192.0.2.99", network_type="vxlan", segmentation_id=100)
    result, _, _ = judge(traced, h1=leaves(traced.there.packet, nowhere))
    assert outcome(result) == ("dropped", "drift", False)


@pytest.mark.parametrize(("kind", "number"), [("vxlan", 4711), ("gre", 100), ("vxlan", None), ("", 100)])
def test_a_segment_that_is_none_of_the_trace_is_not_followed(kind: str, number: int | None) -> None:
    traced = two_ports().trace("a", "b")
    first = traced.there.hops[0].exit
    assert first is not None
    other = msgspec.structs.replace(first, network_type=kind, segmentation_id=number)
    result, hosts, collected = judge(traced, h1=leaves(traced.there.packet, other))
    assert [host for host, _ in hosts.asked] == ["h1"]
    assert (outcome(result), collected.ends[0].kind) == (("unknown", "other", None), "lost")
    assert "no network of the trace" in result.differences[0].text


@pytest.mark.parametrize(("physical", "tag"), [("physnet1", 4000), ("physnet2", 100)])
def test_a_physical_segment_that_is_none_of_the_trace_is_not_followed(physical: str, tag: int) -> None:
    cloud = Cloud()
    cloud.network("net", "10.0.0.0/24", kind="vlan")
    cloud.port("a", "net", "10.0.0.10")
    cloud.port("b", "net", "10.0.0.11", host="h2")
    traced = cloud.trace("a", "b")
    other = Point(kind=PointKind.PHYSICAL, physical_network=physical, segmentation_id=tag)
    result, hosts, collected = judge(traced, h1=leaves(traced.there.packet, other))
    assert [host for host, _ in hosts.asked] == ["h1"]
    assert (outcome(result), collected.ends[0].kind) == (("unknown", "other", None), "lost")


# --- comparing --------------------------------------------------------------------------------------------------------


def closed() -> Traced:
    cloud = two_ports(security_groups=("closed",))
    cloud.group("closed")
    return cloud.trace("a", "b")


def test_both_drop_for_the_same_cause() -> None:
    assert outcome(judge(closed())[0]) == ("dropped", "security-group-ingress", True)


@pytest.mark.parametrize("cause", [Cause.OTHER, Cause.DRIFT])
def test_a_host_that_does_not_know_why_agrees(cause: Cause) -> None:
    traced = closed()
    result, _, _ = judge(traced, h2=dropped(traced.there.packet, cause))
    assert outcome(result) == ("dropped", "security-group-ingress", True)


def test_both_drop_for_different_causes() -> None:
    traced = closed()
    result, _, _ = judge(traced, h2=dropped(traced.there.packet, Cause.FIREWALL_GROUP))
    assert outcome(result) == ("dropped", "firewall-group", False)
    assert "security-group-ingress" in result.differences[0].text


@pytest.mark.parametrize(
    ("cause", "values", "expected"),
    [
        (Cause.DRIFT, {}, "drift"),
        (Cause.OTHER, {}, "drift"),
        (Cause.SECURITY_GROUP_INGRESS, {"drift": ("add flow",)}, "drift"),
        (Cause.SECURITY_GROUP_INGRESS, {"position": 3}, "lag"),
        (Cause.DRIFT, {"position": 3}, "lag"),
        (Cause.NO_ROUTE, {}, "drift"),
        (Cause.NO_DEVICE, {"position": 3}, "no-device"),
        (Cause.DATAPLANE_DOWN, {}, "dataplane-down"),
        (Cause.NO_NEIGHBOUR, {}, "no-neighbour"),
    ],
)
def test_only_the_dataplane_drops(cause: Cause, values: Any, expected: str) -> None:
    traced = two_ports().trace("a", "b")
    result, _, _ = judge(traced, h2=dropped(traced.there.packet, cause, **values))
    assert outcome(result) == ("dropped", expected, False)
    assert result.step is not None
    assert (result.step.host, result.step.cause.value) == ("h2", expected)
    assert "table 72" in result.step.text
    assert [note.host for note in result.lag] == (["h2"] if values.get("position") else [])


def test_lag_of_another_host_does_not_explain_drift() -> None:
    traced = two_ports().trace("a", "b")
    first = leaves(traced.there.packet, traced.there.hops[0].exit, position=3)
    result, _, _ = judge(traced, h1=first, h2=dropped(traced.there.packet, Cause.DRIFT))
    assert (result.cause.value, [note.host for note in result.lag]) == ("drift", ["h1"])


def test_no_copy_arrives() -> None:
    traced = two_ports().trace("a", "b")
    result, _, _ = judge(traced, h1=HostAnswer(position=10))
    assert outcome(result) == ("dropped", "drift", False)


def test_only_the_server_drops() -> None:
    traced = closed()
    result, _, _ = judge(traced, h2=leaves(traced.there.packet, PORT_B))
    assert outcome(result) == ("delivered", "", False)
    assert "differs from the desired state" in result.differences[0].text
    late, _, _ = judge(traced, h2=leaves(traced.there.packet, PORT_B, position=3))
    assert "has not applied" in late.differences[0].text
    steps = visible.steps_of(traced.there, result, Collected(), flows=False)
    assert [step.result for step in steps].count("drop") == 0


def test_the_mtu_is_not_decided_by_flows() -> None:
    cloud = routed()
    cloud.change_network("red", mtu=1280)
    traced = cloud.trace("a", "c", size=1400)
    answers = {"h1": leaves(traced.there.packet, traced.there.hops[0].exit)}
    result, _, _ = judge(traced, **answers, h3=leaves(traced.there.packet, Point(kind=PointKind.PORT, port_id="c")))
    assert outcome(result) == ("dropped", "packet-too-big", True)


def test_a_port_that_the_host_has_no_device_of() -> None:
    traced = two_ports(status="DOWN").trace("a", "b")
    assert traced.there.cause is Cause.PORT_NOT_WIRED
    result, _, _ = judge(traced, h2=dropped(traced.there.packet, Cause.NO_DEVICE))
    assert outcome(result) == ("dropped", "no-device", True)


def test_a_dead_agent_whose_host_answers_nothing() -> None:
    cloud = two_ports()
    cloud.host("h2", tunneling_ip="192.0.2.2", alive=False)
    silent = NoAnswer("h2", Cause.HOST_DOWN, "no agent reports")
    result, _, _ = judge(cloud.trace("a", "b"), h2=silent)
    assert outcome(result) == ("unknown", "host-down", None)
    assert result.differences[0].text == "no answer: no agent reports"


@pytest.mark.parametrize("cause", [Cause.HOST_TIMEOUT, Cause.HOST_DOWN, Cause.OTHER])
def test_no_answer_at_all(cause: Cause) -> None:
    result, _, _ = judge(two_ports().trace("a", "b"), h1=NoAnswer("h1", cause, "silent"))
    assert outcome(result) == ("unknown", cause.value, None)
    dropped_anyway, _, _ = judge(closed(), h1=NoAnswer("h1", cause, "silent"))
    assert outcome(dropped_anyway) == ("dropped", "security-group-ingress", None)


def test_nothing_to_ask() -> None:
    cloud = two_ports()
    cloud.change_port("a", host="", vif_type="unbound")
    result, hosts, _ = judge(cloud.trace("a", "b"))
    assert (outcome(result), hosts.asked) == (("dropped", "port-unbound", None), [])


def test_drift_is_named_though_the_packet_arrives() -> None:
    traced = two_ports().trace("a", "b")
    result, _, _ = judge(traced, h2=leaves(traced.there.packet, PORT_B, drift=("delete flow 7",)))
    assert outcome(result) == ("delivered", "", True)
    assert [(note.host, note.text) for note in result.drift] == [("h2", "delete flow 7")]


def test_a_router_that_answers_itself_consumes_the_packet() -> None:
    traced = routed().trace("a", "10.0.0.1")
    result, _, _ = judge(traced, h3=leaves(traced.there.packet, None))
    assert outcome(result) == ("delivered", "", True)


@pytest.mark.parametrize(("to", "cause"), [("10.0.0.99", "no-such-address"), ("198.51.100.7", "no-router")])
def test_an_address_that_only_a_machine_outside_may_have(to: str, cause: str) -> None:
    cloud = Cloud()
    cloud.network("net", "10.0.0.0/24", kind="flat")
    cloud.port("a", "net", "10.0.0.10")
    traced = cloud.trace("a", to)
    outside = Point(kind=PointKind.PHYSICAL, physical_network="physnet1")
    result, _, _ = judge(traced, h1=leaves(traced.there.packet, outside))
    assert outcome(result) == ("unknown", cause, True)
    assert traced.returned == ("delivered", "")


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_flows_belong_to_the_steps_of_their_objects() -> None:
    traced = two_ports().trace("a", "b")
    observed = (
        Observation(source="openflow", where="br-int", effect="forward", table=25, text="in_port=1", owner_id="a"),
        Observation(source="openflow", where="br-int", effect="forward", table=72, text="reg5=1", owner_id="open"),
        Observation(source="openflow", where="br-tun", effect="output", table=20, text="dl_dst=…"),
    )
    first = leaves(traced.there.packet, traced.there.hops[0].exit, observations=observed)
    result, _, collected = judge(traced, h1=first)
    steps = visible.steps_of(traced.there, result, collected, flows=True)
    flows = {step.kind: step.flows for step in steps if step.flows}
    assert flows["port"] == ("br-int table 25: in_port=1",)
    assert flows["security-group-egress"] == ("br-int table 72: reg5=1", "br-tun table 20: dl_dst=…")


def shown(traced: Traced, project: str) -> list[dict[str, Any]]:
    result = judge(traced)[0]
    steps = visible.steps_of(traced.there, result, Collected(), flows=False)
    return visible.shown_steps(steps, Context(project_id=project), traced.snapshot)


def foreign(change: Callable[[Cloud], None]) -> Cloud:
    """b is of another project, on another project's network that a is on too."""
    cloud = two_ports(project_id="other-project")
    cloud.change_network("blue", project_id="other-project")
    change(cloud)
    return cloud


NOT_DELIVERED: dict[str, Callable[[Cloud], None]] = {
    "group": lambda cloud: cloud.change_port("b", security_groups=()),
    "down": lambda cloud: cloud.change_port("b", admin_state_up=False),
    "unbound": lambda cloud: cloud.change_port("b", host="", vif_type="unbound"),
    "not wired": lambda cloud: cloud.change_port("b", status="DOWN"),
    "nobody": lambda cloud: cloud.ports.pop("b") and None,
    "host down": lambda cloud: cloud.host("h2", tunneling_ip="192.0.2.2", alive=False),
    "no tunnel": lambda cloud: cloud.host("h2", tunneling_ip=""),
}


def test_members_cannot_tell_why_another_projects_port_is_not_reached() -> None:
    seen = []
    for change in NOT_DELIVERED.values():
        traced = foreign(change).trace("a", "10.0.0.11")
        seen.append(visible.shown_steps(known(traced).steps, Context(project_id="own-project"), traced.snapshot))
    assert all(each == seen[0] for each in seen)
    assert (seen[0][-1]["kind"], seen[0][-1]["cause"]) == ("other-project", "other")
    assert [step["kind"] for step in seen[0][:-1]] == ["port", "anti-spoofing", "security-group-egress"]


def test_members_see_no_ids_hosts_or_macs_of_others() -> None:
    traced = foreign(lambda cloud: None).trace("a", "b")
    text = str(shown(traced, "own-project"))
    assert all(word not in text for word in ("h1", "h2", "fa:16:3e:00:00:02", "'b'", "eth_dst"))
    assert shown(traced, "own-project")[-1]["text"] == "Passes objects of another project."


def test_members_do_not_learn_which_sources_others_allow() -> None:
    cloud = foreign(lambda cloud: cloud.change_port("a", port_security_enabled=False))
    member, admin = Context(project_id="own-project"), Context(project_id="own-project", is_admin=True)
    traced = cloud.trace("a", "b", source="10.0.0.99")
    cut = visible.without_forged(traced.there, "a", member, traced.snapshot)
    assert (cut.verdict.value, cut.cause, cut.hops) == ("unknown", Cause.OTHER, ())
    assert [step.kind for step in cut.steps] == ["port", "anti-spoofing", "security-group-egress", "other-project"]
    assert visible.without_forged(traced.there, "a", admin, traced.snapshot) is traced.there
    own = cloud.trace("a", "b")
    assert visible.without_forged(own.there, "a", member, own.snapshot) is own.there


def known(traced: Traced) -> Path:
    """The path as a member may know it before hosts are asked."""
    return visible.for_caller(traced.there, traced.back, "a", Context(project_id="own-project"), traced.snapshot)


def test_hosts_are_not_asked_about_what_others_drop() -> None:
    """The time that it takes would tell an address in use from a free one: the path is cut, in the same way."""
    paths = [known(foreign(change).trace("a", "10.0.0.11")) for change in NOT_DELIVERED.values()]
    cut = [(path.verdict, path.cause, path.hops, [(s.kind, s.result, s.text) for s in path.steps]) for path in paths]
    assert all(each == cut[0] for each in cut)
    assert cut[0][:3] == ("dropped", "other", ())
    delivered = foreign(lambda cloud: None).trace("a", "b")
    assert known(delivered) is delivered.there
    admin = Context(project_id="own-project", is_admin=True)
    for change in NOT_DELIVERED.values():
        seen = foreign(change).trace("a", "10.0.0.11")
        assert visible.for_caller(seen.there, seen.back, "a", admin, seen.snapshot) is seen.there


@pytest.mark.parametrize("prefix", ["0.0.0.0/0", "203.0.113.0/24"])
def test_a_large_address_pair_does_not_make_sources_the_senders(prefix: str) -> None:
    cloud = foreign(lambda cloud: cloud.change_port("a", allowed_address_pairs=(pair(prefix),)))
    path = known(cloud.trace("a", "b", source="203.0.113.7"))
    assert (path.verdict.value, path.steps[-1].text) == ("unknown", visible.FORGED)


def test_another_projects_address_as_source() -> None:
    """By an address pair of the same subnet: the answer goes to the other's port."""
    cloud = foreign(lambda cloud: cloud.change_port("a", allowed_address_pairs=(pair("10.0.0.0/24"),)))
    cloud.port("c", "blue", "10.0.0.12", project_id="other-project")
    traced = cloud.trace("a", "b", source="10.0.0.12")
    assert traced.returned == ("delivered", "")
    path = known(traced)
    assert (path.verdict.value, path.steps[-1].text) == ("dropped", visible.NOT_DELIVERED)


def test_a_packet_to_others_whose_answer_does_not_return() -> None:
    cloud = foreign(lambda cloud: cloud.change_port("b", security_groups=("in",)))
    cloud.group("in", rule("ingress"), stateful=False)
    traced = cloud.trace("a", "b")
    assert (traced.verdict, traced.returned) == (("delivered", ""), ("dropped", "security-group-egress"))
    assert known(traced).steps[-1].text == visible.NOT_DELIVERED


@pytest.mark.parametrize(("to", "verdict"), [("10.0.0.99", "dropped"), ("10.0.0.1", "unknown"), ("8.8.8.8", "unknown")])
def test_machines_on_shared_physical_networks(to: str, verdict: str) -> None:
    """Whether an address is free is not shown; that the gateway is a machine outside is."""
    cloud = Cloud()
    cloud.network("net", "10.0.0.0/24", kind="flat", project_id="other-project")
    cloud.port("a", "net", "10.0.0.10")
    traced = cloud.trace("a", to)
    assert traced.there.verdict.value == "unknown"
    assert known(traced).verdict.value == verdict


def test_the_cause_of_others_is_not_shown() -> None:
    traced = foreign(NOT_DELIVERED["group"]).trace("a", "b")
    result = judge(traced)[0]
    steps = visible.steps_of(traced.there, result, Collected(), flows=False)
    member, admin = Context(project_id="own-project"), Context(project_id="own-project", is_admin=True)
    assert visible.seen_cause(steps, result, member, traced.snapshot) is Cause.OTHER
    assert visible.seen_cause(steps, result, admin, traced.snapshot) is Cause.SECURITY_GROUP_INGRESS
    assert visible.seen_cause(steps, result, Context(project_id=None), traced.snapshot) is Cause.OTHER


def test_members_learn_that_the_dataplane_drops_their_own_packet() -> None:
    traced = two_ports().trace("a", "b")
    result, _, collected = judge(traced, h2=dropped(traced.there.packet, Cause.DRIFT))
    steps = visible.steps_of(traced.there, result, collected, flows=False)
    member = Context(project_id="own-project")
    assert visible.seen_cause(steps, result, member, traced.snapshot) is Cause.DRIFT
    last = visible.shown_steps(steps, member, traced.snapshot)[-1]
    assert (last["kind"], last["host"]) == ("dataplane", "")
    assert "h2" not in last["text"]
    assert "table" not in last["text"]
