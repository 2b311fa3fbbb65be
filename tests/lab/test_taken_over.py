"""A switch that Neutron's agent has wired is taken over while instances talk; then a Neutron agent is started there."""

from __future__ import annotations

import pytest

from neutrino.dataplane.ovsdb.api import NO_CONTROLLER
from neutrino.lab.errors import wait_until
from neutrino.model.agents import NEUTRON_AGENT
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON, connecting
from tests.support.neutron_host import (
    HOST,
    SSH,
    TUNNEL,
    Place,
    assert_none_lost,
    convert_and_back,
    leave_neutron,
    make_place,
    neutron_agent,
    problems,
    traffic,
)


@pytest.fixture(scope="module")
def place(lab: Lab) -> Place:
    return make_place(lab)


def test_no_packet_is_lost(place: Place) -> None:
    lab, ssh = place.lab, place.inwards(SSH)
    lab.stop_agent(HOST)
    leave_neutron(place)
    assert connecting(ssh) == {*ssh}
    numbers = place.number(TUNNEL), place.tags()
    with traffic(place) as (talks, pings):
        lab.start_agent(HOST, {"agent": {"start_despite": "foreign_flows", "check_interval": "1"}})
        wait_until(lambda: not place.of_neutron(), SOON, "flows of Neutron are left")
        assert all(talk.talks() for talk in talks)
        assert connecting(ssh) == set(), "no rule lets it in"
        assert (place.number(TUNNEL), place.tags()) == numbers
        assert place.controllers() == {NO_CONTROLLER}
        assert "_type" not in place.vsctl("list", "qos"), "a QoS row of Neutron"
        assert "queue-num" not in place.vsctl("list", "queue")
        assert place.vsctl("get", "interface", f"tap{place.near[0].port_id[:11]}", "ingress_policing_rate") == "0"

        with neutron_agent(place):
            wait_until(lambda: NEUTRON_AGENT in problems(lab), SOON, "the agent of Neutron is not named")
            wait_until(lambda: not place.of_neutron(), SOON, "flows of Neutron are left")
            assert place.controllers() == {NO_CONTROLLER}
        wait_until(lambda: NEUTRON_AGENT not in problems(lab), SOON, "the agent of Neutron is named when it has ended")
        assert all(talk.talks() for talk in talks)
    assert_none_lost(place, pings)
    lab.stop_agent(HOST)
    lab.start_agent(HOST, {})
    assert lab.run(HOST, [*lab.agent_command(HOST, "verify")]).returncode == 0


def test_by_command_and_back(place: Place) -> None:
    """With its snapshot: the way back restores Neutron's flows, and loses nothing either."""
    said = convert_and_back(place)
    assert " 0 of " in said.splitlines()[-1], "lost probes"
