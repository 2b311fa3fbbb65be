"""Routers with two gateways on real packets, each on an external network of its own.

The machine outside is on both networks and filters by reverse path: a packet with an address of one network that comes
in by the other is lost. `BEYOND` is behind both of its addresses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.fabric import checksum_in_software
from neutrino.lab.hosts.namespaces import ip_batch
from neutrino.lab.settings import FABRIC
from neutrino.model.objects import Object
from tests.support.frr_peer import FrrBfd, frr_bfd
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.lab_trace import check_arrives
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    MACHINE6,
    SOON,
    connect,
    delete_router,
    external_network,
    floating_ip,
    gateway_address,
    make_router,
    source_seen,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
)

SECOND, SECOND6, BEYOND, BEYOND6 = "198.51.100.1", "2001:db8:198:51::1", "192.0.2.1", "2001:db8:192::1"
KINDS: dict[str, Object] = {
    "legacy": {"distributed": False, "ha": False},
    "ha": {"distributed": False, "ha": True},
    "distributed": {"distributed": True, "ha": False},
    "distributed-ha": {"distributed": True, "ha": True},
}
_SYN6 = f"ip6 and tcp and dst host {BEYOND6}"
BFD_MILLISECONDS = 300  # as the lab's hosts have it
FLOWS = 24  # that all of them take one of two next hops by chance: once in 2^23


@contextlib.contextmanager
def connected_machine(lab: Lab) -> Iterator[None]:
    """Connect the machine to the provider network too."""
    uplink = f"link add machine2 type veth peer name eth1 netns {lab.holder(EXTERNAL)}"
    lab.inside(FABRIC, lambda: ip_batch([uplink, "link set machine2 master provider up"]))
    lines = [
        "link set eth1 up",
        f"address add {SECOND}/24 dev eth1",
        f"address add {SECOND6}/64 dev eth1 nodad",
        f"address add {BEYOND}/32 dev lo",
        f"address add {BEYOND6}/128 dev lo nodad",
    ]
    lab.inside(EXTERNAL, lambda: ip_batch(lines))
    lab.inside(EXTERNAL, lambda: checksum_in_software("eth1"))
    for device in ("all", "eth0", "eth1"):
        lab.run(EXTERNAL, ["sysctl", "-qw", f"net.ipv4.conf.{device}.rp_filter=1"])
    try:
        yield
    finally:
        lab.inside(FABRIC, lambda: ip_batch(["link del machine2"]))
        lab.inside(EXTERNAL, lambda: ip_batch([f"address del {BEYOND}/32 dev lo", f"address del {BEYOND6}/128 dev lo"]))
        for device in ("all", "eth0"):
            lab.run(EXTERNAL, ["sysctl", "-qw", f"net.ipv4.conf.{device}.rp_filter=0"])


@dataclasses.dataclass
class Outside:
    one: Object
    two: Object
    blue: Object
    guest: Guest


@dataclasses.dataclass
class Site:
    lab: Lab
    one: Object
    two: Object
    router: Object
    guest: Guest

    def gateways(self) -> list[str]:
        shown = self.lab.api.show("router", self.router["id"])["external_gateways"]
        addresses = [[f["ip_address"] for f in each["external_fixed_ips"]] for each in shown]
        return [next(ip for ip in several if ":" not in ip) for several in addresses]

    def next_hops(self) -> set[str]:
        """Of the default routes of the main tables, on all hosts."""
        command = "ip route show default; ip -6 route show default"
        text = "".join(self.in_gateway_namespace(host, "sh", "-c", command) for host in self.lab.hosts)
        words = text.split()
        return {after for word, after in itertools.pairwise(words) if word == "via"}

    def wait_for_next_hops(self, *wanted: str) -> None:
        wait_until(lambda: self.next_hops() == set(wanted), SOON, f"default routes are not over {wanted}")

    def speaking(self) -> list[str]:
        """The hosts that have BFD sessions of the router."""
        return [host for host in self.lab.hosts if ":3784" in self.in_gateway_namespace(host, "ss", "-Hunl")]

    def in_gateway_namespace(self, host: str, *argv: str) -> str:
        name = f"{'snat' if self.router['distributed'] else 'qrouter'}-{self.router['id']}"
        return str(self.lab.run(host, ["ip", "netns", "exec", name, *argv], check=False).stdout)

    def act(self, verb: str, *networks: Object) -> None:
        body = {"router": {"external_gateways": [{"network_id": each["id"]} for each in networks]}}
        self.lab.api.request("PUT", f"/v2.0/routers/{self.router['id']}/{verb}_external_gateways", body)

    def source(self, target: str = BEYOND) -> str:
        """The address under which the instance reaches the machine."""
        return source_seen(self.lab, "a", EXTERNAL, target)

    def sources(self, target: str = BEYOND) -> set[str]:
        """Those of several connections."""
        seen = {source_seen(self.lab, "a", EXTERNAL, target, 8000 + i) for i in range(FLOWS)}
        return {each.removeprefix("::ffff:") for each in seen}

    def traced(self, *ports: int) -> set[str]:
        """The sources under which connections leave by traces."""
        values = {"source_port_id": self.guest.port_id, "destination_address": BEYOND, "protocol": "tcp"}
        several = [check_arrives(self.lab, **values, destination_port=each) for each in ports or (80,)]
        return {each["steps"][-1]["packet"]["source"] for each in several}

    def wait_for_sources(self, *wanted: str) -> None:
        wait_until(lambda: self.sources() == set(wanted), SOON, f"instances do not leave under {wanted}")


@pytest.fixture(scope="module")
def outside(lab: Lab) -> Iterator[Outside]:
    with connected_machine(lab), cleaned(lab):
        provider = {"provider:network_type": "flat", "provider:physical_network": "physnet1"}
        two = lab.api.create("network", name="second", **provider, **{"router:external": True})
        pool = [{"start": "198.51.100.10", "end": "198.51.100.250"}]
        values = {"network_id": two["id"], "enable_dhcp": False}
        four = {"cidr": "198.51.100.0/24", "gateway_ip": SECOND, "ip_version": 4, "allocation_pools": pool}
        lab.api.create("subnet", **values, **four)
        lab.api.create("subnet", **values, cidr="2001:db8:198:51::/64", gateway_ip=SECOND6, ip_version=6)
        one, blue = external_network(lab), tenant_network(lab, "blue", 1)
        group, _ = make_group(lab, "open", *EVERYTHING)
        (guest,) = make_guests(lab, Spec("a", blue, "h2", [group]))
        yield Outside(one, two, blue, guest)


@pytest.fixture(scope="module", params=KINDS)
def site(lab: Lab, outside: Outside, request: pytest.FixtureRequest) -> Iterator[Site]:
    router = make_router(lab, outside.one, outside.blue, **KINDS[request.param])
    made = Site(lab, outside.one, outside.two, router, outside.guest)
    made.act("add", outside.two)
    lab.run(EXTERNAL, ["ip", "route", "replace", "fd00:1::/64", "via", gateway_address(lab, router, 6)])
    wait_until_reachable(lab, "a", MACHINE)
    wait_until_reachable(lab, "a", SECOND)
    yield made
    lab.run(EXTERNAL, ["ip", "route", "del", "fd00:1::/64"])
    for found in lab.api.list("floatingip"):
        lab.api.delete("floatingip", found["id"])
    delete_router(lab, router["id"])


def test_out_by_the_first_gateway(site: Site) -> None:
    first, second = site.gateways()
    assert site.sources() == {first}
    # The networks themselves are reached directly, each under the address of its own gateway.
    assert site.source(MACHINE) == first
    assert site.source(SECOND) == second
    assert site.source(BEYOND6).startswith("fd00:1:")
    assert site.traced() == {first}


def test_floating_ips_of_both_networks_answer(site: Site) -> None:
    lab, port = site.lab, site.guest.port_id
    second, first = (floating_ip(lab, network, port) for network in (site.two, site.one))
    by_first, by_second = first["floating_ip_address"], second["floating_ip_address"]
    for address in (by_first, by_second):
        for source in (BEYOND, MACHINE, SECOND):
            wait_until_reachable(lab, EXTERNAL, address, by=source)
        assert source_seen(lab, EXTERNAL, "a", address) in (MACHINE, SECOND)
        outside = {"source": "external", "source_address": BEYOND, "protocol": "icmp"}
        check_arrives(lab, **outside, destination_address=address)
    # With floating IPs of both, the instance leaves under that of the first gateway.
    assert site.source() == by_first
    lab.api.delete("floatingip", first["id"])
    wait_until(lambda: site.source() == by_second, SOON, "the instance does not leave under its floating IP")
    assert source_seen(lab, EXTERNAL, "a", by_second) in (MACHINE, SECOND)
    assert site.traced() == {by_second}
    lab.api.delete("floatingip", second["id"])
    wait_until(lambda: site.source() == site.gateways()[0], SOON, "the floating IP is still used")


def test_flows_spread_over_all_next_hops(site: Site) -> None:
    lab, (first, second) = site.lab, site.gateways()
    lab.api.update("router", site.router["id"], enable_default_route_ecmp=True)
    site.wait_for_sources(first, second)
    with lab.capture(EXTERNAL, _SYN6, "eth0") as by_first, lab.capture(EXTERNAL, _SYN6, "eth1") as by_second:
        for i in range(FLOWS):
            source_seen(lab, "a", EXTERNAL, BEYOND6, 8000 + i)
        by_first.wait_for(BEYOND6)
        by_second.wait_for(BEYOND6)
    assert site.traced(*range(8000, 8006)) <= {first, second}  # by whichever the kernel chooses
    with connect(lab, "a", EXTERNAL, BEYOND) as talk:
        assert talk.passes_data()
        # A connection stays where it is, though the default route changes.
        lab.api.update("router", site.router["id"], enable_default_route_ecmp=False)
        site.wait_for_sources(first)
        assert talk.passes_data()


def test_the_next_gateway_takes_over(site: Site) -> None:
    lab, (first, second) = site.lab, site.gateways()
    site.act("update", site.two, site.one)
    site.wait_for_sources(second)
    site.act("remove", site.two)
    site.wait_for_sources(first)
    site.act("add", site.two)
    wait_until(lambda: site.source(SECOND) == site.gateways()[1], SOON, "the second gateway is not used again")
    assert site.sources() == {first}
    for host in lab.hosts:
        wait_until_no_drift(lab, host)


# --- supervised next hops -----------------------------------------------------------------------------------------------


# In `qrouter-…` and in `snat-…`, without keepalived and with it.
BOTH = pytest.mark.parametrize("site", ["legacy", "distributed-ha"], indirect=True)


@pytest.fixture(scope="module")
def frr(lab: Lab) -> Iterator[FrrBfd]:
    with frr_bfd(lab, EXTERNAL) as made:
        yield made


@pytest.fixture
def supervised(site: Site, frr: FrrBfd) -> Iterator[list[str]]:
    """The router's addresses, each with a BFD session."""
    lab, devices = site.lab, {MACHINE: "eth0", MACHINE6: "eth0", SECOND: "eth1", SECOND6: "eth1"}
    shown = lab.api.show("router", site.router["id"])["external_gateways"]
    fixed = [[f["ip_address"] for f in each["external_fixed_ips"]] for each in shown]
    own = [next(ip for ip in fixed[i] if (":" in ip) == six) for i in (0, 1) for six in (False, True)]
    for router, (local, device) in zip(own, devices.items(), strict=True):
        frr.add(router, local, device, BFD_MILLISECONDS)
    lab.api.update("router", site.router["id"], enable_default_route_ecmp=True, enable_default_route_bfd=True)
    frr.wait_until_up(*own)
    yield own
    flags = {"enable_default_route_ecmp": False, "enable_default_route_bfd": False}
    lab.api.update("router", site.router["id"], **flags)
    wait_until(lambda: not site.speaking(), SOON, "BFD sessions are left")
    frr.clear()


def _set_link(lab: Lab, change: str) -> None:
    lab.inside(FABRIC, lambda: ip_batch([f"link set {change}"]))


@BOTH
def test_a_lost_next_hop_is_avoided(site: Site, supervised: list[str], frr: FrrBfd) -> None:
    lab, (first, second) = site.lab, site.gateways()
    site.wait_for_next_hops(MACHINE, SECOND, MACHINE6, SECOND6)
    _set_link(lab, "machine2 down")  # the router's own link stays up
    site.wait_for_next_hops(MACHINE, MACHINE6)
    assert site.sources() == {first}
    lab.api.update("router", site.router["id"], enable_default_route_ecmp=False)
    _set_link(lab, "machine2 up")
    frr.wait_until_up(*supervised)
    site.wait_for_next_hops(MACHINE, MACHINE6)
    # Without ECMP, the second gateway stands in for the first.
    _set_link(lab, "machine down")
    site.wait_for_next_hops(SECOND, SECOND6)
    assert site.sources() == {second}
    _set_link(lab, "machine up")
    frr.wait_until_up(*supervised)
    site.wait_for_next_hops(MACHINE, MACHINE6)


@BOTH
def test_sessions_survive_the_agent(site: Site, supervised: list[str], frr: FrrBfd) -> None:
    lab, before = site.lab, frr.failures()
    (host,) = site.speaking()  # of an HA router, the active host alone
    lab.stop_agent(host, kill=True)
    assert site.speaking() == [host]
    lab.start_agent(host)
    wait_until_no_drift(lab, host)
    assert frr.failures() == before
    assert set(frr.sessions().values()) == {"up"}


@pytest.mark.parametrize("site", ["distributed-ha"], indirect=True)
def test_the_active_host_alone_speaks(site: Site, supervised: list[str], frr: FrrBfd) -> None:
    (before,) = site.speaking()
    (after,) = {*site.lab.hosts} - {before}
    names = site.in_gateway_namespace(before, "ip", "-br", "link").split()
    ha_port = next(name.partition("@")[0] for name in names if name.startswith("ha-"))
    site.lab.stop_agent(before, kill=True)  # the sessions there end with the addresses, not by the agent
    try:
        site.in_gateway_namespace(before, "ip", "link", "set", ha_port, "down")
        wait_until(lambda: site.speaking() == [after], SOON, f"{after} does not take over the sessions")
        frr.wait_until_up(*supervised)
        site.wait_for_next_hops(MACHINE, SECOND, MACHINE6, SECOND6)
    finally:
        site.lab.start_agent(before)
    wait_until_no_drift(site.lab, before)
    assert site.speaking() == [after]
