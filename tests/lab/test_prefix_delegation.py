"""Prefix delegation on real packets: a DHCPv6 server delegates prefixes, routers advertise them, instances use them."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator

import pytest

from neutrino.agent.main import CACHE
from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.delegation_lab import (
    Isp,
    asking,
    clients,
    delegating,
    expected,
    formed,
    prefix_of,
    route_back,
    wait_for_none,
    wait_for_prefix,
)
from tests.support.lab import Pinging
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, make_group
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE6,
    SOON,
    attach,
    detach,
    external_network,
    gateway_address,
    host_of,
    hosts_of,
    in_router,
    make_router,
    move_router,
    wait_until_no_drift,
    wait_until_reachable,
    wait_until_removed,
)


@pytest.fixture
def isp(lab: Lab) -> Iterator[Isp]:
    """One for each test: a released prefix is delegated again."""
    with delegating(lab) as made:
        with cleaned(lab):
            yield made
        for host in lab.hosts:
            wait_until(lambda host=host: clients(lab, host) == {}, SOON, f"clients run on on {host}")  # type: ignore[misc]


@dataclasses.dataclass
class Site:
    """A network whose only subnet has no prefix yet, a VM on it, and a router with a gateway."""

    lab: Lab
    isp: Isp
    out: Object
    network: Object
    subnet: Object
    router: Object
    vm: str

    @property
    def gateway(self) -> str:
        return gateway_address(self.lab, self.router, 6)

    def check(self, subnet: Object) -> str:
        """The subnet has a prefix, the VM an address on it, and it is reached from outside; the prefix."""
        prefix = wait_for_prefix(self.lab, subnet)
        own = expected(self.lab, self.vm, prefix)
        assert own
        wait_until(lambda: own in formed(self.lab, self.vm), SOON, f"{self.vm} forms no address on {prefix}")
        with route_back(self.lab, prefix, self.gateway):
            wait_until_reachable(self.lab, self.vm, MACHINE6, by=own)  # with another prefix it has another address too
            wait_until_reachable(self.lab, EXTERNAL, own)
        return prefix


def make_site(lab: Lab, isp: Isp, **router: object) -> Site:
    out = external_network(lab)
    network = lab.api.create("network", name="waiting")
    subnet = asking(lab, network)
    group, _ = make_group(lab, "open", *EVERYTHING)
    made = make_router(lab, out, **router)
    attach(lab, made, subnet)
    vm = lab.vm("vm", network=network["id"], host="h2", security_groups=[group], wait=False)
    lab.wait_for_port(vm)
    return Site(lab, isp, out, network, subnet, made, "vm")


@pytest.fixture
def site(lab: Lab, isp: Isp) -> Site:
    return make_site(lab, isp)


def test_a_prefix_is_delegated_and_released(site: Site) -> None:
    lab, host = site.lab, host_of(site.lab, site.router)
    prefix = site.check(site.subnet)
    assert prefix in site.isp.given()
    wait_until_no_drift(lab, host)
    assert set(clients(lab, host)) == {site.subnet["id"]}

    detach(lab, site.router, site.subnet)
    assert prefix_of(lab, site.subnet) == "::/64"
    wait_until(lambda: site.isp.has_released(prefix), SOON, "the prefix is not given back")
    wait_until(lambda: clients(lab, host) == {}, SOON, "the client runs on")
    wait_until_removed(lab, site.subnet["id"], host, [])
    wait_until_no_drift(lab, host)

    attach(lab, site.router, site.subnet)
    again = site.check(site.subnet)
    assert again == prefix  # by whom it was had last
    lab.api.update("router", site.router["id"], external_gateway_info={})
    wait_for_none(lab, site.subnet)
    wait_until(lambda: site.isp.log.count(f"releases prefix {again}") == 2, SOON, "it is not released")
    wait_until(lambda: clients(lab, host) == {}, SOON, "the client runs on")


def test_agents_and_clients_that_restart_keep_the_prefix(site: Site) -> None:
    lab, host = site.lab, host_of(site.lab, site.router)
    prefix = site.check(site.subnet)
    running = clients(lab, host)
    # A killed agent starts from what it has written down, which it does a second after it received the change.
    cache = lab.paths.host(host) / CACHE
    wait_until(lambda: prefix in cache.read_text(), SOON, "the agent does not write down the prefix")
    with route_back(lab, prefix, site.gateway), Pinging(lab, site.vm, MACHINE6) as ping:
        lab.stop_agent(host, kill=True)
        lab.start_agent(host)
        wait_until_no_drift(lab, host)
        assert clients(lab, host) == running
        asked = len(site.isp.given())
        os.kill(running[site.subnet["id"]], signal.SIGKILL)
        wait_until(lambda: len(site.isp.given()) > asked, SOON, "the client is not back, or does not ask again")
        wait_until_no_drift(lab, host)
    assert ping.lost == 0
    assert prefix_of(lab, site.subnet) == prefix
    assert not site.isp.has_released(prefix)


def test_each_subnet_requests_and_releases_its_own_prefix(site: Site) -> None:
    lab, host = site.lab, host_of(site.lab, site.router)
    second = asking(lab, site.network)
    attach(lab, site.router, second)
    first_prefix, second_prefix = site.check(site.subnet), site.check(second)
    assert first_prefix != second_prefix
    detach(lab, site.router, second)
    wait_until(lambda: site.isp.has_released(second_prefix), SOON, "the prefix is not given back")
    assert not site.isp.has_released(first_prefix)
    wait_until(lambda: set(clients(lab, host)) == {site.subnet["id"]}, SOON, "the client runs on")
    assert site.check(site.subnet) == first_prefix


def test_a_router_given_to_another_host_keeps_its_prefix(site: Site) -> None:
    lab, old = site.lab, host_of(site.lab, site.router)
    new = next(host for host in lab.hosts if host != old)
    prefix = site.check(site.subnet)
    move_router(lab, site.router, new)
    wait_until(lambda: set(clients(lab, new)) == {site.subnet["id"]}, SOON, "nobody asks there")
    wait_until_removed(lab, site.router["id"], old, [])
    wait_until_no_drift(lab, new)
    assert site.check(site.subnet) == prefix
    assert not site.isp.has_released(prefix)


def test_only_the_active_host_requests_a_prefix_and_a_failover_keeps_it(lab: Lab, isp: Isp) -> None:
    def active() -> str:
        return next((host for host, state in hosts_of(lab, made.router).items() if state == "active"), "")

    def speaking() -> list[str]:
        return [host for host in lab.hosts if clients(lab, host)]

    made = make_site(lab, isp, ha=True)
    prefix = made.check(made.subnet)
    host = active()
    assert speaking() == [host]
    for each in lab.hosts:
        wait_until_no_drift(lab, each)
    (device,) = in_router(lab, made.router, host, "sh", "-c", "ls /sys/class/net | grep ^ha-").split()
    lab.stop_agent(host)  # which would put right what is done now, and it would be a race who is active then
    in_router(lab, made.router, host, "ip", "link", "set", device, "down")
    wait_until(lambda: active() not in ("", host), SOON, "no standby host takes over")
    lab.start_agent(host)
    wait_until(lambda: speaking() == [active()], SOON, "not the active host alone asks")
    assert made.check(made.subnet) == prefix
    assert not isp.has_released(prefix)


def test_a_distributed_router_requests_prefixes_on_the_host_of_its_snat(lab: Lab, isp: Isp) -> None:
    made = make_site(lab, isp, distributed=True)
    prefix = made.check(made.subnet)
    (gateway,) = lab.api.list("port", device_id=made.router["id"], device_owner="network:router_gateway")
    assert {host for host in lab.hosts if clients(lab, host)} == {gateway["binding:host_id"]}
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
    detach(lab, made.router, made.subnet)
    wait_until(lambda: isp.has_released(prefix), SOON, "the prefix is not given back")


def test_a_prefix_that_expires_is_replaced(lab: Lab) -> None:
    with cleaned(lab):
        with delegating(lab, lifetime=6) as isp:
            made = make_site(lab, isp)
            made.check(made.subnet)
            asked = len(isp.given())
            wait_until(lambda: len(isp.given()) > asked, SOON, "it is not renewed")
        wait_for_none(lab, made.subnet)
        with delegating(lab) as isp:
            made.check(made.subnet)
