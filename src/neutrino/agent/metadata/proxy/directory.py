"""Who asks: from the address of a source and the networks that it may be on, to the instance. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from neutrino.agent.metadata.messages import Instance


class Directory:
    def __init__(self, instances: Iterable[Instance] = ()) -> None:
        self._ports: dict[str, Instance] = {}
        self._by: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # network with address or MAC, to ports
        for instance in instances:
            self.put(instance)

    def __len__(self) -> int:
        return len(self._ports)

    def put(self, instance: Instance) -> None:
        self.remove(instance.port_id)
        self._ports[instance.port_id] = instance
        for key in _keys(instance):
            self._by[key].add(instance.port_id)

    def remove(self, port_id: str) -> None:
        before = self._ports.pop(port_id, None)
        for key in _keys(before) if before is not None else ():
            self._by[key].discard(port_id)
            if not self._by[key]:
                del self._by[key]

    def find(self, networks: Iterable[str], address: str, mac: str | None = None) -> Instance | None:
        """The one instance that this can be. With a MAC (of a link-local source) that alone counts: it is on the wire.

        Several ports of one instance are no doubt; ports of two instances are, and then it is nobody.
        """
        who = address if mac is None else mac
        ports = [self._ports[port_id] for network in networks for port_id in self._by.get((network, who), ())]
        if len({(port.instance_id, port.project_id) for port in ports}) != 1:
            return None
        return ports[0]


def _keys(instance: Instance) -> set[tuple[str, str]]:
    return {(instance.network_id, text) for text in (*instance.addresses, instance.mac)}
