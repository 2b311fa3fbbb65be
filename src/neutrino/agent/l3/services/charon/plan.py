"""Compares the desired connections with those of a running charon; statuses by its security associations. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from neutrino.agent.l3.services.charon.render import Loaded, connection_id
from neutrino.dataplane.protocols.vici.protocol import Message
from neutrino.model.routing import Router

ACTIVE, DOWN, ERROR = "ACTIVE", "DOWN", "ERROR"
SERVICE, CONNECTION = "vpnservice", "ipsec_site_connection"  # as their statuses are reported
_CONNECTED, _CONNECTING = "ESTABLISHED", "CONNECTING"


class Plan(NamedTuple):
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        return [f"unload VPN connection {name}" for name in self.removed] + [
            f"load VPN connection {name}" for name in self.added
        ]


def plan(desired: Collection[str], actual: Collection[str], *, complete: bool) -> Plan:
    """Not `complete`: what is desired is from the cache, and the connection that runs may be newer."""
    known = set() if complete else {connection_id(name) for name in actual}
    added = tuple(sorted(name for name in desired if name not in actual and connection_id(name) not in known))
    return Plan(tuple(sorted(set(actual) - set(desired))) if complete else (), added)


def installed(associations: Iterable[Message]) -> frozenset[str]:
    """The names of connections with a tunnel, by charon's answers to list-sas."""
    return frozenset(
        name
        for answer in associations
        for name, ike in answer.items()
        if any(child.get("state") == "INSTALLED" for child in ike.get("child-sas", {}).values())
    )


def connecting(associations: Iterable[Message]) -> frozenset[str]:
    """The ids of connections whose peer has not answered yet."""
    found = (item for answer in associations for item in answer.items())
    return frozenset(connection_id(name) for name, ike in found if ike.get("state") == _CONNECTING)


def to_initiate(desired: Mapping[str, Loaded], associations: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Connections, each with a child, that nothing is done about: no IKE SA is being set up, or it has no tunnel.

    Charon tries without end while a peer does not answer, but gives up when it refuses, as one that is not configured yet.
    """
    found = [(name, ike) for answer in associations for name, ike in answer.items()]
    for name, loaded in desired.items():
        own = [ike for each, ike in found if each == name]
        if loaded.initiates and not any(ike.get("state") != _CONNECTED for ike in own):
            there = {child.get("name") for ike in own for child in ike.get("child-sas", {}).values()}
            yield from ((name, child) for child in loaded.children if child not in there)


def statuses(router: Router, names: Iterable[str], refused: Collection[str] = ()) -> dict[tuple[str, str], str]:
    """Statuses of the router's services and connections; `names`: of connections with a tunnel; `refused`: by charon."""
    up = {connection_id(name) for name in names}
    found: dict[tuple[str, str], str] = {}
    for service in router.vpn_services:
        enabled = any(connection.admin_state_up for connection in service.connections)
        if service.connections:
            found[SERVICE, service.id] = ACTIVE if enabled else DOWN
        for connection in service.connections:
            is_up = connection.id in up and connection.admin_state_up
            found[CONNECTION, connection.id] = ERROR if connection.id in refused else ACTIVE if is_up else DOWN
    return found
