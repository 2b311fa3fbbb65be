"""QoS of a port on a real Open vSwitch: meters, the queue of its device, changes in place, and what is left."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator

import pytest

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.reconciler import Outcome, Reconciler
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, Flow, Meter
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.dataplane.ovsdb.api import SetBridge, SetPort
from neutrino.dataplane.ovsdb.real import RealOvsdb
from neutrino.dataplane.tc.real import RealTc
from neutrino.model import state
from neutrino.model.qos import BandwidthLimit, MinimumBandwidth, PacketRateLimit, QosPolicy
from tests.support.l2 import OPEN, network, port
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until
from tests.support.switch_host import Connections, host_state

NET = network("net", "vlan", 205, "physnet1")
SECONDS = 20


def policy(kbps: int, dscp: int | None = None) -> QosPolicy:
    return QosPolicy(
        id="gold",
        bandwidth_limits=tuple(BandwidthLimit(max_kbps=kbps, direction=way) for way in ("egress", "ingress")),
        packet_rate_limits=(PacketRateLimit(max_kpps=kbps // 1000),),
        minimum_bandwidths=(MinimumBandwidth(min_kbps=kbps),),
        dscp_mark=dscp,
    )


class QosHost:
    """An integration bridge with a port and a physical bridge with an uplink, both devices of the kernel.

    The datapath is a dummy, so that the kernel's devices have queues as on the kernel's datapath.
    """

    def __init__(self, server: OpenVSwitch) -> None:
        self.server, self.ovsdb = server, RealOvsdb(server.database)
        self.openflow = OvsOfctl(server.run_directory)
        tag = uuid.uuid4().hex[:8]
        self.tap, self.uplink = f"tap{tag}", f"up{tag}"
        for device in (self.tap, self.uplink):
            _ip("link", "add", device, "type", "veth", "peer", "name", f"{device}p")
            _ip("link", "set", device, "up")
        self.restart()
        self.objects = (NET, OPEN, port("p1", 1, groups=["open"], qos_policy_id="gold"))
        self.ovsdb.apply([SetBridge("br-phys", datapath_type="dummy"), SetPort("br-phys", self.uplink)])
        _until(lambda: self.reconcile().ready)
        self.ovsdb.apply([SetPort("br-int", self.tap, external_ids={"iface-id": "p1"})])
        _until(lambda: self.reconcile().wired.keys() == {"p1"})

    def restart(self) -> None:
        options = L2Options(
            datapath_type="dummy",
            bridge_mappings=(("physnet1", "br-phys"),),
            uplink_rates=(("br-phys", 20_000),),
        )
        self.reconciler = Reconciler(lambda: self.ovsdb, self.openflow, Connections(), options, tc=RealTc())

    def reconcile(self, *more: state.Object) -> Outcome:
        return self.reconciler.reconcile(host_state(*self.objects, *more), complete=True)

    def settle(self, *more: state.Object) -> None:
        """Until the plan is empty."""
        _until(lambda: self.reconcile(*more).changed == 0)
        assert self.reconciler.find(host_state(*self.objects, *more), complete=True).plan == ""

    def close(self) -> None:
        self.ovsdb.close()
        for device in (self.tap, self.uplink):
            _ip("link", "delete", device)

    def flows(self) -> frozenset[Flow]:
        return self.openflow.read_flows("br-int", COOKIE, COOKIE_MASK)

    def meters(self) -> list[Meter]:
        return sorted(self.openflow.read_meters("br-int").values(), key=lambda meter: meter.unit)

    def rows(self) -> set[str]:
        return {self.server.vsctl("get", "Port", device, "qos") for device in (self.tap, self.uplink)}

    def classes(self, device: str) -> str:
        return subprocess.run(["tc", "class", "show", "dev", device], capture_output=True, text=True, check=True).stdout


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _until(holds: Callable[[], bool]) -> None:
    wait_until(holds, timeout=SECONDS, what="it", failed=lambda: None)


@pytest.fixture
def host() -> Iterator[QosHost]:
    with OpenVSwitch() as server:
        made = QosHost(server)
        yield made
        made.close()


def test_limits_are_applied_changed_in_place_and_removed(host: QosHost) -> None:
    host.settle()
    clean = host.flows()
    assert (host.meters(), host.rows()) == ([], {"[]"})

    host.settle(policy(2000, dscp=46))
    assert host.meters() == [Meter(2000, "kbps", 1600), Meter(2000, "pktps", 1600)]
    assert "rate 2Mbit ceil 2Mbit" in host.classes(host.tap)
    assert "rate 2Mbit ceil 20Mbit" in host.classes(host.uplink)
    assert "rate 18Mbit ceil 20Mbit" in host.classes(host.uplink)
    assert len(RealTc().read(host.uplink)) == 2
    flows, rows, numbers = host.flows(), host.rows(), {*host.openflow.read_meters("br-int")}
    assert any("set_field:46->ip_dscp" in flow.actions for flow in flows)

    host.settle(policy(3000, dscp=46))
    assert host.meters() == [Meter(3000, "kbps", 2400), Meter(3000, "pktps", 2400)]
    _until(lambda: "rate 3Mbit ceil 3Mbit" in host.classes(host.tap))
    _until(lambda: "rate 3Mbit ceil 20Mbit" in host.classes(host.uplink))
    assert (host.flows(), host.rows(), {*host.openflow.read_meters("br-int")}) == (flows, rows, numbers)
    assert len(RealTc().read(host.uplink)) == 2

    host.restart()
    assert host.reconcile(policy(3000, dscp=46)).changed == 0

    host.settle()
    assert (host.flows(), host.meters(), host.rows()) == (clean, [], {"[]"})
    for table in ("QoS", "Queue"):
        assert host.server.vsctl("--columns=_uuid", "list", table) == ""
    for device in (host.tap, host.uplink):
        _until(lambda device=device: "htb" not in host.classes(device))  # type: ignore[misc]
    assert RealTc().read(host.uplink) == frozenset()


def test_lost_filters_and_meters_are_drift(host: QosHost) -> None:
    host.settle(policy(2000))
    assert host.reconciler.drift() == {}
    RealTc().replace(host.uplink, ())
    (number, *_) = host.openflow.read_meters("br-int")
    host.openflow.apply_meters("br-int", add={}, change={number: Meter(1)}, delete=())
    drifted = host.reconciler.drift()
    assert drifted.keys() == {"br-int", host.uplink}
    for name in drifted:
        host.reconciler.forget(name)
    host.settle(policy(2000))
    assert len(RealTc().read(host.uplink)) == 2
    assert Meter(1) not in host.meters()
