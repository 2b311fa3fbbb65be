"""Connections of a distributed HA router with conntrackd: those of its SNAT fail over."""

from __future__ import annotations

from neutrino.lab.errors import wait_until
from tests.support.ha_connections import HandedOver, conntrackd_enabled
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    PATIENCE,
    SOON,
    connect,
    external_network,
    make_router,
    one_way,
    tenant_network,
    wait_until_reachable,
)


def test_connections_go_on_after_each_failover(lab: Lab) -> None:
    with conntrackd_enabled(lab):
        out, blue = external_network(lab), tenant_network(lab, "blue", 1)
        router = make_router(lab, out, blue, ha=True, distributed=True)
        group, _ = make_group(lab, "open", *EVERYTHING)
        (guest,) = make_guests(lab, Spec("on-h3", blue, "h3", [group]))  # which has no SNAT
        wait_until_reachable(lab, guest.name, MACHINE)
        site = HandedOver(lab, router, ["h1", "h2"])
        with connect(lab, guest.name, EXTERNAL, MACHINE, 8081) as talk:
            assert talk.passes_data(PATIENCE)
            for _ in range(2):
                with site.failed(8081):
                    wait_until(lambda: one_way(talk.server, talk.client, PATIENCE), SOON, "the outside cannot send")
                assert talk.passes_data(PATIENCE), "the host that is back has disturbed the connection"
