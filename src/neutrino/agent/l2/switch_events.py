"""Which events of the switch need a reconciliation of the L2 role.

Plugging one device causes three: the row, then its ofport, then the tag that the reconciliation has set. The first has
nothing to wire, and the last is the role's own: a reconciliation for each would take as long as the one that wires it.
"""

import dataclasses
from collections.abc import Mapping

from neutrino.dataplane.ovsdb.api import Interface, InterfaceEvent, Port, Snapshot
from neutrino.model import state

_Settings = tuple[str, Port, Interface]
"""The bridge of a port, and the port without what this role sets of it."""


class SwitchEvents:
    """Remembers the rows, for one thread. `snapshot` is from before the first event."""

    def __init__(self, bridge: str, snapshot: Snapshot) -> None:
        self._bridge = bridge
        self._known = {name: _settings(*row) for name, row in snapshot.interfaces().items()}

    def need_reconciliation(
        self, event: InterfaceEvent, ports: Mapping[str, state.Object], tags: Mapping[str, int | None]
    ) -> bool:
        """`ports`: those that the server has sent. `tags`: by device, those that the reconciliation has set last."""
        name, before = event.interface.name, self._known.pop(event.interface.name, None)
        if event.what == "removed":
            return True
        now = self._known[name] = _settings(event.bridge, event.port, event.interface)
        if event.bridge != self._bridge:
            return True
        if now == before and event.port.name in tags:
            return event.port.tag != tags[event.port.name]
        return before is not None or not _is_numbered_later(event.interface, ports)


def _settings(bridge: str, port: Port, interface: Interface) -> _Settings:
    return bridge, dataclasses.replace(port, tag=None, other_config={}), interface


def _is_numbered_later(interface: Interface, ports: Mapping[str, state.Object]) -> bool:
    """Whether nothing can be done for a new port before it has its ofport, for which there is another event.

    The target of a live migration is reported as plugged without it: libvirt may create the device only later.
    """
    port = ports.get(interface.external_ids.get("iface-id", ""))
    return interface.ofport is None and isinstance(port, state.Port) and port.active
