"""One network from what it is to what it should be: plugged, addressed, served. Done twice, the second time does nothing.

    namespace → switch port → devices, addresses, routes → leases of ports that went → files → nothing, signal or start

Blocking; different networks may be done at once by several threads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from neutrino.agent.dhcp import command
from neutrino.agent.dhcp.dnsmasq import Dnsmasq, DnsmasqError, Found
from neutrino.agent.dhcp.hosts_files import render_leases, with_existing
from neutrino.agent.dhcp.leases import plan_releases, read_leases, render_release
from neutrino.agent.dhcp.namespace import DhcpNamespace, Plug, render_namespace
from neutrino.agent.dhcp.plan import Action, ServicePlan, keeping_files, plan_service, render_service
from neutrino.agent.dhcp.served import NAMESPACE_PREFIX, Served
from neutrino.agent.dhcp.settings import Settings
from neutrino.agent.namespaces import DesiredNamespace, NamespacePlan, additions, plan_namespace, sysctls_to_read
from neutrino.agent.plugging import MARK, SETTLE_SECONDS
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError, ConntrackFlush
from neutrino.dataplane.netlink.api import Netlink, NetlinkError
from neutrino.dataplane.netlink.changes import Change, DeleteAddress, DeleteDevice, MoveDevice, SetDevice
from neutrino.dataplane.netlink.values import HOST, NamespaceState
from neutrino.dataplane.ovsdb.api import Bridge, DeletePort, Ovsdb, SetPort

LOG = logging.getLogger(__name__)
APPEAR_SECONDS = 5.0
RELEASE_SECONDS = 2.0
INTERNAL = "internal"


@dataclass(frozen=True)
class Looked:
    """What a look at a network has found to be done."""

    network_id: str
    unplug: tuple[str, ...] = ()
    plug: SetPort | None = None
    namespace: NamespacePlan | None = None
    outside: SetDevice | None = None
    service: ServicePlan | None = None
    found: Found | None = None
    gone: bool = False  # all of it is to go
    left_out: tuple[str, ...] = ()  # what of it is not served, and why

    def __bool__(self) -> bool:
        return bool(self.unplug or self.plug or self.namespace or self.outside or self.service or self.gone)

    def text(self) -> str:
        lines = [f"unplug {name}" for name in self.unplug]
        lines += [self.plug.text()] if self.plug is not None else []
        lines += [part.text() for part in (self.outside, self.namespace) if part]
        if self.service:
            lines.append(f"dnsmasq of {self.network_id}: {self.service.action.value} {self.service.reason}".strip())
        if self.gone:
            lines.append(f"network {self.network_id} is not served here any more")
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    action: Action = Action.NOTHING
    changed: bool = False
    pid: int | None = None
    left_out: tuple[str, ...] = ()  # what of the network is not served, and why


class Reconciler:
    def __init__(
        self,
        settings: Settings,
        ovsdb: Ovsdb,
        netlink: Netlink,
        dnsmasq: Dnsmasq,
        conntrack: Callable[[str], Conntrack] | None = None,
    ) -> None:
        """`conntrack`: the connections that a namespace follows."""
        self._settings = settings
        self._conntrack = conntrack
        self._ovsdb = ovsdb
        self._netlink = netlink
        self._dnsmasq = dnsmasq

    def known(self) -> frozenset[str]:
        """The networks of which something is on this host."""
        names = self._netlink.namespaces()
        spaces = {name.removeprefix(NAMESPACE_PREFIX) for name in names if name.startswith(NAMESPACE_PREFIX)}
        return self._dnsmasq.networks() | (spaces & self._marked())

    def _marked(self) -> set[str]:
        """Networks whose device is on the switch: a namespace of that name alone may be somebody else's."""
        marks = (marked_network(i.external_ids) for _, _, i in self._ovsdb.read().interfaces().values())
        return {network_id for network_id in marks if network_id}

    # --- looking --------------------------------------------------------------------------------------------------

    def look(self, this: Served) -> Looked:
        """What is to be done, changing nothing."""
        if not this.is_served:
            return Looked(this.id, gone=this.id in self.known())
        space = render_namespace(this, self._settings)
        bridge = self._bridge()
        there = space.desired.name in self._netlink.namespaces()
        state = self._read(space.desired) if there else NamespaceState()
        service = render_service(this, self._settings, space.plug.device, space.addresses)
        found = self._dnsmasq.read(this.id)
        return Looked(
            this.id,
            unplug=_strangers(bridge, this.id, space.plug),
            plug=_missing_plug(bridge, self._settings, this.id, space.plug),
            namespace=plan_namespace(space.desired, state),
            outside=_plan_outside(space.plug, state),
            service=plan_service(service, found.running, found.files),
            found=found,
            left_out=service.left_out,
        )

    def is_running(self, network_id: str) -> bool:
        return self._dnsmasq.is_running(network_id)

    def _read(self, desired: DesiredNamespace) -> NamespaceState:
        return self._netlink.read(desired.name, sysctls_to_read(desired))

    # --- doing ----------------------------------------------------------------------------------------------------

    def serve(self, this: Served, *, complete: bool = True) -> Outcome:
        """Bring the network to what it should be; what cannot be done raises what the driver raised.

        Not `complete`: what we know of it is from the cache, which may be older than what is here. Then only what is
        missing is added: nothing is unplugged, and addresses, routes, leases and files that are there stay.
        """
        if not this.is_served:
            return Outcome(changed=complete and self.remove(this.id))
        space = render_namespace(this, self._settings)
        self._dnsmasq.write(this.id, {})  # by its directory the network is known, whatever becomes of the rest
        plugged = self._plug(this.id, space, complete)
        service = render_service(this, self._settings, space.plug.device, space.addresses)
        found = self._dnsmasq.read(this.id)
        plan = plan_service(service, found.running, found.files)
        if not complete:
            plan = keeping_files(plan, found.files)
        elif found.running is not None:
            self._release(this, space, found)
        self._carry_out(this, space, plan, service.command, complete)
        if plan.action is not Action.NOTHING:
            LOG.info("network %s: %s of dnsmasq: %s", this.id, plan.action.value, plan.reason)
        pid = found.pid if plan.action is not Action.RESTART else self._dnsmasq.read(this.id).pid
        return Outcome(plan.action, plugged or bool(plan), pid, service.left_out)

    def _carry_out(
        self, this: Served, space: DhcpNamespace, plan: ServicePlan, argv: tuple[str, ...], complete: bool
    ) -> None:
        if plan.action is Action.RESTART:
            self._dnsmasq.stop(this.id)  # before its leases are read: it writes them when it ends
            existing = self._dnsmasq.read(this.id).files.get(command.LEASES, "")
            leases = render_leases(this, self._settings, existing)
            if not complete:
                leases = with_existing(leases, existing)
            self._dnsmasq.write(this.id, {**plan.write, command.LEASES: leases})
            self._dnsmasq.start(space.desired.name, argv)
            return
        self._dnsmasq.write(this.id, plan.write)
        if plan.action is Action.RELOAD:
            self._dnsmasq.reload(this.id)

    def _plug(self, network_id: str, space: DhcpNamespace, complete: bool) -> bool:
        """The namespace with its device and what is on it; whether anything had to be done."""
        plug, desired = space.plug, space.desired
        changed = desired.name not in self._netlink.namespaces()
        if changed:
            self._netlink.create_namespace(desired.name)
        bridge = self._bridge()
        strangers = _strangers(bridge, network_id, plug) if complete else ()
        if strangers:
            self._unplug(strangers)
        if plug.is_veth:  # first the pair, then its end on the bridge
            changed |= self._apply_pair(desired, plug, bridge, complete)
            bridge = self._bridge()
            changed |= self._plug_in(bridge, network_id, plug)
        else:
            changed |= self._plug_in(bridge, network_id, plug)
            self._move_in(plug, desired.name)
            changed |= self._apply(desired, self._read(desired), complete)
        self._raise_loopback(desired.name)
        return changed or bool(strangers)

    def _bridge(self) -> Bridge:
        return self._ovsdb.read().bridges.get(self._settings.integration_bridge, Bridge(""))

    def _plug_in(self, bridge: Bridge, network_id: str, plug: Plug) -> bool:
        missing = _missing_plug(bridge, self._settings, network_id, plug)
        if missing is not None:
            self._ovsdb.apply([missing])
        return missing is not None

    def _apply(self, desired: DesiredNamespace, state: NamespaceState, complete: bool) -> bool:
        plan = plan_namespace(desired, state)
        if not complete:
            plan = additions(plan, state)
        self._netlink.apply(desired.name, plan.changes)
        self._end_connections(desired.name, plan.changes)
        if plan.stale:
            self._unplug(plan.stale)
        return bool(plan.changes or plan.stale)

    def _end_connections(self, namespace: str, changes: Iterable[Change]) -> None:
        """Of addresses that went: whoever gets one next is not to be taken for the one before."""
        flushes = ended_connections(changes)
        if flushes and self._conntrack is not None:
            try:
                self._conntrack(namespace).flush(flushes)
            except ConntrackError as error:
                LOG.warning("%s: connections of addresses that are gone are still followed: %s", namespace, error)

    def _apply_pair(self, desired: DesiredNamespace, plug: Plug, bridge: Bridge, complete: bool) -> bool:
        state = self._read(desired)
        if plug.device not in state.devices and plug.switch_port in bridge.ports:  # the switch holds the old pair's end
            self._ovsdb.apply([DeletePort(bridge.name, plug.switch_port)], settle=SETTLE_SECONDS)
        outside = _plan_outside(plug, state)
        changed = self._apply(desired, state, complete)
        if outside is not None:
            self._netlink.apply(HOST, [outside])
        return changed or outside is not None

    def _move_in(self, plug: Plug, namespace: str) -> None:
        """The switch makes an internal port's device among the host's own, some time after it is configured."""
        deadline = time.monotonic() + APPEAR_SECONDS
        while self._netlink.read_device(namespace, plug.device) is None:
            if self._netlink.read_device(HOST, plug.device) is not None:
                self._netlink.apply(HOST, [MoveDevice(plug.device, namespace)])
                return
            if time.monotonic() > deadline:
                raise NetlinkError(f"{plug.device}: the switch has not made it")
            time.sleep(0.02)

    def _raise_loopback(self, namespace: str) -> None:
        loopback = self._netlink.read_device(namespace, "lo")
        if loopback is not None and not loopback.up:
            self._netlink.apply(namespace, [SetDevice("lo", up=True)])

    def _unplug(self, names: Collection[str]) -> None:
        bridge = self._settings.integration_bridge
        self._ovsdb.apply([DeletePort(bridge, name) for name in names])
        found = (self._netlink.read_device(HOST, name) for name in names)
        self._netlink.apply(
            HOST, [DeleteDevice(each.name) for each in found if each is not None and each.kind == "veth"]
        )

    def _release(self, this: Served, space: DhcpNamespace, found: Found) -> None:
        """dnsmasq takes a release as from the client, and writes its leases anew; one that is lost is sent again."""
        before = found.files.get(command.HOST, "")
        deadline = time.monotonic() + RELEASE_SECONDS
        leases = found.files.get(command.LEASES, "")
        while releases := plan_releases(read_leases(leases), before, this.ports):
            for release in releases:
                try:
                    self._dnsmasq.release(space.desired.name, render_release(release, space.plug.device))
                except DnsmasqError as error:
                    LOG.warning("network %s: the lease of %s stays: %s", this.id, release.lease.address, error)
                    return
            for _ in range(20):
                time.sleep(0.01)
                now = self._dnsmasq.read(this.id).files.get(command.LEASES, "")
                if now != leases:
                    break
            leases = now
            if time.monotonic() > deadline:
                addresses = ", ".join(release.lease.address for release in releases)
                LOG.warning("network %s: dnsmasq does not give up the leases of %s", this.id, addresses)
                return

    def remove(self, network_id: str) -> bool:
        """Take away all that is of the network; whether there was anything."""
        name = f"{NAMESPACE_PREFIX}{network_id}"
        bridge = self._bridge()
        plugged = _strangers(bridge, network_id, None)
        there = name in self._netlink.namespaces()
        had = bool(plugged) or there or network_id in self._dnsmasq.networks()
        self._dnsmasq.stop(network_id)
        if plugged:
            self._unplug(plugged)
        if there:
            self._netlink.delete_namespace(name)
        self._dnsmasq.forget(network_id)
        if had:
            LOG.info("network %s is not served here any more", network_id)
        return had


def marked_network(external_ids: Mapping[str, str]) -> str:
    """The network that a switch port of ours is for."""
    kind, _, network_id = external_ids.get(MARK, "").partition(":")
    return network_id if kind == "dhcp" else ""


def ended_connections(changes: Iterable[Change]) -> list[ConntrackFlush]:
    """What was followed for addresses that these changes take away, in both directions."""
    gone = [change.address.address.partition("/")[0] for change in changes if isinstance(change, DeleteAddress)]
    return [
        ConntrackFlush(0, 6 if ":" in address else 4, direction, address)
        for address in gone
        for direction in ("ingress", "egress")
    ]


def _strangers(bridge: Bridge, network_id: str, wanted: Plug | None) -> tuple[str, ...]:
    """Switch ports that were this network's, and are not the one that is wanted."""
    return tuple(
        name
        for name, port in sorted(bridge.ports.items())
        if any(marked_network(i.external_ids) == network_id for i in port.interfaces)
        and (wanted is None or name != wanted.switch_port)
    )


def _plan_outside(plug: Plug, inside: NamespaceState) -> SetDevice | None:
    """The end of a pair that is on the bridge, as far as the other end tells: the host's devices are many to read."""
    if not plug.is_veth:
        return None
    found = inside.devices.get(plug.device)
    if found is not None and found.carrier and found.mtu == plug.mtu:
        return None
    return SetDevice(plug.switch_port, mtu=plug.mtu, up=True)


def _missing_plug(bridge: Bridge, settings: Settings, network_id: str, plug: Plug) -> SetPort | None:
    ids = {"iface-id": plug.port_id, "iface-status": "active", "attached-mac": plug.mac, MARK: f"dhcp:{network_id}"}
    kind = "" if plug.is_veth else INTERNAL
    port = bridge.ports.get(plug.switch_port)
    if port is not None and port.interfaces:
        interface = port.interfaces[0]
        if interface.type == kind and ids.items() <= interface.external_ids.items():
            return None
    return SetPort(settings.integration_bridge, plug.switch_port, kind, external_ids=ids)
