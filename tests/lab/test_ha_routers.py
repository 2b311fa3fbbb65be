"""HA routers on real packets: one host is active, a standby takes over when it is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator

import pytest

from neutrino.agent.l3.services.keepalived.render import FALL
from neutrino.lab.errors import wait_until
from neutrino.lab.faults import set_link
from neutrino.model.objects import Object
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    PATIENCE,
    SOON,
    active_host,
    addresses_in,
    can_ping,
    connect,
    delete_router,
    devices_of,
    external_network,
    failed_host,
    floating_ip,
    hosts_of,
    in_router,
    kill_keepalived,
    make_router,
    problems_of,
    source_seen,
    tenant_network,
    vrrp_blocked,
    wait_for_floating_ip,
    wait_until_no_drift,
    wait_until_reachable,
    wait_until_removed,
    wait_until_unreachable,
)

FAILOVER_SECONDS = 15.0  # keepalived waits three and a half; the rest is for a busy machine
ROUTER_PORTS = ("network:ha_router_replicated_interface", "network:router_gateway")


@dataclasses.dataclass
class Site:
    lab: Lab
    out: Object
    router: Object
    group: str
    guests: dict[str, Guest]  # by host

    @property
    def states(self) -> dict[str, str | None]:
        return hosts_of(self.lab, self.router)

    @property
    def active(self) -> str:
        """The host that reports itself active, once the others report standby."""
        return active_host(self.lab, self.router, among=self.lab.hosts)

    def others(self, host: str) -> list[str]:
        return [each for each in self.lab.hosts if each != host]

    def bound_hosts(self) -> set[str]:
        """The hosts that the router's ports are bound to."""
        ports = self.lab.api.list("port", device_id=self.router["id"])
        return {port["binding:host_id"] for port in ports if port["device_owner"] in ROUTER_PORTS}


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    out = external_network(lab)
    blue, red = tenant_network(lab, "blue", 1), tenant_network(lab, "red", 2)
    router = make_router(lab, out, blue, red, ha=True)
    group, _ = make_group(lab, "open", *EVERYTHING)
    networks = {"h1": blue, "h2": red, "h3": blue}
    specs = [Spec(f"on-{host}", network, host, [group]) for host, network in networks.items()]
    guests = dict(zip(networks, make_guests(lab, *specs), strict=True))
    made = Site(lab, out, router, group, guests)
    for guest in guests.values():
        wait_until_reachable(lab, guest.name, MACHINE)
    return made


# --- as it should be --------------------------------------------------------------------------------------------------


def test_one_host_is_active_and_the_others_are_silent(site: Site) -> None:
    lab, active = site.lab, site.active
    wait_until(lambda: site.bound_hosts() == {active}, SOON, "the ports are elsewhere")
    ports = lab.api.list("port", device_id=site.router["id"], device_owner="network:router_ha_interface")
    assert {port["binding:host_id"] for port in ports} == set(lab.hosts)

    def is_settled(host: str) -> bool:
        """Two subnets each on two networks, and the gateway, which have addresses on the active host alone."""
        found = addresses_in(lab, site.router, host)
        routed = [addresses for name, addresses in found.items() if name[:3] in ("qr-", "qg-")]
        local = in_router(lab, site.router, host, "ip", "-6", "address", "show", "scope", "link")
        addressed = [*map(bool, routed), "qr-" in local]
        return len(routed) == 5 and addressed == [host == active] * 6

    for host in lab.hosts:
        wait_until(lambda host=host: is_settled(host), SOON, f"{host} does not have the addresses of its state")  # type: ignore[misc]
        wait_until_no_drift(lab, host)


def test_an_agent_that_restarts_causes_no_failover(site: Site) -> None:
    lab, active = site.lab, site.active
    with Pinging(lab, site.guests["h2"].name, MACHINE) as ping:
        for host in (active, site.others(active)[0]):
            lab.stop_agent(host, kill=True)
            lab.start_agent(host)
            wait_until_no_drift(lab, host)
    assert ping.lost == 0
    assert site.active == active


def test_a_host_that_becomes_a_standby_draws_no_traffic(site: Site) -> None:
    """Its devices come up with the MAC that the active host's have: what the kernel sends by them, bridges would learn."""
    lab, active = site.lab, site.active
    host = site.others(active)[0]
    (agent,) = lab.api.list("agent", host=host, agent_type="L3 agent")
    path = f"/v2.0/agents/{agent['id']}/l3-routers"
    with Pinging(lab, site.guests[active].name, MACHINE) as ping:
        lab.api.request("DELETE", f"{path}/{site.router['id']}")
        wait_until(lambda: host not in site.states, SOON, "the router stays")
        wait_until_no_drift(lab, host)
        lab.api.request("POST", path, {"router_id": site.router["id"]})
        wait_until(lambda: site.states.get(host) == "standby", SOON, f"{host} is not a standby")
        wait_until_no_drift(lab, host)
        reported = len(ping.received) + 150  # three seconds: the kernel reports its groups twice within two
        wait_until(lambda: len(ping.received) >= reported, SOON, "no answers")
    assert ping.lost == 0
    assert site.active == active


# --- failures ---------------------------------------------------------------------------------------------------------


def test_the_loss_of_the_active_host(site: Site) -> None:
    """Within seconds the floating IP answers, from another host; the host that is back does not take over."""
    lab, active = site.lab, site.active
    inner, without = (site.guests[host] for host in site.others(active))
    fip = floating_ip(lab, site.out, inner.port_id)
    address = fip["floating_ip_address"]
    wait_until_reachable(lab, EXTERNAL, address)
    back = contextlib.ExitStack()
    with (
        connect(lab, EXTERNAL, inner.name, address) as talk,
        connect(lab, without.name, EXTERNAL, MACHINE) as out,
        back,
    ):
        assert talk.passes_data(PATIENCE)
        assert out.passes_data(PATIENCE)
        with Pinging(lab, EXTERNAL, address) as ping:
            back.enter_context(failed_host(lab, site.router, active))
            wait_until(lambda: can_ping(lab, EXTERNAL, address), SOON, "no standby host takes over")
        outage = ping.lost * ping.spacing
        assert 0 < outage < FAILOVER_SECONDS
        assert source_seen(lab, EXTERNAL, inner.name, address) == MACHINE
        for each in (talk, out):  # by a floating IP, and under the router's address
            wait_until(each.passes_data, SOON, "an established connection did not survive")
        for host in site.others(active):  # each on the new host or by a tunnel to it
            wait_until_reachable(lab, site.guests[host].name, MACHINE)
        wait_until(lambda: site.states[active] == "standby", SOON, "the failed host is still shown as active")
        taken = site.active
        assert taken != active
        wait_until(lambda: site.bound_hosts() == {taken}, SOON, "the ports did not follow")
        with Pinging(lab, EXTERNAL, address) as ping:
            back.close()
            wait_until_no_drift(lab, active)
        # A machine with much else to do may keep keepalived from its turn; a move back costs less than the loss did.
        assert ping.lost * ping.spacing < FAILOVER_SECONDS
    assert site.active == taken
    wait_until_reachable(lab, site.guests[active].name, MACHINE)
    lab.api.delete("floatingip", fip["id"])


def test_keepalived_killed_is_back_at_once(site: Site) -> None:
    """The addresses that it had set are removed, by keepalived or by the agent, unless the host becomes active again."""
    lab = site.lab
    kill_keepalived(lab, site.router, site.active)

    def addressed() -> list[str]:
        return [
            host
            for host in lab.hosts
            if any(found for name, found in addresses_in(lab, site.router, host).items() if name.startswith("q"))
        ]

    wait_until(lambda: addressed() == [site.active], SOON * 2, "not the active host alone has the addresses")
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
    for guest in site.guests.values():
        wait_until_reachable(lab, guest.name, MACHINE)


def test_two_active_hosts_are_noticed_and_shown(site: Site) -> None:
    lab = site.lab
    with vrrp_blocked(lab.hosts, lambda host, *argv: in_router(lab, site.router, host, *argv)):
        wait_until(
            lambda: any("at once" in text for text in problems_of(lab)), SOON + 20, "no agent reports the conflict"
        )
    wait_until(lambda: problems_of(lab) == [], SOON, f"it is still shown: {problems_of(lab)}")
    active = site.active
    wait_until(lambda: site.bound_hosts() == {active}, SOON, "the ports are not where the router is")
    for guest in site.guests.values():
        wait_until_reachable(lab, guest.name, MACHINE)


LISTEN = """
import select, socket, sys, time
wire, raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)), socket.socket(
    socket.AF_INET, socket.SOCK_RAW, 112)
seen, end = {wire: set(), raw: set()}, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and (len(seen[wire]) < 2 or not seen[raw]):
    for ready in select.select([wire, raw], [], [], 1)[0]:
        data = ready.recv(2048)
        if data[9] == 112:
            seen[ready].add(data[4 * (data[0] & 15) + 1])
print(len(seen[wire]), *seen[raw])
"""


def test_a_keepalived_is_not_woken_up_for_other_routers(site: Site) -> None:
    """They share the HA network of their project, where each advertises to all."""
    lab = site.lab
    other = make_router(lab, None, tenant_network(lab, "other", 6), name="other", ha=True)
    active_host(lab, other, among=lab.hosts)
    host = site.others(site.active)[0]
    on_wire, *received = in_router(lab, site.router, host, sys.executable, "-c", LISTEN, str(SOON)).split()
    assert int(on_wire) == 2
    assert len(received) == 1
    devices = devices_of(lab, other)
    delete_router(lab, other["id"])
    for each in lab.hosts:  # an agent that is restarted before refuses to work: it does not know these ports
        wait_until_removed(lab, other["id"], each, devices)


@contextlib.contextmanager
def gateways_checked(lab: Lab, interval: str = "1") -> Iterator[None]:
    """By the active host; keepalived goes on with another configuration."""
    for host in lab.hosts:
        lab.stop_agent(host)
        lab.start_agent(host, {"DEFAULT": {"ha_vrrp_health_check_interval": interval}})
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
    try:
        yield
    finally:
        for host in lab.hosts:
            lab.stop_agent(host)
            lab.start_agent(host)
        for host in lab.hosts:
            wait_until_no_drift(lab, host)


def test_a_host_that_loses_the_gateway_steps_back(site: Site) -> None:
    """Another host takes over. If none reaches the gateway, one stays active: what is between networks goes on there."""
    lab, active = site.lab, site.active
    with gateways_checked(lab), contextlib.ExitStack() as links:
        # One that is started with the script, and loads its configuration again before it is active: its state is reported.
        new = make_router(lab, site.out, *(tenant_network(lab, f"new-{n}", n) for n in (4, 5)), name="new", ha=True)
        active_host(lab, new, among=lab.hosts)
        delete_router(lab, new["id"])

        reached = lab.paths.host(active) / "ha_confs" / site.router["id"] / "reached"
        wait_until(reached.exists, SOON, "the gateway is not asked for")
        assert site.active == active, "the new configuration is a failover"
        guest = site.guests[site.others(active)[0]]

        def cut(host: str) -> None:
            set_link(lab, host, EXTERNAL, "down")
            links.callback(set_link, lab, host, EXTERNAL, "up")

        cut(active)
        wait_until(lambda: site.active != active, SOON, "it is still active")
        wait_until_reachable(lab, guest.name, MACHINE)
        wait_until(lambda: site.states[active] == "standby", SOON, "the host is not standby")

        for host in site.others(active):
            cut(host)
        seen = [host for host in lab.hosts if unreached(site, host)]
        wait_until(
            lambda: any(unreached(site, host) > FALL for host in lab.hosts), SOON, f"no host stays active: {seen}"
        )
        alone = site.active
        wait_until_reachable(lab, site.guests["h1"].name, site.guests["h2"].addresses[4])
        lab.stop_agent(alone)  # whose next look is at its start
        lab.start_agent(alone, {"DEFAULT": {"ha_vrrp_health_check_interval": "1"}})
        wait_until(lambda: any("gateways do not answer" in text for text in problems_of(lab)), SOON, "not shown")
        links.close()
        wait_until_reachable(lab, guest.name, MACHINE)


def test_gateways_asked_several_times_a_second(site: Site) -> None:
    """The check goes on asking. Its host loads configurations, and keeps the router, while one runs."""
    lab, active = site.lab, site.active
    with gateways_checked(lab, "0.2"):
        directory = lab.paths.host(active) / "ha_confs" / site.router["id"]
        wait_until((directory / "reached").exists, SOON, "the gateway is not asked for")
        with Pinging(lab, site.guests["h2"].name, MACHINE) as ping:
            for _ in range(2):  # each loads keepalived's configuration again
                fip = floating_ip(lab, site.out, site.guests["h1"].port_id)
                wait_until_reachable(lab, EXTERNAL, fip["floating_ip_address"])
                lab.api.delete("floatingip", fip["id"])
                wait_until_unreachable(lab, EXTERNAL, fip["floating_ip_address"])
        assert ping.lost == 0
        assert site.active == active
        set_link(lab, active, EXTERNAL, "down")
        try:
            wait_until(lambda: site.active != active, SOON, "it is still active")
            wait_until_reachable(lab, site.guests[site.others(active)[0]].name, MACHINE)
            wait_until(lambda: site.states[active] == "standby", SOON, "the host is not standby")
        finally:
            set_link(lab, active, EXTERNAL, "up")


def unreached(site: Site, host: str) -> int:
    """How many checks of the gateway have failed since the host became active."""
    path = site.lab.paths.host(host) / "ha_confs" / site.router["id"] / "unreached"
    try:
        return int(path.read_text() or 0)
    except FileNotFoundError:
        return 0


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_floating_ip_comes_and_goes_without_a_move(site: Site) -> None:
    lab, active = site.lab, site.active
    with Pinging(lab, site.guests["h2"].name, MACHINE) as ping:
        fip = floating_ip(lab, site.out, site.guests["h1"].port_id)
        wait_until_reachable(lab, EXTERNAL, fip["floating_ip_address"])
        lab.api.update("floatingip", fip["id"], port_id=None)
        wait_for_floating_ip(lab, fip["id"], "DOWN")
        wait_until(lambda: not can_ping(lab, EXTERNAL, fip["floating_ip_address"]), SOON, "it still answers")
        lab.api.delete("floatingip", fip["id"])
    assert ping.lost == 0
    assert site.active == active


def test_one_that_is_deleted_leaves_nothing(site: Site) -> None:
    lab = site.lab
    green = tenant_network(lab, "green", 3, six=False)
    router = make_router(lab, site.out, green, name="short-lived", ha=True)
    wait_until(lambda: "active" in hosts_of(lab, router).values(), SOON, "nobody is active")
    devices = devices_of(lab, router)
    delete_router(lab, router["id"])
    for host in lab.hosts:
        wait_until_removed(lab, router["id"], host, devices)
