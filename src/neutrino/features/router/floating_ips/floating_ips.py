"""Floating IPs: addresses of an external network that are translated to a port's own, and moved between ports.

The address is held by a port on the external network that belongs to no project. An association needs a router between
the port and the external network. It therefore updates the router's row on the condition that its revision is the one that
was read: if the router loses its gateway or interface meanwhile, the association fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import (
    ExternalGatewayForFloatingIPNotFound,
    ExternalIpAddressExhausted,
    FipInUseByPortForwarding,
    FloatingIPNotFound,
    FloatingIPPortAlreadyAssociated,
    FloatingIPRouterConflict,
    PortHasPortForwarding,
    RouterNotFound,
)
from neutrino.features.router.tables import floatingips, port_forwardings, router_l3_agents, router_ports, routers
from neutrino.model import agents as words
from neutrino.model.device_owners import FLOATING, GATEWAY, INTERFACES
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.collection import Listing, one_by_one
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, exists, fresh, update_row
from neutrino.server.db.reads import Lookup, Read, RowsLookup, read, read_lists, read_together, scalar
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import Added, View
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.values import service_port
from neutrino.server.ml2.views import PORTS, SUBNETS
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas
from neutrino.server.uses import RouterUse

Revisions = tuple[tuple[str, int], ...]  # ids and revisions of routers as they were read
DOWN: Final = "DOWN"
DHCP_PORT: Final = "network:dhcp"
NOT_ASSOCIATED: Final[Object] = {"port_id": None, "fixed_ip_address": None, "router_id": None}
_gateways, _gateway_ports = router_ports.alias("gateways"), t.ports.alias("gateway_ports")
_ROUTERS_BETWEEN = RowsLookup(
    sa.select(
        routers.c.id,
        routers.c.revision_number,
        routers.c.distributed,
        t.ip_allocations.c.ip_address,
        t.subnets.c.gateway_ip,
    )
    .select_from(
        router_ports.join(t.ip_allocations, t.ip_allocations.c.port_id == router_ports.c.port_id)
        .join(routers, routers.c.id == router_ports.c.router_id)
        .join(t.subnets, t.subnets.c.id == t.ip_allocations.c.subnet_id)
    )
    .where(
        t.ip_allocations.c.subnet_id == sa.bindparam("subnet"),
        sa.exists().where(
            _gateways.c.router_id == routers.c.id,
            _gateways.c.port_type == GATEWAY,
            _gateways.c.port_id == _gateway_ports.c.id,
            _gateway_ports.c.network_id == sa.bindparam("external"),
        ),
        sa.or_(*(router_ports.c.port_type == one for one in INTERFACES)),
    )
    .order_by(routers.c.id)
)
# Another floating IP of the same external network for a port's address.
_OTHER = Lookup(
    sa.select(floatingips.c.id)
    .where(
        floatingips.c.port_id == sa.bindparam("port"),
        floatingips.c.fixed_ip_address == sa.bindparam("address"),
        floatingips.c.floating_network_id == sa.bindparam("external"),
        floatingips.c.id != sa.bindparam("key"),
    )
    .limit(1),
    scalar,
)
_ROUTER = sa.select(
    routers.c.id, routers.c.revision_number, routers.c.distributed, routers.c.project_id, routers.c.gw_network_id
).where(routers.c.id == sa.bindparam("router"))
DETAILS = ("name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner")
BATCH = 500
_DETAILS = sa.select(t.ports.c.id, *(t.ports.c[name] for name in DETAILS)).where(
    t.ports.c.id.in_(sa.bindparam("ports", expanding=True))
)
_NO_STATUS = sa.update(t.ports).where(t.ports.c.id == sa.bindparam("port")).values(status="N/A")


# --- views ------------------------------------------------------------------------------------------------------------

_COMPUTED = {
    "qos_network_policy_id": sa.select(t.networks.c.qos_policy_id)
    .where(t.networks.c.id == floatingips.c.floating_network_id)
    .scalar_subquery()
}
VIEW = View(floatingips, computed=_COMPUTED, hidden=("name",), not_found=FloatingIPNotFound)


def _api_floating_ip(floating_ip: Object, port: Values | None) -> Object:
    """A floating IP that was just written, with its associated port, as the API shows it."""
    details = None if port is None else {name: port[name] for name in DETAILS}
    return {**floating_ip, "port_details": details}


def _port_details(connection: Connection, floating_ips: Sequence[Object]) -> list[Object | None]:
    port_ids = [row["port_id"] for row in floating_ips if row["port_id"] is not None]
    details: dict[str, Object] = {}
    for i in range(0, len(port_ids), BATCH):
        for row in connection.execute(_DETAILS, {"ports": port_ids[i : i + BATCH]}).mappings():
            details[row["id"]] = {name: row[name] for name in DETAILS}
    return [details.get(row["port_id"]) for row in floating_ips]


# As the API shows them; `port_details` is read from the row of the associated port.
FLOATING_IPS = View(floatingips, computed=_COMPUTED, hidden=("name", "floating_port_id")).composed(
    {"port_details": Added(("port_id",), _port_details)}
)


_POOLS = View(
    t.subnets,
    columns=("network_id", "cidr"),
    renamed={"subnet_id": "id", "subnet_name": "name"},
    scope=SUBNETS.scope,
    listed=SUBNETS.listed,
)


# --- floating IPs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Association:
    """The port of a floating IP after a request, and the routers that gain or lose it."""

    values: Object  # port_id, fixed_ip_address, router_id
    port: Object | None = None
    routers: Revisions = ()


def refuse(message: str) -> errors.BadRequest:
    return errors.BadRequest(resource="floatingip", msg=message)


@dataclass(eq=False)
class FloatingIps(Listing):
    _view = FLOATING_IPS
    db: Database
    operations: Operations
    quotas: Quotas
    networks: Networks
    ports: Ports
    addresses_changed: Callable[[Sequence[Object]], None]  # called with ports, after the commit
    uses: Sequence[RouterUse]  # by features
    publishes_names: bool = False  # in an external DNS, which needs both a name and a domain

    # --- creating -------------------------------------------------------------------------------------------------

    @retried
    def create(self, context: Context, values: Object) -> Object:
        if self.publishes_names:
            _check_full_name(values)
        with self.db.read() as connection:
            new = fresh({n: v for n, v in values.items() if n != "subnet_id"}, revision=0)
            network, subnets, limit = read_together(
                connection,
                *self.networks.reading_external(context, values["floating_network_id"], "floatingip"),
                self.quotas.reading("floatingip", values["project_id"]),
            )
            external_port = self._external_port(connection, network, subnets, values, new["id"])
            for use in self.uses:
                use.check_values(connection, context, {}, values)
            new |= {
                "status": DOWN,
                "floating_port_id": external_port.context.current["id"],
                "floating_ip_address": _first_ipv4(external_port.context.current, values["floating_network_id"]),
                "port_forwardings": [],
                "qos_network_policy_id": external_port.context.network["qos_policy_id"],
                **NOT_ASSOCIATED,
            }
            association = _associate(connection, context, new, values)
            floating_ip = {**new, **association.values}
        with self.operations.write([external_port.context]) as tx:
            external_port.write(tx)
            # The port only holds the address and is never bound: as in Neutron it has no status.
            tx.write(_NO_STATUS, {"port": floating_ip["floating_port_id"]})
            tx.insert(floatingips, [as_row(floatingips, floating_ip)], {floating_ip["project_id"]: limit})
            bump_routers(tx, association.routers)
            tx.after_commit(self.addresses_changed, concerned(None, floating_ip, association.port))
        return _api_floating_ip(floating_ip, association.port)

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(
            several, lambda values: self.create(context, values), lambda key: self.delete(admin_context(), key, None)
        )

    def _external_port(
        self, connection: Connection, network: Object, subnets: Sequence[Object], values: Object, key: str
    ) -> PendingWrite:
        """The port on the external network that holds the address."""
        network_id = network["id"]
        if not any(subnet["ip_version"] == 4 for subnet in subnets):
            raise refuse(f"network {network_id} has no IPv4 subnet")
        requested = {"subnet_id": values["subnet_id"], "ip_address": values["floating_ip_address"]}
        fixed = {name: value for name, value in requested.items() if value is not None}
        port = service_port(network_id, "", key, FLOATING, "")
        return self.ports.prepare_create(
            connection, {**port, "fixed_ips": [fixed]} if fixed else port, network, subnets
        )

    # --- updating: associate, move, disassociate ------------------------------------------------------------------

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        requested = values or {"port_id": None}  # as in Neutron, an empty update disassociates
        with self.db.read() as connection:
            (loaded,), ports = read_lists(
                connection,
                [VIEW.reading(key)],
                [_reading_port(context, port_id)] if (port_id := requested.get("port_id")) else [],
            )
            before = VIEW.found(key, loaded, revision)
            association = _associate(connection, context, before, requested, *ports)
            left = PORTS.load(connection, before["port_id"]) if before["port_id"] is not None else None
            own = {name: requested.get(name, before[name]) for name in ("description", "qos_policy_id")}
            for use in self.uses:
                use.check_values(connection, context, before, own)
        after = {**before, **association.values, **own}
        if any(after[name] != before[name] for name in NOT_ASSOCIATED):
            after["status"] = DOWN  # until a host reports that it translates the address
        # With a port_id it is a new association, also with the same port: hosts recognize it by the revision.
        if after == before and "port_id" not in requested:
            return _api_floating_ip(before, association.port)
        now = changed(before, after)
        with self.operations.write([]) as tx:
            update_row(tx, floatingips, before, now)
            bump_routers(tx, association.routers)
            if now["qos_policy_id"] != before["qos_policy_id"] and now["router_id"] is not None:
                # Hosts get it as a part of the router, which is the same for clients.
                tx.log(routers, {"id": now["router_id"]})
            tx.after_commit(self.addresses_changed, concerned(before, now, left, association.port))
        return _api_floating_ip(now, association.port)

    # --- deleting -------------------------------------------------------------------------------------------------

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = VIEW.get(connection, key, revision=revision)
            if before["port_forwardings"]:
                raise FipInUseByPortForwarding(id=key)
            external_port = self.ports.view.get(connection, before["floating_port_id"])
            network = self.networks.view.get(connection, before["floating_network_id"])
            port = PORTS.load(connection, before["port_id"]) if before["port_id"] is not None else None
            revisions = revision_of(connection, before["router_id"])
        with self.operations.write([], [self.ports.prepare_delete(external_port, network)]) as tx:
            sharing.delete_object(tx, floatingips, before)
            bump_routers(tx, revisions)
            tx.after_commit(self.addresses_changed, concerned(before, None, port))


@dataclass(frozen=True)
class FloatingIpPools:
    """Floating IP pools: the IPv4 subnets of external networks that the caller sees."""

    db: Database

    def index(self, context: Context, query: Query) -> list[Object]:
        if query.marker is not None:  # all pools are one page, whatever the limit: there is no next one
            return []
        external = t.subnets.c.network_id.in_(sa.select(t.networks.c.id).where(t.networks.c.external))
        asked = Query(everyone=context.is_admin)
        with self.db.read() as connection:
            rows = _POOLS.many(connection, asked, context.project_id, t.subnets.c.ip_version == 4, external)
        return [{**row, "project_id": context.project_id, "tenant_id": context.project_id} for row in rows]


# --- rows -------------------------------------------------------------------------------------------------------------


def bump_routers(tx: Transaction, revisions: Sequence[tuple[str, int]], bump: int = 1) -> None:
    """Record a change of routers whose floating IPs changed, on the condition that they are as they were read.

    Hosts get floating IPs as a part of their router.
    """
    for router_id, revision in revisions:
        update_row(tx, routers, {"id": router_id, "revision_number": revision}, {}, bump=bump)


def revision_of(connection: Connection, router_id: str | None) -> Revisions:
    """A router with its revision, if it exists."""
    if router_id is None:
        return ()
    row = connection.execute(
        sa.select(routers.c.id, routers.c.revision_number).where(routers.c.id == router_id)
    ).first()
    return () if row is None else ((row.id, row.revision_number),)


def _check_full_name(values: Object) -> None:
    for given, missing in (("dns_name", "dns_domain"), ("dns_domain", "dns_name")):
        if values[given] and not values[missing]:
            raise refuse(f"{given} cannot be specified without a {missing}")


def concerned(before: Object | None, after: Object | None, *ports: Object | None) -> list[Object]:
    """Those of these ports whose addresses a change of a floating IP concerns: those that it leaves and gets."""
    if _association(before) == _association(after):
        return []
    by_id = {port["id"]: port for port in ports if port is not None}
    ids = dict.fromkeys(state["port_id"] for state in (before, after) if state and state["port_id"])
    return [by_id[key] for key in ids if key in by_id]


def _association(floating_ip: Object | None) -> tuple[str, ...] | None:
    if floating_ip is None or not floating_ip["port_id"]:
        return None
    return tuple(floating_ip[name] for name in ("port_id", "fixed_ip_address", "floating_ip_address"))


def _first_ipv4(port: Values, network_id: str) -> str:
    address = next((f["ip_address"] for f in port["fixed_ips"] if ":" not in f["ip_address"]), None)
    if address is None:
        raise ExternalIpAddressExhausted(net_id=network_id)
    return str(address)


# --- association ------------------------------------------------------------------------------------------------------


def _reading_port(context: Context, port_id: str) -> Read[Object | None]:
    return PORTS.reading(port_id, context.project_id, everyone=context.is_admin)


def _associate(
    connection: Connection, context: Context, floating_ip: Object, values: Object, port: Object | None = None
) -> Association:
    """The association of a floating IP after a request, checked; `port`: the one that it names, if it is read already."""
    # The router that loses the floating IP changes too: its hosts have to remove the address.
    before = revision_of(connection, floating_ip["router_id"])
    port_id = values.get("port_id", floating_ip["port_id"])
    for name in ("fixed_ip_address", "router_id"):
        if values.get(name) is not None and not port_id:
            raise refuse(f"{name} requires a port_id")
    if port_id is None:
        if floating_ip["port_id"] is None:  # router_id stays: it may be that of its port forwardings
            return Association({name: floating_ip[name] for name in NOT_ASSOCIATED})
        return Association(dict(NOT_ASSOCIATED), None, before)
    if not values.keys() & NOT_ASSOCIATED.keys():
        port = PORTS.load(connection, port_id)
        return Association({name: floating_ip[name] for name in NOT_ASSOCIATED}, port)
    port = PORTS.found(port_id, port or read(connection, _reading_port(context, port_id)))
    # A new router alone leaves the address as it is.
    asked = floating_ip["fixed_ip_address"] if values.keys() & NOT_ASSOCIATED.keys() == {"router_id"} else None
    asked = values.get("fixed_ip_address", asked)
    subnet_id, address = _fixed_ip(context, port, asked, floating_ip["project_id"])
    network_id = floating_ip["floating_network_id"]
    between, other = read_together(
        connection,
        _ROUTERS_BETWEEN(subnet=subnet_id, external=network_id),
        _OTHER(port=port_id, address=address, external=network_id, key=floating_ip["id"]),
    )
    if values.get("router_id") is not None:
        router = _chosen_router(connection, context, values["router_id"], network_id)
    else:
        router = _nearest(between, subnet_id, network_id, port_id)
    if other is not None:
        raise FloatingIPPortAlreadyAssociated(fixed_ip=address, port_id=port_id, net_id=network_id)
    if floating_ip["port_forwardings"]:
        raise FipInUseByPortForwarding(id=floating_ip["id"])
    # A distributed router translates floating IPs on the port's host, but port forwardings on the SNAT host.
    if router.distributed and exists(connection, port_forwardings.c.internal_port_id == port_id):
        raise PortHasPortForwarding(port_id=port_id)
    revisions = dict([*before, (router.id, router.revision_number)])
    new = {"port_id": port_id, "fixed_ip_address": address, "router_id": router.id}
    return Association(new, port, tuple(sorted(revisions.items())))  # sorted: concurrent requests lock in one order


def _chosen_router(connection: Connection, context: Context, router_id: str, external_network_id: str) -> NamedRow:
    """The router of a request, as `router_between` gives it.

    That it reaches the port, by routes over other routers, is for its owner to see to, as in Neutron.
    """
    row = connection.execute(_ROUTER, {"router": router_id}).first()
    if row is None or (row.project_id != context.project_id and not context.is_admin):
        raise RouterNotFound(id=router_id)
    if row.gw_network_id != external_network_id:
        raise FloatingIPRouterConflict(router_id=router_id, net_id=external_network_id)
    # It translates on the host of the port: packets would bypass the routers in between.
    if row.distributed:
        raise refuse(f"router {router_id} is distributed, and a distributed router cannot be chosen")
    return row


def router_between(connection: Connection, subnet_id: str, external_network_id: str, port_id: str) -> NamedRow:
    """The router from a port's subnet to an external network: the subnet's gateway if it is one of several.

    A row with its id, its revision, and whether it is distributed.
    """
    rows = read(connection, _ROUTERS_BETWEEN(subnet=subnet_id, external=external_network_id))
    return _nearest(rows, subnet_id, external_network_id, port_id)


def _nearest(rows: Sequence[NamedRow], subnet_id: str, external_network_id: str, port_id: str) -> NamedRow:
    if not rows:
        raise ExternalGatewayForFloatingIPNotFound(
            subnet_id=subnet_id, external_network_id=external_network_id, port_id=port_id
        )
    return next((row for row in rows if row.ip_address == row.gateway_ip), rows[0])


def _fixed_ip(context: Context, port: Object, address: str | None, project_id: str) -> tuple[str, str]:
    """The subnet and the address of the port that the floating IP is translated to."""
    if port["project_id"] != project_id and not context.is_admin:
        raise refuse(f"port {port['id']} belongs to another project")
    if port["device_owner"] == DHCP_PORT:
        raise refuse(f"port {port['id']} is a DHCP port, which floating IPs cannot be associated with")
    ipv4 = [fixed for fixed in port["fixed_ips"] if ":" not in fixed["ip_address"]]
    if address is not None:
        fixed = next((fixed for fixed in ipv4 if fixed["ip_address"] == address), None)
        if fixed is None:
            raise refuse(f"port {port['id']} does not have the IPv4 address {address}")
        return fixed["subnet_id"], address
    if not ipv4:
        raise refuse(f"port {port['id']} has no IPv4 address")
    if len(ipv4) > 1:
        raise refuse(f"port {port['id']} has several IPv4 addresses: choose one by fixed_ip_address")
    return ipv4[0]["subnet_id"], ipv4[0]["ip_address"]


def with_forwardings(floating_ip: Object, left: Sequence[Object]) -> Object:
    """The columns of a floating IP of which these forwardings are left: without any, no router translates it."""
    gone: Object = {} if left else {"router_id": None, "status": DOWN}
    return {"port_forwardings": list(left), **gone}


# --- status -----------------------------------------------------------------------------------------------------------


def set_floating_ip_status(db: Database, host: str, key: str, status: str) -> bool:
    """Store the status that a host reports; whether it changed.

    A host may report about floating IPs of routers that are scheduled to its L3 agent, and about those of distributed
    routers whose port is bound to it; other reports change nothing.
    """
    floating_ip = sa.select(
        floatingips.c.status, floatingips.c.router_id, floatingips.c.revision_number, floatingips.c.project_id
    ).where(floatingips.c.id == key)
    on_host = sa.and_(t.agents.c.host == host, t.agents.c.agent_type == words.L3)
    serving = (
        sa.select(router_l3_agents.c.router_id)
        .join(t.agents, t.agents.c.id == router_l3_agents.c.agent_id)
        .where(on_host)
    )
    local = (
        sa.select(floatingips.c.id)
        .join(t.ports, t.ports.c.id == floatingips.c.port_id)
        .join(routers, routers.c.id == floatingips.c.router_id)
        .where(floatingips.c.id == key, t.ports.c.host == host, routers.c.distributed.is_(True))
    )

    def attempt() -> bool:
        with db.transaction() as tx:
            row = tx.execute(floating_ip).first()
            if row is None or row.status == status or row.router_id is None:
                return False
            if not any(
                tx.execute(query).first()
                for query in (serving.where(router_l3_agents.c.router_id == row.router_id), local)
            ):
                return False
            # Stale report if the floating IP has moved since: its new host reports again. The revision identifies the
            # association that hosts report about, so the status itself does not raise it.
            same = sa.and_(floatingips.c.id == key, floatingips.c.revision_number == row.revision_number)
            changed = bool(tx.execute(sa.update(floatingips).where(same).values(status=status)).rowcount)
            if changed:
                moved = {"status": (row.status, status)}
                tx.log(floatingips, {"id": key, "project_id": row.project_id}, changed=moved)
            return changed

    return db.retrying(attempt)
