"""The contract of the L2 role's extensions: desired state in, contributions out.

Every feature of the L2 role is an extension, the built-in ones (`extensions.BUILT_IN`) and those of third parties alike. An
extension divides its work into units, one for each port, network or host-wide concern. A unit renders a `Contribution`:
flows, meters, OVSDB rows, and settings of ports. Rendering is pure; nothing here touches the host. The role plans the
contributions of all units against the actual state, applies and verifies the difference, repairs drift, and removes what no
unit contributes any more.

A unit is rendered again only when its `inputs` have changed, so that a change of one port costs one port.
"""

import abc
import dataclasses
import hashlib
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, HostState, L2Options, LocalNetwork, LocalPort
from neutrino.agent.runtime.role import ObjectStatus
from neutrino.dataplane.openflow.api import COOKIE, LEARNED_COOKIE, Flow, Meter
from neutrino.dataplane.ovsdb.api import PortSettings, SetBridge, SetPort
from neutrino.dataplane.tc.api import Item
from neutrino.model.kinds import Kind

# Meters carry no mark, so a range of ids is ours.
METER_IDS = range(32768, 65536)


@dataclasses.dataclass(frozen=True)
class Contribution:
    """What one unit adds to the host."""

    flows: Mapping[str, Iterable[Flow]] = dataclasses.field(default_factory=dict)  # by bridge
    # By bridge, then by a name that is unique on the bridge. The role chooses the id; flows refer to it by `use_meter`.
    meters: Mapping[str, Mapping[str, Meter]] = dataclasses.field(default_factory=dict)
    # Bridges and ports that the extension creates. They are marked as ours and deleted when no unit contributes them.
    rows: tuple[SetBridge | SetPort, ...] = ()
    # Settings of ports that exist, such as an instance's tap, by the port's name: interface columns, QoS and queues.
    ports: Mapping[str, PortSettings] = dataclasses.field(default_factory=dict)
    # By device: filters that sort packets into the queues of its port, for packets whose queue the kernel does not know,
    # and the lengths of these queues.
    filters: Mapping[str, Collection[Item]] = dataclasses.field(default_factory=dict)


class Unit(NamedTuple):
    """One owner's share of an extension: `render(*inputs)`. The function is pure, as its result is cached by the inputs."""

    owner: str  # use port_owner or network_owner where it is for one: the object is named in reports
    inputs: tuple[object, ...]
    render: Callable[..., Contribution]
    part: str = ""  # of several units of one owner, where rendering all for a change of one would take too long


class L2Extension(abc.ABC):
    """A feature of the L2 role. An entry point gives a callable from the configuration to one of these."""

    name: ClassVar[str]
    neutron_name: ClassVar[str] = ""  # of an extension of Neutron's agents that this one is
    new_kinds: ClassVar[tuple[Kind, ...]] = ()  # object kinds of the feed that it brings
    kinds: ClassVar[frozenset[str]] = frozenset()  # object kinds of the feed that `desired.objects` must have
    has_table: ClassVar[bool] = False  # whether packets from ports pass a table of its own, `options.extension_table`
    has_ingress_table: ClassVar[bool] = False  # whether packets to ports do, `options.ingress_table`

    def egress_ports(self, desired: Desired) -> Collection[str]:
        """Ids of the ports that its table is for; packets from ports that no extension names skip all tables."""
        return [port.id for port in desired.ports]

    def ingress_ports(self, desired: Desired) -> Collection[str]:
        """Ids of the ports that its ingress table is for; packets to ports that no extension names skip all tables."""
        return [port.id for port in desired.ports]

    def deciding_owners(self, desired: Desired) -> Iterable[str]:
        """Owners, besides ports, whose flows decide together what passes.

        They are applied all or none, since without a flow that drops packets the others would pass these. Before the
        feed is synced they stay as they are, since a rule that was removed must not come back from the feed's cache.
        """
        return ()

    @abc.abstractmethod
    def units(self, desired: Desired) -> Iterable[Unit]:
        """All units of the extension for this desired state. Called by each reconciliation, so it must be cheap."""

    def statuses(
        self, host_state: HostState, wired: Collection[str], failed: Mapping[str, str]
    ) -> Iterable[ObjectStatus]:
        """Statuses of objects of the API, each reported once, after a reconciliation that wired some ports.

        `failed`: reasons by ids of ports that could not be wired, and by owners that could not be rendered or applied.
        """
        return ()


REMOTES = "remotes"
"""The owner of the member flows of all remote groups."""


def port_owner(port: LocalPort) -> str:
    return f"port {port.id}"


def network_owner(network: LocalNetwork) -> str:
    return f"network {network.key.network_id} {network.vlan}"


def with_tables(options: L2Options, extensions: Sequence[L2Extension]) -> L2Options:
    """The options with the tables that these extensions have."""
    return dataclasses.replace(
        options,
        extension_tables=pipeline.extension_tables([extension.name for extension in extensions if extension.has_table]),
        ingress_tables=pipeline.ingress_tables(
            [extension.name for extension in extensions if extension.has_ingress_table]
        ),
    )


def cookie_of(owner: str) -> int:
    return COOKIE | zlib.crc32(owner.encode())


def learned_cookie_of(owner: str) -> int:
    """The cookie of flows that an owner's flows have learned."""
    return LEARNED_COOKIE | zlib.crc32(owner.encode())


def use_meter(name: str) -> str:
    """The action of a flow that passes packets through a contributed meter."""
    return f"meter:@{name}"


def stable_numbers(names: Iterable[str], numbers: range) -> dict[str, int]:
    """A number for each name, derived from the name: after a restart it is the same, so no flow has to change."""
    found: dict[int, str] = {}
    for name in sorted(names):
        place = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big") % len(numbers)
        while numbers[place] in found:  # two names with the same digest: the next free number
            place = (place + 1) % len(numbers)
        found[numbers[place]] = name
    return {name: number for number, name in found.items()}
