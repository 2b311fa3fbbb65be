"""When dnsmasq is left alone, told to read its files, or started anew; and which leases are taken back."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.agent.dhcp.leases import Lease, plan_releases, read_leases, render_release
from neutrino.agent.dhcp.plan import Action, Service, ServicePlan, plan_service, render_service
from neutrino.agent.dhcp.served import Served
from tests.support.dhcp import dhcp_port, network, option, port, settings, subnet

V4 = subnet(1)
OTHER = subnet(2, "10.0.1.0/24")
V6 = subnet(4, "2001:db8:4::/64", ipv6_ra_mode="dhcpv6-stateful", ipv6_address_mode="dhcpv6-stateful")
OWN = dhcp_port(0xD1, "10.0.0.2", on=(V4,))
VM = port(1, "10.0.0.11", on=(V4,))
BEFORE = network((V4,), OWN, VM)


def service(this: Served, *addresses: str, **given: Any) -> Service:
    return render_service(this, settings(**given), "tap0", addresses or ("10.0.0.2/24",))


def plan(before: Service, after: Service) -> ServicePlan:
    return plan_service(after, before.command, before.files)


def test_twice_is_once() -> None:
    assert not plan(service(BEFORE), service(BEFORE))


def test_none_is_started() -> None:
    assert plan_service(service(BEFORE), None, {}).action is Action.RESTART
    there = service(BEFORE)
    assert plan_service(there, None, there.files).action is Action.RESTART


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(network((V4,), OWN), id="a port went"),
        pytest.param(network((V4,), OWN, VM, port(2, "10.0.0.12", on=(V4,))), id="a port came"),
        pytest.param(network((V4,), OWN, port(1, "10.0.0.44", on=(V4,))), id="another address"),
        pytest.param(network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), options=(option("mtu", "9"),))), id="options"),
        pytest.param(network((V4,), OWN, VM, options=(option("mtu", "9"),)), id="options of the network"),
        pytest.param(network((subnet(1, dns_nameservers=("192.0.2.1",)),), OWN, VM), id="name servers"),
        pytest.param(network((subnet(1, gateway_ip="10.0.0.9"),), OWN, VM), id="gateway"),
    ],
)
def test_reload_serves(after: Served) -> None:
    assert plan(service(BEFORE), service(after)).action is Action.RELOAD


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(service(network((V4, OTHER), OWN, VM)), id="another subnet"),
        pytest.param(service(network((V4,), OWN, VM, mtu=1400)), id="MTU"),
        pytest.param(service(BEFORE, "10.0.0.2/24", "10.0.0.3/24"), id="another address of its own"),
        pytest.param(service(BEFORE, dhcp_lease_duration=60), id="lease time"),
    ],
)
def test_restart_must_be(after: Service) -> None:
    assert plan(service(BEFORE), after).action is Action.RESTART


def test_what_is_written_is_what_differs() -> None:
    after = network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), options=(option("mtu", "9"),)))
    assert set(plan(service(BEFORE), service(after)).write) == {"host", "opts"}


# --- leases -----------------------------------------------------------------------------------------------------------

LEASES = read_leases(
    "1700 fa:16:3e:00:00:01 10.0.0.11 vm1 01:fa:16:3e:00:00:01\n"
    "0 fa:16:3e:00:00:02 10.0.0.12 * *\n"
    "duid 00:0a\n"
    "1700 77 2001:db8:4::11 vm1 00:0b\n"
)
HOSTS = "fa:16:3e:00:00:01,tag:dhcpv6,vm1.example.org,[2001:db8:4::11]\nfa:16:3e:00:00:01,vm1,10.0.0.11\n"


def released(*ports: Any) -> set[str]:
    return {r.lease.address for r in plan_releases(LEASES, HOSTS, ports)}


def test_leases_are_read() -> None:
    assert LEASES.server_id == "00:0a"
    assert LEASES.leases[1] == Lease("10.0.0.12", "fa:16:3e:00:00:02")


def test_leases_of_ports_that_are_there_stay() -> None:
    one = port(1, "10.0.0.11", "2001:db8:4::11", on=(V4, V6))
    two = port(2, "10.0.0.12", on=(V4,))
    assert released(one, two) == set()
    assert released(one) == {"10.0.0.12"}
    assert released() == {"10.0.0.11", "10.0.0.12", "2001:db8:4::11"}


def test_an_address_that_went_to_another_port() -> None:
    thief = port(3, "10.0.0.11", "2001:db8:4::11", on=(V4, V6))
    two = port(2, "10.0.0.12", on=(V4,))
    assert released(thief, two) == {"10.0.0.11", "2001:db8:4::11"}


def test_commands() -> None:
    by_address = {r.lease.address: render_release(r, "tap0") for r in plan_releases(LEASES, "", ())}
    assert by_address["10.0.0.11"] == (
        ("dhcp_release", "tap0", "10.0.0.11", "fa:16:3e:00:00:01", "01:fa:16:3e:00:00:01")
    )
    assert by_address["10.0.0.12"] == ("dhcp_release", "tap0", "10.0.0.12", "fa:16:3e:00:00:02")
    words = (
        "--iface",
        "tap0",
        "--ip",
        "2001:db8:4::11",
        "--client-id",
        "00:0b",
        "--server-id",
        "00:0a",
        "--iaid",
        "77",
    )
    assert by_address["2001:db8:4::11"] == ("dhcp_release6", *words)
