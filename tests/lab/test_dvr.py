"""Distributed routers on real packets: routed where the sender is, and out by its own host or by one that is for all."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neutrino.lab.api import Object
from neutrino.lab.errors import LabError
from neutrino.lab.lab import Lab
from neutrino.lab.waiting import wait_until
from tests.support.lab import Pinging, log_sizes
from tests.support.lab_guests import EVERYTHING, Guest, Spec, allow, flows, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    MACHINE6,
    SOON,
    connects,
    delete_router,
    devices_of,
    differs,
    floating_ip,
    gateway_address,
    in_router,
    inside,
    l3_agent,
    make_router,
    outside,
    reaches,
    routed_lab,
    routers_cleaned,
    seen_as,
    traces_of,
    wait_for_floating_ip,
    wait_to_lose,
    wait_to_reach,
    wait_until_right,
)

CENTRAL = "h1"  # has the SNAT; the others route for themselves alone
TUNNELLED = "udp port 4789"
OUTSIDE = "external"  # the wire, by the name of its device on each host


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="neutrino-lab-") as directory:
        options = Path(directory) / "dvr.conf"
        options.write_text("[DEFAULT]\nagent_mode = dvr\n[agent]\nenable_distributed_routing = true\n")
        with routed_lab(hosts=3, agent_config_files=(str(options),)) as made:
            made.stop_agent(CENTRAL)
            made.start_agent(CENTRAL, {"DEFAULT": {"agent_mode": "dvr_snat"}})
            wait_until(lambda: _mode(made, CENTRAL) == "dvr_snat", SOON, "no host takes the SNAT")
            yield made


def _mode(lab: Lab, host: str) -> str:
    agent = l3_agent(lab, host)
    return str(agent["configurations"]["agent_mode"]) if agent is not None else ""


@dataclasses.dataclass
class Site:
    """blue and red in tunnels, green in VLANs, joined by one router; nobody but the SNAT is on the central host."""

    lab: Lab
    out: Object
    networks: dict[str, Object]
    router: Object
    guests: dict[str, Guest]

    def __getitem__(self, name: str) -> Guest:
        return self.guests[name]

    def four(self, name: str) -> str:
        return self.guests[name].addresses[4]

    @property
    def gateway(self) -> str:
        return gateway_address(self.lab, self.router)


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with routers_cleaned(lab):
        out = outside(lab)
        vlan = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
        blue, red, green = inside(lab, "blue", 1), inside(lab, "red", 2), inside(lab, "green", 3, **vlan)
        router = make_router(lab, out, blue, red, green, distributed=True)
        group, _ = make_group(lab, "open", *EVERYTHING)
        shut, _ = make_group(lab, "shut", allow("tcp", 22))
        guests = make_guests(
            lab,
            Spec("a", blue, "h2", [group]),
            Spec("b", blue, "h3", [group]),
            Spec("c", red, "h3", [group]),
            Spec("d", green, "h2", [group]),
            Spec("e", green, "h3", [group]),
            Spec("shut", red, "h2", [shut]),
        )
        networks = {"blue": blue, "red": red, "green": green}
        made = Site(lab, out, networks, router, {guest.name: guest for guest in guests})
        for name in ("a", "b", "c", "d", "e"):
            wait_to_reach(lab, name, MACHINE)
        yield made


@pytest.fixture
def public(site: Site) -> Iterator[Callable[[str], Object]]:
    """Floating IPs for the time of a test, by the VM that they are in front of."""
    made: list[str] = []

    def put_before(name: str) -> Object:
        found = floating_ip(site.lab, site.out, site[name].port_id)
        made.append(found["id"])
        return found

    yield put_before
    for key in made:
        site.lab.api.delete("floatingip", key)


# --- between subnets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"), [("a", "c"), ("c", "a"), ("a", "e"), ("e", "a"), ("d", "e"), ("a", "shut")]
)
def test_subnets_are_joined_and_nothing_is_translated(site: Site, source: str, target: str) -> None:
    """On one host and across, from tunnels to VLANs and back, in both versions."""
    for version in (4, 6) if target != "shut" else (4,):
        own, other = site[source].addresses[version], site[target].addresses[version]
        number = 22 if target == "shut" else 8080
        assert seen_as(site.lab, source, target, other, number).removeprefix("::ffff:") == own


def test_packets_are_routed_on_the_senders_host(site: Site) -> None:
    """What goes from host to host is on the receiver's network already, from the host's own MAC, and passes no third."""
    lab, numbers = site.lab, {name: site.networks[name]["provider:segmentation_id"] for name in ("blue", "red")}
    assert reaches(lab, "a", site.four("c"))
    with lab.capture("h3", TUNNELLED) as there, lab.capture(CENTRAL, TUNNELLED) as elsewhere:
        assert reaches(lab, "a", site.four("c"))
        there.wait_for("ICMP echo reply")
    request = [line for line in _frames(there.lines) if "ICMP echo request" in line]
    reply = [line for line in _frames(there.lines) if "ICMP echo reply" in line]
    assert all(f"vni {numbers['red']}" in line for line in request), there.text
    assert all(f"vni {numbers['blue']}" in line for line in reply), there.text
    assert "ICMP echo" not in elsewhere.text
    own = {port["mac_address"] for port in lab.api.list("port", device_id=site.router["id"])}
    assert not [line for line in request + reply for mac in own if mac in line]


def _frames(lines: list[str]) -> list[str]:
    """Each packet as one line: what is inside a tunnel's is on those after."""
    frames: list[str] = []
    for line in lines:
        if line[:1].isdigit():
            frames.append(line)
        else:
            frames[-1] += line
    return frames


def test_nobody_but_the_own_host_is_asked_for_the_gateway(site: Site) -> None:
    lab = site.lab
    with lab.capture("h2", TUNNELLED) as tunnels, lab.capture("h2", "arp", "provider") as wire:
        for name in ("a", "d"):
            lab.run(name, ["ip", "neighbour", "flush", "all"])
            assert reaches(lab, name, site.four("c"))
        tunnels.wait_until_quiet()
    for gateway in ("10.0.1.1", "10.0.3.1"):
        assert f"who-has {gateway} " not in tunnels.text + wire.text


def test_security_groups_hold_on_what_is_routed(site: Site) -> None:
    assert connects(site.lab, "c", "shut", site.four("shut"), 22)
    assert not connects(site.lab, "c", "shut", site.four("shut"), 23)


# --- to the world -----------------------------------------------------------------------------------------------------


def test_without_a_floating_ip_all_go_out_by_one_host(site: Site) -> None:
    lab = site.lab
    for name in ("a", "c", "d"):
        assert seen_as(lab, name, EXTERNAL, MACHINE) == site.gateway
    with lab.capture("h2", f"icmp and host {MACHINE}", OUTSIDE) as own:
        assert reaches(lab, "a", MACHINE)
    assert [line for line in own.lines if line] == []


def test_ipv6_is_routed_out_and_in(site: Site) -> None:
    lab = site.lab
    lab.run(EXTERNAL, ["ip", "-6", "route", "add", "fd00:1::/64", "via", gateway_address(lab, site.router, 6)])
    try:
        assert seen_as(lab, "a", EXTERNAL, MACHINE6) == site["a"].addresses[6]
    finally:
        lab.run(EXTERNAL, ["ip", "-6", "route", "del", "fd00:1::/64"])


def test_a_floating_ip_in_and_out_by_the_instances_own_host(site: Site, public: Callable[[str], Object]) -> None:
    lab = site.lab
    for name in ("a", "e"):
        fip = public(name)["floating_ip_address"]
        assert seen_as(lab, EXTERNAL, name, fip) == MACHINE
        assert seen_as(lab, name, EXTERNAL, MACHINE) == fip
        wanted = f"icmp and host {fip}"
        host = site[name].host
        with lab.capture(host, wanted, OUTSIDE) as own, lab.capture(CENTRAL, TUNNELLED) as elsewhere:
            assert reaches(lab, EXTERNAL, fip)
            own.wait_for("ICMP echo reply")
        assert "ICMP echo" not in elsewhere.text


def test_floating_ips_among_themselves(site: Site, public: Callable[[str], Object]) -> None:
    """On one host and across; one without comes under the router's address."""
    fips = {name: public(name)["floating_ip_address"] for name in ("a", "c", "d")}
    for source, target in (("a", "c"), ("a", "d"), ("c", "a")):
        assert seen_as(site.lab, source, target, fips[target]) == fips[source]
    assert seen_as(site.lab, "a", "c", site.four("c")) == site.four("a")
    assert seen_as(site.lab, "e", "c", fips["c"]) == site.gateway


def test_a_floating_ip_follows_its_port_to_another_host(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("a")["floating_ip_address"]
    wait_to_reach(lab, EXTERNAL, fip)
    for host, other in (("h3", "h2"), ("h2", "h3")):
        lab.move_vm("a", host)
        wait_to_reach(lab, EXTERNAL, fip)
        wait_until(
            lambda other=other: fip not in _floating_routes(lab, site, other), SOON, f"{fip} is still on {other}"
        )  # type: ignore[misc]
        assert seen_as(lab, EXTERNAL, "a", fip) == MACHINE
        assert seen_as(lab, "a", "c", site.four("c")) == site.four("a")


def _floating_routes(lab: Lab, site: Site, host: str) -> str:
    argv = ["ip", "netns", "exec", f"fip-{site.out['id']}", "ip", "route"]
    return lab.run(host, argv, check=False).stdout


def test_a_floating_ip_that_is_taken_away(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("a")
    lab.api.update("floatingip", fip["id"], port_id=None)
    wait_for_floating_ip(lab, fip["id"], "DOWN")
    wait_to_lose(lab, EXTERNAL, fip["floating_ip_address"])
    assert seen_as(lab, "a", EXTERNAL, MACHINE) == site.gateway
    wait_until(lambda: not _namespaces(lab, "h2", "fip-"), SOON, "the floating IPs' namespace is still there")


def _namespaces(lab: Lab, host: str, prefix: str) -> list[str]:
    return [line for line in lab.run(host, ["ip", "netns"]).stdout.splitlines() if line.startswith(prefix)]


# --- as time goes by --------------------------------------------------------------------------------------------------


def test_an_agent_that_is_killed_and_back_loses_nothing(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("a")["floating_ip_address"]
    wait_until_right(lab, "h2")
    with Pinging(lab, "a", site.four("c")) as across, Pinging(lab, EXTERNAL, fip) as floating:
        sizes = log_sizes(lab)
        lab.stop_agent("h2", kill=True)
        lab.start_agent("h2")
        wait_until_right(lab, "h2")
    assert (_gaps(across), _gaps(floating)) == ([], [])
    said = lab.log_tail("h2-agent", 100_000, sizes["h2-agent"]).splitlines()
    assert [line for line in said if "changes" in line] == []


def _gaps(ping: Pinging) -> list[int]:
    """What was not answered though something later was: the last ones were under way when it ended."""
    return [number for number in range(1, max(ping.received)) if number not in ping.received]


def test_hosts_are_as_they_should_be(site: Site, public: Callable[[str], Object]) -> None:
    public("a")
    for host in site.lab.hosts:
        wait_until_right(site.lab, host)


def test_who_is_where_is_known_before_anybody_asks(site: Site) -> None:
    lab = site.lab
    said = json.loads(in_router(lab, site.router, "h2", "ip", "-j", "neighbour", "show", "nud", "permanent"))
    known = {each["dst"]: each["lladdr"] for each in said}
    for guest in site.guests.values():
        assert known[guest.addresses[4]] == guest.mac
        assert known[guest.addresses[6]] == guest.mac


def test_a_deleted_router_leaves_nothing(site: Site) -> None:
    """Its last floating IP takes along the namespace of floating IPs, and the gateway that of the SNAT."""
    lab, router = site.lab, site.router
    fip = floating_ip(lab, site.out, site["a"].port_id)
    wait_to_reach(lab, EXTERNAL, fip["floating_ip_address"])
    devices = devices_of(lab, router)
    macs = {port["mac_address"] for port in lab.api.list("port", device_id=router["id"])}
    lab.api.delete("floatingip", fip["id"])
    lab.api.update("router", router["id"], external_gateway_info={})
    wait_until(lambda: not _namespaces(lab, CENTRAL, "snat-"), SOON, "the SNAT's namespace is still there")
    assert reaches(lab, "a", site.four("c"))
    delete_router(lab, router["id"])
    for host in lab.hosts:
        _wait_for_none(lambda host=host: traces_of(lab, router["id"], host, devices), f"on {host}")  # type: ignore[misc]
        _wait_for_none(lambda host=host: _namespaces(lab, host, "fip-"), f"on {host}")  # type: ignore[misc]
        _wait_for_none(lambda host=host: _flows_with(lab, host, macs), f"on {host}")  # type: ignore[misc]
        assert differs(lab, host) == ""


def _wait_for_none(look: Callable[[], list[str]], where: str) -> None:
    left: list[str] = []

    def gone() -> bool:
        left[:] = look()
        return not left

    try:
        wait_until(gone, SOON, "something is left")
    except LabError:
        raise AssertionError(f"{where} is left: {left}") from None


def _flows_with(lab: Lab, host: str, macs: set[str]) -> list[str]:
    bridges = ("br-int", "br-tun", "br-provider")
    lines = [line for bridge in bridges for line in flows(lab, host, bridge).splitlines()]
    return [line for line in lines if any(mac in line for mac in macs)]
