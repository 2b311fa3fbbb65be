"""A router's ports in the database: made, moved and taken away as parts of a larger change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.session import Stale
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.allocation import Allocator
from neutrino.server.l3.attached import RouterPort, Serving, router_port_row
from neutrino.server.l3.owners import GATEWAY, HA_PORT, INTERFACES, SNAT
from neutrino.server.l3.shape import EVERY_HOST, Place, central_host, plan_ports
from neutrino.server.ml2.driver_api import VIF_FAILED
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.subnet_view import subnets_of

Object = dict[str, Any]
Write = Callable[[Transaction], None]
VIF_DISTRIBUTED: Final = "distributed"
_p, _rp, _b = t.ports.c, t.router_ports.c, t.router_l3_agents.c


@dataclass(frozen=True)
class Part:
    """A part of a change: rows that come first, ports, and rows that stand on the ports."""

    first: tuple[Write, ...] = ()
    steps: tuple[PendingWrite, ...] = ()
    then: tuple[Write, ...] = ()

    def __add__(self, other: Part) -> Part:
        return Part(self.first + other.first, self.steps + other.steps, self.then + other.then)

    def __bool__(self) -> bool:
        return bool(self.first or self.steps or self.then)

    def write(self, tx: Transaction) -> None:
        for write in self.first:
            write(tx)
        for step in self.steps:
            step.write(tx)
        for write in self.then:
            write(tx)


NOTHING: Final = Part()


def port_values(network_id: str, project_id: str, device_id: str, owner: str, host: str, name: str = "") -> Object:
    """A port of the service's own, before it has an address."""
    return {
        "name": name,
        "network_id": network_id,
        "project_id": project_id,
        "admin_state_up": True,
        "device_id": device_id,
        "device_owner": owner,
        "extra_dhcp_opts": [],
        "dns_name": "",
        "dns_domain": "",
        "binding:host_id": host,
        "binding:vnic_type": "normal",
        "propagate_uplink_status": True,
    }


class RouterPorts:
    def __init__(self, networks: Networks, ports: Ports) -> None:
        self._networks = networks
        self._ports = ports

    # --- single ports ---------------------------------------------------------------------------------------------

    def make(
        self,
        connection: Connection,
        router: Mapping[str, Any],
        network_id: str,
        place: Place,
        fixed_ips: Sequence[Mapping[str, Any]] | None = None,
        *,
        project_id: str = "",
        name: str = "",
        subnets: Sequence[Object] | None = None,
    ) -> tuple[Part, Object]:
        """A new port of the router; without a wish for addresses it gets what any port gets."""
        network = self._networks.load(connection, network_id)
        if subnets is None:
            subnets = subnets_of(connection, [network_id])[network_id]
        values = port_values(network_id, project_id, router["id"], place.type, place.host, name)
        if fixed_ips is not None:
            values["fixed_ips"] = [dict(fixed) for fixed in fixed_ips]
        step = self._ports.prepare_create(connection, values, network, subnets)
        port = dict(step.context.current)
        row = router_port_row(router["id"], port["id"], place.type)
        then: list[Write] = [lambda tx: tx.insert(t.router_ports, [row])]
        if place.host == EVERY_HOST and place.type in INTERFACES and router["distributed"]:
            then.append(_distributed(port["id"]))
        return Part(steps=(step,), then=tuple(then)), port

    def change(self, connection: Connection, port_id: str, values: Object, *, rebind: bool = False) -> Part:
        before, network = self._loaded(connection, port_id)
        step = self._ports.prepare_update(connection, before, values, network, rebind=rebind)
        return Part(steps=(step,)) if step is not None else NOTHING

    def adopt(self, connection: Connection, router: Mapping[str, Any], port: Object, place: Place) -> Part:
        """Make a port that was there before one of the router's."""
        network = self._networks.load(connection, port["network_id"])
        values = {"device_id": router["id"], "device_owner": place.type, "binding:host_id": place.host}
        step = self._ports.prepare_update(connection, port, values, network, bump=1)
        assert step is not None, "its device is another"
        row = router_port_row(router["id"], port["id"], place.type)
        part = Part(steps=(step,), then=(lambda tx: tx.insert(t.router_ports, [row]),))
        return part + Part(then=(_distributed(port["id"]),)) if router["distributed"] else part

    def readdress(self, connection: Connection, port_id: str, fixed_ips: Sequence[Mapping[str, Any]]) -> Part:
        """Give a port other addresses; those that it may keep it keeps."""
        before, network = self._loaded(connection, port_id)
        fixed = self._ports.addresses_after(connection, before, before, fixed_ips)
        step = self._ports.prepare_update(connection, before, {"fixed_ips": fixed}, network)
        return Part(steps=(step,)) if step is not None else NOTHING

    def take(self, connection: Connection, port_id: str) -> tuple[Part, Object]:
        before, network = self._loaded(connection, port_id)
        return Part(steps=(self._ports.prepare_delete(before, network),)), before

    def _loaded(self, connection: Connection, port_id: str) -> tuple[Object, Object]:
        """A port that the router had a moment ago, and its network."""
        try:
            port = self._ports.load(connection, port_id)
            return port, self._networks.load(connection, port["network_id"])
        except errors.NotFound:  # another request was faster: what was read of the router is no longer so
            raise Stale from None

    # --- all of them ----------------------------------------------------------------------------------------------

    def conform(
        self,
        connection: Connection,
        router: Mapping[str, Any],
        ports: Sequence[RouterPort],
        agents: Sequence[Serving],
        *,
        rebind: bool = False,
    ) -> Part:
        """What makes the router's ports what they should be; with `rebind`, those that nobody wired are tried again."""
        difference = plan_ports(router, ports, agents)
        part = NOTHING
        for port in difference.going:
            part += self.take(connection, port.id)[0]
        for port_id, place in difference.move.items():
            part += self._moved(connection, port_id, place)
        for interface in difference.snat_for:
            part += self._snat(connection, router, interface, ports, agents)
        routed = {a.subnet_id for port in ports if port.type in INTERFACES for a in port.addresses}
        for port in difference.snat_trim:
            kept = [
                {"subnet_id": a.subnet_id, "ip_address": a.ip_address} for a in port.addresses if a.subnet_id in routed
            ]
            part += self.change(connection, port.id, {"fixed_ips": kept})
        for agent in difference.ha_for:
            part += self._ha_port(connection, router, agent)
        if rebind:
            gone = {port.id for port in difference.going} | set(difference.move)
            for port in ports:
                if port.vif_type == VIF_FAILED and port.host and port.id not in gone:
                    part += self.change(connection, port.id, {}, rebind=True)
        return part

    def _moved(self, connection: Connection, port_id: str, place: Place) -> Part:
        values = {"device_owner": place.type, "binding:host_id": place.host}
        part = self.change(connection, port_id, values)
        retype = sa.update(t.router_ports).where(_rp.port_id == port_id).values(port_type=place.type)
        part += Part(then=(lambda tx: _run(tx, retype),))
        if place.host == EVERY_HOST and place.type in INTERFACES:
            part += Part(then=(_distributed(port_id),))
        return part

    def _snat(
        self,
        connection: Connection,
        router: Mapping[str, Any],
        interface: RouterPort,
        ports: Sequence[RouterPort],
        agents: Sequence[Serving],
    ) -> Part:
        """What the central host sends and receives by on an interface's subnets, as the interface itself is everywhere."""
        on = {a.subnet_id for a in interface.addresses}
        there = next((p for p in ports if p.type == SNAT and on & {a.subnet_id for a in p.addresses}), None)
        if there is None:
            wish = [{"subnet_id": subnet_id} for subnet_id in sorted(on)]
            now = next((port.host for port in ports if port.type == GATEWAY), "")
            place = Place(SNAT, central_host(agents, now))
            return self.make(connection, router, interface.network_id, place, wish)[0]
        has = [{"subnet_id": a.subnet_id, "ip_address": a.ip_address} for a in there.addresses if a.subnet_id in on]
        missing = on - {a["subnet_id"] for a in has}
        subnets = [s for s in subnets_of(connection, [there.network_id])[there.network_id] if s["id"] in missing]
        allocator = Allocator(connection)
        new = [allocator.any_of(subnet) for subnet in subnets]
        return self.change(connection, there.id, {"fixed_ips": [*has, *new]})

    def _ha_port(self, connection: Connection, router: Mapping[str, Any], agent: Serving) -> Part:
        name = f"HA port tenant {router['project_id']}"
        part, port = self.make(connection, router, router["ha_network_id"], Place(HA_PORT, agent.host), name=name)
        note = (
            sa.update(t.router_l3_agents)
            .where(_b.router_id == router["id"], _b.agent_id == agent.agent_id)
            .values(ha_port_id=port["id"])
        )
        return part + Part(then=(lambda tx: _run(tx, note),))


def _distributed(port_id: str) -> Write:
    """The port is on every host that needs it, and bound to none."""
    note = sa.update(t.ports).where(_p.id == port_id).values(vif_type=VIF_DISTRIBUTED)
    return lambda tx: _run(tx, note)


def _run(tx: Transaction, statement: sa.Executable) -> None:
    tx.execute(statement)


__all__ = ["NOTHING", "Part", "RouterPorts", "port_values"]
