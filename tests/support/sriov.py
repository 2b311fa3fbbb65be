"""Hosts with cards in memory: ports with virtual functions, and a reconciler of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from neutrino.agent.sriov.config import SriovOptions
from neutrino.agent.sriov.desired import HostState
from neutrino.agent.sriov.reconciler import Outcome, Reconciler
from neutrino.agent.sriov.record import RecordFile
from neutrino.model import state
from neutrino.model.qos import BandwidthLimit, MinimumBandwidth, QosPolicy
from neutrino.model.sriov import VIRTUAL_FUNCTION
from tests.fakes.sriov import FakeSriov, slot
from tests.support.l2 import mac, network, port

CARD, OTHER_CARD, PHYSNET = "ens1", "ens2", "rack"
OPTIONS = SriovOptions({PHYSNET: (CARD,), "other": (OTHER_CARD,)})


def vlan(name: str = "net", number: int = 100, physical: str = PHYSNET) -> state.Network:
    return network(name, "vlan", number, physical)


def function_port(name: str, number: int, network_id: str = "net", **changes: object) -> state.Port:
    """Port `number` has the function `number` of the first card."""
    values = {
        "vif_type": VIRTUAL_FUNCTION,
        "vnic_type": "direct",
        "segment_id": f"{network_id}-segment",
        "function": state.VirtualFunction(slot(number)),
        "revision": 1,
    }
    return port(name, number, network_id, **(values | changes))


def policy(name: str = "policy", limit: int = 0, minimum: int = 0) -> QosPolicy:
    limits = (BandwidthLimit(max_kbps=limit),) if limit else ()
    return QosPolicy(
        id=name,
        bandwidth_limits=(BandwidthLimit(direction="ingress", max_kbps=7), *limits),
        minimum_bandwidths=(MinimumBandwidth(min_kbps=minimum),) if minimum else (),
    )


def host_state(
    ports: Iterable[state.Port] = (),
    networks: Iterable[state.Network] = (),
    policies: Iterable[QosPolicy] = (),
) -> HostState:
    known = tuple(networks) or (vlan(),)
    return HostState(
        {each.id: each for each in ports}, {each.id: each for each in known}, {each.id: each for each in policies}
    )


@dataclasses.dataclass
class CardHost:
    """A host with two cards of four functions, and the state directory of its agent."""

    directory: Path
    options: SriovOptions = OPTIONS
    sriov: FakeSriov = dataclasses.field(default_factory=lambda: FakeSriov(CARD, OTHER_CARD))

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new agent, with an empty memory."""
        self.file = RecordFile(str(self.directory))
        self.reconciler = Reconciler(self.sriov, self.file, self.options)

    def plug(self, number: int) -> None:
        self.sriov.plug(CARD, number, mac(number))

    def reconcile(self, state: HostState, *, complete: bool = True) -> Outcome:
        return self.reconciler.reconcile(state, complete=complete)

    def settings(self, number: int) -> Mapping[str, object]:
        """What differs from an unused function."""
        found, default = (
            dataclasses.asdict(each)
            for each in (self.sriov.function(CARD, number).settings, FakeSriov(CARD).function(CARD, 0).settings)
        )
        return {name: value for name, value in found.items() if value != default[name]}
