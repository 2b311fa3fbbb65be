"""Networks that carry VLAN tags of instances: their flows, the switch's limit, and ports that cannot be on them.

The fake switch knows one tag of a packet; `tests/lab/test_vlan_tags.py` has real frames.
"""

from __future__ import annotations

import pytest
from msgspec import structs

from neutrino.agent.l2 import bridges, pipeline
from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extensions.hints import TX_STEERING
from neutrino.agent.l2.pipeline import Table
from neutrino.agent.l2.plan import Renderer
from neutrino.dataplane.openflow.api import Flow
from neutrino.dataplane.ovsdb.api import PortSettings, SetVlanLimit, Snapshot
from neutrino.model.state import Network
from tests.fakes import packet
from tests.support.l2 import OPEN, Cloud, FakeHost, mac, network, port

PLAIN = network("net", "vxlan", 5000)
TAGGED = structs.replace(PLAIN, vlan_transparent=True)
VLAN = network("net", "vlan", 205, "physnet1")
STACKED = structs.replace(VLAN, qinq=True)
ONE, TWO = (mac(1), "10.0.0.1"), (mac(2), "10.0.0.2")


def host(net: Network, options: L2Options | None = None) -> FakeHost:
    cloud = Cloud("h1", "h2", options=options or L2Options())
    far = port("p3", 3, host="h2", groups=["open"])
    cloud.apply(net, OPEN, port("p1", 1, groups=["open"]), port("p2", 2, port_security_enabled=False), far)
    return cloud.hosts["h1"]


def flows(where: FakeHost, bridge: str, table: Table) -> list[Flow]:
    assert where.desired is not None
    rendered = Renderer(where.extensions).render(where.desired).flows
    return [flow for flow in rendered[bridge].values() if flow.table == table.number]


def test_a_tag_leads_on_only_where_it_is_carried() -> None:
    sent = packet.udp(ONE, TWO, 53)
    tag = sent.having(vlan_tci=0x1007)
    for net, passes in ((PLAIN, False), (TAGGED, True), (VLAN, False), (STACKED, True)):
        cloud = Cloud("h1")
        cloud.apply(net, OPEN, *(port(f"p{n}", n, groups=["open"]) for n in (1, 2)))
        assert bool(cloud.send("h1", "p1", tag)) is passes
        assert cloud.send("h1", "p1", sent) == {"p2": sent}


def test_the_tag_of_802_1ad_on_the_physical_network() -> None:
    (plain,) = [f for f in flows(host(VLAN), "br-phys", pipeline.VLAN_TRANSLATION) if f.priority == 4]
    (stacked,) = [f for f in flows(host(STACKED), "br-phys", pipeline.VLAN_TRANSLATION) if f.priority == 4]
    assert "push_vlan" not in plain.actions
    assert "pop_vlan,push_vlan:0x88a8" in stacked.actions


@pytest.mark.parametrize("l2_population", [True, False])
def test_nothing_is_learned_from_tunnels(l2_population: bool) -> None:
    """A learned flow would remove the tags of instances."""
    options = L2Options(l2_population=l2_population)
    first = max(flows(host(TAGGED, options), "br-tun", pipeline.LEARN), key=lambda flow: flow.priority)
    assert "learn" not in first.actions
    assert "dl_vlan" in first.match


def test_requests_for_addresses_are_not_answered() -> None:
    assert [f for f in flows(host(PLAIN), "br-tun", pipeline.RESPONDER) if "arp_tpa" in f.match]
    assert not [f for f in flows(host(TAGGED), "br-tun", pipeline.RESPONDER) if "arp_tpa" in f.match]


def test_the_limit_of_the_switch() -> None:
    tagged, plain = host(TAGGED).desired, host(PLAIN).desired
    assert tagged is not None
    assert plain is not None
    assert bridges.plan_vlan_limit(tagged, Snapshot()).changes == (SetVlanLimit(0),)
    for limit in (0, 2, 3):
        assert bridges.plan_vlan_limit(tagged, Snapshot(vlan_limit=limit)).changes == ()
    assert bridges.plan_vlan_limit(plain, Snapshot()).changes == ()


def test_the_iptables_firewall_cannot_be_on_it() -> None:
    cloud = Cloud("h1")
    ports = [
        port("p1", 1, groups=["open"], hybrid_plug=True),
        port("p2", 2, hybrid_plug=True, port_security_enabled=False),
    ]
    cloud.apply(TAGGED, OPEN, *ports)
    desired = cloud.hosts["h1"].desired
    assert desired is not None
    assert desired.problems.keys() == {"p1"}
    assert "iptables" in desired.problems["p1"]


def test_the_hint_of_a_port() -> None:
    cloud = Cloud("h1")
    cloud.apply(PLAIN, OPEN, port("p1", 1, groups=["open"], tx_steering="hash"), port("p2", 2, groups=["open"]))
    where = cloud.hosts["h1"]
    assert where.desired is not None
    devices = where.desired.plugged.devices
    assert Renderer(where.extensions).render(where.desired).ports == {
        devices["p1"]: PortSettings({TX_STEERING: "hash"})
    }
