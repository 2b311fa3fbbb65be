"""BFD of routers' next hops: sessions, default routes without lost next hops, and the role that reads their states."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.router import DesiredRouterNamespace, render, router_namespaces
from neutrino.agent.l3.services.bfd import files
from neutrino.agent.l3.services.bfd.files import SessionState, WantedSession, WantedSessions
from neutrino.agent.l3.services.bfd.wanted import wanted_sessions
from neutrino.agent.l3.services.keepalived.render import primary_address, render_keepalived
from neutrino.dataplane.netlink.api import DeleteItem, SetItem
from neutrino.dataplane.netlink.values import MAIN_TABLE, NextHop, Route, multipath_route, route
from neutrino.dataplane.netlink.values import address as on_device
from neutrino.model.routing import Router, RouterInterface
from tests.support.l3_host import NAMESPACE, Host, run
from tests.support.routing import GATEWAY, QG, address, interface, membership, router, table

OPTIONS = L3Options(host="h1", veth=True)
SECOND = "qg-dddddddd-aa"
ONE = msgspec.structs.replace(
    GATEWAY, addresses=(*GATEWAY.addresses, address("2001:db8:1::5", "2001:db8:1::/64", "2001:db8:1::1"))
)
TWO = RouterInterface(
    id="dddddddd-aaaa-bbbb-cccc-dddddddddddd",
    network_id="second",
    mac_address="fa:16:3e:00:04:0d",
    addresses=(
        address("198.51.100.5", "198.51.100.0/24", "198.51.100.1"),
        address("2001:db8:2::5", "2001:db8:2::/64", "fe80::1"),
    ),
)
NO_GATEWAY = address("203.0.113.5", "203.0.113.0/24")
FOUR, FOUR2, SIX = (QG, "203.0.113.1"), (SECOND, "198.51.100.1"), (QG, "2001:db8:1::1")


def supervised(**values: object) -> Router:
    return router(**{"gateway": ONE, "extra_gateways": (TWO,), "enable_default_route_bfd": True, **values})


def namespace_of(wanted: Router, *lost: tuple[str, str], kind: str = "router") -> DesiredRouterNamespace:
    (found,) = [each for each in router_namespaces(wanted, OPTIONS) if each.kind == kind]
    return render(dataclasses.replace(found, lost_next_hops=frozenset(lost)))


def default_routes(desired: DesiredRouterNamespace) -> set[Route]:
    routes = desired.failover.routes if desired.failover is not None else desired.namespace.routes
    return {each for each in routes if each.table == MAIN_TABLE and each.destination in ("0.0.0.0/0", "::/0")}


# --- sessions -----------------------------------------------------------------------------------------------------------


def test_a_session_with_each_next_hop() -> None:
    assert wanted_sessions(supervised(), OPTIONS) == WantedSessions(
        namespace="qrouter-r1",
        interval=1_000_000,
        multiplier=3,
        sessions=(
            WantedSession(QG, "203.0.113.5", "203.0.113.1"),
            WantedSession(QG, "2001:db8:1::5", "2001:db8:1::1"),
            WantedSession(SECOND, "198.51.100.5", "198.51.100.1"),
            WantedSession(SECOND, "fe80::f816:3eff:fe00:40d", "fe80::1"),  # from its own link-local address
        ),
    )


def test_one_gateway_has_sessions_too() -> None:
    found = wanted_sessions(supervised(gateway=GATEWAY, extra_gateways=()), OPTIONS)
    assert found is not None
    assert [each.peer for each in found.sessions] == ["203.0.113.1"]


@pytest.mark.parametrize(
    "values",
    [
        {"enable_default_route_bfd": False},
        {"gateway": None, "extra_gateways": ()},
        {"distributed": True, "centralized": False},
        {"gateway": msgspec.structs.replace(ONE, admin_state_up=False), "extra_gateways": ()},
        {"gateway": msgspec.structs.replace(ONE, addresses=(NO_GATEWAY,)), "extra_gateways": ()},
    ],
)
def test_none_without_next_hops_of_its_own(values: dict[str, object]) -> None:
    assert wanted_sessions(supervised(**values), OPTIONS) is None


def test_namespace_and_options() -> None:
    options = dataclasses.replace(OPTIONS, bfd_interval=300, bfd_multiplier=5)
    found = wanted_sessions(supervised(distributed=True, ha=membership()), options)
    assert found is not None
    assert (found.namespace, found.fails_over) == ("snat-r1", True)
    assert (found.interval, found.multiplier) == (300_000, 5)


def test_packets_are_not_translated() -> None:
    wanted = supervised()
    chains = {each.name: each for each in table(namespace_of(wanted)).chains}  # type: ignore[union-attr]
    assert chains["output_bfd"].rules == (
        f'oifname "{QG}" ip saddr 203.0.113.5 ip daddr 203.0.113.1 udp dport 3784 notrack',
        f'oifname "{SECOND}" ip saddr 198.51.100.5 ip daddr 198.51.100.1 udp dport 3784 notrack',
    )
    assert chains["prerouting_bfd"].rules[0] == (
        f'iifname "{QG}" ip saddr 203.0.113.1 ip daddr 203.0.113.5 udp dport 3784 notrack'
    )
    off = table(namespace_of(supervised(enable_default_route_bfd=False)))
    assert off is not None
    assert not {"output_bfd", "prerouting_bfd"} & {each.name for each in off.chains}
    inside = table(namespace_of(supervised(distributed=True)))  # the gateway is in snat-…
    assert inside is None or "output_bfd" not in {each.name for each in inside.chains}


def test_a_next_hop_outside_of_its_subnet_is_reached_without_a_default_route() -> None:
    far = msgspec.structs.replace(TWO, addresses=(address("198.51.100.5", "198.51.100.0/28", "198.51.100.99"),))
    wanted = supervised(extra_gateways=(far,), enable_default_route_ecmp=True)
    desired = namespace_of(wanted, (SECOND, "198.51.100.99"))
    assert route("198.51.100.99/32", SECOND) in desired.namespace.routes
    assert route("203.0.113.1/32", QG) not in desired.namespace.routes


# --- default routes -----------------------------------------------------------------------------------------------------


def test_with_ecmp_a_lost_next_hop_is_left_out_of_its_ip_version() -> None:
    wanted = supervised(enable_default_route_ecmp=True)
    six = multipath_route("::/0", [NextHop(*SIX), NextHop(SECOND, "fe80::1")])
    assert default_routes(namespace_of(wanted)) == {
        multipath_route("0.0.0.0/0", [NextHop(*FOUR), NextHop(*FOUR2)]),
        six,
    }
    assert default_routes(namespace_of(wanted, FOUR2)) == {route("0.0.0.0/0", *FOUR), six}
    assert default_routes(namespace_of(wanted, FOUR)) == {route("0.0.0.0/0", *FOUR2), six}


@pytest.mark.parametrize("ecmp", [False, True])
def test_with_all_next_hops_lost_routes_stay(ecmp: bool) -> None:
    wanted = supervised(enable_default_route_ecmp=ecmp)
    assert default_routes(namespace_of(wanted, FOUR, FOUR2)) == default_routes(namespace_of(wanted))
    alone = supervised(gateway=GATEWAY, extra_gateways=(), enable_default_route_ecmp=ecmp)
    assert default_routes(namespace_of(alone, FOUR)) == {route("0.0.0.0/0", *FOUR)}


def test_without_ecmp_the_next_gateway_stands_in() -> None:
    wanted = supervised()
    six = route("::/0", *SIX)
    assert default_routes(namespace_of(wanted, FOUR2)) == {route("0.0.0.0/0", *FOUR), six}
    assert default_routes(namespace_of(wanted, FOUR)) == {route("0.0.0.0/0", *FOUR2), six}
    only_four = supervised(gateway=GATEWAY)  # no IPv6 by the first gateway: none at all, as without BFD
    assert default_routes(namespace_of(only_four, FOUR)) == {route("0.0.0.0/0", *FOUR2)}


def test_gateways_keep_the_routes_of_their_own_connections() -> None:
    """Connections under an address of a gateway cannot leave by another."""
    wanted = supervised(enable_default_route_ecmp=True)

    def own(*lost: tuple[str, str]) -> set[Route]:
        return {each for each in namespace_of(wanted, *lost).namespace.routes if each.table != MAIN_TABLE}

    assert own(FOUR) == own()


def test_keepalived_sets_the_routes_that_are_left() -> None:
    wanted = supervised(enable_default_route_ecmp=True, ha=membership(), gateway=GATEWAY)
    failover = namespace_of(wanted, FOUR2).failover
    assert failover is not None
    text = render_keepalived(failover, OPTIONS, "/fifo")
    assert f"0.0.0.0/0 via 203.0.113.1 dev {QG} no_track protocol static\n" in text


# --- the role -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def publish(path: Path, *lost: tuple[str, str], router_id: str = "r1") -> None:
    """As the speaker does."""
    states = tuple(
        SessionState(device, "own", peer, "down" if (device, peer) in lost else "up", True, (device, peer) in lost)
        for device, peer in (FOUR, FOUR2)
    )
    files.replace(path / "bfd" / files.STATES / router_id, files.encode(states))
    files.notify(path / "bfd", router_id)


def hops(host: Host) -> set[str]:
    routes = host.netlink.read(NAMESPACE).routes if host.is_there else ()
    found = {each for each in routes if each.destination == "0.0.0.0/0" and each.table == MAIN_TABLE}
    return {hop.via for each in found for hop in each.next_hops} | {each.via for each in found if each.via}


def test_the_route_follows_the_states(host: Host, tmp_path: Path) -> None:
    both = {"203.0.113.1", "198.51.100.1"}
    wanted = supervised(enable_default_route_ecmp=True)

    async def test() -> None:
        host.send(wanted)
        await host.until(lambda: "bfd" in host.processes.running(), "no speaker runs")
        text = (tmp_path / "bfd" / files.WANTED / "r1").read_text()
        assert msgspec.json.decode(text, type=WantedSessions) == wanted_sessions(wanted, OPTIONS)
        assert hops(host) == both
        publish(tmp_path)
        publish(tmp_path, FOUR2)
        await host.until(lambda: hops(host) == {"203.0.113.1"}, "a lost next hop is used")
        await host.role.finish()
        assert await host.verified()
        lost = f"next hop 198.51.100.1 on {SECOND} is lost: its BFD session is down"
        assert host.problems == {"r1": lost}
        (described,) = host.role.describe()
        assert described.configurations["bfd_sessions"] == {"up": 1, "down": 1, "lost": 1}
        publish(tmp_path)
        await host.until(lambda: hops(host) == both, "a next hop that is back is not used")
        await host.role.finish()
        assert host.problems == {}

    run(host, test)


def test_an_agent_that_is_restarted_keeps_what_is_known(host: Host, tmp_path: Path) -> None:
    wanted = supervised(enable_default_route_ecmp=True)

    async def first() -> None:
        host.send(wanted)
        await host.until(lambda: "bfd" in host.processes.running(), "no speaker runs")
        publish(tmp_path, FOUR2)
        await host.until(lambda: hops(host) == {"203.0.113.1"}, "a lost next hop is used")

    async def second() -> None:
        await host.until(lambda: "r1" in host.role._applied, "looked at")
        await host.role.finish()
        assert hops(host) == {"203.0.113.1"}
        assert host.processes.running()["bfd"] == speaker

    run(host, first)
    speaker = host.processes.running()["bfd"]
    host.restart()
    run(host, second)


def test_the_last_router_ends_the_speaker(host: Host, tmp_path: Path) -> None:
    def known() -> set[str]:
        return {path.name for path in (tmp_path / "bfd").glob("*/*")}

    async def test() -> None:
        other = msgspec.structs.replace(GATEWAY, id="99999999-aaaa-bbbb-cccc-dddddddddddd")
        host.send(supervised())
        host.send(supervised(id="r2", gateway=other, extra_gateways=(), interfaces=(interface(3),)), "r2")
        await host.until(lambda: known() == {"r1", "r2"}, "no sessions")
        publish(tmp_path, router_id="r1")
        host.send(supervised(enable_default_route_bfd=False))
        await host.until(lambda: known() == {"r2"}, "sessions of a router without BFD")
        assert "bfd" in host.processes.running()
        host.send(None, "r2")
        await host.until(lambda: "bfd" not in host.processes.running(), "the speaker runs")
        await host.role.finish()
        assert known() == set()
        assert await host.verified()

    run(host, test)


def test_other_sessions_than_the_wanted_ones_are_drift(host: Host, tmp_path: Path) -> None:
    async def test() -> None:
        host.send(supervised())
        await host.until(lambda: "bfd" in host.processes.running(), "no speaker runs")
        await host.role.finish()
        path = tmp_path / "bfd" / files.WANTED / "r1"
        path.write_text("{}")
        assert "set the BFD sessions of router r1" in (await host.role.find()).plan
        host.send(supervised(name="again"))
        await host.until(lambda: path.read_text() != "{}", "the sessions are not repaired")
        await host.role.finish()
        assert await host.verified()

    run(host, test)


def test_a_standby_host_has_no_sessions_and_knows_no_lost_next_hop(host: Host, tmp_path: Path) -> None:
    primary = on_device("ha-ffffffff-aa", primary_address(membership()))
    conf, wanted = tmp_path / "ha_confs" / "r1" / "keepalived.conf", tmp_path / "bfd" / files.WANTED / "r1"

    def notify(state: str) -> None:
        with open(tmp_path / "ha_confs" / "r1" / "notify", "w") as fifo:
            fifo.write(f'INSTANCE "VR_7" {state} 150\n')

    async def test() -> None:
        host.send(supervised(enable_default_route_ecmp=True, ha=membership()))
        await host.until(conf.exists, "no keepalived")
        await host.role.finish()
        assert not wanted.exists()
        host.netlink.apply(NAMESPACE, [SetItem(primary)])
        notify("MASTER")
        await host.until(wanted.exists, "the active host has no sessions")
        publish(tmp_path, FOUR2)
        await host.until(lambda: "nexthop via 198.51.100.1" not in conf.read_text(), "a lost next hop is used")
        host.netlink.apply(NAMESPACE, [DeleteItem(primary)])
        notify("BACKUP")
        await host.until(lambda: not wanted.exists(), "the standby host has sessions")
        # Sessions may end in a round that was rendered while the host was active: another one follows.
        await host.until(lambda: "nexthop via 198.51.100.1" in conf.read_text(), "a standby host lacks a next hop")
        assert await host.verified()

    run(host, test)
