"""Taps on the fake switch: who gets copies of which packets, on the same host and on another one; tunnels and statuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extensions.tap_tunnels import TapTunnels
from neutrino.agent.l2.extensions.taps import vlan_matches
from neutrino.agent.runtime.role import ObjectStatus
from neutrino.dataplane.ovsdb.api import SetPort
from neutrino.model import state
from neutrino.model.taps import RESERVED_KEYS, Tap, TapMirror, TapOrigin, Taps
from tests.fakes import packet
from tests.support.l2 import OPEN, OUT, Cloud, mac, network, port

FLOW = "11111111-2222-3333-4444-555555555555"
NAME = "tpf-11111111-22"
TCP = packet.tcp((mac(1), "10.0.0.1"), (mac(2), "10.0.0.2"), 80)
BACK = packet.tcp((mac(2), "10.0.0.2"), (mac(1), "10.0.0.1"), 80)


def ends(direction: str, sink: str, **tap: object) -> tuple[Taps, Taps]:
    """The taps of a source on h1, and of its monitor on a host."""
    flow = Tap(id=FLOW, port_id="monitor", host=sink, direction=direction, tunnel_id=5, **tap)  # type: ignore[arg-type]
    return Taps(flows=(flow,)), Taps(services=("s",), origins=(TapOrigin(id=FLOW, host="h1", tunnel_id=5),))


def tapped(direction: str, sink: str = "h1", **monitor: object) -> Cloud:
    """Ports p1 and p2 on h1 and h2; p1 is tapped. The monitor is on another network, and lets nothing in by its groups."""
    cloud = Cloud("h1", "h2", "h3", options=L2Options(local_ip="192.0.2.100"))
    source, service = ends(direction, sink)
    cloud.apply(*objects(source, service, sink, **monitor))
    for host in cloud.hosts.values():
        assert host.desired is not None
        assert not any(host.plans(host.desired))
    return cloud


def objects(source: Taps, service: Taps, sink: str, **monitor: object) -> Iterator[state.Object]:
    yield from (network("net"), network("other", number=101), OPEN, OUT)
    yield port("p1", 1, groups=["open"], taps=source)
    yield port("p2", 2, host="h2", groups=["open"])
    yield port("monitor", 3, "other", host=sink, **{"groups": ["out"], "taps": service, **monitor})  # type: ignore[arg-type]
    yield from (port(f"near{n}", 3 + n, "other", host=f"h{n}", groups=["open"]) for n in (1, 2, 3))


@pytest.mark.parametrize("sink", ["h1", "h2", "h3"])
@pytest.mark.parametrize(("direction", "sent", "received"), [("OUT", 1, 0), ("IN", 0, 1), ("BOTH", 1, 1)])
def test_copies_reach_the_monitor_alone(sink: str, direction: str, sent: int, received: int) -> None:
    cloud = tapped(direction, sink)
    for host, name, one, wanted in (("h1", "p1", TCP, sent), ("h2", "p2", BACK, received)):
        arrived = cloud.send(host, name, one)
        original = "p2" if name == "p1" else "p1"
        assert arrived.keys() == {original, *(["monitor"] if wanted else [])}
        assert all(each == arrived[original] for each in arrived.values())  # the MAC and address of the receiver


@pytest.mark.parametrize("monitor", [{"port_security_enabled": False, "groups": []}, {"groups": ["open"]}])
def test_the_monitors_own_groups_do_not_matter(monitor: dict[str, object]) -> None:
    assert "monitor" in tapped("IN", "h2", **monitor).send("h2", "p2", BACK)


def test_a_broadcast_is_copied_once() -> None:
    arrived = tapped("BOTH", "h3").send("h1", "p1", packet.arp_request(mac(1), "10.0.0.1", "10.0.0.9"))
    assert {"p2", "monitor"} == arrived.keys()


def test_what_the_receivers_groups_drop_is_not_copied() -> None:
    cloud = Cloud("h1", "h2")
    source, service = ends("IN", "h1")
    others = [each for each in objects(source, service, "h1") if each.id != "p1"]
    cloud.apply(*others, port("p1", 1, groups=["out"], taps=source))
    assert cloud.send("h2", "p2", BACK) == {}


def test_ports_that_tap_each_other_on_two_hosts_do_not_loop() -> None:
    cloud = Cloud("h1", "h2", options=L2Options(local_ip="192.0.2.100"))
    other = "22222222-2222-3333-4444-555555555555"

    def taps(own: str, theirs: str, sink: str, host: str, number: int) -> Taps:
        flow = Tap(id=own, port_id=sink, host=host, direction="BOTH", tunnel_id=number)
        return Taps(services=(sink,), flows=(flow,), origins=(TapOrigin(id=theirs, host=host, tunnel_id=3 - number),))

    cloud.apply(
        *(network("net"), OPEN, port("p3", 3, groups=["open"])),
        port("p1", 1, groups=["open"], taps=taps(FLOW, other, "p2", "h2", 1)),
        port("p2", 2, host="h2", groups=["open"], taps=taps(other, FLOW, "p1", "h1", 2)),
    )
    arrived = cloud.send("h1", "p3", packet.tcp((mac(3), "10.0.0.3"), (mac(1), "10.0.0.1"), 80))
    assert arrived.keys() == {"p1", "p2"}


def test_without_the_tap_nothing_is_left() -> None:
    cloud = tapped("BOTH", "h2")
    cloud.apply(*objects(Taps(), Taps(services=("s",)), "h2"))
    assert all(not host.extension_ports for host in cloud.hosts.values())
    assert "monitor" not in cloud.send("h1", "p1", TCP)


def test_the_tunnel_between_two_hosts() -> None:
    host = tapped("BOTH", "h2").hosts["h1"]
    assert host.desired is not None
    row = host.renderer.render(host.desired).rows[NAME]
    assert isinstance(row, SetPort)
    key = str(RESERVED_KEYS + 5)
    assert (row.bridge, row.type) == ("br-int", "gre")
    wanted = {"remote_ip": "192.0.2.2", "local_ip": "192.0.2.100", "in_key": key, "out_key": key, "df_default": "false"}
    assert row.options == wanted


def mirrored(*mirrors: TapMirror) -> Cloud:
    cloud = Cloud("h1", "h2", options=L2Options(local_ip="192.0.2.100"))
    cloud.apply(*objects(Taps(mirrors=mirrors), Taps(), "h2"))
    return cloud


def test_mirrors_have_a_tunnel_for_each_direction() -> None:
    one = TapMirror(id=FLOW, direction="IN", tunnel_id=1025, remote_ip="198.51.100.9", mirror_type="erspanv1")
    two = structs.replace(one, direction="OUT", tunnel_id=7, remote_ip="2001:db8::9", mirror_type="gre")
    cloud = mirrored(one, two)
    assert cloud.send("h1", "p1", TCP).keys() == {"p2", "tmo-11111111-22"}
    assert cloud.send("h2", "p2", BACK).keys() == {"p1", "tmi-11111111-22"}
    assert cloud.send("h1", "tmo-11111111-22", TCP) == {}  # it only sends
    host = cloud.hosts["h1"]
    assert host.desired is not None
    rows = host.renderer.render(host.desired).rows
    sent = {name: row.options for name, row in rows.items() if isinstance(row, SetPort)}
    options = sent["tmi-11111111-22"]
    assert (options["erspan_ver"], options["erspan_idx"], options["out_key"]) == ("1", "0x401", "1")
    assert options["local_ip"] == "192.0.2.100"
    assert sent["tmo-11111111-22"]["out_key"] == "7"
    assert "local_ip" not in sent["tmo-11111111-22"]  # of another IP version
    assert all(int(each["in_key"]) >= RESERVED_KEYS for each in sent.values())
    assert cloud.send("h1", "p1", TCP).keys() == {"p2", "tmo-11111111-22"}


def test_a_mirror_to_the_address_of_another_host_sends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The server refuses it, unless the host is newer than the mirror: its copies would be packets of a GRE network."""
    mirror = TapMirror(id=FLOW, direction="OUT", tunnel_id=100, remote_ip="192.0.2.2", mirror_type="gre")
    cloud = mirrored(mirror)
    host = cloud.hosts["h1"]
    assert host.desired is not None
    assert host.renderer.render(host.desired).rows == {}
    assert cloud.send("h1", "p1", TCP).keys() == {"p2"}
    assert f"tap mirror {FLOW} is not served" in caplog.text


def test_a_filter_of_the_parent_selects_subports() -> None:
    cloud = Cloud("h1")
    source, service = ends("OUT", "h1", vlans=((0, 0), (20, 29)))
    trunk = {"trunk_id": "t", "groups": ["open"]}
    cloud.apply(
        *(network("net"), OPEN, port("p9", 9, groups=["open"]), port("monitor", 3, groups=["open"], taps=service)),
        port("p1", 1, taps=source, **trunk),  # type: ignore[arg-type]
        *(port(f"sub{vlan}", vlan, trunk_vlan=vlan, **trunk) for vlan in (20, 30)),  # type: ignore[arg-type]
    )

    def copy(number: int, name: str) -> packet.Packet | None:
        return cloud.send("h1", name, packet.tcp((mac(number), f"10.0.0.{number}"), (mac(9), "10.0.0.9"), 80)).get(
            "monitor"
        )

    assert copy(1, "p1") is not None
    assert copy(30, "sub30") is None
    tagged = copy(20, "sub20")
    assert tagged is not None
    assert tagged.vlan == 20


def test_a_filter_selects_the_tags_of_instances() -> None:
    cloud = Cloud("h1")
    source, service = ends("BOTH", "h1", vlans=((5, 12), (100, 100)))
    transparent = structs.replace(network("net"), vlan_transparent=True)
    cloud.apply(
        *(transparent, network("other", number=101), OPEN, port("p2", 2, groups=["open"])),
        port("p1", 1, port_security_enabled=False, taps=source),
        port("monitor", 3, "other", groups=["open"], taps=service),
    )
    for vlan, wanted in ((5, True), (8, True), (12, True), (13, False), (4, False), (100, True), (101, False)):
        arrived = cloud.send("h1", "p1", TCP.having(vlan=vlan))
        assert ("monitor" in arrived) == wanted, vlan
    assert "monitor" not in cloud.send("h1", "p1", TCP)


@pytest.mark.parametrize(
    ("vlans", "matches"),
    [
        ([7], ["dl_vlan=7"]),
        ([0], ["vlan_tci=0x0000/0x1fff", "dl_vlan=0"]),
        ([4, 5, 6, 7, 9], ["vlan_tci=0x1004/0x1ffc", "dl_vlan=9"]),
        ([*range(5, 13)], ["dl_vlan=5", "vlan_tci=0x1006/0x1ffe", "vlan_tci=0x1008/0x1ffc", "dl_vlan=12"]),
        ([*range(4096)], ["vlan_tci=0x0000/0x1fff", "vlan_tci=0x1000/0x1000"]),
    ],
)
def test_matches_of_vlans(vlans: list[int], matches: list[str]) -> None:
    assert [*vlan_matches(vlans)] == matches


def test_statuses() -> None:
    source, service = ends("IN", "h2")
    cloud = Cloud("h1", "h2")
    near = cloud.state_for("h1", objects(source, service, "h2"))
    far = cloud.state_for("h2", objects(source, service, "h2"))
    extension = TapTunnels()
    assert [*extension.statuses(near, {"p1"}, {})] == [ObjectStatus("tap_flow", FLOW, "ACTIVE")]
    assert [*extension.statuses(near, set(), {})] == []
    reason = "h2 has no address for tunnels"
    broken = ObjectStatus("tap_flow", FLOW, "ERROR", reason=reason)
    assert [*extension.statuses(near, {"p1"}, {f"tap flow {FLOW}": reason})] == [broken]
    assert [*extension.statuses(far, {"monitor"}, {})] == [ObjectStatus("tap_service", "s", "ACTIVE")]
    unbound = cloud.state_for("h1", objects(ends("IN", "")[0], service, ""))
    assert [*extension.statuses(unbound, {"p1"}, {})] == []


def test_a_host_without_a_tunnel_address_says_so() -> None:
    cloud = Cloud("h1", "h2")
    source, service = ends("BOTH", "h2")
    cloud.apply(*objects(source, service, "h2"))
    host = cloud.hosts["h1"]
    assert host.desired is not None
    rendered = host.renderer.render(host.desired)
    assert "this host has no address for tunnels" in rendered.problems[f"tap flow {FLOW}"]
    assert cloud.send("h1", "p1", TCP).keys() == {"p2"}
