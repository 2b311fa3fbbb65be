"""Distributed routers on real packets: routed on the sender's host, to the outside by that host or by the SNAT's host."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.dvr_lab import agent_mode, gaps, namespaces, wait_for_nothing_of
from tests.support.lab import Pinging, log_sizes, restricted_datapaths
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, allow, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    SOON,
    delete_router,
    devices_of,
    external_network,
    floating_ip,
    gateway_address,
    in_router,
    make_router,
    reaches,
    source_seen,
    tenant_network,
    wait_for_floating_ip,
    wait_until_no_drift,
    wait_until_reachable,
    wait_until_unreachable,
)

CENTRAL = "h1"  # has the SNAT; the others route for themselves alone
TUNNELLED = "udp port 4789"
OUTSIDE = "external"  # the wire, by the name of its device on each host


@dataclasses.dataclass
class Site:
    """One router joins networks of every type: blue and red in VXLAN, gold in Geneve, green in VLANs, grey untagged.

    Nobody but the SNAT is on the central host.
    """

    lab: Lab
    out: Object
    networks: dict[str, Object]
    router: Object
    group: str
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
    lab.stop_agent("h2")
    lab.start_agent("h2", {"DEFAULT": {"agent_mode": "dvr"}})
    wait_until(lambda: agent_mode(lab, "h2") == "dvr", SOON, "h2 still takes SNAT parts")
    # Instances find each other and their router without the host's answers; those of `test_dvr_ha` have them.
    with restricted_datapaths(lab), cleaned(lab):
        out = external_network(lab)
        wire = {"provider:physical_network": "physnet1"}
        networks = {
            "blue": tenant_network(lab, "blue", 1),
            "red": tenant_network(lab, "red", 2),
            "green": tenant_network(lab, "green", 3, **wire, **{"provider:network_type": "vlan"}),
            "gold": tenant_network(lab, "gold", 4, **{"provider:network_type": "geneve"}),
            "grey": tenant_network(lab, "grey", 5, **wire, **{"provider:network_type": "flat"}),
        }
        blue, red, green, gold, grey = networks.values()
        router = make_router(lab, out, *networks.values(), distributed=True)
        group, _ = make_group(lab, "open", *EVERYTHING)
        shut, _ = make_group(lab, "shut", allow("tcp", 22))
        guests = make_guests(
            lab,
            Spec("a", blue, "h2", [group]),
            Spec("b", blue, "h3", [group]),
            Spec("c", red, "h3", [group]),
            Spec("d", green, "h2", [group]),
            Spec("e", green, "h3", [group]),
            Spec("f", gold, "h3", [group]),
            Spec("g", grey, "h3", [group]),
            Spec("shut", red, "h2", [shut]),
        )
        made = Site(lab, out, networks, router, group, {guest.name: guest for guest in guests})
        for name in ("a", "b", "c", "d", "e", "f", "g"):
            wait_until_reachable(lab, name, MACHINE)
        yield made


# --- between subnets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *(("a", "c"), ("c", "a"), ("a", "e"), ("e", "a"), ("d", "e"), ("a", "shut")),
        *(("a", "f"), ("f", "a"), ("a", "g"), ("g", "a"), ("d", "g"), ("g", "d"), ("f", "g")),
    ],
)
def test_subnets_are_joined_and_nothing_is_translated(site: Site, source: str, target: str) -> None:
    """On one host and across, between networks of all types, in both versions."""
    for version in (4, 6) if target != "shut" else (4,):
        own, other = site[source].addresses[version], site[target].addresses[version]
        number = 22 if target == "shut" else 8080
        assert source_seen(site.lab, source, target, other, number).removeprefix("::ffff:") == own


def test_packets_are_routed_on_the_senders_host(site: Site) -> None:
    """Packets between hosts are on the receiver's network already, have the host's own MAC, and pass no third host."""
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
    """Each packet as one line: tcpdump prints the inner packet of a tunnel on the lines after."""
    frames: list[str] = []
    for line in lines:
        if line[:1].isdigit():
            frames.append(line)
        else:
            frames[-1] += line
    return frames


def test_arp_requests_for_the_gateway_stay_on_the_host(site: Site) -> None:
    lab = site.lab
    with lab.capture("h2", TUNNELLED) as tunnels, lab.capture("h2", "arp", "provider") as wire:
        for name in ("a", "d"):
            lab.run(name, ["ip", "neighbour", "flush", "all"])
            assert reaches(lab, name, site.four("c"))
        tunnels.wait_until_quiet()
    for gateway in ("10.0.1.1", "10.0.3.1"):
        assert f"who-has {gateway} " not in tunnels.text + wire.text


# --- to the outside ---------------------------------------------------------------------------------------------------


def test_without_a_floating_ip_all_go_out_by_one_host(site: Site) -> None:
    lab = site.lab
    for name in ("a", "c", "d"):
        assert source_seen(lab, name, EXTERNAL, MACHINE) == site.gateway
    with lab.capture("h2", f"icmp and host {MACHINE}", OUTSIDE) as own:
        assert reaches(lab, "a", MACHINE)
    assert [line for line in own.lines if line] == []


def test_a_floating_ip_in_and_out_by_the_instances_own_host(site: Site, public: Callable[[str], Object]) -> None:
    lab = site.lab
    for name in ("a", "e"):
        fip = public(name)["floating_ip_address"]
        assert source_seen(lab, EXTERNAL, name, fip) == MACHINE
        assert source_seen(lab, name, EXTERNAL, MACHINE) == fip
        wanted = f"icmp and host {fip}"
        host = site[name].host
        with lab.capture(host, wanted, OUTSIDE) as own, lab.capture(CENTRAL, TUNNELLED) as elsewhere:
            assert reaches(lab, EXTERNAL, fip)
            own.wait_for("ICMP echo reply")
        assert "ICMP echo" not in elsewhere.text


def test_a_floating_ip_follows_its_port_to_another_host(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("a")["floating_ip_address"]
    wait_until_reachable(lab, EXTERNAL, fip)
    for host, other in (("h3", "h2"), ("h2", "h3")):
        lab.move_vm("a", host)
        wait_until_reachable(lab, EXTERNAL, fip)
        wait_until(
            lambda other=other: fip not in _floating_routes(lab, site, other), SOON, f"{fip} is still on {other}"
        )  # type: ignore[misc]
        assert source_seen(lab, EXTERNAL, "a", fip) == MACHINE
        assert source_seen(lab, "a", "c", site.four("c")) == site.four("a")


def _floating_routes(lab: Lab, site: Site, host: str) -> str:
    argv = ["ip", "netns", "exec", f"fip-{site.out['id']}", "ip", "route"]
    return lab.run(host, argv, check=False).stdout


def test_a_floating_ip_that_is_taken_away(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("a")
    lab.api.update("floatingip", fip["id"], port_id=None)
    wait_for_floating_ip(lab, fip["id"], "DOWN")
    wait_until_unreachable(lab, EXTERNAL, fip["floating_ip_address"])
    assert source_seen(lab, "a", EXTERNAL, MACHINE) == site.gateway
    wait_until(lambda: not namespaces(lab, "h2", "fip-"), SOON, "the floating IPs' namespace is still there")


# --- as time goes by --------------------------------------------------------------------------------------------------


def test_an_agent_that_is_killed_and_back_loses_nothing(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("a")["floating_ip_address"]
    wait_until_no_drift(lab, "h2")
    with Pinging(lab, "a", site.four("c")) as across, Pinging(lab, EXTERNAL, fip) as floating:
        sizes = log_sizes(lab)
        lab.stop_agent("h2", kill=True)
        lab.start_agent("h2")
        wait_until_no_drift(lab, "h2")
    assert (gaps(across), gaps(floating)) == ([], [])
    lines = lab.log_tail("h2-agent", 100_000, sizes["h2-agent"]).splitlines()
    assert [line for line in lines if "changes" in line] == []


def test_a_switch_that_restarts_routes_again(site: Site, public: Callable[[str], Object]) -> None:
    """The switch of an instance's host, then that of the SNAT's host."""
    lab, fip = site.lab, public("a")["floating_ip_address"]
    for host in ("h2", CENTRAL):
        lab.stop_ovs(host, kill=True)
        lab.start_ovs(host)
        for source, target in (("a", site.four("c")), ("d", site.four("e")), ("c", MACHINE), (EXTERNAL, fip)):
            assert wait_until_reachable(lab, source, target) < 10, (host, source, target)


def test_an_address_of_a_pair_is_found_on_another_host(site: Site) -> None:
    """An address of no port, on a guest with that pair; and one that an unbound port reserves."""
    lab, blue = site.lab, site.networks["blue"]
    reserved = lab.api.create("port", network_id=blue["id"])
    taken = next(each["ip_address"] for each in reserved["fixed_ips"] if "." in each["ip_address"])
    for address in ("10.0.1.200", taken):
        site["b"].update(allowed_address_pairs=[{"ip_address": address}])
        lab.run("b", ["ip", "address", "add", f"{address}/32", "dev", "eth0"])
        wait_until_reachable(lab, "d", address)
        lab.run("b", ["ip", "address", "del", f"{address}/32", "dev", "eth0"])
    site["b"].update(allowed_address_pairs=[])
    lab.api.delete("port", reserved["id"])


def test_its_ports_are_active_while_a_host_has_them(site: Site) -> None:
    """Also an interface that is bound to no host; it is DOWN when the last host that needs it is gone."""
    lab = site.lab
    owners = ("network:router_interface_distributed", "network:router_centralized_snat", "network:router_gateway")

    def status() -> dict[str, str]:
        ports = lab.api.list("port", device_id=site.router["id"])
        return {port["id"]: port["status"] for port in ports if port["device_owner"] in owners}

    wait_until(lambda: set(status().values()) == {"ACTIVE"}, SOON, f"some are not ACTIVE: {status()}")
    lonely = tenant_network(lab, "lonely", 9, six=False)
    router = make_router(lab, None, lonely, name="lonely", distributed=True)
    (port,) = lab.api.list("port", device_id=router["id"])
    assert port["status"] == "DOWN"
    make_guests(lab, Spec("lonely", lonely, "h3", []))
    for wanted in ("ACTIVE", "DOWN"):
        wait_until(
            lambda wanted=wanted: lab.api.show("port", port["id"])["status"] == wanted,  # type: ignore[misc]
            SOON,
            f"it is not {wanted}",
        )
        if wanted == "ACTIVE":
            lab.delete_vm("lonely")
    delete_router(lab, router["id"])


def test_hosts_are_as_they_should_be(site: Site, public: Callable[[str], Object]) -> None:
    public("a")
    for host in site.lab.hosts:
        wait_until_no_drift(site.lab, host)


def test_neighbours_are_permanent_entries(site: Site) -> None:
    lab = site.lab
    shown = json.loads(in_router(lab, site.router, "h2", "ip", "-j", "neighbour", "show", "nud", "permanent"))
    known = {each["dst"]: each["lladdr"] for each in shown}
    for guest in site.guests.values():
        assert known[guest.addresses[4]] == guest.mac
        assert known[guest.addresses[6]] == guest.mac


def test_a_deleted_router_leaves_nothing(site: Site) -> None:
    """fip-… is removed with the last floating IP, and snat-… with the gateway."""
    lab, router = site.lab, site.router
    fip = floating_ip(lab, site.out, site["a"].port_id)
    wait_until_reachable(lab, EXTERNAL, fip["floating_ip_address"])
    devices = devices_of(lab, router)
    macs = {port["mac_address"] for port in lab.api.list("port", device_id=router["id"])}
    lab.api.delete("floatingip", fip["id"])
    lab.api.update("router", router["id"], external_gateway_info={})
    wait_until(lambda: not namespaces(lab, CENTRAL, "snat-"), SOON, "the SNAT's namespace is still there")
    assert reaches(lab, "a", site.four("c"))
    delete_router(lab, router["id"])
    wait_for_nothing_of(lab, router, devices, macs)
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
