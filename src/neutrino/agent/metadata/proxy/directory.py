"""Who asks: from the address of a source and the device that it came by, to the instance. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from neutrino.agent.metadata.messages import Instance, Sources


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

    def find(self, sources: Sources, device: str, address: str, mac: str | None = None) -> Instance | None:
        """The one instance that this can be. With a MAC (of a link-local source) that alone counts: it is on the wire.

        Several ports of one instance are no doubt; ports of two instances are, and then it is nobody.
        """
        ports = list(self._on(sources.network(device), address if mac is None else mac))
        if mac is None:  # a link-local source is on the link
            routed = (port for network in sources.routed for port in self._on(network, address))
            ports += [port for port in routed if port.project_id == sources.project_id]
        if len({(port.instance_id, port.project_id) for port in ports}) != 1:
            return None
        return ports[0]

    def _on(self, network: str | None, who: str) -> Iterator[Instance]:
        if network is not None:
            yield from (self._ports[port_id] for port_id in self._by.get((network, who), ()))


def _keys(instance: Instance) -> set[tuple[str, str]]:
    return {(instance.network_id, text) for text in (*instance.addresses, instance.mac)}
