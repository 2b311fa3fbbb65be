"""Decides which namespaces and switch ports without a record are leftovers of networking on this host. Pure.

A host that ran Neutron, or whose state directory was lost, has namespaces and switch ports of routers and networks that
are served elsewhere by now. Nothing of ours names them, so they are recognised by what they are:

* a namespace: by its name (a prefix and a UUID), provided that every device in it has a name that Neutron and this agent
  give (a prefix and the start of a port's id), and that one of them belongs to this host: it is a port of this host's
  switch with that port's id, or a veth pair to this host's own namespace. One without devices is recognised by its name;
* a switch port: by our mark, or by a name that is only used for routers together with the port's id it was cut from. A
  `tap…` port alone is never recognised: instances have such names too.

Everything else stays: a namespace with a device that somebody else has put there, one whose devices are of another
switch, and one with a daemon or a switch port of another neutrino agent.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from neutrino.dataplane.netlink.values import HOST, Device
from neutrino.dataplane.ovsdb.api import MARK, OWNER, Interface, Snapshot
from neutrino.dataplane.process.api import ForeignProcess

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_START_OF_ID = re.compile("[0-9a-f]{8}-?[0-9a-f]{0,2}")  # as much as a device's name has room for
_BY_KERNEL = re.compile("lo|sit0|tunl0|gre0|gretap0|erspan0|ip6tnl0|ip6gre0|ip_vti0|ip6_vti0")
"""Devices that the kernel creates in every namespace, depending on its modules."""

MONITOR = "neutron-keepalived-state-change"
DAEMONS = frozenset({
    "dnsmasq", "radvd", "keepalived", "conntrackd", "haproxy", "dibbler-client", "neutron-ns-metadata-proxy", MONITOR
})  # fmt: skip
"""Programs that Neutron's agents run for routers and networks. Others, such as an operator's shell, are left alone."""


@dataclasses.dataclass(frozen=True)
class LeftoverKind:
    """The namespaces of one prefix, and the prefixes of the devices in them."""

    prefix: str
    plugged: tuple[str, ...]  # ports of the switch, or veth pairs to one
    linked: tuple[str, ...] = ()  # veth pairs to another such namespace

    def object_id(self, namespace: str) -> str:
        """The router or network that a namespace is for; empty for other names."""
        found = namespace.removeprefix(self.prefix) if namespace.startswith(self.prefix) else ""
        return found if _UUID.fullmatch(found) else ""


def obstacle(
    kind: LeftoverKind,
    devices: Iterable[Device],
    interfaces: Mapping[str, Interface],
    processes: Iterable[ForeignProcess],
    owner: str,
) -> str:
    """Why a namespace that has the name of a leftover is not recognised as one; empty if it is.

    `interfaces` are all of this host's switch; `owner` is this agent's state path.
    """
    others = sorted({process.owner for process in processes} - {"", owner})
    if others:
        return f"it has a daemon of the neutrino agent with state_path={others[0]}"
    ours = [each for each in devices if not _BY_KERNEL.fullmatch(each.name)]
    for name in (name for our in ours for name in (our.name, our.peer) if name in interfaces):
        if other := _other_owner(interfaces[name], owner):
            return f"its port {name} is of the neutrino agent with state_path={other}"
    for device in ours:
        if not _is_named_after_port(device.name, (*kind.plugged, *kind.linked)):
            return f"device {device.name} is neither Neutron's nor this agent's"
    plugged = [our for our in ours if our.name.startswith(kind.plugged)]
    if plugged and not any(_is_of_this_host(each, interfaces) for each in plugged):
        return f"device {plugged[0].name} is not a port of this host's switch"
    return ""


def stale_ports(
    snapshot: Snapshot, prefixes: tuple[str, ...], marks: Collection[str], desired: Collection[str], owner: str
) -> list[str]:
    """Switch ports with one of the marks, or named by one of the prefixes and their port's id, that are not desired."""
    found = []
    for name, (_, _, interface) in snapshot.interfaces().items():
        port_id = interface.external_ids.get("iface-id", "")
        if port_id in desired or _other_owner(interface, owner):
            continue
        named = _is_named_after_port(name, prefixes) and _has_id_of(interface)
        if interface.external_ids.get(MARK) in marks or named:
            found.append(name)
    return sorted(found)


def _other_owner(interface: Interface, owner: str) -> str:
    """The state path of another neutrino agent whose port it is; empty if there is none."""
    found = interface.external_ids.get(OWNER, "")
    return found if found != owner else ""


def neutron_daemon(process: ForeignProcess, object_id: str) -> str:
    """The program, if the process is a daemon that Neutron's agents run for a router or network; empty otherwise.

    The object's id is on the command line of all of them, by which Neutron's agents find them again too. A process that
    carries the mark of a neutrino agent, this one or another, is never Neutron's.
    """
    if process.owner or not any(object_id in word for word in process.argv):
        return ""
    return next(iter(DAEMONS & process.programs), "")


def is_monitor(process: ForeignProcess, namespace: str) -> bool:
    """Whether it is Neutron's monitor of the HA state of this namespace. It runs in the host's, or in the namespace."""
    return MONITOR in process.programs and namespace in arguments(process.command, "--namespace")


def arguments(argv: Sequence[str], *names: str) -> Iterator[str]:
    """The values of options on a command line: `NAME VALUE` or `NAME=VALUE`."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, has_value, value = word.partition("=")
        if name in names and (value or (not has_value and following)):
            yield value or following


def _is_named_after_port(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefix) and _START_OF_ID.fullmatch(name.removeprefix(prefix)) for prefix in prefixes)


def _is_of_this_host(device: Device, interfaces: Mapping[str, Interface]) -> bool:
    """A port of this host's switch that was plugged for a port's id; or a veth pair to this host's own namespace."""
    interface = interfaces.get(device.name)
    return (interface is not None and _has_id_of(interface)) or (
        device.kind == "veth" and device.peer_namespace == HOST
    )


def _has_id_of(interface: Interface) -> bool:
    """Whether the port's id is the one that the name was cut from: qr-0123abcd-ef for 0123abcd-ef…"""
    port_id = interface.external_ids.get("iface-id", "")
    # All prefixes have three characters, such as `qr-` and `tap`.
    return bool(_UUID.fullmatch(port_id)) and port_id.startswith(interface.name[3:]) and len(interface.name) > 10
