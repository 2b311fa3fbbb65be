"""Directory of instances: from a source's network and address to the instance. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from neutrino.agent.metadata.messages import Instance, Sources


class Directory:
    def __init__(self, instances: Iterable[Instance] = ()) -> None:
        self._ports: dict[str, Instance] = {}
        self._by: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # (network, address or MAC) → ports
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
        """The instance; None if there is none, or if ports of two instances match: a guess could leak another's data.

        A link-local source is identified by its MAC alone, since an instance may choose such an address freely.
        """
        ports = list(self._on(sources.network(device), address if mac is None else mac))
        if mac is None:  # a link-local source cannot come through a router
            routed = (port for network in sources.routed for port in self._on(network, address))
            ports += [port for port in routed if port.project_id == sources.project_id]
        if len({(port.instance_id, port.project_id) for port in ports}) != 1:
            return None
        return ports[0]

    def _on(self, network: str | None, address: str) -> Iterator[Instance]:
        if network is not None:
            yield from (self._ports[port_id] for port_id in self._by.get((network, address), ()))


def _keys(instance: Instance) -> set[tuple[str, str]]:
    return {(instance.network_id, text) for text in (*instance.addresses, instance.mac)}
