"""The worked example of an L2 extension on the fake and on a real Open vSwitch: added, updated, deleted, repaired."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.agent.l2.extension_api import METER_IDS
from neutrino.dataplane.openflow.api import Meter
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.dataplane.ovsdb.api import PortSettings, Qos, Queue
from neutrino.dataplane.ovsdb.real import RealOvsdb
from tests.fakes.openvswitch import FakeOpenVSwitch
from tests.support.l2 import OPEN, network, port
from tests.support.l2_extension import ExtensionHost, Limit
from tests.support.openvswitch import OpenVSwitch

NET = network("net", "local", 0)
PORTS = (NET, OPEN, port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"]))


@pytest.fixture(params=["fake", "real"])
def host(request: pytest.FixtureRequest) -> Iterator[ExtensionHost]:
    """br-int with the taps of p1 and p2."""
    if request.param == "fake":
        switch = FakeOpenVSwitch()
        yield _plugged(ExtensionHost(switch.ovsdb, switch.openflow, "dummy"))
        return
    with OpenVSwitch() as server:
        ovsdb = RealOvsdb(server.database)
        yield _plugged(ExtensionHost(ovsdb, OvsOfctl(server.run_directory), "dummy"))
        ovsdb.close()


def _plugged(host: ExtensionHost) -> ExtensionHost:
    host.until(lambda: host.reconcile().ready)
    for name in ("p1", "p2"):
        host.plug(name, "dummy")
    host.until(lambda: host.reconcile(*PORTS).wired.keys() == {"p1", "p2"})
    return host


def qos(bits: int, dscp: int | None = None) -> Qos:
    rate = {"max-rate": str(bits)}
    return Qos("linux-htb", rate, {1: Queue(rate, dscp)})


def settled(host: ExtensionHost, *objects: object) -> None:
    """Nothing is left to do, for this agent and for one without memory."""
    host.until(lambda: host.find(*objects).plan == "")  # type: ignore[arg-type]
    assert host.reconcile(*objects).changed == 0  # type: ignore[arg-type]


def test_a_limit_is_added_updated_and_deleted(host: ExtensionHost) -> None:
    assert (host.meters(), host.limited()) == ({}, {})

    limited = (*PORTS, Limit("p1", 100, 1_000_000))
    assert host.reconcile(*limited).wired.keys() == {"p1", "p2"}
    ((number, meter),) = host.meters().items()
    assert number in METER_IDS
    assert meter == Meter(100)
    ofport = host.port("p1").interfaces[0].ofport
    assert host.limited() == {ofport: f"meter:{number},resubmit(,60)"}
    host.until(lambda: host.port("p1").settings == PortSettings(qos=qos(1_000_000)))
    settled(host, *limited)

    changed = (*PORTS, Limit("p1", 250, 2_000_000, dscp=12))
    host.reconcile(*changed)
    assert host.meters() == {number: Meter(250)}
    host.until(lambda: host.port("p1").settings == PortSettings(qos=qos(2_000_000, 12)))
    settled(host, *changed)

    other = (*PORTS, Limit("p2", 250, 2_000_000))
    host.reconcile(*other)
    assert list(host.meters().values()) == [Meter(250)]
    assert number not in host.meters()
    host.until(lambda: host.port("p1").settings == PortSettings())
    settled(host, *other)

    host.reconcile(*PORTS)
    assert (host.meters(), host.limited()) == ({}, {})
    host.until(lambda: host.port("p2").settings == PortSettings())
    settled(host, *PORTS)
    assert host.ovsdb.read().unused == frozenset()


def test_the_rows_of_an_unplugged_port_are_collected(host: ExtensionHost) -> None:
    host.reconcile(*PORTS, Limit("p1", 100, 1_000_000))
    host.until(lambda: host.port("p1").settings.qos is not None)
    host.unplug("p1")
    host.until(lambda: bool(host.ovsdb.read().unused))
    host.reconcile(*PORTS, Limit("p1", 100, 1_000_000))
    host.until(lambda: not host.ovsdb.read().unused)
    assert (host.meters(), host.limited()) == ({}, {})


def test_a_restarted_agent_recognises_and_removes_its_stale_state(host: ExtensionHost) -> None:
    limited = (*PORTS, Limit("p1", 100, 1_000_000))
    host.reconcile(*limited)
    host.until(lambda: host.port("p1").settings.qos is not None)
    host.openflow.apply_meters("br-int", add={7: Meter(7)}, change={}, delete=())  # of another program
    before = host.meters()

    host.restart([])  # the extension is not configured any more
    host.reconcile(*PORTS, complete=False)
    assert host.meters() == before  # not before the server has sent everything
    host.reconcile(*PORTS)
    assert (host.meters(), host.limited()) == ({7: Meter(7)}, {})
    host.until(lambda: host.port("p1").settings == PortSettings())
    settled(host, *PORTS)


def test_drift_of_a_meter_is_found_and_repaired(host: ExtensionHost) -> None:
    limited = (*PORTS, Limit("p1", 100, 1_000_000))
    host.reconcile(*limited)
    (number,) = host.meters()
    assert host.reconciler.drift() == {}
    host.openflow.apply_meters("br-int", add={}, change={number: Meter(9)}, delete=())
    assert host.reconciler.drift() == {"br-int": (1, 0)}
    host.reconciler.forget("br-int")
    assert "meter" in host.find(*limited).plan
    host.reconcile(*limited)
    assert host.meters() == {number: Meter(100)}
