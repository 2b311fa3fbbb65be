"""Leftovers on this host: lists them, ends the daemons in them, and removes iptables rules of a Neutron agent.

`recognise.py` decides what is a leftover. A role removes one like everything else that it does not serve any more, by its
key in the work queue, and never before the first `synced`.
"""

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from neutrino.agent.leftovers.recognise import LeftoverKind, is_monitor, neutron_daemon, obstacle, stale_ports
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.iptables.api import IptablesError
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.ovsdb.api import Interface
from neutrino.dataplane.process.api import ForeignProcess, ForeignProcesses

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class Leftovers:
    """Blocking."""

    services: ServiceNamespaces
    processes: ForeignProcesses
    owner: str  # this agent's state path
    enabled: bool = True  # whether leftovers are found, and so removed
    neutron_rules: Callable[[str], bool] = lambda namespace: False  # removes them; whether a namespace had any
    neutron_scopes: Callable[[str], None] = lambda namespace: None  # empties the chains of address scopes
    _logged: dict[str, str] = dataclasses.field(default_factory=dict, init=False)  # namespaces that stay, and why

    def find(self, kind: LeftoverKind, known: Collection[str]) -> frozenset[str]:
        """Routers or networks with a namespace of this kind that is a leftover. `known` are in records, or served."""
        if not self.enabled:
            return frozenset()
        names = self.services.netlink.namespaces()
        found = {name: id for name in names if (id := kind.object_id(name)) and id not in known}
        if not found:
            return frozenset()
        interfaces = {name: row for name, (_, _, row) in self.services.ovsdb().read().interfaces().items()}
        return frozenset(id for name, id in sorted(found.items()) if not self._stays(kind, name, interfaces))

    def _stays(self, kind: LeftoverKind, name: str, interfaces: Mapping[str, Interface]) -> bool:
        try:
            devices = self.services.netlink.read(name).devices.values()
            reason = obstacle(kind, devices, interfaces, self.processes.inside(name), self.owner)
        except NetlinkError as error:  # the namespace was removed meanwhile
            reason = str(error)
        if reason and self._logged.get(name) != reason:
            LOG.warning("namespace %s, of which this agent has no record, is left alone: %s", name, reason)
            self._logged[name] = reason
        return bool(reason)

    def ports(
        self, prefixes: tuple[str, ...], marks: Collection[str], desired: Callable[[], Collection[str]]
    ) -> list[str]:
        """Switch ports whose devices are in no namespace, and that are of no desired port: a reboot leaves such ports.

        Those in a namespace are removed, or stay, together with it.
        """
        if not self.enabled:
            return []
        snapshot = self.services.ovsdb().read()  # before the desired ports: one that is plugged meanwhile is not in it
        found = stale_ports(snapshot, prefixes, marks, desired(), self.owner)
        inside = self._inside() if found else frozenset()
        return [name for name in found if name not in inside]

    def _inside(self) -> frozenset[str]:
        """Devices of all namespaces, and the other ends of their veth pairs."""
        netlink, found = self.services.netlink, set[str]()
        for name in netlink.namespaces():
            try:
                devices = netlink.read(name).devices.values()
            except NetlinkError:  # the namespace was removed meanwhile
                continue
            found |= {device.name for device in devices} | {device.peer for device in devices}
        return frozenset(found)

    def end_processes(self, name: str, *, but: Collection[str] = ()) -> None:
        """End daemons of other agents in a namespace: they would keep it alive, or have the sockets that ours need.

        `but`: programs that stay for now.
        """
        for process in self._daemons(name):
            if process.programs.isdisjoint(but):
                self.end(name, process)

    def end_monitors(self, name: str) -> None:
        """End Neutron's monitors of a namespace's HA state, which run in the host's namespace.

        By SIGKILL: a script that takes seconds to end by SIGTERM. Its `ip monitor` in the namespace is ended too.
        """
        found = [each for several in self.processes.by_namespace({HOST, name}).values() for each in several]
        monitors = {each.pid: each for each in found if is_monitor(each, name)}
        children = (each for each in found if each.parent in monitors and each.pid not in monitors)
        for process in (*monitors.values(), *children):
            self.end(name, process, kill=True)

    def end_replaced(self, name: str, program: str, *, kill: bool) -> None:
        """End a program of other agents in a namespace that ours, which is running, has replaced."""
        for process in self.daemons(name, program):
            self.end(name, process, kill=kill)

    def daemon(self, name: str, program: str) -> ForeignProcess | None:
        """The process of another agent in a namespace that runs `program`: not one of its children."""
        several = {each.pid: each for each in self.daemons(name, program)}
        return next((each for each in several.values() if each.parent not in several), None)

    def daemons(self, name: str, program: str) -> list[ForeignProcess]:
        """Processes of other agents in a namespace that run `program`. Reads all of /proc, if the namespace exists."""
        return [each for each in self._daemons(name) if program in each.programs]

    def _daemons(self, name: str) -> list[ForeignProcess]:
        if not self.services.exists(name):
            return []
        object_id = name.partition("-")[2]
        return [each for each in self.processes.inside(name) if neutron_daemon(each, object_id)]

    def end(self, name: str, process: ForeignProcess, *, kill: bool = False) -> None:
        LOG.info("%s: ending %s (%d) of another agent", name, " ".join(process.argv[:2]), process.pid)
        self.processes.stop(process, kill=kill)

    def flush_scopes(self, name: str) -> None:
        """Empty a Neutron agent's iptables chains of address scopes in a namespace, before our nft tables are added.

        They drop packets by the upper half of the mark, in which ours has bits of its own. Until our tables are added,
        packets may cross scopes.
        """
        try:
            self.neutron_scopes(name)
        except IptablesError as error:  # they must not keep the router from being served
            LOG.warning("%s: Neutron's rules of address scopes stay, and may drop packets: %s", name, error)

    def remove_rules(self, name: str) -> None:
        """Remove iptables rules of a Neutron agent in a namespace that is served from now on.

        Called when our own nft tables are in place; existing connections keep their translation, which conntrack has.
        """
        try:
            if self.neutron_rules(name):
                LOG.info("%s: iptables rules of Neutron's agent removed", name)
        except IptablesError as error:  # they must not keep the router from being served
            LOG.warning("%s: iptables rules of Neutron's agent stay, remove them by hand: %s", name, error)


class _NoProcesses:
    def inside(self, namespace: str) -> list[ForeignProcess]:
        return []

    def by_namespace(self, namespaces: Collection[str]) -> Mapping[str, Sequence[ForeignProcess]]:
        return {}

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None: ...

    def send(self, process: ForeignProcess, number: int) -> bool:
        return False


def ignored(services: ServiceNamespaces) -> Leftovers:
    """Return the leftovers of a host where only what has a record is considered."""
    return Leftovers(services, _NoProcesses(), owner="", enabled=False)
