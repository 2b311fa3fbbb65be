"""Desired state of virtual functions: ports, networks and QoS policies as settings of a function. Pure.

Nova claims a function and writes its PCI slot into the binding profile; libvirt gives it the port's MAC and VLAN and
hands it to the instance. All other settings are this role's, and it restores the VLAN when that changes.
"""

import dataclasses
from collections.abc import Mapping

from neutrino.dataplane.sriov.api import LinkState, Settings
from neutrino.model.qos import EGRESS, QosPolicy, effective_policy_id
from neutrino.model.sriov import VIRTUAL_FUNCTION
from neutrino.model.state import Network, Port, Segment

KBITS = 1000  # of one Mbit, in which cards count


class NotWired(Exception):
    """Why a port cannot have its function."""


@dataclasses.dataclass(frozen=True)
class HostState:
    """The objects that the server has sent to this host, by id."""

    ports: Mapping[str, Port] = dataclasses.field(default_factory=dict)
    networks: Mapping[str, Network] = dataclasses.field(default_factory=dict)
    qos_policies: Mapping[str, QosPolicy] = dataclasses.field(default_factory=dict)

    @property
    def function_ports(self) -> list[Port]:
        """The ports that are bound to virtual functions of this host."""
        return [port for _, port in sorted(self.ports.items()) if port.active and port.vif_type == VIRTUAL_FUNCTION]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A port as its virtual function should be."""

    port: Port
    pci_slot: str
    physical_network: str
    settings: Settings
    silent: str = ""  # why no packet may pass; empty: packets pass

    @property
    def mac(self) -> str:
        return self.port.mac_address.lower()


def render(port: Port, state: HostState) -> Wanted:
    """What a port wants of its function; NotWired if it cannot have one."""
    if port.function is None or not port.function.pci_slot:
        raise NotWired("its binding profile has no pci_slot")
    network = state.networks.get(port.network_id)
    if network is None:
        raise NotWired("its network is not known here")
    segment = next((each for each in network.segments if each.id == port.segment_id), None)
    if segment is None:
        raise NotWired("its segment is not known here")
    silent = why_silent(port, network)
    policy = state.qos_policies.get(effective_policy_id(port, network))
    settings = Settings(
        vlan=_vlan(segment),
        spoof_check=checks_spoofing(port),
        trust=port.function.trusted,
        link_state=link_state(port, silent=bool(silent)),
        max_rate=max_rate(policy),
        min_rate=min_rate(policy),
    )
    return Wanted(port, port.function.pci_slot, segment.physical_network or "", settings, silent)


def why_silent(port: Port, network: Network) -> str:
    if not port.admin_state_up:
        return "its admin state is down"
    return "" if network.admin_state_up else "its network's admin state is down"


def link_state(port: Port, *, silent: bool) -> LinkState:
    if silent:
        return LinkState.DISABLE
    follows = port.function is None or port.function.propagate_uplink_status
    return LinkState.AUTO if follows else LinkState.ENABLE


def checks_spoofing(port: Port) -> bool:
    """Whether the card drops frames with another source MAC. It knows one MAC only: pairs with others need it off."""
    mac = port.mac_address.lower()
    others = any(pair.mac_address.lower() not in ("", mac) for pair in port.allowed_address_pairs)
    return port.port_security_enabled and not others


def max_rate(policy: QosPolicy | None) -> int:
    limits = policy.bandwidth_limits if policy is not None else ()
    return next((_megabits(each.max_kbps) for each in limits if each.direction == EGRESS), 0)


def min_rate(policy: QosPolicy | None) -> int:
    minimums = policy.minimum_bandwidths if policy is not None else ()
    return next((_megabits(each.min_kbps) for each in minimums if each.direction == EGRESS), 0)


def _megabits(kbits: int) -> int:
    """As Neutron: rounded, and at least 1, as 0 would be no limit at all."""
    return max(1, (kbits + KBITS // 2) // KBITS) if kbits else 0


def _vlan(segment: Segment) -> int:
    if segment.network_type == "flat":
        return 0
    if segment.network_type != "vlan" or segment.segmentation_id is None:
        raise NotWired(f"its segment is of type {segment.network_type}: cards have flat and vlan networks")
    return segment.segmentation_id
