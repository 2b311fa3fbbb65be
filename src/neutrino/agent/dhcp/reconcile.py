"""Applies the desired state of one network; a second apply changes nothing.

    leases of Neutron's dnsmasq → namespace → switch port → devices, addresses, routes → release of stale leases
        → service for the supervisor

Blocking; several threads may work on different networks.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.dnsmasq import FILE_MODE, Dnsmasq
from neutrino.agent.dhcp.extension_api import DhcpExtension, device_name, plugged_name
from neutrino.agent.dhcp.leases import read_leases, render_leases, render_release, stale_leases, with_existing
from neutrino.agent.dhcp.network import NAMESPACE_KIND, NAMESPACE_PREFIX, ServedNetwork
from neutrino.agent.dhcp.render import HOSTS, LEASES, MARK_KIND, PID, DesiredDhcp, daemon_name, directory, render
from neutrino.agent.leftovers.host import Leftovers, ignored
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import Action, Service, plan_service
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError, ConntrackFlush
from neutrino.dataplane.netlink.api import DeleteItem, NetlinkChange
from neutrino.dataplane.netlink.values import Address
from neutrino.dataplane.ovsdb.api import MARK
from neutrino.dataplane.process.api import ForeignProcess, Processes
from neutrino.dataplane.program import ProgramError

LOG = logging.getLogger(__name__)
RELEASE_SECONDS = 2.0  # after that the network's other changes go on, with a warning
PROGRAM = "dnsmasq"


@dataclass
class Reconciler:
    settings: DhcpSettings
    services: ServiceNamespaces
    processes: Processes
    dnsmasq: Dnsmasq
    conntrack: Callable[[str], Conntrack] | None = None  # of a namespace
    extensions: Collection[DhcpExtension] = ()
    leftovers: Leftovers | None = None

    def __post_init__(self) -> None:
        self._leftovers = self.leftovers or ignored(self.services)

    def known(self) -> frozenset[str]:
        """Networks of which anything is on this host: by records, by switch ports with our mark, and leftovers."""
        known = self.dnsmasq.networks() | set(self._marked().values())
        return known | self._leftovers.find(NAMESPACE_KIND, known)

    def is_running(self, network_id: str) -> bool:
        """Whether a dnsmasq serves the network, ours or that of Neutron's agent."""
        pid_file = str(directory(self.settings, network_id) / PID)
        return self.processes.find(daemon_name(network_id), pid_file) is not None or bool(self._others(network_id))

    def _others(self, network_id: str) -> list[ForeignProcess]:
        """Processes of Neutron's dnsmasq for the network. Reads all of /proc, if the namespace exists."""
        return self._leftovers.daemons(f"{NAMESPACE_PREFIX}{network_id}", PROGRAM)

    # --- planning -------------------------------------------------------------------------------------------------

    def plan(self, network: ServedNetwork) -> tuple[list[str], Sequence[str]]:
        """What a reconciliation would change, as lines; and the problems that would remain."""
        if not network.is_served:
            return [f"network {network.id} is not served here any more"] if network.id in self.known() else [], ()
        desired = self._render(network)
        action, _ = plan_service(self._service(network, desired, complete=True), self.processes)
        lines = [
            *(f"network {network.id}: unplug {name}" for name in self._stale_ports(network.id, desired)),
            *self.services.find(desired.namespace),
            *([f"{action.value} {desired.daemon.name}"] if action is not Action.NOTHING else []),
        ]
        return lines, desired.problems

    # --- applying -------------------------------------------------------------------------------------------------

    def prepare(self, network: ServedNetwork, *, complete: bool = True) -> tuple[Service, Sequence[str]]:
        """Apply everything but the service; gives it, and what of the network is not served, and why.

        Not `complete`: the network is from the cache, which may be older than the actual state. Only what is missing is
        added: nothing is unplugged, and existing addresses, routes, leases and files stay.
        """
        desired = self._render(network)
        running = self.processes.find(desired.daemon.name, desired.daemon.pid_file) is not None
        # Before the namespace is created: one that is new has no other dnsmasq, and /proc needs not to be read.
        others = self._others(network.id) if not running else []
        self.dnsmasq.record(network.id)  # first: what a failed attempt leaves is found by it
        leases = self.dnsmasq.copy_leases(network.id, others)
        self._apply_namespace(network.id, desired, complete)
        # Without a running dnsmasq there is nothing to release: the leases are rendered before its start.
        if complete and running:
            self._release_stale_leases(network, desired)
        return self._service(network, desired, complete, others, leases), desired.problems

    def _render(self, network: ServedNetwork) -> DesiredDhcp:
        return render(network, self._with_kind_of_device(network), self.extensions)

    def _with_kind_of_device(self, network: ServedNetwork) -> DhcpSettings:
        """Settings by which a device that exists stays what it is, a veth pair or an internal port, as Neutron's agent has
        plugged it; unless `ovs_use_veth` says which."""
        name = plugged_name(network)
        there = self.services.ovsdb().read().interfaces().get(name)
        if there is None or not self.settings.keeps_device or not self.services.exists(network.namespace):
            return self.settings
        kept = dataclasses.replace(self.settings, use_veth=there[2].type != "internal")
        # An internal port of the userspace datapath leaves its namespace when ovs-vswitchd is restarted.
        devices = self.services.netlink.read(network.namespace).devices
        return kept if device_name(network, kept) in devices else self.settings

    def _service(
        self,
        network: ServedNetwork,
        desired: DesiredDhcp,
        complete: bool,
        others: Sequence[ForeignProcess] = (),
        leases: Sequence[str] = (),
    ) -> Service:
        """`others`: processes of Neutron's dnsmasq that it replaces, and the files that have their leases."""
        where = Path(directory(self.settings, network.id))
        files = dict(desired.files)
        if not complete:  # the files on disk may have ports that the cache lacks
            files |= {name: text for name in files if (text := self.dnsmasq.read(network.id, name)) is not None}

        replaced = list(others)  # at the first start alone, not when ours is respawned

        def before_start() -> None:
            while replaced:  # right before ours is started, which needs the same sockets
                self._leftovers.end(network.namespace, replaced[0])
                replaced.pop(0)
                self.dnsmasq.copy_last_leases(network.id, leases)
            existing = self.dnsmasq.read(network.id, LEASES) or ""
            rendered = render_leases(network, self.settings, existing)
            self.dnsmasq.write_leases(network.id, rendered if complete else with_existing(rendered, existing))
            Path(desired.daemon.log_file).unlink(missing_ok=True)  # it holds the reason of a failed start, of this one
            if self.settings.dnsmasq_base_log_dir:
                (Path(self.settings.dnsmasq_base_log_dir) / network.id).mkdir(parents=True, exist_ok=True)

        paths = {str(where / name): text for name, text in files.items()}
        return Service(desired.daemon, paths, mode=FILE_MODE, before_start=before_start)

    def _apply_namespace(self, network_id: str, desired: DesiredDhcp, complete: bool) -> None:
        # A DHCP port that the server has replaced has another id, and so another device.
        stale = self._stale_ports(network_id, desired) if complete else []
        result = self.services.reconcile(desired.namespace, complete=complete, unplug=stale)
        self._flush_conntrack(desired.namespace.name, result.applied)

    def _marked(self) -> dict[str, str]:
        """Switch ports with our mark, and the network of each."""
        interfaces = self.services.ovsdb().read().interfaces().items()
        return {name: found for name, (_, _, each) in interfaces if (found := marked_network(each.external_ids))}

    def _stale_ports(self, network_id: str, desired: DesiredDhcp | None = None) -> list[str]:
        """Switch ports of the network other than the desired one."""
        wanted = {plug.name for plug in desired.namespace.plugs} if desired is not None else set()
        return sorted(name for name, found in self._marked().items() if found == network_id and name not in wanted)

    def _flush_conntrack(self, name: str, changes: Iterable[NetlinkChange]) -> None:
        """Conntrack entries of removed addresses: the next owner of an address must not inherit its connections."""
        flushes = stale_conntrack(changes)
        if flushes and self.conntrack is not None:
            try:
                self.conntrack(name).flush(flushes)
            except ConntrackError as error:
                LOG.warning("%s: conntrack entries of removed addresses are not flushed: %s", name, error)

    def _release_stale_leases(self, network: ServedNetwork, desired: DesiredDhcp) -> None:
        """dnsmasq handles a release as if the client had sent it, and rewrites its leases; a lost packet is repeated."""
        hosts = self.dnsmasq.read(network.id, HOSTS) or ""
        leases = self.dnsmasq.read(network.id, LEASES) or ""
        deadline = time.monotonic() + RELEASE_SECONDS
        while stale := stale_leases(read_leases(leases), hosts, network.ports):
            for lease in stale:
                try:
                    self.dnsmasq.release(desired.namespace.name, render_release(lease, desired.device))
                except ProgramError as error:
                    LOG.warning("network %s: lease of %s is not released: %s", network.id, lease.address, error)
                    return
            for _ in range(20):  # dnsmasq rewrites the file a few milliseconds after it got the packet
                time.sleep(0.01)
                now = self.dnsmasq.read(network.id, LEASES) or ""
                if now != leases:
                    break
            leases = now
            if time.monotonic() > deadline:
                addresses = ", ".join(lease.address for lease in stale)
                LOG.warning("network %s: dnsmasq keeps the stale leases of %s", network.id, addresses)
                return

    def remove(self, network_id: str, *, is_stopped: bool = False) -> bool:
        """Remove everything of the network; whether there was anything. Its directory, the record of it, is last.

        `is_stopped`: the dnsmasq that this agent has supervised has ended. Then no other is looked for in all of /proc.
        """
        name = f"{NAMESPACE_PREFIX}{network_id}"
        plugged = self._stale_ports(network_id)
        if not (plugged or self.services.exists(name) or network_id in self.dnsmasq.networks()):
            return False
        # Processes first: one that runs in the namespace would keep it, and its devices, alive.
        if not is_stopped:
            self.dnsmasq.stop_all(network_id)
        self._leftovers.end_processes(name)
        self.services.remove(name, unplug=plugged)
        self.dnsmasq.forget(network_id)
        LOG.info("network %s is not served here any more", network_id)
        return True


def marked_network(external_ids: Mapping[str, str]) -> str:
    """The network that a switch port with our mark is for."""
    kind, _, network_id = external_ids.get(MARK, "").partition(":")
    return network_id if kind == MARK_KIND else ""


def stale_conntrack(changes: Iterable[NetlinkChange]) -> list[ConntrackFlush]:
    """Entries of addresses that these changes remove, in both directions."""
    deleted = (change.item for change in changes if isinstance(change, DeleteItem))
    gone = [item.address.partition("/")[0] for item in deleted if isinstance(item, Address)]
    return [
        ConntrackFlush(0, 6 if ":" in address else 4, direction, address)
        for address in gone
        for direction in ("ingress", "egress")
    ]
