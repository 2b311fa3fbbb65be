"""Routers that are distributed and HA: each host routes its own instances, and the SNAT fails over with its host."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.dvr_lab import gaps, in_snat, namespaces, wait_for_nothing_of
from tests.support.lab import Pinging
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
    failed_host,
    floating_ip,
    gateway_address,
    hosts_of,
    in_router,
    make_router,
    source_seen,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
    wait_until_unreachable,
)

CENTRAL = ("h1", "h2")  # have the SNAT part; h3 routes its own instances only
FAILOVER_SECONDS = 15.0  # keepalived waits three and a half; the rest is for a busy machine
CENTRAL_PORTS = ("network:router_centralized_snat", "network:router_gateway")
INTERFACE = "network:router_interface_distributed"


@dataclasses.dataclass
class Site:
    """blue in tunnels and green in VLANs, joined by one router, with instances on every host."""

    lab: Lab
    out: Object
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

    @property
    def states(self) -> dict[str, str | None]:
        return hosts_of(self.lab, self.router)

    @property
    def active(self) -> str:
        """The host that reports itself active, once the other one reports standby."""
        return active_host(self.lab, self.router, among=CENTRAL)

    @property
    def standby(self) -> str:
        active = self.active
        return next(host for host in CENTRAL if host != active)

    def ports(self, *owners: str) -> list[Object]:
        ports = self.lab.api.list("port", device_id=self.router["id"])
        return [port for port in ports if port["device_owner"] in owners]

    def bound_hosts(self) -> set[str]:
        """The hosts that the ports of the router's SNAT part are bound to."""
        return {port["binding:host_id"] for port in self.ports(*CENTRAL_PORTS)}


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    out = external_network(lab)
    wire = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    blue, green = tenant_network(lab, "blue", 1), tenant_network(lab, "green", 2, **wire)
    router = make_router(lab, out, blue, green, distributed=True, ha=True)
    group, _ = make_group(lab, "open", *EVERYTHING)
    guests = make_guests(
        lab,
        Spec("a", blue, "h1", [group]),
        Spec("b", green, "h2", [group]),
        Spec("c", blue, "h3", [group]),
        Spec("d", green, "h3", [group]),
        Spec("e", blue, "h3", [group]),
    )
    made = Site(lab, out, router, group, {guest.name: guest for guest in guests})
    for guest in guests:
        wait_until_reachable(lab, guest.name, MACHINE)
    return made


# --- as it should be --------------------------------------------------------------------------------------------------


def test_two_hosts_have_the_snat_part_and_one_is_active(site: Site) -> None:
    lab, active = site.lab, site.active
    assert set(site.states) == {"h1", "h2", "h3"}
    assert site.states["h3"] is None
    wait_until(lambda: site.bound_hosts() == {active}, SOON, f"the ports are elsewhere: {site.bound_hosts()}")
    assert {port["binding:host_id"] for port in site.ports("network:router_ha_interface")} == set(CENTRAL)
    assert [len(namespaces(lab, host, "snat-")) for host in ("h1", "h2", "h3")] == [1, 1, 0]
    for host in CENTRAL:
        shown = json.loads(in_snat(lab, site.router, host, "ip", "-j", "address"))
        held = {each["ifname"]: each.get("addr_info", ()) for each in shown if each["ifname"][:3] in ("sg-", "qg-")}
        assert len(held) == 5  # two subnets each on two networks, and the gateway
        assert all(bool(found) == (host == active) for found in held.values()), host
        assert "10.0.1.1/24" in in_router(lab, site.router, host, "ip", "address")  # that part is everywhere
    for host in lab.hosts:
        wait_until_no_drift(lab, host)


def test_its_ports_are_active(site: Site) -> None:
    owners = (*CENTRAL_PORTS, INTERFACE, "network:router_ha_interface")

    def others() -> list[tuple[str, str]]:
        return [(port["device_owner"], port["status"]) for port in site.ports(*owners) if port["status"] != "ACTIVE"]

    wait_until(lambda: others() == [], SOON, f"some are not ACTIVE: {others()}")


def test_a_floating_ip_of_a_host_that_does_not_reach_the_outside(site: Site) -> None:
    """It is translated in snat-… of the active host."""
    lab, fip = site.lab, floating_ip(site.lab, site.out, site["c"].port_id)
    address = fip["floating_ip_address"]
    lab.stop_agent("h3")
    lab.start_agent("h3", {"DEFAULT": {"agent_mode": "dvr_no_external"}})
    wait_until(lambda: address in in_snat(lab, site.router, site.active, "ip", "address"), SOON, "it stays on its host")
    wait_until(lambda: not namespaces(lab, "h3", "fip-"), SOON, "h3 still has fip-…")
    assert source_seen(lab, EXTERNAL, "c", address) == MACHINE
    assert source_seen(lab, "c", EXTERNAL, MACHINE) == address
    lab.stop_agent("h3")
    lab.start_agent("h3", {"DEFAULT": {"agent_mode": "dvr"}})
    wait_until(lambda: bool(namespaces(lab, "h3", "fip-")), SOON, "h3 has no fip-…")
    wait_until_reachable(lab, EXTERNAL, address)
    lab.api.delete("floatingip", fip["id"])


def test_the_address_of_a_deleted_floating_ip_is_used_again_on_another_host(site: Site) -> None:
    """Until the new MAC is announced, the outside sends to the gateway, which must not replace the source."""
    lab, fip = site.lab, floating_ip(site.lab, site.out)
    inner = {"internal_port_id": site["c"].port_id, "internal_ip_address": site.four("c")}
    ports = {"protocol": "tcp", "external_port": 2000, "internal_port": 3000}
    path, address = f"/v2.0/floatingips/{fip['id']}/port_forwardings", fip["floating_ip_address"]
    forwarding = lab.api.request("POST", path, {"port_forwarding": {**ports, **inner}})["port_forwarding"]
    assert source_seen(lab, EXTERNAL, "c", address, 2000, 3000) == MACHINE
    lab.api.request("DELETE", f"{path}/{forwarding['id']}")
    lab.api.delete("floatingip", fip["id"])
    fip = floating_ip(lab, site.out, site["c"].port_id, floating_ip_address=address)
    assert source_seen(lab, EXTERNAL, "c", address) == MACHINE
    lab.api.delete("floatingip", fip["id"])


def test_an_agent_that_is_killed_and_restarted_causes_no_failover(site: Site) -> None:
    lab, active = site.lab, site.active
    # The floating IP of the test before: its deletion cuts connections that began through it.
    wait_until(lambda: source_seen(lab, "c", EXTERNAL, MACHINE) == site.gateway, SOON, "c still has a floating IP")
    wait_until_no_drift(lab, site["c"].host)
    with Pinging(lab, "c", MACHINE) as out, Pinging(lab, "a", site.four("b")) as across:
        for host in (active, site.standby):
            lab.stop_agent(host, kill=True)
            lab.start_agent(host)
            wait_until_no_drift(lab, host)
    assert (gaps(out), gaps(across)) == ([], [])
    assert site.active == active


# --- failures ---------------------------------------------------------------------------------------------------------


def test_the_loss_of_the_active_host(site: Site) -> None:
    """The SNAT is back within seconds; traffic that does not pass it is not affected."""
    lab, active, standby = site.lab, site.active, site.standby
    fip = floating_ip(lab, site.out, site["c"].port_id)
    address, other = fip["floating_ip_address"], next(name for name in ("a", "b") if site[name].host == standby)
    wait_until_reachable(lab, EXTERNAL, address)
    back = contextlib.ExitStack()
    with connect(lab, "d", EXTERNAL, MACHINE) as talk, back:
        assert talk.passes_data(PATIENCE)
        with (
            Pinging(lab, "d", MACHINE) as by_wire,
            Pinging(lab, "e", MACHINE) as by_tunnel,
            Pinging(lab, EXTERNAL, address) as floating,
            Pinging(lab, other, site.four("c")) as across,
        ):
            back.enter_context(failed_host(lab, site.router, active))
            talk.server.sendall(b"are you there?")
            for name in ("d", "e"):
                wait_until_reachable(lab, name, MACHINE)
        outages = [ping.lost * ping.spacing for ping in (by_wire, by_tunnel)]
        assert min(outages) > 0
        assert max(outages) < FAILOVER_SECONDS
        assert (gaps(floating), gaps(across)) == ([], [])
        # A retransmission from outside is dropped, not reset, by a host that has no conntrack entry of the connection yet.
        with lab.capture(standby, f"tcp and host {site.gateway}", "external") as seen:
            seen.wait_for(f"> {site.gateway}.", timeout=20)
            seen.wait_until_quiet()
        assert "Flags [R" not in seen.text
        wait_until(talk.passes_data, SOON, "an established connection did not survive")
        for name in ("d", "e", other):
            assert source_seen(lab, name, EXTERNAL, MACHINE) == site.gateway
        wait_until(lambda: site.states[active] == "standby", SOON, "the failed host is still shown as active")
        wait_until(lambda: site.bound_hosts() == {standby}, SOON, "the ports did not follow")
        with Pinging(lab, "d", MACHINE) as out:
            back.close()
            wait_until_no_drift(lab, active)
        # A machine with much else to do may keep keepalived from its turn; a move back costs less than the loss did.
        assert out.lost * out.spacing < FAILOVER_SECONDS
    for guest in site.guests.values():
        wait_until_reachable(lab, guest.name, MACHINE)
    lab.api.delete("floatingip", fip["id"])


# --- changes ----------------------------------------------------------------------------------------------------------


def test_the_gateway_is_removed_and_added_and_subnets_stay_connected(site: Site) -> None:
    lab, router = site.lab, site.router
    with Pinging(lab, "a", site.four("b")) as across:
        lab.api.update("router", router["id"], external_gateway_info={})
        wait_until_unreachable(lab, "c", MACHINE)
        wait_until(lambda: not any(namespaces(lab, host, "snat-") for host in lab.hosts), SOON, "it is still there")
        wait_until(lambda: "active" not in site.states.values(), SOON, "a host is active for nothing")
        lab.api.update("router", router["id"], external_gateway_info={"network_id": site.out["id"]})
        for guest in site.guests.values():
            wait_until_reachable(lab, guest.name, MACHINE)
    # A fifth of a second: devices are plugged meanwhile, for which a switch in userspace stops forwarding.
    assert len(gaps(across)) <= 10
    for host in lab.hosts:
        wait_until_no_drift(lab, host)


@pytest.mark.parametrize(
    "kind",
    [{"ha": False}, {"distributed": False, "ha": True}, {"distributed": True}],
    ids=["one way out", "centralized", "as it was"],
)
def test_it_becomes_one_of_another_kind(site: Site, kind: dict[str, bool]) -> None:
    lab, router = site.lab, site.router
    lab.api.update("router", router["id"], admin_state_up=False)
    wait_until_unreachable(lab, "c", MACHINE)
    lab.api.update("router", router["id"], **kind)
    lab.api.update("router", router["id"], admin_state_up=True)
    for guest in site.guests.values():
        wait_until_reachable(lab, guest.name, MACHINE)
    assert source_seen(lab, "a", "d", site.four("d")) == site.four("a")
    for host in lab.hosts:
        wait_until_no_drift(lab, host)


def test_one_that_is_deleted_leaves_nothing(site: Site) -> None:
    lab, router = site.lab, site.router
    assert (lab.api.show("router", router["id"])["distributed"], site.active) == (True, site.active)
    devices = devices_of(lab, router)
    macs = {port["mac_address"] for port in lab.api.list("port", device_id=router["id"])}
    delete_router(lab, router["id"])
    wait_for_nothing_of(lab, router, devices, macs)
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
