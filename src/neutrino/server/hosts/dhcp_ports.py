"""The ports from which DHCP agents serve: one on each agent's host for each network, with an address on each subnet.

They are made, moved, readdressed and removed in the transaction that schedules the network or changes a subnet. So
whoever sees that a host has a network sees the port that the host needs for it.

Agents that make their own ports, as Neutron's do, are left alone: a port is made for those that say
`dhcp_port_by_server` in their configurations, which this project's agents do. When a network leaves one host and comes to
another in the same change, the port moves and keeps its addresses: clients that ask their DHCP server or their name
server by address find it where it was. A port with the device id `reserved_dhcp_port`, prepared by an operator or left
by Neutron, is taken before a new one is made.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.dhcp import device_id
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.allocation import DHCP_OWNER, Allocator
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.port_view import VIEW
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.subnet_view import subnets_of

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
RESERVED: Final = "reserved_dhcp_port"
MACS = 8  # tried for a port, one after the other
TRIES = 20  # to choose what nobody takes meanwhile
_a, _b, _p = t.agents.c, t.network_dhcp_agents.c, t.ports.c
_AGENTS = (
    sa.select(_a.id, _a.host, _a.configurations, (_b.network_id.is_not(None)).label("scheduled"))
    .select_from(
        t.agents.outerjoin(
            t.network_dhcp_agents, sa.and_(_b.agent_id == _a.id, _b.network_id == sa.bindparam("network"))
        )
    )
    .where(
        _a.agent_type == words.DHCP,
        sa.or_(_b.network_id.is_not(None), _a.id.in_(sa.bindparam("coming", expanding=True))),
    )
    .order_by(_a.id)
)
_DHCP_PORTS = (
    sa.select(_p.id).where(_p.network_id == sa.bindparam("network"), _p.device_owner == DHCP_OWNER).order_by(_p.id)
)
_TAKEN = sa.select(_p.mac_address).where(
    _p.network_id == sa.bindparam("network"), _p.mac_address.in_(sa.bindparam("macs", expanding=True))
)
_IN_NEED = (
    sa.select(_b.network_id, _a.host, _p.vif_type)
    .select_from(
        t.network_dhcp_agents.join(t.agents).outerjoin(
            t.ports,
            sa.and_(_p.network_id == _b.network_id, _p.host == _a.host, _p.device_owner == DHCP_OWNER),
        )
    )
    .where(_a.agent_type == words.DHCP, _a.host == sa.bindparam("on_host"))
    .order_by(_b.network_id)
)


def derived_mac(base: str, text: str) -> str:
    """A MAC under the base, as ports have them, that follows from a text."""
    octets = base.lower().split(":")
    kept = octets[: 3 if octets[3] == "00" else 4]
    digest = hashlib.sha256(text.encode()).digest()
    return ":".join([*kept, *(f"{octet:02x}" for octet in digest[: 6 - len(kept)])])


def is_by_server(configurations: Mapping[str, Any]) -> bool:
    """Whether the server makes the ports of the agent that reported this."""
    return configurations.get(words.DHCP_PORT_BY_SERVER) is True


@dataclass(frozen=True)
class _Ground:
    network: Object
    subnets: Sequence[Object]
    bare: Collection[str] = ()  # hosts that have the gateways' addresses: their ports need none


class DhcpPorts:
    def __init__(
        self,
        networks: Networks,
        ports: Ports,
        operations: Operations,
        told: Callable[[Object | None, Object | None], None],
        base_mac: str,
    ) -> None:
        self._networks = networks
        self._ports = ports
        self._operations = operations
        self._told = told
        self._base_mac = base_mac

    def steps(
        self,
        connection: Connection,
        network_id: str,
        coming: Collection[str] = (),
        going: Collection[str] = (),
        subnets: Sequence[Object] | None = None,
    ) -> list[PendingWrite]:
        """What has to be done to the network's DHCP ports when these agents come and go, and its subnets are these."""
        rows = connection.execute(_AGENTS, {"network": network_id, "coming": list(coming)}).all()
        if not any(is_by_server(msgspec.json.decode(row.configurations)) for row in rows):
            return []
        try:
            network = self._networks.load(connection, network_id)
        except errors.NetworkNotFound:
            return []
        if subnets is None:
            subnets = subnets_of(connection, [network_id])[network_id]
        ids = list(connection.execute(_DHCP_PORTS, {"network": network_id}).scalars())
        ports = VIEW.load_in(connection, "id", ids) if ids else []
        stays = {row.host: msgspec.json.decode(row.configurations) for row in rows if row.id not in going}
        served = any(s["enable_dhcp"] for s in subnets)
        hosts = [host for host, says in stays.items() if served and is_by_server(says)]
        others = [host for host, says in stays.items() if not is_by_server(says)]
        bare = {host for host, says in stays.items() if says.get(words.USE_GATEWAY_IPS) is True}
        return self._steps(connection, _Ground(network, subnets, bare), sorted(ports, key=_by_id), hosts, others)

    def _steps(
        self,
        connection: Connection,
        ground: _Ground,
        ports: Sequence[Object],
        hosts: Sequence[str],
        others: Sequence[str],
    ) -> list[PendingWrite]:
        network_id = ground.network["id"]
        wanted = {device_id(host, network_id): host for host in hosts}
        kept = {device_id(host, network_id) for host in others}
        there: dict[str, Object] = {}
        for port in ports:
            there.setdefault(port["device_id"], port)
        spare = [
            port
            for port in ports
            if _is_ours(port, network_id)
            and port["device_id"] not in kept
            and (port["device_id"] not in wanted or there[port["device_id"]] is not port)  # a second one of a host
        ]
        free = [*spare, *(p for p in ports if p["device_id"] == RESERVED)]
        found: list[PendingWrite | None] = []
        for device, host in wanted.items():
            has = there.get(device)
            if has is None and free:
                has = free.pop(0)
            if has is not None:
                found.append(self._kept(connection, ground, has, device, host))
            else:
                found.append(self._made(connection, ground, device, host))
        found += [self._ports.prepare_delete(port, ground.network) for port in spare if port in free]
        return [step for step in found if step is not None]

    def _made(self, connection: Connection, ground: _Ground, device: str, host: str) -> PendingWrite | None:
        for _ in range(TRIES):
            try:
                return self._choose(connection, ground, device, host)
            except (errors.IpAddressAlreadyAllocated, errors.MacAddressInUse):
                LOG.debug("what was chosen for the DHCP port of %s was taken in the same instant", host)
        raise errors.HTTPServiceUnavailable()

    def _choose(self, connection: Connection, ground: _Ground, device: str, host: str) -> PendingWrite | None:
        bare = host in ground.bare
        fixed = [] if bare else self._addresses(connection, ground, (), None)
        automatic = [{"subnet_id": s["id"]} for s in ground.subnets if is_auto_address(s) and not bare]
        if not fixed and not automatic and not bare:
            return None
        values: Object = {
            "name": "",
            "network_id": ground.network["id"],
            "project_id": ground.network["project_id"],
            "mac_address": self._free_mac(connection, ground.network["id"], device),
            "admin_state_up": True,
            "device_id": device,
            "device_owner": DHCP_OWNER,
            "fixed_ips": [*fixed, *automatic],
            "extra_dhcp_opts": [],
            "dns_name": "",
            "dns_domain": "",
            "binding:host_id": host,
            "binding:vnic_type": "normal",
            "propagate_uplink_status": True,
        }
        return self._ports.prepare_create(connection, values, ground.network, ground.subnets)

    def _free_mac(self, connection: Connection, network_id: str, device: str) -> str:
        """Two who make the same port at once would make two: by the MAC, which follows from the device, one is refused.

        A port that has moved to another host has kept its own; then it is the next one.
        """
        macs = [derived_mac(self._base_mac, f"{device} {number}") for number in range(MACS)]
        taken = set(connection.execute(_TAKEN, {"network": network_id, "macs": macs}).scalars())
        return next((mac for mac in macs if mac not in taken), "")

    def _kept(
        self, connection: Connection, ground: _Ground, port: Object, device: str, host: str
    ) -> PendingWrite | None:
        bare = host in ground.bare
        fixed = [] if bare else self._addresses(connection, ground, port["fixed_ips"], port["mac_address"])
        same = len(fixed) == len(port["fixed_ips"]) and all(f in port["fixed_ips"] for f in fixed)
        values = {
            "device_id": device,
            "binding:host_id": host,
            "fixed_ips": port["fixed_ips"] if same else fixed,
        }
        failed = port["binding:vif_type"] in (VIF_FAILED, VIF_UNBOUND)
        return self._ports.prepare_update(connection, port, values, ground.network, rebind=failed)

    def _addresses(
        self, connection: Connection, ground: _Ground, has: Sequence[Object], mac: str | None
    ) -> list[Object]:
        """An address on each subnet with DHCP; those formed from the MAC only where it is known."""
        allocator = Allocator(connection)
        out: list[Object] = []
        for subnet in ground.subnets:
            mine = [f for f in has if f["subnet_id"] == subnet["id"]]
            if is_auto_address(subnet):
                if mac is not None:
                    out.append({"subnet_id": subnet["id"], "ip_address": eui64(subnet["cidr"], mac)})
                continue
            if not subnet["enable_dhcp"]:
                continue
            if mine:
                out += mine
                continue
            try:
                out.append(allocator.any_of(subnet))
            except errors.IpAddressGenerationFailure:
                LOG.warning("subnet %s has no address left for DHCP: it is not served", subnet["id"])
        return out

    def in_need(self, connection: Connection, host: str) -> list[str]:
        """The networks scheduled to a host's agent whose port there is missing, or could not be bound."""
        rows = connection.execute(_IN_NEED, {"on_host": host}).all()
        return sorted({r.network_id for r in rows if r.vif_type in (None, VIF_FAILED, VIF_UNBOUND)})

    def unbound(self, steps: Sequence[PendingWrite]) -> frozenset[str]:
        """The hosts to which ports would be given, and could not be bound."""
        after = (step.context.current for step in steps if step.context.operation != "delete")
        return frozenset(port["binding:host_id"] for port in after if port["binding:vif_type"] == VIF_FAILED)

    @contextmanager
    def write(self, steps: Sequence[PendingWrite]) -> Iterator[Transaction]:
        """A transaction that makes these changes of ports after what its block writes."""
        with self._operations.write([step.context for step in steps]) as tx:
            yield tx
            for step in steps:
                step.write(tx)
        self.told(steps)

    def told(self, steps: Sequence[PendingWrite]) -> None:
        """After a commit: let others know what became of the ports."""
        for step in steps:
            change = step.context
            before = dict(change.current) if change.operation == "delete" else change.original
            after = None if change.operation == "delete" else dict(change.current)
            self._told(None if before is None else dict(before), after)


def _is_ours(port: Object, network_id: str) -> bool:
    """Whether the device id is one that is made for a host and this network."""
    prefix, device = port["device_id"][:4], port["device_id"]
    return prefix == "dhcp" and device.endswith(f"-{network_id}") and len(device) == 4 + 36 + 1 + len(network_id)


def _by_id(port: Object) -> str:
    identity: str = port["id"]
    return identity
