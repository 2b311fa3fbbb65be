"""Connections of an address end with the port that had it: the next port must not get packets as their replies."""

from __future__ import annotations

import ipaddress

import msgspec
import pytest

from neutrino.agent.l2.connections import applied_addresses
from neutrino.dataplane.conntrack.api import TCP, Connection, ConntrackFlush, Selection
from neutrino.model.state import AddressPair, FixedIp, Port
from tests.support.l2 import OPEN, mac, network, port
from tests.support.switch_host import SwitchHost

NET, OTHER = network("net"), network("other", number=101)
REMOTE = {4: "192.0.2.77", 6: "2001:db8:77::77"}


class Tracker:
    """The switch's connections, as tests open them."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()

    def open(self, address: str, zone: int = 1) -> None:
        family = ipaddress.ip_address(address).version
        self.connections |= {
            Connection(zone, family, TCP, address, REMOTE[family], 4000, 443),
            Connection(zone, family, TCP, REMOTE[family], address, 5000, 22),
        }

    def flush(self, entries: list[ConntrackFlush]) -> None:
        selection = Selection(entries)
        self.connections = {each for each in self.connections if not selection.includes(each)}

    @property
    def addresses(self) -> set[str]:
        ends = {end for each in self.connections for end in (each.source, each.destination)}
        return ends - {*REMOTE.values()}


class Host(SwitchHost):
    def __init__(self) -> None:
        self.tracker = Tracker()
        super().__init__()
        self.connections = self.tracker  # type: ignore[assignment]
        self.new_reconciler()
        self.reconcile()

    def restart(self) -> None:
        self.new_reconciler()


@pytest.fixture
def host() -> Host:
    made = Host()
    for name in ("p1", "p2", "p3"):
        made.plug(name)
    return made


def wired(name: str = "p1", number: int = 1, **changes: object) -> Port:
    return port(name, number, groups=["open"], **changes)


def with_addresses(*addresses: str, name: str = "p1", **changes: object) -> Port:
    return wired(name, fixed_ips=tuple(FixedIp("subnet", each) for each in addresses), **changes)


def test_an_address_that_a_port_loses(host: Host) -> None:
    host.reconcile(NET, OPEN, with_addresses("10.0.0.1", "10.0.0.9", "2001:db8::1", "2001:db8::9"), wired("p2", 2))
    for address in ("10.0.0.1", "10.0.0.9", "2001:db8::1", "2001:db8::9", "10.0.0.2"):
        host.tracker.open(address)
    host.tracker.open("10.0.0.9", zone=2)
    host.reconcile(NET, OPEN, with_addresses("10.0.0.1", "2001:db8::1"), wired("p2", 2))
    assert host.tracker.addresses == {"10.0.0.1", "2001:db8::1", "10.0.0.2", "10.0.0.9"}
    assert {each.zone for each in host.tracker.connections if "10.0.0.9" in (each.source, each.destination)} == {2}


def test_an_address_that_moves_to_another_port_at_once(host: Host) -> None:
    host.reconcile(NET, OPEN, with_addresses("10.0.0.1"), with_addresses("10.0.0.2", name="p2"))
    host.tracker.open("10.0.0.1")
    host.reconcile(NET, OPEN, with_addresses("10.0.0.3"), with_addresses("10.0.0.2", "10.0.0.1", name="p2"))
    assert host.tracker.addresses == set()


def test_an_address_pair_that_a_port_loses(host: Host) -> None:
    pairs = (AddressPair(mac(1), "10.9.0.0/24"), AddressPair("", "10.8.0.1"))
    host.reconcile(NET, OPEN, wired(allowed_address_pairs=pairs))
    for address in ("10.9.0.5", "10.8.0.1", "10.0.0.1"):
        host.tracker.open(address)
    host.reconcile(NET, OPEN, wired(allowed_address_pairs=pairs[:1]))
    assert host.tracker.addresses == {"10.9.0.5", "10.0.0.1"}
    host.reconcile(NET, OPEN, wired())
    assert host.tracker.addresses == {"10.0.0.1"}


@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
def test_port_security_is_switched_off_before_the_port_is_deleted(host: Host, restarted: bool) -> None:
    host.reconcile(NET, OPEN, wired(), wired("p2", 2))
    host.reconcile(NET, OPEN, wired(port_security_enabled=False), wired("p2", 2))
    host.tracker.open("10.0.0.1")
    host.tracker.open("10.0.0.2")
    if restarted:
        host.restart()
    host.reconcile(NET, OPEN, wired("p2", 2))
    if not restarted:
        assert host.tracker.addresses == {"10.0.0.2"}
    # No record has the address of an unfiltered port after a restart: the next one with it inherits nothing anyway.
    host.reconcile(NET, OPEN, wired("p2", 2), wired("p3", 1))
    assert host.tracker.addresses == {"10.0.0.2"}


@pytest.mark.parametrize("unplugged", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_a_port_is_deleted_while_the_agent_is_down(host: Host, unplugged: bool, cached: bool) -> None:
    host.reconcile(NET, OPEN, wired(), wired("p2", 2))
    for address in ("10.0.0.1", "2001:db8::1", "10.0.0.2"):
        host.tracker.open(address)
    if unplugged:
        host.unplug("p1")
    host.restart()
    if cached:
        host.reconcile(NET, OPEN, wired(), wired("p2", 2), complete=False)
        assert host.tracker.addresses == {"10.0.0.1", "2001:db8::1", "10.0.0.2"}, "the cache decides nothing"
    host.reconcile(NET, OPEN, wired("p2", 2))
    assert host.tracker.addresses == {"10.0.0.2"}


def test_an_address_changes_hands_while_the_agent_is_down(host: Host) -> None:
    host.reconcile(NET, OPEN, with_addresses("10.0.0.1"), with_addresses("10.0.0.2", name="p2"))
    for address in ("10.0.0.1", "10.0.0.2"):
        host.tracker.open(address)
    host.restart()
    host.reconcile(NET, OPEN, with_addresses("10.0.0.3"), with_addresses("10.0.0.2", "10.0.0.1", name="p2"))
    assert host.tracker.addresses == {"10.0.0.2"}


@pytest.mark.parametrize("cached", [False, True])
def test_a_restart_ends_no_connection_of_ports_that_stay(host: Host, cached: bool) -> None:
    ports = (wired(), wired("p2", 2, allowed_address_pairs=(AddressPair("", "0.0.0.0/0"),)))
    host.reconcile(NET, OPEN, *ports)
    addresses = {"10.0.0.1", "2001:db8::1", "10.0.0.2", "10.7.7.7"}
    for address in addresses:
        host.tracker.open(address)
    host.restart()
    if cached:
        host.reconcile(NET, OPEN, *ports, complete=False)
    host.reconcile(NET, OPEN, *ports)
    host.reconcile(NET, OPEN, *ports)
    assert host.tracker.addresses == addresses


@pytest.mark.parametrize("cached", [False, True])
def test_a_host_without_flows_of_ours_keeps_its_connections(cached: bool) -> None:
    """One that Neutron's agent has left, with the same zones."""
    host = Host()
    host.switch.openflow.apply_flows("br-int", add=(), delete=list(host.switch.openflow.read_flows("br-int", 0, 0)))
    host.restart()
    host.plug("p1")
    host.tracker.open("10.0.0.1")
    if cached:
        host.reconcile(complete=False)
    host.reconcile(NET, OPEN, wired())
    assert host.tracker.addresses == {"10.0.0.1"}


def test_a_port_that_arrives_by_live_migration_keeps_connections_with_its_neighbours(host: Host) -> None:
    host.reconcile(NET, OPEN, wired("p2", 2))
    host.tracker.open("10.0.0.1")
    host.reconcile(NET, OPEN, wired("p2", 2), wired(migrating=True))
    assert host.tracker.addresses == {"10.0.0.1"}
    host.reconcile(NET, OPEN, wired("p2", 2), wired())
    assert host.tracker.addresses == {"10.0.0.1"}


def test_a_shared_address_goes_on_when_another_port_gets_it_too(host: Host) -> None:
    """Of two ports in turns (VRRP)."""
    pair = (AddressPair("", "10.0.0.100"),)
    host.reconcile(NET, OPEN, wired(allowed_address_pairs=pair), wired("p2", 2))
    host.tracker.open("10.0.0.100")
    host.reconcile(NET, OPEN, wired(allowed_address_pairs=pair), wired("p2", 2, allowed_address_pairs=pair))
    assert host.tracker.addresses == {"10.0.0.100"}


def test_a_prefix_that_a_port_gets_leaves_connections_of_others_alone(host: Host) -> None:
    host.reconcile(NET, OPEN, wired(), wired("p2", 2))
    host.tracker.open("10.0.0.1")
    everything = (AddressPair("", "0.0.0.0/0"), AddressPair("", "::/0"))
    host.reconcile(NET, OPEN, wired(), wired("p2", 2, allowed_address_pairs=everything))
    assert host.tracker.addresses == {"10.0.0.1"}


def test_flows_show_the_addresses_of_filtered_ports(host: Host) -> None:
    pairs = (AddressPair("", "10.9.0.0/24"), AddressPair("", "::/0"))
    elsewhere = msgspec.structs.replace(wired("p2", 2), network_id="other")
    host.reconcile(
        NET, OTHER, OPEN, wired(allowed_address_pairs=pairs), elsewhere, wired("p3", 3, port_security_enabled=False)
    )
    found = applied_addresses(host.switch.openflow.read_flows("br-int", 0, 0))
    zones = {"net": host.tag("p1"), "other": host.tag("p2")}
    assert {(each.zone, each.prefix) for each in found if "fe80" not in each.prefix} == {
        *((zones["net"], each) for each in ("10.0.0.1/32", "2001:db8::1/128", "10.9.0.0/24", "::/0")),
        *((zones["other"], each) for each in ("10.0.0.2/32", "2001:db8::2/128")),
    }
    assert len({each.owner for each in found}) == 2
