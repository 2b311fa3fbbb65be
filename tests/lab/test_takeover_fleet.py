"""`neutrino takeover host HOST` at a server, while instances of the host talk: no packet is lost on the way and back."""

from __future__ import annotations

import contextlib
import re

import pytest

from neutrino.agent.takeover.control import path_of
from neutrino.dataplane.ovsdb.api import NO_CONTROLLER
from neutrino.lab.errors import wait_until
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from tests.support.commands import Done, run_neutrino
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON
from tests.support.lab_kinds import LabKind
from tests.support.neutron_host import HOST, Place, leave_neutron, make_place

LAB = LabKind(hosts=2, roles=("l2",))  # of its own: its server refuses writes
AT = "2026-11-18T10:00:00Z"
ALLOWED = {"agent": {"remote_takeover": "true", "check_interval": "1", "takeover_check_interval": "1"}}


@pytest.fixture(scope="module")
def place(lab: Lab) -> Place:
    return make_place(lab)


def takeover(place: Place, *arguments: str) -> Done:
    configuration = place.lab.paths.server / "neutrino.conf"
    return run_neutrino(["takeover", *arguments, "--config-file", str(configuration)])


def is_held(place: Place) -> bool:
    """As the server knows it, by the agent's report."""
    return "1 hosts have an agent that is held" in takeover(place, "status").out


@pytest.fixture
def imported(place: Place) -> None:
    """As after the final import."""
    db = Database(f"sqlite:///{place.lab.paths.server}/neutrino.sqlite")
    row = {"id": "1", "source": "neutron@db", "release": "2026.1", "started_at": AT, "finished_at": AT}
    with db.transaction(of_cloud=False) as tx:
        tx.insert(t.takeovers, [{**row, "final": True, "counts": "{}"}])
    db.close()


def test_no_packet_is_lost_by_a_conversion_from_the_server(place: Place, imported: None) -> None:
    lab = place.lab
    lab.stop_agent(HOST)
    leave_neutron(place)
    lab.start_agent(HOST, ALLOWED, wait=False)
    wait_until(path_of(lab.paths.host(HOST)).exists, SOON, "the agent takes no commands")
    wait_until(lambda: is_held(place), SOON, "it is not held")
    wait_until(lambda: re.search(rf"{HOST}: .* ports, ", takeover(place, "status").out), SOON, "it does not compare")
    with contextlib.ExitStack() as stack:
        pings = [stack.enter_context(Pinging(lab, source.name, target.addresses[4])) for source, target in place.pairs]
        done = takeover(place, "host", HOST)
        assert done.status == 0, done.out + done.error
        assert re.search(r"0 of \d+ probes on \d+ ways lost", done.out), done.out
        assert not place.of_neutron()
        assert place.controllers() == {NO_CONTROLLER}
        back = takeover(place, "host", HOST, "--back")
        assert back.status == 0, back.out + back.error
        assert place.of_neutron()
        wait_until(lambda: is_held(place), SOON, "it is not held again")
        again = takeover(place, "host", "--all")
        assert again.status == 0, again.out + again.error
        assert not place.of_neutron()
    assert [ping.lost for ping in pings] == [0] * len(pings)
