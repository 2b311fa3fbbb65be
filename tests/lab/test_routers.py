"""Centralized routers on real packets, across changes and restarts. What they have in common with routers of other kinds
is tested in `test_router_kinds`.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Iterator

import pytest

from neutrino.lab.api_client import ApiError
from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab import Pinging, log_sizes
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    PATIENCE,
    SOON,
    addresses_in,
    attach,
    connect,
    delete_router,
    detach,
    devices_of,
    drift_on,
    external_network,
    gateway_address,
    host_of,
    in_router,
    l3_agent,
    make_router,
    move_router,
    place_router,
    reaches,
    source_seen,
    tenant_network,
    wait_for_floating_ip,
    wait_until_no_drift,
    wait_until_reachable,
    wait_until_removed,
    wait_until_unreachable,
)


@dataclasses.dataclass
class Site:
    """blue on both hosts, red on the second; a router between them and to the outside, on the first host."""

    lab: Lab
    out: Object
    blue: Object
    red: Object
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
def site(lab: Lab) -> Site:
    out = external_network(lab)
    blue, red = tenant_network(lab, "blue", 1), tenant_network(lab, "red", 2)
    router = make_router(lab, out, blue, red)
    group, _ = make_group(lab, "open", *EVERYTHING)
    guests = make_guests(
        lab,
        Spec("a", blue, "h1", [group]),
        Spec("b", blue, "h2", [group]),
        Spec("c", red, "h2", [group]),
    )
    made = Site(lab, out, blue, red, router, group, {guest.name: guest for guest in guests})
    place_router(lab, router, "h1")
    for name in ("a", "b", "c"):
        wait_until_reachable(lab, name, MACHINE)
    return made


# --- to the outside ---------------------------------------------------------------------------------------------------


def test_a_floating_ip_that_moves_takes_no_connection_along(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("a")
    address = fip["floating_ip_address"]
    with connect(lab, EXTERNAL, "a", address) as inward, connect(lab, "a", EXTERNAL, MACHINE) as outward:
        assert inward.passes_data(PATIENCE)
        assert outward.passes_data(PATIENCE)
        lab.api.update("floatingip", fip["id"], port_id=site["c"].port_id)
        wait_for_floating_ip(lab, fip["id"], "ACTIVE")
        assert source_seen(lab, EXTERNAL, "c", address) == MACHINE
        wait_until(lambda: not inward.passes_data() and not outward.passes_data(), SOON, "a connection goes on")
    lab.api.update("floatingip", fip["id"], port_id=None)
    wait_for_floating_ip(lab, fip["id"], "DOWN")
    wait_until_unreachable(lab, EXTERNAL, address)
    assert source_seen(lab, "c", EXTERNAL, MACHINE) == site.gateway
    lab.api.update("floatingip", fip["id"], port_id=site["c"].port_id)  # as it was, at once
    lab.api.update("floatingip", fip["id"], port_id=None)
    lab.api.update("floatingip", fip["id"], port_id=site["c"].port_id)
    wait_for_floating_ip(lab, fip["id"], "ACTIVE")
    wait_until_reachable(lab, EXTERNAL, address)


def test_connections_do_not_go_on_under_a_former_address_of_the_gateway(site: Site) -> None:
    """The old address may be another project's by then."""
    lab, before = site.lab, site.gateway

    def seen() -> set[str]:
        """The addresses under which connections leave, by the destinations of their replies."""
        listed = in_router(lab, site.router, "h1", "conntrack", "-L", "-p", "tcp").splitlines()
        return {line.rpartition(" dst=")[2].split()[0] for line in listed if f"src={site.four('b')}" in line}

    with connect(lab, "b", EXTERNAL, MACHINE, 2100) as talk:
        assert talk.passes_data(PATIENCE)
        assert before in seen()
        had = lab.api.show("router", site.router["id"])["external_gateway_info"]["external_fixed_ips"]
        spare = str(ipaddress.ip_address(before) + 1)
        changed = [{"ip_address": spare} if each["ip_address"] == before else each for each in had]
        info = {"network_id": site.out["id"]}
        lab.api.update("router", site.router["id"], external_gateway_info={**info, "external_fixed_ips": changed})
        try:
            wait_until(lambda: before not in seen(), SOON, "a connection goes on under the old address")
            assert not talk.passes_data()
            wait_until_reachable(lab, "b", MACHINE)
            assert source_seen(lab, "b", EXTERNAL, MACHINE) == site.gateway == spare
        finally:
            lab.api.update("router", site.router["id"], external_gateway_info={**info, "external_fixed_ips": had})
    wait_until_reachable(lab, "b", MACHINE)


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_an_agent_that_is_killed_and_back_loses_nothing_and_touches_nothing(
    site: Site, public: Callable[[str], Object]
) -> None:
    lab, fip = site.lab, public("a")["floating_ip_address"]
    wait_until_no_drift(lab, "h1")
    with Pinging(lab, "c", MACHINE) as snat, Pinging(lab, EXTERNAL, fip) as floating:
        sizes = log_sizes(lab)
        lab.stop_agent("h1", kill=True)
        lab.start_agent("h1")
        wait_until(lambda: _looked(lab, "h1", sizes), SOON, "the routers were not looked at")
        assert drift_on(lab, "h1") == ""
    assert (snat.lost, floating.lost) == (0, 0)
    lines = lab.log_tail("h1-agent", 100_000, sizes["h1-agent"]).splitlines()
    assert [line for line in lines if "changes" in line and "router" in line] == []


def _looked(lab: Lab, host: str, sizes: dict[str, int]) -> bool:
    return "routers of the first snapshot have been applied" in lab.log_tail(
        f"{host}-agent", 100_000, sizes[f"{host}-agent"]
    )


def test_a_switch_that_restarts_routes_again(site: Site, public: Callable[[str], Object]) -> None:
    lab, fip = site.lab, public("c")["floating_ip_address"]
    lab.stop_ovs("h1", kill=True)
    lab.start_ovs("h1")
    wait_until_reachable(lab, "c", MACHINE)
    wait_until_reachable(lab, EXTERNAL, fip)


@pytest.fixture
def quick_repair(site: Site) -> Iterator[None]:
    """A repair_interval of two seconds on h1."""
    site.lab.stop_agent("h1")
    site.lab.start_agent("h1", {"agent": {"repair_interval": 2}})
    yield
    site.lab.stop_agent("h1")
    site.lab.start_agent("h1", {})


@pytest.mark.usefixtures("quick_repair")
def test_what_is_changed_by_hand_is_put_right(site: Site) -> None:
    """Every repair_interval; a device that is taken off the bridge at once."""
    lab, router = site.lab, site.router
    wait_until_reachable(lab, "c", MACHINE)
    wait_until_no_drift(lab, "h1")
    devices = addresses_in(lab, router, "h1")
    (outer,) = (name for name in devices if name.startswith("qg-"))
    inner = next(name for name in devices if "10.0.2.1" in devices[name])
    meddling = {
        "table": ["nft", "delete", "table", "ip", "neutrino"],
        "address": ["ip", "address", "del", "10.0.2.1/24", "dev", inner],
        "route": ["ip", "route", "del", "default"],
        "device": ["ip", "link", "del", outer],
    }
    for what, command in meddling.items():
        in_router(lab, router, "h1", *command)
        wait_until_no_drift(lab, "h1")
        assert source_seen(lab, "c", EXTERNAL, MACHINE) == site.gateway, what
    lab.run("h1", ["ovs-vsctl", "del-port", f"tap{inner.removeprefix('qr-')}"])
    wait_until_reachable(lab, "c", MACHINE)


def test_many_updates_end_in_the_last_one(site: Site) -> None:
    lab, router = site.lab, site.router
    for number in range(150):
        routes = [{"destination": f"10.98.{number}.0/24", "nexthop": site.four("a")}]
        lab.api.update("router", router["id"], routes=routes)
    wait_until(
        lambda: (
            [line for line in in_router(lab, router, "h1", "ip", "route").splitlines() if line.startswith("10.98.")]
            == [line for line in in_router(lab, router, "h1", "ip", "route").splitlines() if "10.98.149.0/24" in line]
        ),
        SOON,
        "an earlier state is in force",
    )
    assert "10.98.149.0/24" in in_router(lab, router, "h1", "ip", "route")
    lab.api.update("router", router["id"], routes=[])


# --- changes of the router --------------------------------------------------------------------------------------------


def test_a_router_without_gateway_interface_or_at_all(site: Site) -> None:
    lab, router = site.lab, site.router
    lab.api.update("router", router["id"], external_gateway_info={})
    wait_until_unreachable(lab, "a", MACHINE)
    assert reaches(lab, "a", site.four("c"))
    lab.api.update("router", router["id"], external_gateway_info={"network_id": site.out["id"]})
    wait_until_reachable(lab, "a", MACHINE)
    detach(lab, router, site.red["by_version"][4])
    wait_until_unreachable(lab, "a", site.four("c"))
    attach(lab, router, site.red["by_version"][4])
    wait_until_reachable(lab, "a", site.four("c"))
    lab.api.update("router", router["id"], admin_state_up=False)
    wait_until_unreachable(lab, "a", MACHINE)
    wait_until(lambda: router["id"] not in lab.run("h1", ["ip", "netns"]).stdout, SOON, "it is still there")
    lab.api.update("router", router["id"], admin_state_up=True)
    wait_until_reachable(lab, "c", MACHINE)


def test_a_router_given_to_another_host(site: Site, public: Callable[[str], Object]) -> None:
    lab, router, fip = site.lab, site.router, public("a")["floating_ip_address"]
    devices = devices_of(lab, router)
    for old, new in (("h1", "h2"), ("h2", "h1")):
        move_router(lab, router, new)
        wait_until_reachable(lab, EXTERNAL, fip)
        wait_until_reachable(lab, "c", site.four("a"))
        wait_until_removed(lab, router["id"], old, devices)
        assert host_of(lab, router) == new


def test_a_router_taken_from_its_host_and_given_back(site: Site, public: Callable[[str], Object]) -> None:
    lab, router, fip = site.lab, site.router, public("a")
    wait_for_floating_ip(lab, fip["id"], "ACTIVE")
    agent = l3_agent(lab, host_of(lab, router))
    assert agent is not None
    lab.api.request("DELETE", f"/v2.0/agents/{agent['id']}/l3-routers/{router['id']}")
    wait_until_unreachable(lab, EXTERNAL, fip["floating_ip_address"])
    assert lab.api.show("floatingip", fip["id"])["status"] == "DOWN"
    lab.api.request("POST", f"/v2.0/agents/{agent['id']}/l3-routers", {"router_id": router["id"]})
    wait_until_reachable(lab, EXTERNAL, fip["floating_ip_address"])
    wait_for_floating_ip(lab, fip["id"], "ACTIVE")


def test_a_router_made_while_no_agent_was_there(site: Site) -> None:
    lab = site.lab
    green = tenant_network(lab, "green", 3, six=False)
    for host in lab.hosts:
        lab.stop_agent(host)
    router = make_router(lab, site.out, green, name="late")
    for host in lab.hosts:
        lab.start_agent(host)
    make_guests(lab, Spec("late", green, "h1", [site.group]))
    wait_until_reachable(lab, "late", MACHINE)
    lab.delete_vm("late")
    delete_router(lab, router["id"])


def test_instances_configure_themselves_by_router_advertisements(site: Site) -> None:
    lab = site.lab
    network = lab.api.create("network", name="slaac")
    modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    cidr = {"cidr": "fd00:66::/64", "ip_version": 6}
    subnet = lab.api.create("subnet", network_id=network["id"], **cidr, **modes, dns_nameservers=["fd00:66::53"])
    router = make_router(lab, None, name="talks")
    attach(lab, router, subnet)
    vm = lab.vm("listens", network=network["id"], host="h2", security_groups=[site.group], wait=False)
    lab.run("listens", ["sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=2"])
    lab.wait_for_port(vm)
    own = lab.api.show("port", vm.port_id)["fixed_ips"][0]["ip_address"]
    wait_until(lambda: own in lab.run("listens", ["ip", "-6", "address"]).stdout, SOON, "no address by SLAAC")
    assert "default via fe80::" in lab.run("listens", ["ip", "-6", "route"]).stdout
    host, name = host_of(lab, router), f"radvd.*{router['id']}"
    pid = lab.run(host, ["pgrep", "-f", name]).stdout.split()[0]
    lab.run(host, ["kill", "-9", pid])
    wait_until(
        lambda: lab.run(host, ["pgrep", "-f", name], check=False).stdout.split()[:1] not in ([], [pid]),
        SOON,
        "radvd was not started again",
    )
    lab.delete_vm("listens")
    delete_router(lab, router["id"])
    with pytest.raises(ApiError):
        lab.api.show("router", router["id"])
