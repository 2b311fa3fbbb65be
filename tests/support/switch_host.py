"""A host on a fake Open vSwitch, reconciled by the code of the agent."""

from __future__ import annotations

from collections.abc import Iterable

from neutrino.agent.l2.desired import HostState, L2Options
from neutrino.agent.l2.hybrid.firewall import HybridFirewall
from neutrino.agent.l2.reconciler import Outcome, Reconciler
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.ovsdb.api import DeletePort, SetBridge, SetPort
from neutrino.model import state
from neutrino.model.firewall import FirewallGroup
from neutrino.model.qos import QosPolicy
from tests.fakes.conntrack import FakeKernelConntrack
from tests.fakes.iptables import FakeIptables
from tests.fakes.openvswitch import FakeOpenVSwitch
from tests.fakes.tc import FakeTc

OPTIONS = L2Options(
    bridge_mappings=(("physnet1", "br-phys"),),
    tunnel_types=("vxlan", "gre"),
    local_ip="192.0.2.1",
)
PEER = state.Host(id="h2", tunneling_ip="192.0.2.2", tunnel_types=("vxlan", "gre"))


class Connections:
    """Remembers what was flushed."""

    def __init__(self) -> None:
        self.flushed: list[ConntrackFlush] = []

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        self.flushed += entries


class SwitchHost:
    def __init__(self, options: L2Options = OPTIONS) -> None:
        self.switch = FakeOpenVSwitch()
        self.iptables = FakeIptables()
        self.switch.ovsdb.apply([SetBridge("br-phys"), SetPort("br-phys", "eth1")])
        self.connections = Connections()
        self.tc = FakeTc()
        self.options = options
        self.reconciler = self.new_reconciler()

    def new_reconciler(self) -> Reconciler:
        """As after a restart of the agent: nothing is remembered."""
        switch, hybrid = self.switch, HybridFirewall(self.iptables, FakeKernelConntrack())
        self.reconciler = Reconciler(
            lambda: switch.ovsdb, switch.openflow, self.connections, self.options, hybrid=hybrid, tc=self.tc
        )
        return self.reconciler

    def plug(self, port_id: str, bridge: str = "br-int") -> None:
        name = f"tap{port_id}"[:15]
        self.switch.ovsdb.apply([SetPort(bridge, name, external_ids={"iface-id": port_id})])

    def unplug(self, port_id: str) -> None:
        self.switch.ovsdb.apply([DeletePort("br-int", f"tap{port_id}"[:15])])

    def reconcile(self, *objects: state.Object, complete: bool = True) -> Outcome:
        return self.reconciler.reconcile(host_state(*objects), complete=complete)

    def tag(self, port_id: str) -> int | None:
        return self.switch.snapshot.bridges["br-int"].ports[f"tap{port_id}"[:15]].tag

    def flows(self, bridge: str = "br-int") -> set[str]:
        return {flow.text() for flow in self.switch.openflow.read_flows(bridge, 0, 0)}


def host_state(*objects: state.Object) -> HostState:
    def of(kind: type) -> dict[str, state.Object]:
        return {entry.id: entry for entry in objects if isinstance(entry, kind)}

    return HostState(
        networks=of(state.Network),  # type: ignore[arg-type]
        ports=of(state.Port),  # type: ignore[arg-type]
        security_groups=of(state.SecurityGroup),  # type: ignore[arg-type]
        group_members=of(state.GroupMembers),  # type: ignore[arg-type]
        address_groups=of(state.AddressGroup),  # type: ignore[arg-type]
        hosts=of(state.Host),  # type: ignore[arg-type]
        forwarding=of(state.Forwarding),  # type: ignore[arg-type]
        extension_objects={"firewall_group": of(FirewallGroup), "qos_policy": of(QosPolicy)},
    )
