"""The lab of real Neutron: packets of its meters, and the table of measurements."""

import struct

import pytest

from qa.takeover.lab import table
from qa.takeover.lab.meters import icmp, requests, vrrp
from qa.takeover.lab.meters.measurements import Measurements, Pings, Requests, Stream, Transition
from qa.takeover.lab.table import Phase
from qa.takeover.run import order

PHASES = [Phase("before", 0.0, 10.0), Phase("conversion", 10.0, 20.0)]
CALM = Measurements(
    0.0, 30.0, {"a": Pings(100, [], 0, 0.01)}, {"a": Stream(100, [], [])}, {"m": Requests([(1.0, 0.1)], [])}, [], []
)


def missed(**values: object) -> list[tuple[str, str, str]]:
    measurements = Measurements(**{name: values.get(name, getattr(CALM, name)) for name in CALM.__struct_fields__})
    return [(f.phase, f.path, f.text) for f in table.figures(measurements, PHASES) if not f.is_met]


def test_nothing_is_missed_without_loss() -> None:
    assert missed() == []


def test_lost_pings_belong_to_the_phase_in_which_they_were_sent() -> None:
    assert missed(pings={"a": Pings(100, [9.9, 10.0, 19.0], 0, 0.01)}) == [
        ("before", "a", "1 pings lost"),
        ("conversion", "a", "2 pings lost"),
    ]


def test_a_stall_belongs_to_all_phases_that_it_touches() -> None:
    found = missed(streams={"a": Stream(100, [(9.8, 0.4), (12.0, 0.19)], [])})
    assert [(phase, text) for phase, _, text in found] == [
        ("before", "TCP stalled 400 ms"),
        ("conversion", "TCP stalled 400 ms"),
    ]


def test_a_reset_is_missed() -> None:
    ((phase, _, text),) = missed(streams={"a": Stream(100, [], [(11.0, "receiver: reset")])})
    assert (phase, text) == ("conversion", "TCP stalled 0 ms; receiver: reset")


def test_an_unanswered_request_and_a_late_answer_are_missed() -> None:
    found = missed(requests={"m": Requests([(1.0, 4.5)], [(11.0, "timed out")])})
    assert [phase for phase, *_ in found] == ["before", "conversion"]


def test_a_second_active_router_is_a_double_active() -> None:
    changes = [Transition(11.0, "ha", "h1", True), Transition(12.0, "ha", "h2", False)]
    ((phase, path, text),) = missed(transitions=changes, active=[("ha", "h2")])
    assert (phase, path, text) == ("conversion", "HA routers", "2 VRRP transitions, 1 double actives")


def test_a_failover_without_overlap_has_no_double_active() -> None:
    changes = [Transition(11.0, "ha", "h2", False), Transition(12.0, "ha", "h1", True)]
    assert missed(transitions=changes, active=[("ha", "h2")])[0][2] == "2 VRRP transitions, 0 double actives"


def test_the_checksum_of_an_echo_request_is_valid() -> None:
    assert icmp.checksum(icmp.request(4, 7, 70_000, 1.5)) == 0


def test_a_renewal_is_read_back_as_a_request() -> None:
    assert requests.read_answer(requests.renewal(77, "10.0.0.5", "fa:16:3e:00:00:01")) == (3, 77)


@pytest.mark.parametrize(("kind", "is_added"), [(20, True), (21, False)])
def test_netlink_messages_name_addresses(kind: int, is_added: bool) -> None:
    attribute = struct.pack("=HH4s", 8, 2, b"\xa9\xfe\x00\x01")
    message = struct.pack("=BBBBI", 2, 24, 0, 0, 3) + attribute
    data = struct.pack("=IHHII", 16 + len(message), kind, 0, 0, 0) + message
    assert vrrp.address_events(data * 2) == [(is_added, b"\xa9\xfe\x00\x01")] * 2


def test_the_standby_network_node_is_converted_first() -> None:
    assert order(("h1", "h2", "h3"), {"h1"}) == ["h2", "h1", "h3"]


def test_what_neutrons_own_agents_lose_is_shown_and_accepted() -> None:
    phases = [Phase("start of Neutron's agents", 0.0, 10.0, of_neutron=True), PHASES[1]]
    measurements = Measurements(
        **{name: getattr(CALM, name) for name in CALM.__struct_fields__ if name != "pings"},
        pings={"a": Pings(100, [5.0, 11.0], 0, 0.01)},
    )
    lost = [figure for figure in table.figures(measurements, phases) if not figure.is_met]
    assert [figure.is_acceptable for figure in lost] == [True, False]
    assert "start of Neutron's agents: 3 of 4 figures met, of Neutron's own agents" in table.render(
        lost + [figure for figure in table.figures(measurements, phases) if figure.is_met]
    )
