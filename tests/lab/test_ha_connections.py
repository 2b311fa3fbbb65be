"""Connections of an HA router with conntrackd: also those in which only the outside has something to send go on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from tests.support.ha_connections import HandedOver, conntrackd_enabled
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    PATIENCE,
    SOON,
    active_host,
    connect,
    delete_router,
    devices_of,
    external_network,
    floating_ip,
    make_router,
    one_way,
    problems_of,
    tenant_network,
    wait_until_reachable,
    wait_until_removed,
)

OUT, IN = 8081, 8082


@dataclasses.dataclass
class Site(HandedOver):
    plain: Guest
    floating: Guest
    address: str  # the floating IP's


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with conntrackd_enabled(lab):
        out, blue = external_network(lab), tenant_network(lab, "blue", 1)
        router = make_router(lab, out, blue, ha=True)
        first = active_host(lab, router, among=lab.hosts)
        group, _ = make_group(lab, "open", *EVERYTHING)
        others = [host for host in lab.hosts if host != first]
        plain, floating = make_guests(lab, *(Spec(f"on-{host}", blue, host, [group]) for host in others))
        address = floating_ip(lab, out, floating.port_id)["floating_ip_address"]
        wait_until_reachable(lab, plain.name, MACHINE)
        wait_until_reachable(lab, EXTERNAL, address)
        yield Site(lab, router, list(lab.hosts), plain, floating, address)


def test_connections_go_on_after_each_failover(site: Site) -> None:
    """Under the router's address and by a floating IP. The host that was lost first has them again when it takes over."""
    lab = site.lab
    with (
        connect(lab, site.plain.name, EXTERNAL, MACHINE, OUT) as out,
        connect(lab, EXTERNAL, site.floating.name, site.address, IN) as talk,
    ):
        assert out.passes_data(PATIENCE)
        assert talk.passes_data(PATIENCE)
        for fault in (site.failed, site.cut_off, site.cut_off):
            with fault(OUT, IN):
                wait_until(lambda: one_way(out.server, out.client, PATIENCE), SOON, "the outside cannot send")
                wait_until(lambda: one_way(talk.server, talk.client, PATIENCE), SOON, "the instance cannot send")
                assert out.passes_data(PATIENCE)
                assert talk.passes_data(PATIENCE)
            assert out.passes_data(PATIENCE), "the host that is back has disturbed the connection"
            assert talk.passes_data(PATIENCE), "the host that is back has disturbed the connection"


def test_conntrackd_killed_has_the_connections_again(site: Site) -> None:
    lab, active = site.lab, site.active
    standby = next(host for host in site.hosts if host != active)
    with connect(lab, site.plain.name, EXTERNAL, MACHINE, OUT + 10) as out:
        assert out.passes_data(PATIENCE)
        for host in site.hosts:
            before = pids(site, host)
            lab.run(host, ["kill", "-9", *before])
            wait_until(lambda: pids(site, host) not in ([], before), SOON, "not respawned")  # noqa: B023
        site.wait_until_held(OUT + 10, active, "-i")
        site.wait_until_held(OUT + 10, standby, "-e")
        assert out.passes_data(PATIENCE)
    assert site.active == active
    assert problems_of(lab) == []


def pids(site: Site, host: str) -> list[str]:
    path = site.lab.paths.host(host) / "ha_confs" / site.router["id"]
    return site.lab.run(host, ["pgrep", "-f", f"^conntrackd.*{path}/conntrackd.conf$"], check=False).stdout.split()


def test_a_deleted_router_leaves_nothing(site: Site) -> None:
    lab = site.lab
    router = make_router(lab, None, tenant_network(lab, "green", 3, six=False), name="short-lived", ha=True)
    other = dataclasses.replace(site, router=router)
    for host in lab.hosts:
        wait_until(lambda: pids(other, host) != [], SOON, f"no conntrackd on {host}")  # noqa: B023
    devices = devices_of(lab, router)
    delete_router(lab, router["id"])
    for host in lab.hosts:
        wait_until_removed(lab, router["id"], host, devices)
