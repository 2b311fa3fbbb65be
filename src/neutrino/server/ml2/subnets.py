"""Subnets: create with a given prefix or one from a pool, update, delete; the ports of the network follow.

The addresses on a SLAAC subnet are formed by the guests from the prefix and their MAC. Every port of the network gets its
address when the subnet is created and loses it when the subnet is deleted, except ports of routers. Services whose ports
depend on the subnets of a network (DHCP) register hooks: their changes of ports are part of the same transaction.
"""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.collection import Listing, one_by_one
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, decode, fresh, update_row
from neutrino.server.db.reads import Read, read, read_lists
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam import delegated, routed, subnet_pools
from neutrino.server.ipam import subnet_rules as rules
from neutrino.server.ipam.allocation import ROUTER_OWNERS
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.extensions import Extensions
from neutrino.server.ml2.networks import AUTO_DELETED, Networks, check_mtu, delete_ports
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.ports.internal_names import NameFor
from neutrino.server.ml2.segments import DYNAMIC, read_segments
from neutrino.server.ml2.slaac import SlaacAddresses, add_addresses, ports_to_address, store
from neutrino.server.ml2.views import SUBNETS, reading_subnets, stored, subnets_of
from neutrino.server.quota.quotas import Quotas
from neutrino.server.scheduling.placements import Agents

# After the commit: the network's id, the subnet before and after (None: does not exist).
CommitHook = Callable[[str, Object | None, Object | None], None]
REQUEST_ONLY = ("prefixlen", "use_default_subnetpool", "shared")
DEFAULTS: Final[Object] = {
    "ipv6_ra_mode": None,
    "ipv6_address_mode": None,
    "segment_id": None,
    "dns_publish_fixed_ip": False,
    "dns_nameservers": [],
    "host_routes": [],
    "service_types": [],
}
DELEGATION: Final[Object] = {"id": delegated.POOL}  # stands for a pool where the prefix is delegated


@dataclass(frozen=True)
class DhcpChange:
    """What the DHCP service writes with a change of a network's subnets, and what it was decided for."""

    writes: Sequence[PendingWrite]
    # Ids of the agents that serve the network after the change, ids and revisions of its subnets. Empty: the service
    # chooses agents after the commit, or the change needs none.
    agents: frozenset[str] = frozenset()
    subnets: frozenset[tuple[str, int]] = frozenset()


NO_DHCP_CHANGE: Final = DhcpChange(())


class DhcpService(Protocol):
    """The DHCP service, whose ports follow a network's subnets."""

    def reading_agents(self, network_id: str) -> Read[Agents]:
        """The agents that may serve the network if one of its subnets gets DHCP."""

    def prepare(
        self, connection: Connection, network: Object, subnets: Sequence[Object], agents: Agents | None
    ) -> DhcpChange:
        """What is written with a change of a network's subnets, which `subnets` are then; `agents`: one gets DHCP."""

    def follow(
        self, tx: Transaction, network_id: str, before: Object | None, after: Object | None, change: DhcpChange
    ) -> None:
        """A transaction changes a subnet (None: it does not exist): look at it again after the commit."""


@dataclass(eq=False)
class Subnets(Listing):
    db: Database
    operations: Operations
    networks: Networks
    extensions: Extensions
    quotas: Quotas
    name_for: NameFor
    max_dns_nameservers: int
    max_host_routes: int
    delegates_by_default: bool = False  # the default pool of IPv6 subnets is a prefix delegated to their router
    dhcp: DhcpService = field(init=False)  # of the server that has this core
    commit_hooks: list[CommitHook] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.view = self.extensions.view("subnet", SUBNETS)
        super().__init__(self.db, self.view)
        self.slaac = SlaacAddresses(self.db, self.name_for)
        self.operations.undo["subnet"] = lambda subnet: self.delete(admin_context(), subnet["id"], None)

    # --- creating -------------------------------------------------------------------------------------------------

    def target(self, context: Context, values: Object) -> Object:
        """Attributes of the subnet's network, for policy rules."""
        return self.networks.policy_target(context, values["network_id"], everyone=True)

    @retried
    def create(self, context: Context, values: Object) -> Object:
        with self.db.read() as connection:
            network, siblings, limit, agents = self._read_inputs(connection, context, values)
            pool = self._pool(connection, context, values)
            subnet = self._decide(connection, values, network, siblings, pool)
            dhcp = self.dhcp.prepare(connection, network, [*siblings, subnet], agents)
            addressed = _without(dhcp.writes, ports_to_address(connection, subnet, siblings))
        scope = {}
        if pool is not None and pool.get("address_scope_id") is not None:
            scope = {_scope_name(subnet): pool["address_scope_id"]}
        with self.operations.write([DriverContext("create", "subnet", subnet, network=network)], dhcp.writes) as tx:
            # First the network's row: of two overlapping subnets created at once, the later one finds it changed.
            subnet_ids = [*network["subnets"], subnet["id"]]
            update_row(tx, t.networks, network, {"subnets": subnet_ids, **scope})
            if pool is not None and pool is not DELEGATION:
                subnet_pools.claim(tx, pool)
            tx.insert(t.subnets, [as_row(t.subnets, stored(subnet))], {subnet["project_id"]: limit})
            add_addresses(tx, subnet, addressed, self.name_for)
            _update_peer_routes(tx, siblings, [*siblings, subnet])
            self.extensions.store("subnet", tx, subnet)
            self._follow(tx, network["id"], None, subnet, dhcp)
            if rules.is_auto_address(subnet):
                tx.after_commit(self.slaac.complete, network["id"], subnet["id"])
        return {**subnet, "router:external": network["router:external"]}

    def _read_inputs(
        self, connection: Connection, context: Context, values: Object
    ) -> tuple[Object, Sequence[Object], int, Agents | None]:
        """The network, its subnets, the limit of the project, and with DHCP the agents that may serve the network."""
        network_id = values["network_id"]
        (network,), (siblings,), (limit,), agents = read_lists(
            connection,
            [self.networks.view.reading(network_id, context.project_id)],
            [reading_subnets([network_id])],
            [self.quotas.reading("subnet", values["project_id"])],
            [self.dhcp.reading_agents(network_id)] if values["enable_dhcp"] else [],
        )
        return self.networks.view.found(network_id, network), siblings, limit, agents[0] if agents else None

    def _follow(
        self, tx: Transaction, network_id: str, before: Object | None, after: Object | None, dhcp: DhcpChange
    ) -> None:
        self.dhcp.follow(tx, network_id, before, after, dhcp)
        for hook in self.commit_hooks:
            tx.after_commit(hook, network_id, before, after)

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(
            several, lambda values: self.create(context, values), lambda key: self.delete(context, key, None)
        )

    def _pool(self, connection: Connection, context: Context, values: Object) -> Object | None:
        if delegated.asks_for_delegation(values, self.delegates_by_default):
            delegated.check_request(values)
            return DELEGATION
        pool_id, cidr, ip_version = values.get("subnetpool_id"), values.get("cidr"), values["ip_version"]
        if pool_id == delegated.POOL:  # with a requested prefix nothing is delegated
            pool_id = None
        if pool_id is None and values.get("use_default_subnetpool"):
            if cidr:
                raise _refused("a CIDR and the default subnet pool exclude each other")
            default = subnet_pools.load_default(connection, ip_version, context.project_id, everyone=context.is_admin)
            if default is None:
                raise _refused(f"there is no default subnet pool for IPv{ip_version}")
            return default
        if pool_id is None:
            if not cidr:
                raise _refused("a cidr or a subnetpool_id is needed")
            if "prefixlen" in values:
                raise _refused("prefixlen needs a subnet pool")
            return None
        if cidr and "prefixlen" in values:
            raise _refused("cidr and prefixlen exclude each other")
        pool = subnet_pools.load(connection, pool_id, context.project_id, everyone=context.is_admin)
        if pool["ip_version"] != ip_version:
            raise _refused(f"the subnet pool is one of IPv{pool['ip_version']}")
        return pool

    def _decide(
        self, connection: Connection, values: Object, network: Object, siblings: Sequence[Object], pool: Object | None
    ) -> Object:
        _check_affinity(values["ip_version"], pool, siblings)
        check_mtu(network["id"], network["mtu"], [values["ip_version"]])
        prefix = self._prefix(connection, values, siblings, pool)
        # As in Neutron, a subnet with service types starts at revision 1: clients may compare the numbers.
        request = {name: value for name, value in values.items() if name not in REQUEST_ONLY}
        subnet = fresh({**DEFAULTS, **request}, revision=1 if values.get("service_types") else 0)
        subnet |= {"cidr": str(prefix), "subnetpool_id": pool["id"] if pool else None}
        if pool is DELEGATION:
            values = {**values, **delegated.addressing(str(prefix))}
        subnet["gateway_ip"] = values["gateway_ip"] if "gateway_ip" in values else rules.default_gateway(prefix)
        if subnet["gateway_ip"] is not None:
            rules.check_gateway(subnet["gateway_ip"], prefix)
        rules.check_ipv6_modes(subnet)
        rules.check_lists(
            values, values["ip_version"], values["name"] or str(prefix), self.max_dns_nameservers, self.max_host_routes
        )
        subnet["allocation_pools"] = values.get("allocation_pools")
        if not subnet["allocation_pools"]:  # clients send an empty list for the default
            subnet["allocation_pools"] = rules.default_pools(prefix, subnet["gateway_ip"])
        else:
            rules.check_pools(subnet["allocation_pools"], prefix)
            rules.check_gateway_outside_pools(subnet["gateway_ip"], subnet["allocation_pools"])
        _check_segment(connection, network["id"], subnet["segment_id"])
        routed.check_new_subnet(network["id"], subnet["segment_id"], siblings)
        subnet["host_routes"] = routed.with_peer_routes(subnet, siblings)
        return self.extensions.process("create", "subnet", values, subnet, network=network)

    def _prefix(
        self, connection: Connection, values: Object, siblings: Sequence[Object], pool: Object | None
    ) -> rules.Network:
        cidr = values.get("cidr")
        if pool is DELEGATION:
            return ipaddress.ip_network(delegated.PROVISIONAL)
        if pool is not None:
            cidr = subnet_pools.choose_prefix(connection, pool, values.get("prefixlen"), cidr, values["project_id"])
        assert cidr is not None, "without a pool, a cidr was asked for"
        prefix = rules.check_prefix(cidr, values["ip_version"], values["enable_dhcp"])
        rules.check_overlap(prefix, siblings)
        return prefix

    # --- updating -------------------------------------------------------------------------------------------------

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = self.view.get(connection, key, revision=revision)
            network = self.networks.view.get(connection, before["network_id"], context.project_id)
            # Other subnets matter for routed networks and for the DHCP port alone.
            needed = before["segment_id"] is not None or {"segment_id", "enable_dhcp"} & values.keys()
            subnets = subnets_of(connection, [network["id"]])[network["id"]] if needed else []
            siblings = [s for s in subnets if s["id"] != key]
            self._check_update(connection, before, values, siblings)
            after = _with_routes({**before, **values}, before, siblings)
            after = self.extensions.process("update", "subnet", values, after, network=network, before=before)
            if after == before:
                return before
            after = changed(before, after)
            dhcp = NO_DHCP_CHANGE
            if after["enable_dhcp"] != before["enable_dhcp"]:  # no other change of a subnet concerns its DHCP port
                updated = [after if s["id"] == key else s for s in subnets]
                agents = read(connection, self.dhcp.reading_agents(network["id"])) if after["enable_dhcp"] else None
                dhcp = self.dhcp.prepare(connection, network, updated, agents)
        context_of_drivers = DriverContext("update", "subnet", after, before, network=network)
        with self.operations.write([context_of_drivers], dhcp.writes) as tx:
            update_row(tx, t.subnets, before, stored(after))
            self.extensions.store("subnet", tx, after, before)
            self._follow(tx, network["id"], before, after, dhcp)
        return after

    def _check_update(self, connection: Connection, before: Object, values: Object, siblings: Sequence[Object]) -> None:
        prefix = ipaddress.ip_network(before["cidr"])
        after = {**before, **values}
        delegated.check_update(before, values)
        if "segment_id" in values:
            network_id = before["network_id"]
            segments = read_segments(connection, [network_id])[network_id]
            routed.check_segment_change(before, values["segment_id"], siblings, len(segments))
            _check_segment(connection, network_id, values["segment_id"])
        rules.check_ipv6_modes(after)
        rules.check_lists(
            values, before["ip_version"], before["name"] or before["id"], self.max_dns_nameservers, self.max_host_routes
        )
        if values.get("enable_dhcp") and not before["enable_dhcp"]:
            rules.check_prefix(before["cidr"], before["ip_version"], True)
        if "gateway_ip" in values and values["gateway_ip"] != before["gateway_ip"]:
            _check_gateway_unused(connection, before)
        if "allocation_pools" in values:
            rules.check_pools(values["allocation_pools"], prefix)
        if "gateway_ip" in values or "allocation_pools" in values:
            if values.get("gateway_ip") is not None:
                rules.check_gateway(values["gateway_ip"], prefix)
            rules.check_gateway_outside_pools(after["gateway_ip"], after["allocation_pools"])

    # --- deleting -------------------------------------------------------------------------------------------------

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self.view.get(connection, key, revision=revision)
            network = self.networks.view.get(connection, before["network_id"])
            deleted, readdressed = _ports_on(connection, before)
            self.networks.check_subnet_unused(connection, key)
            siblings = [s for s in subnets_of(connection, [network["id"]])[network["id"]] if s["id"] != key]
            dhcp = self.dhcp.prepare(connection, network, siblings, None)
        values: Object = {"subnets": [s for s in network["subnets"] if s != key]}
        same_version = [s for s in siblings if s["ip_version"] == before["ip_version"]]
        if before["subnetpool_id"] is not None and not any(s["subnetpool_id"] for s in same_version):
            values[_scope_name(before)] = None  # the last subnet of the scope is gone
        contexts = [DriverContext("delete", "subnet", before, network=network), *(w.context for w in dhcp.writes)]
        with self.operations.write(contexts) as tx:
            update_row(tx, t.networks, network, values)
            # Addresses before the subnet's row, which they reference.
            _remove_addresses(tx, before, _without(dhcp.writes, readdressed))
            for pending in dhcp.writes:
                pending.write(tx)
            delete_ports(tx, _without(dhcp.writes, deleted))
            _update_peer_routes(tx, siblings, siblings, gone=before)
            sharing.delete_object(tx, t.subnets, before)
            self._follow(tx, network["id"], before, None, dhcp)


def _refused(msg: str) -> errors.BadRequest:
    return errors.BadRequest(resource="subnets", msg=msg)


def _without(writes: Sequence[PendingWrite], ports: Sequence[NamedRow]) -> list[Any]:
    """The rows of ports that no service changes in the same write."""
    written = {pending.context.current.get("id") for pending in writes}
    return [port for port in ports if port.id not in written]


def _check_affinity(ip_version: int, pool: Object | None, siblings: Sequence[Values]) -> None:
    """Refuse a subnet from another pool than the network's other subnets of its IP version."""
    pool_id = pool["id"] if pool else None
    if any(other["subnetpool_id"] != pool_id for other in siblings if other["ip_version"] == ip_version):
        raise errors.NetworkSubnetPoolAffinityError()


def _check_segment(connection: Connection, network_id: str, segment_id: str | None) -> None:
    if segment_id is None:
        return
    found = connection.execute(
        sa.select(t.network_segments.c.network_id, t.network_segments.c.position).where(
            t.network_segments.c.id == segment_id
        )
    ).first()
    if found is None:
        raise errors.SegmentNotFound(id=segment_id)
    if found.network_id != network_id:
        raise errors.NetworkIdsDontMatch(segment_id=segment_id, network_id=network_id)
    if found.position >= DYNAMIC:
        raise errors.SubnetCantAssociateToDynamicSegment(segment_id=segment_id)


def _with_routes(after: Object, before: Object, siblings: Sequence[Object]) -> Object:
    """A subnet of a routed network after an update, with routes to the subnets of the other segments."""
    if all(after[name] == before[name] for name in ("host_routes", "gateway_ip", "segment_id")):
        return after
    routes = routed.with_peer_routes(
        {**after, "host_routes": after["host_routes"] or []}, siblings, old_gateway=before["gateway_ip"]
    )
    return {**after, "host_routes": routes} if after["segment_id"] is not None else after


def _update_peer_routes(
    tx: Transaction, siblings: Sequence[Object], subnets: Sequence[Object], gone: Object | None = None
) -> None:
    """Give the other subnets of a routed network their routes to a new subnet, or take those to a deleted one."""
    for sibling in siblings:
        others = [subnet for subnet in subnets if subnet["id"] != sibling["id"]]
        routes = routed.with_peer_routes(sibling, others, gone=gone)
        if routes != sibling["host_routes"]:
            update_row(tx, t.subnets, sibling, {"host_routes": routes})


def _scope_name(subnet: Object) -> str:
    return f"ipv{subnet['ip_version']}_address_scope"


# --- ports of the network ---------------------------------------------------------------------------------------------


def _remove_addresses(tx: Transaction, subnet: Object, ports: Sequence[NamedRow]) -> None:
    ids = [port.id for port in ports]
    tx.write(
        sa.delete(t.ip_allocations).where(
            t.ip_allocations.c.subnet_id == subnet["id"], t.ip_allocations.c.port_id.in_(ids)
        )
    )
    for port in ports:
        fixed_ips = decode(port.fixed_ips)
        removed = {f["ip_address"] for f in fixed_ips if f["subnet_id"] == subnet["id"]}
        names = [n for n in decode(port.dns_assignment) if n["ip_address"] not in removed]
        store(tx, port, [f for f in fixed_ips if f["subnet_id"] != subnet["id"]], names)


def _check_gateway_unused(connection: Connection, subnet: Object) -> None:
    """Refuse another gateway while a router has the present gateway's address."""
    if subnet["gateway_ip"] is None:
        return
    holder = connection.execute(
        sa.select(t.ports.c.id).where(
            t.ip_allocations.c.port_id == t.ports.c.id,
            t.ip_allocations.c.subnet_id == subnet["id"],
            t.ip_allocations.c.ip_address == subnet["gateway_ip"],
            t.ports.c.device_owner.in_(ROUTER_OWNERS),
            t.ports.c.device_id != "",
        )
    ).scalar()
    if holder is not None:
        raise errors.GatewayIpInUse(gateway=subnet["gateway_ip"], port=holder)


def _ports_on(connection: Connection, subnet: Object) -> tuple[list[Any], list[Any]]:
    """Ports that are deleted with a subnet, and ports that lose their address; refused if any other port uses it."""
    rows = connection.execute(
        sa.select(
            t.ports.c.id,
            t.ports.c.device_owner,
            t.ports.c.project_id,
            t.ports.c.revision_number,
            t.ports.c.fixed_ips,
            t.ports.c.dns_assignment,
        )
        .where(t.ip_allocations.c.port_id == t.ports.c.id, t.ip_allocations.c.subnet_id == subnet["id"])
        .distinct()
    ).all()
    slaac = rules.is_auto_address(subnet)
    deleted: list[NamedRow] = []
    readdressed: list[NamedRow] = []
    for row in rows:
        elsewhere = any(fixed["subnet_id"] != subnet["id"] for fixed in decode(row.fixed_ips))
        if row.device_owner in AUTO_DELETED:
            (readdressed if elsewhere else deleted).append(row)
        # A port of a routed network would stay without any address, and get none again.
        elif slaac and row.device_owner not in ROUTER_OWNERS and (elsewhere or subnet["segment_id"] is None):
            readdressed.append(row)
        else:
            raise errors.SubnetInUse(id=subnet["id"], reason=f"port {row.id} has an address from it")
    return deleted, readdressed
