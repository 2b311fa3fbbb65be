"""Objects of the feed with garbage in a field, for every kind and every field: the agent goes on, and so do other objects.

Two ways in: as the server sends them, where the feed refuses them; and past that, as valid types with wrong values, where
each role has to keep one object's failure to that object.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.agent.l2.role import KINDS as L2_KINDS
from neutrino.agent.metadata.desired import DesiredMetadata
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.messages import Cursor, Put, Synced, Welcome
from neutrino.feed.state import State
from neutrino.model import agents, state
from neutrino.model.bgp import BgpPeer, BgpRoute, BgpSpeaker
from neutrino.model.dhcp import DhcpNetwork, DhcpOption
from neutrino.model.fields import fault
from neutrino.model.firewall import FirewallGroup, FirewallRule
from neutrino.model.kinds import KINDS
from neutrino.model.packet_log import PacketLog
from neutrino.model.qos import BandwidthLimit, MinimumBandwidth, PacketRateLimit, QosPolicy
from neutrino.model.routing import ConntrackHelper, Delegation, PortForwarding, Router, RouterRoute
from neutrino.model.taps import Tap, TapMirror, TapOrigin, Taps
from neutrino.model.vpn import IkePolicy, IpsecPolicy, VpnConnection, VpnService
from tests.support import dhcp
from tests.support.dhcp_fakes import DhcpHost
from tests.support.l2 import OPEN, group, network, port, rule
from tests.support.l3_host import Host as L3Host
from tests.support.routing import address, floating, interface, membership, router
from tests.support.switch_host import PEER, SwitchHost, host_state
from tests.support.unsynced import eventually

SUBNET = "00000000-0000-4000-8000-000000000001"
FRIENDS = state.GroupMembers(id="friends", members=frozenset({state.Member("10.0.0.9", "fa:16:3e:00:00:09")}))
V4 = dhcp.subnet(1, dns_nameservers=("10.0.0.3",), host_routes=(("10.9.0.0/24", "10.0.0.4"),))
V6 = dhcp.subnet(2, "2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac", gateway_ip="2001:db8::1")
FORWARDING = PortForwarding(
    id="pf",
    protocol="tcp",
    external_ip_address="203.0.113.20",
    external_port_first=80,
    external_port_last=80,
    internal_ip_address="10.0.1.9",
    internal_port_first=8080,
    internal_port_last=8080,
    qos_policy_id="gold",
)
VPN = VpnService(
    id="service",
    connections=(
        VpnConnection(
            id="connection",
            peer_address="198.51.100.7",
            peer_id="peer",
            local_id="here",
            psk="key",
            local_cidrs=("10.0.1.0/24",),
            peer_cidrs=("10.9.0.0/24",),
            ike=IkePolicy(version=2, pfs="group14"),
            ipsec=IpsecPolicy(pfs="group14"),
        ),
    ),
)
GOOD: dict[str, state.Object] = {
    "qos_policy": QosPolicy(
        id="gold",
        bandwidth_limits=(BandwidthLimit(max_kbps=1000, max_burst_kbps=800),),
        packet_rate_limits=(PacketRateLimit(max_kpps=10),),
        minimum_bandwidths=(MinimumBandwidth(min_kbps=100),),
        dscp_mark=26,
    ),
    "firewall_group": FirewallGroup(
        id="edge",
        ingress=(
            FirewallRule(
                id="web",
                action="allow",
                ip_version=4,
                protocol=6,
                source_ip_address="198.51.100.0/24",
                destination_ip_address="10.0.1.0/24",
                destination_port_first=80,
                destination_port_last=80,
            ),
        ),
    ),
    "log": PacketLog(id="log", name="l", project_id="project", resource_id="web"),
    "network": network("net"),
    "port": port(
        "p1",
        1,
        groups=["open", "web"],
        local_ips=(state.LocalIp("10.0.0.200", "10.0.0.1", network_id="net"),),
        taps=Taps(
            services=("service",),
            flows=(Tap(id="flow", port_id="other", host="h2", direction="IN", tunnel_id=1, vlans=((1, 2),)),),
            origins=(TapOrigin(id="back", host="h2", tunnel_id=2),),
            mirrors=(
                TapMirror(id="m", direction="OUT", tunnel_id=3, remote_ip="192.0.2.9", mirror_type="gre"),
                TapMirror(id="n", direction="OUT", tunnel_id=4, remote_ip="2001:db8::9", mirror_type="erspanv1"),
            ),
        ),
        allowed_address_pairs=(state.AddressPair("fa:16:3e:00:00:77", "10.0.0.0/28"),),
    ),
    "security_group": group(
        "web",
        rule(protocol=6, port_min=80, port_max=81, remote_ip_prefix="10.0.0.0/8"),
        rule(remote_group_id="friends"),
        rule(remote_address_group_id="addresses"),
    ),
    "group_members": FRIENDS,
    "address_group": state.AddressGroup(id="addresses", addresses=frozenset({"10.1.0.0/16"})),
    "host": PEER,
    "forwarding": state.Forwarding(
        id="far", network_id="net", host="h2", mac_address="fa:16:3e:00:00:0c", ip_addresses=("10.0.0.12",)
    ),
    "dvr_mac": state.DvrMac(id="h2", mac_address="fa:16:3f:00:00:02"),
    "dhcp_network": DhcpNetwork(
        id=dhcp.NETWORK, subnets=(V4, V6), segments=network("x").segments, options=(DhcpOption("router", "10.0.0.1"),)
    ),
    "dhcp_port": dhcp.port(
        5,
        "10.0.0.5",
        "2001:db8::5",
        on=(V4, V6),
        options=(DhcpOption("mtu", "1400"),),
        project_id="p",
        host="h2",
        device_id="vm",
    ),
    "router": router(
        interface(1),
        interface(2, other_subnets=("10.7.0.0/24",)),
        extra_gateways=(interface(3, address("198.51.100.5", "198.51.100.0/24", "198.51.100.1")),),
        routes=(RouterRoute("10.9.0.0/24", "10.0.1.9"),),
        floating_ips=(floating(9, "10.0.1.9"),),
        port_forwardings=(FORWARDING,),
        conntrack_helpers=(ConntrackHelper("tcp", 21, "ftp"),),
        delegations=(Delegation(SUBNET),),
        vpn_services=(VPN,),
        ha=membership(),
    ),
    "bgp_speaker": BgpSpeaker(
        id="speaker",
        local_as=64512,
        peers=(BgpPeer(peer_ip="192.0.2.1", remote_as=65000, password="p"),),
        routes=(BgpRoute("203.0.113.5/32", "203.0.113.10"),),
    ),
}
GARBAGE: tuple[Any, ...] = (
    "x",
    "",
    "a\nb",
    "../..",
    "\x00",
    "é" * 300,
    "999.1.1.1",
    "10.0.0.0/99",
    -1,
    10**30,
    1.5,
    None,
    True,
    [],
    ["x"],
    [5],
    {},
    {"x": "y"},
)
TEXTS = tuple(each for each in GARBAGE if isinstance(each, str))


def places(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON object: fields of it, and of what is in it."""
    several = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in several:
        yield (*where, key)
        yield from places(each, (*where, key))


def put_at(whole: Any, where: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value in this place, which shares the rest: a deep copy takes ten times as long."""
    first, *rest = where
    changed = whole.copy()
    changed[first] = put_at(whole[first], tuple(rest), value) if rest else value
    return changed


def as_json(value: state.Object) -> dict[str, Any]:
    """With the fields that have their default, too."""

    def of(each: Any) -> Any:
        if isinstance(each, msgspec.Struct):
            return {name: of(getattr(each, name)) for name in type(each).__struct_fields__}
        if isinstance(each, tuple | frozenset):
            return [of(one) for one in each]
        return each

    found: dict[str, Any] = of(value)
    return found


CASES = [(kind, where) for kind, value in GOOD.items() for where in places(as_json(value))]


def test_every_kind_of_the_feed_is_tried() -> None:
    assert GOOD.keys() == KINDS.keys()
    for kind, value in GOOD.items():
        assert fault(value) == "", kind
        assert {where[0] for each, where in CASES if each == kind} == set(type(value).__struct_fields__)


def messages(kind: str, where: tuple[Any, ...]) -> list[Put]:
    whole = as_json(GOOD[kind])
    wrong = []
    for number, garbage in enumerate(GARBAGE):
        changed = put_at(whole, where, garbage)
        if where != ("id",):
            changed["id"] = f"bad-{number}"
        wrong.append(Put(kind=kind, object=msgspec.Raw(msgspec.json.encode(changed)), digest="d"))
    return wrong


def known(objects: State) -> set[tuple[str, str]]:
    return {(kind, key) for kind, several in objects.objects.items() for key in several}


@pytest.mark.parametrize(
    ("kind", "where"), CASES, ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else value
)
def test_garbage_from_the_server_leaves_other_objects_alone(kind: str, where: tuple[Any, ...], tmp_path: Path) -> None:
    client = FeedClient(ClientOptions(Address(path="/nowhere"), "h1", "key"), cache=tmp_path / "feed.json")
    client.state.apply(Welcome(cursor=Cursor("d", 1)))
    for message in messages(kind, where):
        client._take(message)
    for each, value in GOOD.items():
        client._take(Put(kind=each, object=msgspec.Raw(msgspec.json.encode(value)), digest="d"))
    client._take(Synced(position=2))
    assert known(client.state) >= {(each, value.id) for each, value in GOOD.items()}
    kept = [value for value in client.state.objects[kind].values() if value != GOOD[kind]]
    assert all(fault(value) == "" for value in kept)
    assert client.state.get(kind, GOOD[kind].id) == GOOD[kind]
    if client.state.problems:
        assert {each for each, _ in client.state.problems} == {kind}
        assert client.unacknowledged == len(client.state.problems)  # each is reported to the server
    # After a restart from a cache that has them, as one that an earlier release wrote.
    saved = msgspec.json.decode(client.state.dump())
    saved["objects"][kind] += [msgspec.json.decode(message.object) for message in messages(kind, where)]
    again = State()
    again.load(msgspec.json.encode(saved))
    assert known(again) >= {(each, value.id) for each, value in GOOD.items()}


@pytest.mark.parametrize("kind", GOOD)
def test_what_cannot_be_read_at_all_is_a_problem_too(kind: str) -> None:
    reported: list[str] = []
    objects = State(on_problem=lambda kind, key, reason: reported.append(kind))
    for data in (b"5", b"null", b"[]", b"{}", b'{"id": 5}', b'{"id": "x"}', b"[" * 2000 + b"]" * 2000):
        objects.apply(Put(kind=kind, object=msgspec.Raw(data)))
    assert not objects.objects[kind].keys() - {"x"}
    assert set(reported) == {kind}


# --- past the feed ----------------------------------------------------------------------------------------------------


@functools.cache
def wrong_objects(kind: str) -> list[state.Object]:
    """Of valid types, with a wrong text in one field each: what a check that was forgotten would let through."""
    found: list[state.Object] = []
    whole = as_json(GOOD[kind])
    for where in places(whole):
        if where[-1] in ("id", "host") or where == ("network_id",):
            continue
        for text in TEXTS:
            changed = put_at(whole, where, text)
            changed["id"] = f"bad{len(found)}"
            try:
                found.append(msgspec.convert(changed, KINDS[kind].type, strict=True))
            except msgspec.ValidationError:
                continue
    return found


@pytest.mark.parametrize("kind", sorted(L2_KINDS.values()))
def test_l2_wires_the_other_ports(kind: str) -> None:
    host = SwitchHost()
    host.reconcile()
    host.plug("good")
    good = port("good", 2, "netgood", groups=["open"])
    for wrong in wrong_objects(kind):
        host.new_reconciler()
        host.plug(wrong.id)
        several = {each.id: each for each in (*GOOD.values(), OPEN, network("netgood", number=7), good, wrong)}
        if kind in ("security_group", "group_members", "address_group"):  # what p1 uses is what is wrong
            several[GOOD[kind].id] = msgspec.structs.replace(wrong, id=GOOD[kind].id)
        host.plug("p1")
        outcome = host.reconciler.reconcile(host_state(*several.values()), complete=True)
        assert "good" in outcome.wired, (wrong, outcome)
        assert host.tag("good") not in (None, DEAD_VLAN)


@pytest.mark.parametrize("number", range(4))
def test_other_routers_are_applied(number: int, tmp_path: Path) -> None:
    host = L3Host(tmp_path)
    good = router(interface(5), id="good", gateway=None)
    wrong = [each for each in wrong_objects("router") if isinstance(each, Router)][number::4]

    async def scenario() -> None:
        for each in (*wrong, good):
            host.feed.state.objects["router"][each.id] = each
        host.role.synced()
        task = asyncio.create_task(host.role.run())
        try:
            await eventually(lambda: "qrouter-good" in host.netlink.namespaces(), "the other router is not made", 60)
            await asyncio.wait_for(host.role._loop.queue.tried(), 60)
            assert not task.done(), task
            assert "good" not in host.problems
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["dhcp_network", "dhcp_port"])
def test_dhcp_serves_the_other_networks(kind: str) -> None:
    host = DhcpHost()
    other = dhcp.Network("5c0fd3b1-1111-4444-8888-000000000002", mark="b")
    subnet = other.subnet(3, "10.1.0.0/24")

    async def scenario() -> None:
        host.cache("dhcp_network", DhcpNetwork(id=other.id, subnets=(subnet,)), GOOD["dhcp_network"])
        host.cache("dhcp_port", other.dhcp_port(2, "10.1.0.2", on=(subnet,)), dhcp.dhcp_port(1, "10.0.0.2", on=(V4,)))
        for wrong in wrong_objects(kind):
            host.cache(kind, wrong)
            if isinstance(wrong, DhcpNetwork):
                own = dhcp.Network(wrong.id).dhcp_port(9, "10.0.0.2", on=(V4,), id=f"own-{wrong.id}")
                host.cache("dhcp_port", own)
        host.role.synced()
        task = asyncio.create_task(host.role.run())
        try:
            await eventually(lambda: host.is_running(other.id), "the other network is not served", 60)
            await asyncio.wait_for(host.role._loop.queue.tried(), 60)
            assert not task.done(), task
            (described,) = host.role.describe()
            assert other.id not in described.configurations[agents.PROBLEMS]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_metadata_answers_the_other_ports() -> None:
    objects = State()
    for kind in ("dhcp_network", "dhcp_port", "router"):
        for each in (*wrong_objects(kind), GOOD[kind]):
            objects.objects[kind][each.id] = each
    options = dhcp.settings(enable_isolated_metadata=True, enable_metadata_network=True)
    wanted = DesiredMetadata(objects, 9697, options)
    wanted.index()
    wanted.render_stale()
    assert "qrouter-r1" in wanted.listeners
    assert GOOD["dhcp_port"].id in {each.port_id for each in wanted.all_instances()}
    assert wanted.problems


def test_a_fault_of_a_secret_is_described_without_it() -> None:
    peer = BgpPeer(peer_ip="192.0.2.1", remote_as=65000, password="two words")
    assert fault(peer) == "password: it is not valid"
