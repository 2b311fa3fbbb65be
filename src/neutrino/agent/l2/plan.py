"""From desired state to a change of the bridges, by way of owners.

`Renderer` keeps what it rendered for each owner together with what it rendered it from: an owner whose input is the same
has the same flows. So a change costs what it touches, and still the result depends on the current state alone. `plan`
compares the whole with what is on the bridge. There is no other way to change a flow.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from neutrino.agent.delta import diff
from neutrino.agent.l2.desired import TUNNEL_TYPES, Desired, LocalNetwork, LocalPort
from neutrino.agent.l2.flows import arp, conjunctions, dvr, firewall, integration, physical, tunnel
from neutrino.agent.l2.ownership import cookie_of, owned
from neutrino.dataplane.openflow.api import Flow, FlowKey

BridgeFlows = dict[str, dict[FlowKey, Flow]]
"""Bridge, to its flows by key."""


class ConflictingFlows(Exception):
    """Two owners want different things of one match: one of them would silently lose."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One owner on one bridge: `render` gives its flows, and depends on nothing but `inputs`."""

    bridge: str
    owner: str
    inputs: object
    render: Callable[[], Iterable[Flow]]


Contribution = Callable[[Desired], Iterable[Part]]
"""An extension: further owners with flows of their own, from the same desired state."""


class Renderer:
    def __init__(self, extensions: Iterable[Contribution] = ()) -> None:
        self._extensions = tuple(extensions)
        self._rendered: dict[tuple[str, str], tuple[object, dict[FlowKey, Flow]]] = {}
        self.problems: dict[str, str] = {}  # owners that could not be rendered, which keep the flows that they had

    def render(self, desired: Desired) -> BridgeFlows:
        """All flows that should be on each of our bridges."""
        rendered: dict[tuple[str, str], tuple[object, dict[FlowKey, Flow]]] = {}
        flows: defaultdict[str, dict[FlowKey, Flow]] = defaultdict(dict)
        self.problems = {}
        added = (part for extension in self._extensions for part in extension(desired))
        for part in (*parts_of(desired), *added):
            known = self._rendered.get((part.bridge, part.owner))
            if known is None or known[0] != part.inputs:
                try:
                    known = part.inputs, _by_key(owned(part.owner, part.render()), part)
                except (ValueError, LookupError, ConflictingFlows) as error:  # of this owner alone
                    self.problems[part.owner] = f"{type(error).__name__}: {error}"
                    if known is None:
                        continue
            rendered[part.bridge, part.owner] = known
            _merge(flows[part.bridge], known[1], part)
        self._rendered = rendered
        return dict(flows)

    def owners(self, bridge: str) -> dict[int, str]:
        """The owners that were rendered last on a bridge, by the cookie of their flows."""
        return {cookie_of(owner): owner for place, owner in self._rendered if place == bridge}


def _by_key(flows: Iterable[Flow], part: Part) -> dict[FlowKey, Flow]:
    found: dict[FlowKey, Flow] = {}
    for flow in flows:
        other = found.setdefault(flow.key, flow)
        if other != flow:
            raise _conflict(part, flow, other)
    return found


def _merge(into: dict[FlowKey, Flow], flows: Mapping[FlowKey, Flow], part: Part) -> None:
    """Flows carry their owner's cookie, so two owners never agree about a key: if one is in both, it is a conflict."""
    if not into.keys().isdisjoint(flows):
        key = next(key for key in flows if key in into)
        raise _conflict(part, flows[key], into[key])
    into.update(flows)


def _conflict(part: Part, flow: Flow, other: Flow) -> ConflictingFlows:
    return ConflictingFlows(f"{part.bridge}, {part.owner}: {flow.text()} against {other.text()}")


def parts_of(desired: Desired) -> Iterator[Part]:
    """Every owner on every bridge."""
    yield from _integration_parts(desired)
    yield from _port_parts(desired)
    yield from _network_parts(desired)
    yield from _tunnel_parts(desired)
    yield from _physical_parts(desired)
    yield from _distributed_parts(desired)


def _integration_parts(desired: Desired) -> Iterator[Part]:
    bridge, uplinks = desired.options.integration_bridge, desired.plugged.uplinks
    permitted = desired.options.permitted_ethertypes
    ends = uplinks, desired.plugged.patch_tun
    yield Part(bridge, "bridge", ends, partial(integration.render_base, *ends))
    yield Part(bridge, "firewall", permitted, partial(firewall.render_base, permitted))
    uses = conjunctions.used_remotes(desired.ports)
    numbers = conjunctions.number_remotes(desired.remotes)
    yield Part(
        bridge,
        "remotes",
        (uses, desired.remotes),
        partial(conjunctions.render_members, uses, desired.remotes, numbers),
    )


def _port_parts(desired: Desired) -> Iterator[Part]:
    bridge = desired.options.integration_bridge
    numbers = conjunctions.number_remotes(desired.remotes)
    for ofport in desired.dead:
        yield Part(bridge, f"dead port {ofport}", None, partial(integration.render_dead_port, ofport))
    for port in desired.ports:
        used = {rule.remote: numbers[rule.remote] for rule in port.rules if rule.remote is not None}
        yield Part(bridge, f"port {port.id}", (port, used), partial(_render_port, port, used))


def _render_port(port: LocalPort, numbers: Mapping[str, int]) -> tuple[Flow, ...]:
    return (*integration.render_port(port), *arp.render_spoofing(port), *firewall.render_port(port, numbers))


def _render_network(network: LocalNetwork, ports: tuple[LocalPort, ...]) -> tuple[Flow, ...]:
    return (*integration.render_provisioning(network), *integration.render_delivery(network, ports))


def _network_parts(desired: Desired) -> Iterator[Part]:
    ports: defaultdict[int, list[LocalPort]] = defaultdict(list)
    for port in desired.ports:
        ports[port.vlan].append(port.ruleless)
    for network in desired.networks:
        here = tuple(ports[network.vlan])
        yield Part(
            desired.options.integration_bridge,
            f"network {network.key.network_id} {network.vlan}",
            (network, here),
            partial(_render_network, network, here),
        )


def _tunnel_parts(desired: Desired) -> Iterator[Part]:
    plugged, options, bridge = desired.plugged, desired.options, desired.options.tunnel_bridge
    if not plugged.patch_int:
        return
    ends = dataclasses.replace(plugged, ports={})
    yield Part(bridge, "bridge", (ends, options), partial(tunnel.render_base, plugged, options))
    for port in plugged.tunnels:
        host = desired.hosts.get(port.host)
        learns = options.l2_population and host is not None and not host.l2_population
        yield Part(
            bridge,
            f"tunnel {port.network_type} {port.host}",
            (port, plugged.patch_int, learns),
            partial(tunnel.render_tunnel, port, plugged, learns=learns),
        )
    by_network = defaultdict(list)
    for entry in desired.forwarding:
        by_network[entry.network_id].append(entry)
    for network in desired.networks:
        if network.key.network_type in TUNNEL_TYPES:
            known = tuple(by_network[network.key.network_id])
            yield Part(
                bridge,
                f"network {network.key.network_id} {network.vlan}",
                (network, ends, options, desired.hosts, known),
                partial(tunnel.render_network, network, plugged, options, desired.hosts, known),
            )


def _physical_parts(desired: Desired) -> Iterator[Part]:
    for uplink in desired.plugged.uplinks:
        yield Part(uplink.bridge, "bridge", uplink, partial(physical.render_base, uplink))
        for network in desired.networks:
            if network.key.network_type in ("vlan", "flat") and network.uplink == uplink.integration_ofport:
                yield Part(
                    uplink.bridge,
                    f"network {network.key.network_id} {network.vlan}",
                    (network, uplink),
                    partial(physical.render_provisioning, network, uplink),
                )


def _distributed_parts(desired: Desired) -> Iterator[Part]:
    """What this host does for distributed routers, where it does."""
    here, plugged, options = desired.distributed, desired.plugged, desired.options
    if here is None:
        return
    arriving = here, desired.networks, plugged.uplinks, plugged.patch_tun
    yield Part(options.integration_bridge, "dvr", arriving, partial(dvr.render_integration, *arriving))
    if plugged.patch_int:
        tunnelled = frozenset(each.vlan for each in desired.networks if each.key.network_type in TUNNEL_TYPES)
        leaving = here, tunnelled, plugged.patch_int
        yield Part(options.tunnel_bridge, "dvr", leaving, partial(dvr.render_tunnel, *leaving))
    for uplink in plugged.uplinks:
        outside = frozenset(each.vlan for each in desired.networks if each.uplink == uplink.integration_ofport)
        yield Part(uplink.bridge, "dvr", (here, outside, uplink), partial(dvr.render_physical, here, outside, uplink))


@dataclasses.dataclass(frozen=True)
class BridgePlan:
    """One bundle: what to delete, then what to add or put in the place of another."""

    bridge: str
    add: tuple[Flow, ...] = ()
    change: tuple[tuple[Flow, Flow], ...] = ()  # from, to
    delete: tuple[Flow, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.change or self.delete)

    @property
    def set(self) -> tuple[Flow, ...]:
        return (*self.add, *(flow for _, flow in self.change))

    def text(self) -> str:
        lines = [f"- {flow.text()}" for flow in self.delete]
        lines += [f"~ {flow.text()}  # was {old.actions}" for old, flow in self.change]
        lines += [f"+ {flow.text()}" for flow in self.add]
        return "\n".join(f"{self.bridge} {line}" for line in lines)


def plan(bridge: str, desired: Mapping[FlowKey, Flow], actual: Iterable[Flow]) -> BridgePlan:
    """What makes our flows on a bridge into the desired ones; `actual` are those with our cookie."""
    delta = diff(desired, {flow.key: flow for flow in actual})
    return BridgePlan(
        bridge,
        add=tuple(sorted(delta.add.values())),
        change=tuple(sorted(delta.change.values())),
        delete=tuple(sorted(delta.remove.values())),
    )
