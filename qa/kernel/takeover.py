"""A host whose switch Neutron's agent has wired, converted and given back on the kernel datapath, under ping and TCP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import neutron_host, neutron_hybrid
from tests.support.lab_cleanup import clean
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.neutron_host import HOST, make_place

LAB = LabKind(hosts=2, roles=("l2",))
INTERVAL = 0.1


@pytest.fixture(autouse=True)
def cleaned(lab: Lab) -> Iterator[None]:
    yield
    clean(lab)


def test_no_packet_is_lost(lab: Lab) -> None:
    neutron_host.convert_and_back(make_place(lab, print), INTERVAL)


def test_hybrid_ports(lab: Lab) -> None:
    """Filtered by iptables on bridges of their own, in conntrack zones of their own."""
    lab.stop_agent(HOST)
    lab.start_agent(HOST, {"securitygroup": {"firewall_driver": "iptables_hybrid"}})
    place = make_place(lab, print)
    assert all(guest.vm.hybrid for guest in place.near)
    neutron_hybrid.convert_and_back(place, INTERVAL)
