"""Hybrid ports that Neutron's agent has filtered with iptables are taken over while instances talk, and given back."""

from __future__ import annotations

from tests.support.lab_control import Lab
from tests.support.neutron_host import HOST, make_place
from tests.support.neutron_hybrid import convert_and_back


def test_no_packet_is_lost_and_none_let_in(lab: Lab) -> None:
    lab.stop_agent(HOST)
    lab.start_agent(HOST, {"securitygroup": {"firewall_driver": "iptables_hybrid"}})
    place = make_place(lab)
    assert all(guest.vm.hybrid for guest in place.near)
    convert_and_back(place)
