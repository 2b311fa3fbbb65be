"""Routers: created, updated and deleted, each with its gateway, agents and ports in one transaction.

The external gateway is the port by which a router reaches an external network.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.flavors.collection import check_flavor, driver_of
from neutrino.features.flavors.resources import L3_ROUTER_NAT
from neutrino.features.router.errors import RouterInUse
from neutrino.features.router.providers import BY_DRIVER
from neutrino.features.router.resources import ROUTES
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.routers.gateways import (
    Decision,
    GatewayRequest,
    Gateways,
    Wanted,
    check_unused,
    gateway_ports,
    with_first,
)
from neutrino.features.router.routers.ha_networks import HaNetworks
from neutrino.features.router.routers.ndp import is_enabled_on_create, is_enabled_on_update
from neutrino.features.router.routers.port_layout import PortTarget, RouterPort, central_host
from neutrino.features.router.routers.prefix_delegation import PrefixDelegation
from neutrino.features.router.routers.router_ports import RouterInputs, RouterPorts, read_router
from neutrino.features.router.routers.rules import check_overlap, check_routes, refuse, routes_added, routes_removed
from neutrino.features.router.scheduling.scheduler import L3Scheduler
from neutrino.features.router.tables import floatingips, router_l3_agents, router_ports, routers
from neutrino.model import agents as words
from neutrino.model.device_owners import GATEWAY
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.api.types import parse_attribute
from neutrino.server.collection import one_by_one
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, exists, fresh, new_id, update_row
from neutrino.server.db.reads import read_together
from neutrino.server.db.session import Database, retried
from neutrino.server.hosts.zones import check_hints
from neutrino.server.ml2.operations import Operations, Writes
from neutrino.server.quota.quotas import Quotas
from neutrino.server.scheduling.scheduler import PlacementChange
from neutrino.server.uses import RouterUse

LOG = logging.getLogger(__name__)
KIND = ("distributed", "ha")  # the attributes that make a router's kind
DEFAULT_ROUTE_FLAGS = ("enable_default_route_ecmp", "enable_default_route_bfd")
NOT_COLUMNS = ("external_gateway_info", "enable_ndp_proxy", *KIND)


@dataclass(frozen=True)
class Routers:
    db: Database
    operations: Operations
    quotas: Quotas
    ports: RouterPorts
    scheduler: L3Scheduler
    ha_networks: HaNetworks
    delegation: PrefixDelegation
    # Of what a request may leave out: distributed, ha, enable_snat, enable_ndp_proxy, …_ecmp, …_bfd.
    defaults: Mapping[str, bool]
    uses: Sequence[RouterUse] = ()

    @property
    def _gateways(self) -> Gateways:
        return Gateways(self.ports, self.scheduler, self.defaults["enable_snat"], self.uses)

    # --- creating -------------------------------------------------------------------------------------------------

    def create(self, context: Context, values: Object) -> Object:
        kind = self._kind_of_flavor(values) or {name: self._kind(values, name) for name in KIND}
        key = new_id()  # chosen here: a router whose postcommit fails has to be deleted again
        try:
            decision = self._create(context, {"id": key, **values}, kind)
        except errors.MechanismDriverError:  # its ports are taken back by the core plugin, the router here
            self._take_back(key)
            raise
        return router_view.api_router(decision.router, decision.gateway_ips, (), self.scheduler.status(key))

    @retried
    def _create(self, context: Context, values: Object, kind: Object) -> Decision:
        # In transactions of its own, before the router's: a network is created by drivers, like that of any request.
        ha_network = self.ha_networks.ensure(values["project_id"]) if kind["ha"] else None
        with self.ha_networks.in_use(ha_network), self.db.read() as connection:
            check_hints(connection, values["availability_zone_hints"], words.L3)
            request = self._gateways.request(connection, context, values["external_gateway_info"])
            ha = self.ha_networks.values(connection, ha_network) if ha_network is not None else {}
            new = _new(values, {**kind, **ha}, request) | {
                **{name: self._kind(values, name) for name in DEFAULT_ROUTE_FLAGS},
                "enable_ndp_proxy": is_enabled_on_create(
                    *(connection, values["id"], values.get("enable_ndp_proxy"), request.network_id),
                    default=self.defaults["enable_ndp_proxy"],
                ),
            }
            decision = self._decide_create(connection, new, request)
            router = decision.router
            limits = self.quotas.limits(connection, "router", [router])
        with self.operations.write([], decision.writes) as tx:
            tx.insert(routers, [as_row(routers, router)], limits)
            self.ha_networks.refer(tx, None, router)
        return decision

    def _kind_of_flavor(self, values: Values) -> Object:
        """As the service profile of the flavor has it: a member gets a kind that only administrators may name."""
        key = values.get("flavor_id")
        if not key:
            return {}
        with self.db.read() as connection:
            check_flavor(connection, key, L3_ROUTER_NAT)
            return BY_DRIVER[driver_of(connection, key, BY_DRIVER)].kind(values)

    def _kind(self, values: Values, name: str) -> bool:
        requested = values.get(name)
        return bool(self.defaults[name] if requested is None else requested)

    def _decide_create(self, connection: Connection, router: Object, request: GatewayRequest) -> Decision:
        has_gateway = request.network_id is not None
        assigned = self.scheduler.assign(connection, router, (), needed=router["ha"] or has_gateway)
        gateway, port_id, fixed_ips = self._change_gateway(connection, router, request, central_host(assigned.agents))
        router = {**router, "gw_port_id": port_id}
        others = self.ports.reconcile(connection, router, (), assigned.agents)
        return Decision(router, fixed_ips or (), assigned.writes + gateway + others)

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(several, lambda values: self.create(context, values), self._take_back)

    def _take_back(self, key: str) -> None:
        with suppress(errors.NotFound):
            self.delete(admin_context(), key, None)

    # --- updating -------------------------------------------------------------------------------------------------

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            inputs = read_router(connection, key, revision)
            before = inputs.router
            kind = _changed_kind(before, values)
            if kind.get("distributed"):
                _check_floating_ips_are_near(connection, before)
        ha_network = self.ha_networks.ensure(before["project_id"]) if kind.get("ha") else None
        with self.ha_networks.in_use(ha_network), self.db.read() as connection:
            if ha_network is not None:
                kind = {**kind, **self.ha_networks.values(connection, ha_network)}
            decision = self._decide_update(connection, context, inputs, values, kind)
            decision = self.with_ndp_proxy(connection, before, decision, values)
        return self.write_update(before, decision)

    def repair(self) -> None:
        """Give HA routers without an HA network one, with ports on it for their agents."""
        for key in self.ha_networks.without_network():
            LOG.warning("router %s has lost its HA network, and gets another one", key)
            self._repair(key)
            self.scheduler.try_place(key, PlacementChange(fill=True))

    @retried
    def _repair(self, key: str) -> None:
        with self.db.read() as connection:
            before = router_view.VIEW.get(connection, key)
        if not before["ha"] or before["ha_network_id"] is not None:  # another process was first
            return
        ha_network = self.ha_networks.ensure(before["project_id"])
        with self.ha_networks.in_use(ha_network), self.db.read() as connection:
            after = {**before, **self.ha_networks.values(connection, ha_network)}
        with self.db.transaction() as tx:
            update_row(tx, routers, before, after)
            self.ha_networks.refer(tx, before, after)
            lost = sa.update(router_l3_agents).where(router_l3_agents.c.router_id == key)
            tx.write(lost.values(ha_port_id=None, ha_state=None))

    def with_ndp_proxy(self, connection: Connection, before: Object, decision: Decision, values: Object) -> Decision:
        """The decision with `enable_ndp_proxy`, which depends on the gateway; `values`: of the request."""
        default = self.defaults["enable_ndp_proxy"]
        after, addresses = decision.router, decision.gateway_ips
        enabled = is_enabled_on_update(connection, before, after, addresses, values, default=default)
        return replace(decision, router={**after, "enable_ndp_proxy": enabled})

    def _decide_update(
        self, connection: Connection, context: Context, inputs: RouterInputs, values: Object, kind: Object
    ) -> Decision:
        before, ports = inputs.router, inputs.ports
        after = {**before, **_columns(values), **kind}
        if "routes" not in values and "external_gateway_info" not in values and not kind:
            return Decision(after, before["gateway_ips"])
        if "external_gateway_info" in values and before["extra_gw_port_ids"]:
            if kind:
                raise refuse(f"{', '.join(KIND)} and external_gateway_info of a router with several external_gateways "
                             "cannot be changed at once")  # fmt: skip
            self._check_route_quota(connection, after)
            wanted = with_first(gateway_ports(before, ports), values["external_gateway_info"])
            return self.decide_gateways(connection, context, before, after, ports, wanted)
        request = None
        if "external_gateway_info" in values:
            policy = before["gw_qos_policy_id"]
            request = self._gateways.request(connection, context, values["external_gateway_info"], policy)
            _check_gateway(connection, before, ports, request, after["routes"], self.uses)
            after |= request.router_values
        elif "routes" in values:
            addresses = [address for port in ports for address in port.addresses]
            check_routes(after["routes"], [a.cidr for a in addresses], [a.ip_address for a in addresses])
        if "routes" in values:
            self._check_route_quota(connection, after)
        writes, host = self._move_ports(connection, inputs, after, recast=bool(kind))
        if request is None:
            return Decision(after, before["gateway_ips"], writes)
        # Both update the gateway port, and both updates are prepared from the same revision: the second would be stale.
        if kind and request.fixed_ips and request.network_id == before["gw_network_id"]:
            raise refuse("the kind of a router and its gateway's addresses cannot be changed at once")
        gateway, after["gw_port_id"], fixed_ips = self._change_gateway(connection, before, request, host)
        if before["gw_network_id"] not in (None, request.network_id):
            # Prefixes were delegated through that gateway: the routers outside do not route them any more.
            writes += self.delegation.release_all(connection, ports)
        # Created ports come first: if a mechanism driver fails, the first write decides whether creates are taken back.
        return Decision(after, before["gateway_ips"] if fixed_ips is None else fixed_ips, gateway + writes)

    def _check_route_quota(self, connection: Connection, router: Object) -> None:
        limit = self.quotas.limit(connection, "router_route", router["project_id"])
        if 0 <= limit < len(router["routes"]):
            raise errors.OverQuota(overs=["router_route"])

    def _move_ports(
        self, connection: Connection, inputs: RouterInputs, after: Object, *, recast: bool
    ) -> tuple[Writes, str]:
        """Agents and ports after a change of the gateway's network or of the kind; and the host of the gateway port."""
        other_network = after["gw_network_id"] != inputs.router["gw_network_id"]
        if not (other_network or recast):
            return (), ""
        staying = [port for port in inputs.ports if not (other_network and port.type == GATEWAY)]
        needed = after["ha"] or after["gw_network_id"] is not None or any(port.is_interface for port in staying)
        assigned = self.scheduler.assign(connection, after, inputs.agents, needed=needed, recast=recast)
        writes = assigned.writes + self.ports.reconcile(connection, after, staying, assigned.agents)
        current = next((port.host for port in staying if port.host), "")
        return writes, central_host(assigned.agents, current)

    def decide_gateways(
        self,
        connection: Connection,
        context: Context,
        before: Object,
        after: Object,
        ports: Sequence[RouterPort],
        wanted: Sequence[Wanted],
    ) -> Decision:
        """The wanted gateways instead of the current ones; `after` has the other changes of the request."""
        decision = self._gateways.decide(connection, context, before, after, ports, wanted)
        if before["gw_network_id"] in (None, decision.router["gw_network_id"]):
            return decision
        # Prefixes were delegated through that gateway: the routers outside do not route them any more.
        return replace(decision, writes=decision.writes + self.delegation.release_all(connection, ports))

    def write_update(self, before: Object, decision: Decision) -> Object:
        """Write an update; gives the router as the API shows it."""
        after, writes = decision.router, decision.writes
        reading = self.scheduler.reading_status(before["id"])
        if after == before and not writes:
            with self.db.read() as connection:
                status, zones = read_together(connection, *reading)
        else:
            # A gateway that only gets other addresses is a change of its port, not of the router.
            bump = 1 if after != before else 0
            after = changed(before, after, bump=bump)
            with self.operations.write([], writes) as tx:
                status_after, zones_after = (tx.read_with_commit(reading[0]), tx.read_with_commit(reading[1]))
                update_row(tx, routers, before, after, bump=bump)
                self.ha_networks.refer(tx, before, after)
                tx.after_commit(self.delegation.notify, writes)
                if before["ha"] and not after["ha"]:
                    tx.after_commit(self.ha_networks.delete_unused, before["project_id"])
            status, zones = status_after(), zones_after()
        with self.db.read() as connection:
            further = router_view.extra_gateways(connection, [after])[0]
            self.scheduler.explain(connection, before["id"], status)
        return router_view.api_router(after, decision.gateway_ips, zones, status, further)

    # --- gateway --------------------------------------------------------------------------------------------------

    def _change_gateway(
        self, connection: Connection, router: Values, request: GatewayRequest, host: str
    ) -> tuple[Writes, str | None, Sequence[Object] | None]:
        """From the current gateway to the requested one, on a host; with its port, and its addresses if they change."""
        port_id = router["gw_port_id"]
        if port_id is not None and router["gw_network_id"] == request.network_id:
            if not request.fixed_ips:
                return (), port_id, None
            writes = self.ports.readdress(connection, port_id, request.fixed_ips)
            return writes, port_id, writes[0].context.current["fixed_ips"] if writes else None
        removed = self.ports.delete(connection, port_id)[0] if port_id is not None else ()
        if request.network_id is None:
            return removed, None, []
        created, port = self.ports.create(
            connection,
            router,
            request.network_id,
            PortTarget(GATEWAY, host),
            request.fixed_ips or None,
            network=request.network,
            subnets=request.subnets,
        )
        return removed + created, port["id"], port["fixed_ips"]

    # --- extra routes ---------------------------------------------------------------------------------------------

    def add_extraroutes(self, context: Context, key: str, body: object) -> Object:
        return self._change_routes(context, key, _routes_in(body), routes_added)

    def remove_extraroutes(self, context: Context, key: str, body: object) -> Object:
        return self._change_routes(context, key, _routes_in(body), routes_removed)

    @retried
    def _change_routes(
        self,
        context: Context,
        key: str,
        routes: Sequence[Object],
        change: Callable[[Sequence[Object], Sequence[Object]], list[dict[str, str]]],
    ) -> Object:
        """Applied to the routes of each attempt, so that the routes of a concurrent request are not lost."""
        with self.db.read() as connection:
            inputs = read_router(connection, key)
            values = {"routes": change(inputs.router["routes"], routes)}
            decision = self._decide_update(connection, context, inputs, values, {})
        return {"router": self.write_update(inputs.router, decision)}

    # --- deleting -------------------------------------------------------------------------------------------------

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            inputs = read_router(connection, key, revision)
            before, ports = inputs.router, inputs.ports
            interfaces = [port.id for port in ports if port.is_interface]
            if interfaces:
                raise RouterInUse(router_id=key, reason=f"it has ports {', '.join(interfaces[:10])}")
            for use in self.uses:
                use.check_release(connection, key)
            for network_id in {port.network_id for port in gateway_ports(before, ports)}:
                check_unused(connection, key, network_id)
            writes: Writes = ()
            for port in ports:
                writes += self.ports.delete(connection, port.id)[0]
        with self.operations.write([pending.context for pending in writes]) as tx:
            for pending in writes:  # before the router's row, which the rows of its ports reference
                pending.write(tx)
            sharing.delete_object(tx, routers, before)
            if before["ha"]:
                tx.after_commit(self.ha_networks.delete_unused, before["project_id"])


def _check_gateway(
    connection: Connection,
    router: Values,
    ports: Sequence[RouterPort],
    request: GatewayRequest,
    routes: Sequence[Mapping[str, str]],
    uses: Sequence[RouterUse],
) -> None:
    """Refuse a change that would break floating IPs or routes, or whose subnets overlap with the router's."""
    inside = [port for port in ports if port.type != GATEWAY]
    if router["gw_network_id"] != request.network_id:
        # Floating IPs are addresses of the old network: without its gateway they are unreachable.
        if router["gw_port_id"] is not None:
            for use in uses:
                use.check_release(connection, router["id"])
            check_unused(connection, router["id"], router["gw_network_id"])
        if request.network_id is not None:
            check_overlap(inside, request.subnets)
    if routes:
        cidrs = [a.cidr for port in inside for a in port.addresses] + [s["cidr"] for s in request.subnets]
        check_routes(routes, cidrs, [a.ip_address for port in inside for a in port.addresses])


def _check_floating_ips_are_near(connection: Connection, router: Values) -> None:
    """Refuse to distribute a router that was chosen for floating IPs of ports behind other routers.

    It would translate on the hosts of these ports, and packets would bypass the routers in between.
    """
    own = (
        sa.select(t.ip_allocations.c.subnet_id)
        .join(router_ports, router_ports.c.port_id == t.ip_allocations.c.port_id)
        .where(router_ports.c.router_id == router["id"])
    )
    of_port = (
        t.ip_allocations.c.port_id == floatingips.c.port_id,
        t.ip_allocations.c.ip_address == floatingips.c.fixed_ip_address,
    )
    if exists(connection, floatingips.c.router_id == router["id"], *of_port, t.ip_allocations.c.subnet_id.not_in(own)):
        raise refuse("distributed: a floating IP of the router is for a port behind another router")


def _new(values: Object, kind: Values, request: GatewayRequest) -> Object:
    """A new router without its gateway port."""
    given = _columns(values)
    # Neutron counts setting the gateway as a second change.
    router = fresh(given, revision=1 if request.network_id is None else 2)
    return router | {
        "gw_port_id": None,
        "extra_gw_port_ids": [],
        "status": "ACTIVE",
        "flavor_id": values.get("flavor_id") or None,
        "service_type_id": values.get("service_type_id"),
        "ha_network_id": None,
        "ha_vr_id": None,
        "routes": [],
        "conntrack_helpers": [],
        **kind,
        **request.router_values,
    }


def _columns(values: Object) -> Object:
    """The values of a request that are columns of the router; null for ECMP or BFD leaves it as it is."""
    left = {*NOT_COLUMNS, *(name for name in DEFAULT_ROUTE_FLAGS if values.get(name) is None)}
    return {name: value for name, value in values.items() if name not in left}


def _changed_kind(before: Object, values: Object) -> Object:
    """The columns of another kind; the kind may change only while the router is administratively down."""
    requested = {name: values[name] for name in KIND if values.get(name) is not None}
    differing = {name: value for name, value in requested.items() if value != before[name]}
    if differing and before["flavor_id"]:
        raise refuse(f"{', '.join(differing)}: the flavor of the router decides")
    if differing and (before["admin_state_up"] or values.get("admin_state_up")):
        raise refuse(f"{', '.join(differing)} can be changed only while admin_state_up is false")
    if differing.get("ha") is False:
        return {**differing, "ha_network_id": None, "ha_vr_id": None}
    return differing


def _routes_in(body: object) -> list[Object]:
    """The routes of a request to add or remove some."""
    router = body.get("router") if isinstance(body, dict) else None
    if not isinstance(router, dict) or set(router) != {"routes"}:
        raise errors.HTTPBadRequest('The body has to name routes: {"router": {"routes": [...]}}.')
    routes: list[Object] = parse_attribute("routes", ROUTES, router["routes"])
    return routes
