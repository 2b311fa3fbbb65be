"""What the metadata process should have: where it listens, and the ports that may ask; kept from change to change. Pure.

What changed is only noted when it is heard of, and thought about when there is a process to tell: a place that changes a
hundred times meanwhile is one place to think about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX, served_network
from neutrino.agent.l3.names import router_namespace
from neutrino.agent.metadata.desired import (
    INFRASTRUCTURE,
    Place,
    Refused,
    render_instance,
    render_network_place,
    render_router_place,
)
from neutrino.agent.metadata.messages import Instance
from neutrino.feed.state import Change, State
from neutrino.model.dhcp import ROUTERS, DhcpNetwork, DhcpPort
from neutrino.model.routing import Router

ROUTER, NETWORK, PORT = "router", "dhcp_network", "dhcp_port"


class Wanted:
    def __init__(self, state: State, host: str, metadata_port: int, dhcp: DhcpSettings) -> None:
        self.places: dict[str, Place] = {}  # by namespace
        self.refused: dict[str, str] = {}  # namespaces that cannot be served, and why
        self._state = state
        self._host = host
        self._metadata_port = metadata_port
        self._dhcp = dhcp
        self._stale_places: set[str] = set()  # namespaces of which we have to think again
        self._stale_ports: set[str] = set()
        self._own_ports: defaultdict[str, dict[str, DhcpPort]] = defaultdict(dict)  # of routers and DHCP, by network

    # --- what is heard ----------------------------------------------------------------------------------------------

    def changed(self, change: Change) -> bool:
        """Whether it is of any concern."""
        if change.kind == ROUTER:
            self._stale_places.add(router_namespace(change.id))
        elif change.kind == NETWORK:
            self._stale_places.add(f"{NAMESPACE_PREFIX}{change.id}")
        elif change.kind == PORT:
            self._stale_ports.add(change.id)
            self._note_own(change)
        else:
            return False
        return True

    def _note_own(self, change: Change) -> None:
        """Ports of routers and of DHCP say whether a network is isolated, and whether it is served here."""
        for port in (change.old, change.new):
            if isinstance(port, DhcpPort) and port.device_owner.startswith(INFRASTRUCTURE):
                self._own_ports[port.network_id].pop(port.id, None)
                if not self._own_ports[port.network_id]:
                    del self._own_ports[port.network_id]
                self._stale_places.add(f"{NAMESPACE_PREFIX}{port.network_id}")
                self._stale_places.update(self._metadata_networks(port))
        new = change.new
        if isinstance(new, DhcpPort) and new.device_owner.startswith(INFRASTRUCTURE):
            self._own_ports[new.network_id][new.id] = new

    def _metadata_networks(self, port: DhcpPort) -> Iterator[str]:
        """A metadata network is served in the name of the other networks of its router, of which this is a port."""
        if self._dhcp.enable_metadata_network and port.device_owner in ROUTERS:
            for network_id, ports in self._own_ports.items():
                if any(each.device_id == port.device_id for each in ports.values()):
                    yield f"{NAMESPACE_PREFIX}{network_id}"

    def index(self) -> None:
        """All over again, from the state as it is."""
        objects = self._state.objects
        self._own_ports.clear()
        for port in objects[PORT].values():
            if isinstance(port, DhcpPort) and port.device_owner.startswith(INFRASTRUCTURE):
                self._own_ports[port.network_id][port.id] = port
        self._stale_places |= {router_namespace(key) for key in objects[ROUTER]}
        self._stale_places |= {f"{NAMESPACE_PREFIX}{key}" for key in objects[NETWORK]}
        self._stale_places |= self.places.keys()

    # --- what follows -----------------------------------------------------------------------------------------------

    def think(self) -> dict[str, str]:
        """Places whose state is another, by that state; namespaces that are refused for a new reason, with that."""
        stale, self._stale_places = self._stale_places, set()
        news: dict[str, str] = {}
        for key in stale:
            before, place = self.refused.pop(key, None), None
            try:
                place = self._place(key)
            except (Refused, ValueError, LookupError) as error:
                self.refused[key] = str(error)
                if str(error) != before:
                    news[key] = str(error)
            if place is not None:
                self.places[key] = place
            else:
                self.places.pop(key, None)
        return news

    def _place(self, key: str) -> Place | None:
        objects = self._state.objects
        if key.startswith(NAMESPACE_PREFIX):
            network_id = key.removeprefix(NAMESPACE_PREFIX)
            network = objects[NETWORK].get(network_id)
            if not isinstance(network, DhcpNetwork):
                return None
            ports = self._own_ports.get(network_id, {}).values()
            this = served_network(network, ports, self._host, distributed=self._dhcp.dhcp_distributed)
            known = (port for own in self._own_ports.values() for port in own.values())
            return render_network_place(this, self._dhcp, known)
        router = objects[ROUTER].get(key.removeprefix(router_namespace("")))
        return render_router_place(router, self._metadata_port) if isinstance(router, Router) else None

    def take_all_ports(self) -> list[Instance]:
        self._stale_ports.clear()
        return [found for port in self._state.objects[PORT].values() if (found := self._instance(port))]

    def take_changed_ports(self) -> tuple[list[Instance], list[str]]:
        """Since they were last taken: those that may ask, and the ids of those that may not."""
        stale, self._stale_ports = self._stale_ports, set()
        found = {port_id: self._instance(self._state.get(PORT, port_id)) for port_id in stale}
        return [each for each in found.values() if each], [key for key, each in found.items() if each is None]

    def _instance(self, port: object) -> Instance | None:
        if not isinstance(port, DhcpPort):
            return None
        self.refused.pop(f"port {port.id}", None)
        try:
            return render_instance(port)
        except ValueError as error:  # of this port alone
            self.refused[f"port {port.id}"] = str(error)
            return None
