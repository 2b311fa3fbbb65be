"""Namespaces of DHCP and routers on this host: created, filled, compared and removed; their devices are ports of a bridge.

A port is plugged by its id, as instances are: the L2 role notices an interface with the id and wires it like any other. On
the kernel datapath the device is an internal port, which ovs-vswitchd creates in the host's namespace and which is then
moved into the service's namespace. On the userspace datapath it is a veth pair, as an internal port there does not survive
a restart of ovs-vswitchd. One that a Neutron agent has plugged stays until then (`as_plugged`).

A port outlives its device: when an agent is killed, or a change fails, between the removal of the one and of the other. So
stale ports are found in the database, by the namespace that each of them names, and not by the devices in the namespace.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from neutrino.agent.runtime.delta import unmet
from neutrino.agent.runtime.namespaces import (
    SERVICE,
    DesiredNamespace,
    NamespacePlan,
    Plug,
    as_plugged,
    plan_namespace,
    plan_outer_ends,
    sysctls_to_read,
)
from neutrino.dataplane.netlink.api import DeleteDevice, MoveDevice, Netlink, NetlinkError, SetVeth
from neutrino.dataplane.netlink.api import NetlinkChange as NetlinkChange
from neutrino.dataplane.netlink.values import HOST, Device, NamespaceState
from neutrino.dataplane.nft.api import RENDERED, ChainState, ElementChange, Nft, Table, TablePlan, TableState
from neutrino.dataplane.ovsdb.api import (
    MARK,
    NAMESPACE,
    OWNER,
    Bridge,
    Change,
    DeletePort,
    Ovsdb,
    OvsdbError,
    SetPort,
    Snapshot,
)

Tables = Mapping[str, TableState]
SETTLE_SECONDS = 5.0  # for ovs-vswitchd to close a deleted device, before another of its name is plugged
DEVICE_SECONDS = 5.0  # for ovs-vswitchd to create the device of an internal port


@dataclasses.dataclass(frozen=True)
class Reconciled:
    changes: int  # how many were applied
    before: NamespaceState
    applied: tuple[NetlinkChange, ...]


@dataclasses.dataclass(frozen=True)
class ServiceNamespaces:
    """Blocking. Several namespaces may be worked on at once, each by one thread."""

    netlink: Netlink
    ovsdb: Callable[[], Ovsdb]
    nft: Nft | None = None  # for services with tables
    owner: str = (
        ""  # this agent's state path, by which another agent on this host recognises that a port is not its own
    )

    def exists(self, name: str) -> bool:
        return self.netlink.has_namespace(name)

    def create(self, name: str) -> None:
        if not self.exists(name):
            self.netlink.create_namespace(name)

    def find(self, desired: DesiredNamespace) -> list[str]:
        """What `reconcile` would change, as lines."""
        if not self.exists(desired.name):
            return [f"{desired.name} has to be created"]
        snapshot, state = self.ovsdb().read(), self._read(desired)
        desired = as_plugged(desired, state)
        plugs = self._plan_plugs(desired.name, desired.plugs, snapshot)
        other_kind = _misplaced(desired, state, snapshot)
        others = [f"{desired.name} port {name} has to be plugged anew" for name in other_kind]
        # A port whose device is there shows by its device.
        shown = {*other_kind, *state.devices, *(device.peer for device in state.devices.values())}
        stale = (name for name in self._stale_ports(desired.name, desired.plugs, snapshot) if name not in shown)
        others += [f"{desired.name} port {name} has to be unplugged" for name in stale]
        tables = plan_tables(desired.tables, self.nft.read(desired.name)) if self.nft is not None else ()
        changes = (*plugs, plan_namespace(desired, state), *plan_outer_ends(desired, state), *tables)
        return [*others, *(line for change in changes for line in change.text().splitlines())]

    def reconcile(
        self,
        desired: DesiredNamespace,
        *,
        complete: bool = True,
        unplug: Sequence[str] = (),
        on_tables: Callable[[Tables], None] = lambda before: None,
    ) -> Reconciled:
        """Apply only what differs. `unplug` are stale ports of the bridge; `on_tables` gets former nft tables that change.

        Not `complete`: desired state is from the cache and may be older than actual state. Nothing is removed or replaced.
        """
        desired, state, unplugged = self._prepare(desired, complete)
        plan = plan_namespace(desired, state, complete=complete)
        changed = self._apply_tables(desired, complete, on_tables)  # before addresses: no packet leaves untranslated
        changed += unplugged + self._apply(desired, state, plan, unplug, complete)
        return Reconciled(changed, state, plan.changes)

    def _prepare(self, desired: DesiredNamespace, complete: bool) -> tuple[DesiredNamespace, NamespaceState, int]:
        """Create the namespace and its internal ports, if they are missing.

        Gives its desired state, with the devices that stay as they are; its actual state; and how many ports were
        unplugged: of the other kind, as `ovs_use_veth` was changed, or on another bridge, as `external_network_bridge` was.
        """
        self.create(desired.name)
        state = self._read(desired)
        desired = as_plugged(desired, state)
        others: list[str] = []
        with contextlib.suppress(OvsdbError):  # raised again when devices are plugged: tables come before that
            others = _misplaced(desired, state, self.ovsdb().read()) if complete else []
        if others:
            # `recreated`: the switch deletes the device of an internal port after the port, and its name is needed.
            self._plug((), unplug=others, recreated=others)
            state = self._read(desired)
        missing = [plug.name for plug in desired.plugs if plug.internal and plug.name not in state.devices]
        if not missing:
            return desired, state, len(others)
        self._plug(desired.plugs, desired.name)
        # ovs-vswitchd creates the device some time after its row is committed.
        deadline = time.monotonic() + DEVICE_SECONDS
        while waiting := [name for name in missing if self.netlink.read_device(HOST, name) is None]:
            if time.monotonic() > deadline:
                raise NetlinkError(f"ovs-vswitchd has not created {', '.join(waiting)}")
            time.sleep(0.01)
        self.netlink.apply(HOST, [MoveDevice(name, desired.name) for name in missing])
        # With the new devices: their addresses are planned in the same round.
        return desired, self._read(desired), len(others)

    def _apply_tables(self, desired: DesiredNamespace, complete: bool, on_tables: Callable[[Tables], None]) -> int:
        if self.nft is None:
            return 0
        actual = self.nft.read(desired.name)
        plans = [each for each in plan_tables(desired.tables, actual) if complete or each.path not in actual]
        for plan in plans:
            self.nft.apply(desired.name, plan)
        if plans:
            on_tables(actual)
        return sum(len(plan.elements) or 1 for plan in plans)

    def _apply(
        self,
        desired: DesiredNamespace,
        state: NamespaceState,
        plan: NamespacePlan,
        unplug: Sequence[str],
        complete: bool,
    ) -> int:
        """Apply a plan that was made for `state`, and plug what is missing; the number of changes."""
        outer = plan_outer_ends(desired, state)  # by `state`: a new pair shows as missing, and is raised too
        self.netlink.apply(desired.name, plan.changes)
        self.netlink.apply(HOST, outer)
        # With its inner end, a veth pair's end on the bridge is deleted by the kernel; its port in OVSDB is not.
        gone = [state.devices[change.name].peer for change in plan.changes if isinstance(change, DeleteDevice)]
        new = [change.peer for change in plan.changes if isinstance(change, SetVeth)]
        stale = self._stale_ports(desired.name, desired.plugs, self.ovsdb().read()) if complete else ()
        unplug = (*unplug, *gone, *plan.stale, *stale)
        plugged = self._plug(desired.plugs, desired.name, unplug=unplug, recreated=new)
        return len(plan.changes) + len(outer) + plugged

    def remove(self, name: str, *, unplug: Sequence[str] = ()) -> bool:
        """The namespace with all that is plugged into it, and ports of the bridge; whether the namespace existed."""
        exists = self.exists(name)
        devices = (
            [device for device in self.netlink.read(name).devices.values() if device.name != "lo"] if exists else []
        )
        stale = self._stale_ports(name, (), self.ovsdb().read())
        names = [
            *unplug,
            *stale,
            *(device.name for device in devices),
            *(device.peer for device in devices if device.peer),
        ]
        if names:
            self._plug((), unplug=names)  # OVSDB would keep ports whose devices are gone
        if exists:
            # The kernel deletes them some time after the name; a new pair may need their names before that.
            self.netlink.apply(name, [DeleteDevice(device.name) for device in devices if device.kind == "veth"])
            self.netlink.delete_namespace(name)
        return exists

    def unplug(self, names: Sequence[str]) -> None:
        """Remove ports of the switch, with the outer ends of their veth pairs."""
        self._plug((), unplug=names)

    def _read(self, desired: DesiredNamespace) -> NamespaceState:
        return self.netlink.read(desired.name, sysctls_to_read(desired))

    def _stale_ports(self, name: str, plugs: Iterable[Plug], snapshot: Snapshot) -> list[str]:
        """Ports for devices of the namespace that are not wanted, whether the devices exist or not."""
        wanted, found = {plug.name for plug in plugs}, snapshot.interfaces().items()
        ids = ((each, row.external_ids) for each, (_, _, row) in found if each not in wanted)
        return sorted(each for each, of in ids if of.get(NAMESPACE) == name and of.get(OWNER, "") == self.owner)

    def _plug(
        self, plugs: Sequence[Plug], name: str = "", *, unplug: Iterable[str] = (), recreated: Sequence[str] = ()
    ) -> int:
        """Plug what is missing in the namespace; the number of changes.

        `recreated` are devices of new veth pairs: ovs-vswitchd still has the deleted device of that name open and would
        never notice the new one, so its port is removed first.
        """
        ovsdb = self.ovsdb()
        snapshot = ovsdb.read()
        wanted = {plug.name for plug in plugs}
        stale = [fromkey for fromkey in dict.fromkeys(unplug) if fromkey not in wanted]
        interfaces = snapshot.interfaces() if stale or recreated else {}
        gone = dict.fromkeys((*stale, *recreated))
        removed = [DeletePort(interfaces[each][0], each) for each in gone if each in interfaces]
        if removed:
            ovsdb.apply(removed, wait=SETTLE_SECONDS if recreated else 0.0)
        # Outer ends whose inner ends are in no namespace of ours any more.
        found = (self.netlink.read_device(HOST, each) for each in stale)
        self.netlink.apply(
            HOST, [DeleteDevice(each.name) for each in found if each is not None and each.kind == "veth"]
        )
        added = self._plan_plugs(name, plugs, ovsdb.read() if removed else snapshot)
        if added:
            ovsdb.apply(added)
        return len(removed) + len(added)

    def _plan_plugs(self, name: str, plugs: Iterable[Plug], snapshot: Snapshot) -> tuple[Change, ...]:
        return unmet((_set_port(plug, name, self.owner) for plug in plugs), snapshot)


def _misplaced(desired: DesiredNamespace, actual: NamespaceState, snapshot: Snapshot) -> list[str]:
    """Ports of the switch that are internal where a veth pair is desired, the reverse, and those on another bridge.

    A router's internal port has the name `qr-…`, which is that of the inner end of its veth pair.
    """
    inner = {device.peer: device.name for device in desired.devices if device.peer}
    found = []
    for plug in desired.plugs:
        pair = actual.devices.get(plug.name, Device(""))
        others = (pair.peer,) if plug.internal else (inner.get(plug.name, ""),)
        ports = snapshot.bridges.get(plug.bridge, Bridge("")).ports
        for name in (plug.name, *others):
            port = ports.get(name)
            if port is not None and port.interfaces and (port.interfaces[0].type == "internal") != plug.internal:
                found.append(name)
        found += [
            plug.name
            for bridge in snapshot.bridges.values()
            if bridge.name != plug.bridge and plug.name in bridge.ports
        ]
    return found


def _set_port(plug: Plug, namespace: str, owner: str) -> SetPort:
    # The keys that Nova sets for instances, so that the L2 role treats all ports alike.
    ids = {"iface-id": plug.port_id, "iface-status": "active", "attached-mac": plug.mac, MARK: plug.mark}
    if plug.mark == SERVICE:  # other marks, as that of DHCP, tell themselves what the port is for
        ids[NAMESPACE] = namespace
    if owner:
        ids[OWNER] = owner
    return SetPort(plug.bridge, plug.name, "internal" if plug.internal else "", external_ids=ids)


# --- nft tables -------------------------------------------------------------------------------------------------------
#
# The kernel does not return the text that it was given, so an agent without memory cannot compare texts. It compares
#
# * the digest of the rendered table without elements, which is the comment of the empty set `rendered`;
# * the checksum of each rule, which is its comment: a rule that was added, removed, moved or replaced by hand shows;
# * hooks of chains, and elements of sets, as they are.
#
# A rule that was replaced by hand and given our comment, and a changed flag of a set, are not noticed. A difference in
# digest or rules replaces the whole table, one transaction of about 20 ms; elements are added and removed one by one.


def plan_tables(desired: Iterable[Table], actual: Mapping[str, TableState]) -> tuple[TablePlan, ...]:
    """The plans that are not empty; a table of ours that is not desired is deleted."""
    wanted = {each.path: each for each in desired}
    plans = [plan_table(each, actual.get(each.path)) for each in wanted.values()]
    plans += [TablePlan(path, delete=True) for path in sorted(actual.keys() - wanted)]
    return tuple(filter(None, plans))


def plan_table(desired: Table, actual: TableState | None) -> TablePlan:
    reason = _reason(desired, actual)
    if reason or actual is None:
        return TablePlan(desired.path, desired, reason, counted=actual if desired.counters else None)
    there = {each.name: actual.elements.get(each.name, frozenset()) for each in desired.sets}
    changes = (
        ElementChange(each.name, add=each.elements - there[each.name], remove=there[each.name] - each.elements)
        for each in desired.sets
    )
    return TablePlan(desired.path, elements=tuple(filter(None, changes)))


def _reason(desired: Table, actual: TableState | None) -> str:
    if actual is None:
        return "it does not exist"
    if actual.digest != desired.digest():
        return "its rendering changed" if actual.digest else "it was not rendered by this agent"
    # The same digest, but another table: it was changed by hand since it was rendered.
    wanted = {chain.name: ChainState(chain.hook, chain.marks()) for chain in desired.chains}
    for name in sorted({*wanted, *actual.chains}):
        if wanted.get(name) != actual.chains.get(name):
            return f"chain {name} was changed by hand"
    if set(actual.elements) != {RENDERED, *(each.name for each in desired.sets)}:
        return "sets were changed by hand"
    return ""
