"""Gives a host back to Neutron's agents: the snapshot is restored, so that packets pass as before the conversion.

The roles have ended before. The order is that of a packet's way which must never be without its rules: iptables rules of
Neutron first, beside our nft tables; then ours are deleted; ports that Neutron's flows do not know are cut off; flows of
each bridge in one bundle; then addresses, routes and daemons. What Neutron's agents make anew when they are started, as
QoS and controllers, is left to them.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator

from neutrino.agent.takeover.hybrid import SavedFirewall
from neutrino.agent.takeover.snapshot import HostSnapshot, SavedBridge, SavedNamespace
from neutrino.dataplane.iptables.api import IptablesError
from neutrino.dataplane.netlink.api import DeleteItem, Netlink, NetlinkChange, NetlinkError, SetItem
from neutrino.dataplane.netlink.values import OURS, NamespaceState
from neutrino.dataplane.nft.api import Nft, NftError, TablePlan
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, LEARNED_COOKIE, OpenFlow, OpenFlowError, parse_flow
from neutrino.dataplane.ovsdb.api import OvsdbError

LOG = logging.getLogger(__name__)
_HA_DEVICE = "ha-"


@dataclasses.dataclass(frozen=True)
class Restorer:
    """Blocking. Every step can be repeated."""

    openflow: OpenFlow
    netlink: Netlink
    nft: Nft
    restore_rules: Callable[[str, dict[int, str]], None]  # iptables-restore in a namespace
    restore_hybrid: Callable[[SavedFirewall], None]
    silence: Callable[[dict[str, int]], int]  # ports of instances that were plugged since, before flows; how many

    def restore(self, snapshot: HostSnapshot, say: Callable[[str], None]) -> list[str]:
        """The problems of what could not be restored; the rest is."""
        problems: list[str] = []
        if snapshot.hybrid:
            say(f"restoring the iptables rules of {len(snapshot.hybrid.devices())} hybrid ports")
            problems += _tried("the rules of hybrid ports", lambda: self.restore_hybrid(snapshot.hybrid))
        there = self.netlink.namespaces()
        namespaces = {name: saved for name, saved in snapshot.namespaces.items() if name in there}
        say(f"restoring the rules of {len(namespaces)} namespaces")
        for name, saved in namespaces.items():
            problems += _tried(name, lambda name=name, saved=saved: self._restore_rules(name, saved))  # type: ignore[misc]
        if snapshot.instance_ports is not None:
            problems += _tried(
                "ports that were plugged since", lambda: self._silence(snapshot.instance_ports or {}, say)
            )
        for bridge, saved_bridge in snapshot.bridges.items():
            say(f"restoring {len(saved_bridge.flows)} flows of {bridge}")
            problems += _tried(bridge, lambda name=bridge, saved=saved_bridge: self._restore_bridge(name, saved))  # type: ignore[misc]
        for name, saved in namespaces.items():
            problems += _tried(name, lambda name=name, saved=saved: self._restore_items(name, saved))  # type: ignore[misc]
        return problems

    def _silence(self, saved: dict[str, int], say: Callable[[str], None]) -> None:
        if number := self.silence(saved):
            say(f"cut off until Neutron's agent is started: ports that were plugged since the conversion ({number})")

    def _restore_rules(self, name: str, saved: SavedNamespace) -> None:
        self.restore_rules(name, saved.rules)
        for path in self.nft.read(name):
            self.nft.apply(name, TablePlan(path, delete=True))

    def _restore_bridge(self, name: str, saved: SavedBridge) -> None:
        flows = [parse_flow(line) for line in saved.flows]
        wanted = {flow.key for flow in flows}
        ours = {
            flow
            for cookie in (COOKIE, LEARNED_COOKIE)
            for flow in self.openflow.read_flows(name, cookie, COOKIE_MASK)
            if flow.key not in wanted
        }
        meters = self.openflow.read_meters(name)
        missing = {number: meter for number, meter in saved.meters.items() if number not in meters}
        self.openflow.apply_meters(name, add=missing, change={}, delete=())
        self.openflow.apply_flows(name, add=flows, delete=ours)
        self.openflow.apply_meters(name, add={}, change={}, delete=sorted(meters.keys() - saved.meters.keys()))
        self.openflow.flush_megaflows()

    def _restore_items(self, name: str, saved: SavedNamespace) -> None:
        changes = list(plan_items(saved, self.netlink.read(name)))
        for change in changes:
            LOG.info("%s: %s", name, change.text())
        self.netlink.apply(name, changes)


def plan_items(saved: SavedNamespace, actual: NamespaceState) -> Iterator[NetlinkChange]:
    """From the actual addresses, routes and policy rules of a namespace to the saved ones, additions first. Pure.

    Of an HA router addresses and routes are keepalived's, which may be active on another host by now. What the kernel
    has added, and devices that were plugged or unplugged since, are left alone.
    """
    is_ha = any(device.startswith(_HA_DEVICE) for device in saved.devices)
    present = {device for device in saved.devices if device in actual.devices}
    kept = {route.key for route in saved.routes}
    if not is_ha:
        addresses = {one for one in saved.addresses if one.device in present and not one.by_kernel}
        yield from (SetItem(one) for one in sorted(addresses - actual.addresses))
        routes = {one for one in saved.routes if one.devices <= present and one.protocol != _BY_KERNEL}
        yield from (SetItem(one) for one in sorted(routes - actual.routes))
    yield from (SetItem(one) for one in sorted(saved.policy_rules - actual.rules))
    yield from (SetItem(one) for one in sorted(saved.neighbours - actual.neighbours) if one.device in present)
    yield from (SetItem(one) for one in sorted(saved.proxies - actual.proxies) if one.device in present)
    # Of what was added since, only ours goes: the protocol tells.
    yield from (DeleteItem(one) for one in sorted(actual.rules - saved.policy_rules) if one.protocol == OURS)
    yield from (
        DeleteItem(one) for one in sorted(actual.routes - saved.routes) if one.protocol == OURS and one.key not in kept
    )


_BY_KERNEL = 2  # protocol of routes that the kernel adds for an address
_FAILURES = (OpenFlowError, OvsdbError, IptablesError, NetlinkError, NftError)


def _tried(subject: str, work: Callable[[], None]) -> Iterable[str]:
    """Restore the rest also if one part fails: each that is restored is one that works."""
    try:
        work()
    except _FAILURES as error:
        LOG.error("%s cannot be restored: %s", subject, error)
        yield f"{subject}: {error}"
