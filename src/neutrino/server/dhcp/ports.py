"""DHCP ports: the ports that DHCP agents serve from, one for each network and agent, with an address on each subnet.

They are created, moved, readdressed and deleted in the transaction that places the network or changes a subnet. So a host
that is scheduled a network always finds the port that it needs for it.

Only for agents that report `dhcp_port_by_server`, as ours do; agents that create their own ports, as Neutron's, would
end up with two. When a network moves from one host to another in one change, its port moves with its addresses and its
MAC address: clients that renew their lease, or ask their name server, find it at the same address. A port with the device
id `reserved_dhcp_port`, prepared by an operator or left by Neutron, is reused before a new one is created.
"""

import hashlib
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.dhcp import device_id
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, RowsLookup, read, scalars
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Stale
from neutrino.server.dhcp.segments import NOT_ROUTED, SegmentHosts, segment_hosts
from neutrino.server.ipam.allocation import DHCP_OWNER, Allocator
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.values import service_port
from neutrino.server.ml2.views import PORTS, subnets_of

LOG = logging.getLogger(__name__)
RESERVED: Final = "reserved_dhcp_port"
MACS = 8  # derived MAC addresses that are tried for a port
_AGENTS = (
    sa.select(t.agents.c.id, t.agents.c.host, t.agents.c.configurations)
    .where(t.agents.c.agent_type == words.DHCP)
    .order_by(t.agents.c.id)
)
_IS_SERVING = t.agents.c.id.in_(
    sa.select(t.network_dhcp_agents.c.agent_id).where(t.network_dhcp_agents.c.network_id == sa.bindparam("network"))
)
_SERVING = RowsLookup(_AGENTS.where(_IS_SERVING))
_SERVING_OR_ONE = RowsLookup(_AGENTS.where(sa.or_(_IS_SERVING, t.agents.c.id == sa.bindparam("joining"))))
_SERVING_OR_SOME = _AGENTS.where(sa.or_(_IS_SERVING, t.agents.c.id.in_(sa.bindparam("joining", expanding=True))))


def _read_agents(connection: Connection, network_id: str, joining: Sequence[str]) -> Sequence[NamedRow]:
    """The agents that serve a network, and those that join them."""
    if not joining:
        return read(connection, _SERVING(network=network_id))
    if len(joining) == 1:
        return read(connection, _SERVING_OR_ONE(network=network_id, joining=joining[0]))
    return connection.execute(_SERVING_OR_SOME, {"network": network_id, "joining": list(joining)}).all()


_PORTS = PORTS.load_kept(t.ports.c.network_id == sa.bindparam("network"), t.ports.c.device_owner == DHCP_OWNER)
_TAKEN = Lookup(
    sa.select(t.ports.c.mac_address).where(
        t.ports.c.network_id == sa.bindparam("network"),
        t.ports.c.mac_address.in_([sa.bindparam(f"mac{number}") for number in range(MACS)]),
    ),
    scalars,
)
_ON_HOST = (
    sa.select(t.network_dhcp_agents.c.network_id, t.agents.c.host, t.ports.c.vif_type)
    .select_from(
        t.network_dhcp_agents.join(t.agents).outerjoin(
            t.ports,
            sa.and_(
                t.ports.c.network_id == t.network_dhcp_agents.c.network_id,
                t.ports.c.host == t.agents.c.host,
                t.ports.c.device_owner == DHCP_OWNER,
            ),
        )
    )
    .where(t.agents.c.agent_type == words.DHCP, t.agents.c.host == sa.bindparam("on_host"))
    .order_by(t.network_dhcp_agents.c.network_id)
)


def derived_mac(base: str, text: str) -> str:
    """A MAC address with the prefix of `base_mac` and a hash of the text."""
    octets = base.lower().split(":")
    kept = octets[: 3 if octets[3] == "00" else 4]
    digest = hashlib.sha256(text.encode()).digest()
    return ":".join([*kept, *(f"{octet:02x}" for octet in digest[: 6 - len(kept)])])


def _is_by_server(configurations: Values) -> bool:
    """Whether the server creates the ports of the agent that reported these configurations."""
    return configurations.get(words.DHCP_PORT_BY_SERVER) is True


@dataclass(frozen=True)
class NetworkAfter:
    """A network with its subnets, as it is after the change."""

    network: Object
    subnets: Sequence[Object]
    without_address: Collection[str] = ()  # hosts that serve from the gateways' addresses (use_gateway_ips)
    segment_hosts: SegmentHosts = NOT_ROUTED

    def subnets_of(self, host: str) -> Sequence[Values]:
        """Those that an agent on the host serves: on a routed network the ones of its segment."""
        return self.segment_hosts.subnets_of(self.subnets, host)


@dataclass(frozen=True)
class DhcpPorts:
    networks: Networks
    ports: Ports
    operations: Operations
    base_mac: str

    def steps(
        self,
        connection: Connection,
        network_id: str,
        joining: Sequence[str] = (),
        leaving: Collection[str] = (),
        after: NetworkAfter | None = None,
    ) -> list[PendingWrite]:
        """Changes of the network's DHCP ports when these agents join and leave, or when its subnets change."""
        # First the agents: a change of a subnet whose network needs no DHCP port costs this one query.
        rows = _read_agents(connection, network_id, joining)
        reported = {row.id: msgspec.json.decode(row.configurations) for row in rows}
        if not any(map(_is_by_server, reported.values())):
            return []
        try:
            after = after or self._read(connection, network_id)
        except errors.NetworkNotFound:  # deleted meanwhile, with its ports
            return []
        subnets = after.subnets
        ports = sorted(read(connection, _PORTS(network=network_id)), key=lambda port: str(port["id"]))
        staying = {row.host: reported[row.id] for row in rows if row.id not in leaving}
        segments = {s["segment_id"] for s in subnets if s["enable_dhcp"] and s["segment_id"] is not None}
        on_segments = segment_hosts(connection, network_id, segments, staying) if segments else NOT_ROUTED
        others = [host for host, configurations in staying.items() if not _is_by_server(configurations)]
        bare = {host for host, configurations in staying.items() if configurations.get(words.USE_GATEWAY_IPS) is True}
        served = replace(after, without_address=bare, segment_hosts=on_segments)
        # Without a DHCP subnet an agent needs no port; the network stays scheduled for the next one.
        by_server = (host for host, configurations in staying.items() if _is_by_server(configurations))
        hosts = [host for host in by_server if any(s["enable_dhcp"] for s in served.subnets_of(host))]
        return self._reconcile(connection, served, ports, hosts, others)

    def _read(self, connection: Connection, network_id: str) -> NetworkAfter:
        network = self.networks.view.get(connection, network_id)
        return NetworkAfter(network, subnets_of(connection, [network_id])[network_id])

    def _reconcile(
        self,
        connection: Connection,
        served: NetworkAfter,
        ports: Sequence[Object],
        hosts: Sequence[str],
        others: Sequence[str],
    ) -> list[PendingWrite]:
        """From the ports that exist to one for each of `hosts`; ports of `others`, which create their own, are kept."""
        network_id = served.network["id"]
        wanted = {device_id(host, network_id): host for host in hosts}
        kept = {device_id(host, network_id) for host in others}
        # Of several ports of one host the first by id counts, so that concurrent requests keep the same one.
        existing: dict[str, Object] = {}
        for port in ports:
            existing.setdefault(port["device_id"], port)
        spare = [
            port
            for port in ports
            if _is_of_host(port, network_id)
            and port["device_id"] not in kept
            # Not wanted any more, or a host's second port: one was created and one moved there at the same time.
            and (port["device_id"] not in wanted or existing[port["device_id"]] is not port)
        ]
        free = [*spare, *(p for p in ports if p["device_id"] == RESERVED)]
        steps: list[PendingWrite | None] = []
        for device, host in wanted.items():
            reused = existing.get(device) or _take(free, served, host)
            if reused is None:
                steps.append(self._create(connection, served, device, host))
            else:
                steps.append(self._update(connection, served, reused, device, host))
        # Only ports that no other host can reuse: a moved port keeps the addresses that clients know.
        steps += [self.ports.prepare_delete(port, served.network) for port in spare if port in free]
        return [step for step in steps if step is not None]

    def _create(self, connection: Connection, served: NetworkAfter, device: str, host: str) -> PendingWrite | None:
        """A new port, unless it would have no address on any subnet."""
        network, bare = served.network, host in served.without_address
        automatic = [{"subnet_id": s["id"]} for s in served.subnets_of(host) if is_auto_address(s) and not bare]
        chosen = self._addresses(connection, served, host)
        fixed_ips = [*chosen, *automatic]
        if not fixed_ips and not bare:
            return None
        values = {
            **service_port(network["id"], network["project_id"], device, DHCP_OWNER, host),
            "mac_address": self._free_mac(connection, network["id"], device),
            "fixed_ips": fixed_ips,
        }
        try:
            return self.ports.prepare_create(connection, values, network, served.subnets, free=chosen)
        except (errors.IpAddressAlreadyAllocated, errors.MacAddressInUse):
            raise Stale from None  # another request took the chosen address meanwhile: choose again

    def _free_mac(self, connection: Connection, network_id: str, device: str) -> str:
        """A MAC address derived from the device id, so that the database refuses the second of two equal ports.

        A port that moved to another host has kept its MAC address; then the next derived one is taken.
        """
        macs = [derived_mac(self.base_mac, f"{device} {number}") for number in range(MACS)]
        named = {f"mac{number}": mac for number, mac in enumerate(macs)}
        taken = set(read(connection, _TAKEN(network=network_id, **named)))
        return next((mac for mac in macs if mac not in taken), "")

    def _update(
        self, connection: Connection, served: NetworkAfter, port: Object, device: str, host: str
    ) -> PendingWrite | None:
        fixed = self._addresses(connection, served, host, port["fixed_ips"], port["mac_address"])
        same = len(fixed) == len(port["fixed_ips"]) and all(f in port["fixed_ips"] for f in fixed)
        values = {
            "device_id": device,
            "binding:host_id": host,
            "fixed_ips": port["fixed_ips"] if same else fixed,  # another order is no change
        }
        # Retried with every change: the host's switch may have reported since, and can bind the port now.
        failed = port["binding:vif_type"] in (VIF_FAILED, VIF_UNBOUND)
        return self.ports.prepare_update(connection, port, values, served.network, rebind=failed)

    def _addresses(
        self,
        connection: Connection,
        served: NetworkAfter,
        host: str,
        current: Sequence[Object] = (),
        mac: str | None = None,
    ) -> list[Object]:
        """An address on each subnet with DHCP; addresses formed from the MAC address only where it is known."""
        allocator = Allocator(connection)
        addresses: list[Object] = []
        for subnet in () if host in served.without_address else served.subnets_of(host):
            kept = [f for f in current if f["subnet_id"] == subnet["id"]]
            if is_auto_address(subnet):
                if mac is not None:
                    addresses.append({"subnet_id": subnet["id"], "ip_address": eui64(subnet["cidr"], mac)})
            elif subnet["enable_dhcp"] and kept:
                addresses += kept
            elif subnet["enable_dhcp"]:
                try:
                    addresses.append(allocator.any_of(subnet))
                except errors.IpAddressGenerationFailure:
                    LOG.warning("subnet %s has no free address for its DHCP port: it is not served", subnet["id"])
        return addresses

    def networks_incomplete_on(self, connection: Connection, host: str) -> list[str]:
        """The networks scheduled to a host's agent whose DHCP port there is missing or not bound."""
        rows = connection.execute(_ON_HOST, {"on_host": host}).all()
        return sorted({r.network_id for r in rows if r.vif_type in (None, VIF_FAILED, VIF_UNBOUND)})

    def unbound(self, steps: Sequence[PendingWrite]) -> frozenset[str]:
        """The hosts to which ports of these steps could not be bound."""
        after = (step.context.current for step in steps if step.context.operation != "delete")
        return frozenset(port["binding:host_id"] for port in after if port["binding:vif_type"] == VIF_FAILED)


def _take(free: list[Object], served: NetworkAfter, host: str) -> Object | None:
    """The first spare port that can move to the host. One of another segment cannot: it would lose its addresses."""
    is_routed, ids = served.segment_hosts.is_routed, {subnet["id"] for subnet in served.subnets_of(host)}
    for port in free:
        if not is_routed or all(fixed["subnet_id"] in ids for fixed in port["fixed_ips"]):
            free.remove(port)
            return port
    return None


def _is_of_host(port: Object, network_id: str) -> bool:
    """Whether the device id is `dhcp<UUID of a host>-<network>`, which the server and Neutron's agents generate."""
    prefix, device = port["device_id"][:4], port["device_id"]
    return prefix == "dhcp" and device.endswith(f"-{network_id}") and len(device) == 4 + 36 + 1 + len(network_id)
