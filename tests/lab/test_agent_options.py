"""Options of agents, in packets: each takes effect with a restart of the agent, on what exists."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.neutrino import Settings
from tests.support.routing_lab import (
    MACHINE,
    SOON,
    external_network,
    make_router,
    place_router,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
)

HOSTS = ("h1", "h2")
DONT_FRAGMENT, WITH_CHECKSUM = "ip[6] & 0x40 != 0", "udp[6:2] != 0"


@pytest.fixture(scope="module")
def site(lab: Lab) -> tuple[Object, list[Guest]]:
    """A router, and instances on both hosts."""
    group, _ = make_group(lab, "open", *EVERYTHING)
    network = tenant_network(lab, "blue", 1)
    router = make_router(lab, external_network(lab), network)
    place_router(lab, router, "h1")
    guests = make_guests(lab, *(Spec(f"on-{host}", network, host, [group]) for host in HOSTS))
    for guest in guests:
        wait_until_reachable(lab, guest.name, MACHINE)
    return router, guests


def vsctl(lab: Lab, host: str, *arguments: str) -> str:
    return lab.run(host, ["ovs-vsctl", *arguments]).stdout


@contextlib.contextmanager
def agents_with(lab: Lab, options: Settings) -> Iterator[None]:
    def restart(given: Settings) -> None:
        for host in HOSTS:
            lab.stop_agent(host)
            lab.start_agent(host, given)
        for host in HOSTS:
            wait_until_no_drift(lab, host)

    restart(options)
    try:
        yield
    finally:
        restart({})


def test_dont_fragment_and_tunnel_csum(lab: Lab, site: tuple[Object, list[Guest]]) -> None:
    one, other = site[1]

    def seen(*filters: str) -> None:
        """The tunnel packets of h1 are all as these filters have it."""
        expression = " and ".join(f"({each})" for each in ("udp dst port 4789", *filters))
        others = f"(udp dst port 4789) and not ({expression})"
        with lab.capture("h1", expression) as wanted, lab.capture("h1", others) as unwanted:
            wait_until_reachable(lab, one.name, other.addresses[4])
            wanted.wait_for("4789")
            assert not unwanted.lines

    seen(DONT_FRAGMENT, f"not {WITH_CHECKSUM}")
    with agents_with(lab, {"agent": {"dont_fragment": False}}):
        seen(f"not {DONT_FRAGMENT}", f"not {WITH_CHECKSUM}")
    with agents_with(lab, {"agent": {"tunnel_csum": True}}):
        seen(DONT_FRAGMENT, WITH_CHECKSUM)
    seen(DONT_FRAGMENT, f"not {WITH_CHECKSUM}")


def test_peer_patch_port_names(lab: Lab, site: tuple[Object, list[Guest]]) -> None:
    one, other = site[1]
    names = {"int_peer_patch_port": "to-tunnels", "tun_peer_patch_port": "to-instances"}
    with agents_with(lab, {"ovs": names}):
        assert "to-instances" in vsctl(lab, "h1", "get", "Interface", "to-tunnels", "options")
        wait_until_reachable(lab, one.name, other.addresses[4])
    wait_until_reachable(lab, one.name, other.addresses[4])
    for host in HOSTS:  # the agent does not know that it has created them
        for name in names.values():
            vsctl(lab, host, "del-port", name)


def test_external_network_bridge(lab: Lab, site: tuple[Object, list[Guest]]) -> None:
    router, guests = site
    (port,) = lab.api.list("port", device_id=router["id"], device_owner="network:router_gateway")
    name = f"tap{port['id'][:11]}"

    def bridges() -> set[str]:
        rows = {host: vsctl(lab, host, "--format=csv", "--columns=name", "list", "Port") for host in HOSTS}
        return {vsctl(lab, host, "port-to-br", name).strip() for host, text in rows.items() if name in text}

    assert bridges() == {"br-int"}
    with agents_with(lab, {"DEFAULT": {"external_network_bridge": "br-ex"}}):
        wait_until(lambda: bridges() == {"br-ex"}, SOON, "the gateway's port is not moved")
        for guest in guests:
            wait_until_reachable(lab, guest.name, MACHINE)
    wait_until(lambda: bridges() == {"br-int"}, SOON, "the gateway's port is not moved back")
    for guest in guests:
        wait_until_reachable(lab, guest.name, MACHINE)
