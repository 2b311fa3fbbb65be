"""A router of Neutron that is taken over: what is right in its namespaces stays, whatever an agent is killed between."""

from __future__ import annotations

import dataclasses
import ipaddress
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.devices import IPV6_FORWARDING
from neutrino.agent.l3.fip import LinkLocals
from neutrino.agent.l3.services.keepalived.render import primary_address
from neutrino.agent.runtime.namespaces import (
    IPV6_OFF,
    PROMOTE,
    DesiredDevice,
    DesiredNamespace,
    Plug,
    as_plugged,
    plan_namespace,
)
from neutrino.dataplane.iptables.api import scope_chains
from neutrino.dataplane.netlink.api import DeleteItem, SetItem, SetSysctl
from neutrino.dataplane.netlink.values import HOST, Device, NamespaceState, route
from neutrino.dataplane.netlink.values import address as on_device
from tests.support.routing import address, membership

PAIR = DesiredDevice(
    "qr-1", peer="tap1", mac="fa:16:3e:00:00:01", mtu=1450, alias="neutrino router 1", tx_checksum=False
)
INTERNAL = DesiredDevice("qr-1", mac="fa:16:3e:00:00:01", mtu=1450)
WANTED = DesiredNamespace(
    "qrouter-1",
    devices=(PAIR,),
    addresses=frozenset({on_device("qr-1", "10.0.1.1/24")}),
    plugs=(Plug("br-int", "tap1", "1", PAIR.mac),),
    keeps_devices=True,
)


def there(device: Device) -> NamespaceState:
    return NamespaceState({device.name: device}, frozenset({on_device("qr-1", "10.0.1.1/24")}))


@pytest.mark.parametrize("kind", ["openvswitch", "tun"])
def test_an_internal_port_stays_one(kind: str) -> None:
    """Of the kernel's and of the userspace datapath, where new devices are veth pairs."""
    actual = there(Device("qr-1", kind, PAIR.mac, 1450, up=True))
    kept = as_plugged(WANTED, actual)
    assert kept.plugs == (Plug("br-int", "qr-1", "1", PAIR.mac, internal=True),)
    assert not plan_namespace(kept, dataclasses.replace(actual, sysctls={"net/ipv4/conf/all/promote_secondaries": "1"}))
    assert as_plugged(dataclasses.replace(WANTED, keeps_devices=False), actual).plugs == WANTED.plugs


def test_a_veth_pair_stays_one() -> None:
    internal = dataclasses.replace(
        WANTED, devices=(INTERNAL,), plugs=(dataclasses.replace(WANTED.plugs[0], name="qr-1", internal=True),)
    )
    actual = there(Device("qr-1", "veth", PAIR.mac, 1450, up=True, carrier=True, peer="tap1", peer_namespace=HOST))
    kept = as_plugged(internal, actual)
    assert kept.plugs == WANTED.plugs
    assert kept.devices[0].peer == "tap1"


def test_a_device_that_is_gone_is_plugged_as_configured() -> None:
    """An internal port of the userspace datapath leaves its namespace with ovs-vswitchd."""
    assert as_plugged(WANTED, NamespaceState()) == WANTED


def test_forwarding_is_not_switched_on_where_a_standby_host_has_devices() -> None:
    """The kernel would report its multicast groups with the router's MAC, and draw the router's traffic there."""
    off = {IPV6_FORWARDING: "0", PROMOTE: "1", IPV6_OFF: "0"}
    actual = dataclasses.replace(there(Device("qr-1", "tun", PAIR.mac, 1450, up=True)), sysctls=off)
    standby = dataclasses.replace(
        as_plugged(WANTED, actual), sysctls={IPV6_FORWARDING: "1"}, initial_sysctls=frozenset({IPV6_FORWARDING})
    )
    assert not plan_namespace(standby, actual)
    active = dataclasses.replace(standby, initial_sysctls=frozenset())
    assert plan_namespace(active, actual).changes == (SetSysctl(IPV6_FORWARDING, "1"),)
    created = plan_namespace(standby, NamespaceState(sysctls=off)).changes
    assert created[0] == SetSysctl(IPV6_FORWARDING, "1"), "before there is a device"


@pytest.mark.parametrize("stays", [True, False])
def test_static_routes_are_keepaliveds_where_it_runs(stays: bool) -> None:
    found = dataclasses.replace(
        there(Device("qr-1", "tun", PAIR.mac, 1450, up=True)),
        routes=frozenset({route("0.0.0.0/0", "qr-1", "10.0.1.254", protocol=4)}),
    )
    wanted = dataclasses.replace(as_plugged(WANTED, found), others_routes=frozenset({4} if stays else ()))
    removed = [change for change in plan_namespace(wanted, found).changes if isinstance(change, DeleteItem)]
    assert bool(removed) is not stays
    assert not [change for change in plan_namespace(wanted, found).changes if isinstance(change, SetItem)]


@pytest.mark.parametrize(
    ("cidr", "primary"),
    [
        ("169.254.192.0/18", "169.254.0.7/24"),
        ("169.254.0.0/18", "169.254.128.7/24"),
        ("10.9.0.0/16", "169.254.0.7/24"),
        ("169.254.0.0/25", "169.254.1.7/24"),
    ],
)
def test_the_address_of_the_active_host_is_as_in_neutron(cidr: str, primary: str) -> None:
    """`l3_ha_net_cidr` may be another one than by default."""
    whole = membership()
    port = msgspec.structs.replace(whole.interface, addresses=(address("169.254.192.7", cidr),))
    assert primary_address(msgspec.structs.replace(whole, interface=port)) == primary


ROUTER, OTHER = "7e1ab6d2-0000-4000-8000-000000000001", "8e1ab6d2-0000-4000-8000-000000000002"


def test_a_link_to_fip_that_is_there_stays(tmp_path: Path) -> None:
    """Without Neutron's file: by the addresses that the pairs have."""
    existing = {
        "fpr-7e1ab6d2-0": ipaddress.IPv4Network("169.254.88.134/31"),
        "fpr-9e1ab6d2-0": ipaddress.IPv4Network("169.254.64.0/31"),
    }
    links = LinkLocals(str(tmp_path))
    assert links.allocate(ROUTER, existing) == ("169.254.88.134", "169.254.88.135")
    assert links.allocate(OTHER, existing) == ("169.254.64.2", "169.254.64.3"), "none that another router has"
    assert LinkLocals(str(tmp_path)).find(ROUTER) == ("169.254.88.134", "169.254.88.135")


def test_a_link_that_neutron_has_given_to_two_routers_stays_with_both(tmp_path: Path) -> None:
    pair = ipaddress.IPv4Network("169.254.88.134/31")
    links = LinkLocals(str(tmp_path))
    for router in (ROUTER, OTHER):
        links.allocate(router, {"fpr-7e1ab6d2-0": pair, "fpr-8e1ab6d2-0": pair})
    assert {links.find(ROUTER), links.find(OTHER)} == {("169.254.88.134", "169.254.88.135")}


def test_chains_of_address_scopes_are_found() -> None:
    saved = (
        "*filter\n:neutron-l3-agent-scope - [0:0]\n:operators-scope - [0:0]\n-A operators-scope -j DROP\n"
        "-A neutron-l3-agent-FORWARD -j neutron-l3-agent-scope\n"
        "-A neutron-l3-agent-scope -o qr-1 -m mark ! --mark 0x4000000/0xffff0000 -j DROP\nCOMMIT\n"
    )
    assert scope_chains(saved) == ["neutron-l3-agent-scope"]
    assert scope_chains("*filter\n:neutron-l3-agent-scope - [0:0]\nCOMMIT\n") == []
