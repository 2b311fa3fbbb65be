"""Routers: created, changed and deleted, each with their gateway, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.api.resources.router import ROUTES
from neutrino.server.api.types import parse_attribute
from neutrino.server.bulk import one_by_one
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, check_revision, delete_row, fresh, update_row
from neutrino.server.db.session import Database
from neutrino.server.hosts.zones import check_hints
from neutrino.server.l3 import router_view
from neutrino.server.l3.device_owners import GATEWAY, INTERFACES
from neutrino.server.l3.routers.gateways import Gateways, Wish, check_unused
from neutrino.server.l3.routers.ha_networks import HaNetworks
from neutrino.server.l3.routers.port_layout import central_host
from neutrino.server.l3.routers.prefix_delegation import Delegations
from neutrino.server.l3.routers.router_ports import NOTHING, Part, RouterPorts
from neutrino.server.l3.routers.rules import check_routes, refuse, routes_added, routes_removed
from neutrino.server.l3.routers.state import RouterPort, cidrs_of, read_ports
from neutrino.server.l3.scheduling.scheduler import L3Scheduler
from neutrino.server.ml2.operations import Operations
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

Object = dict[str, Any]
KIND_NAMES = ("distributed", "ha")
NOT_COLUMNS = ("external_gateway_info", *KIND_NAMES)


@dataclass(frozen=True)
class Defaults:
    """What a router is that says nothing of it."""

    distributed: bool
    ha: bool


class Routers:
    def __init__(
        self,
        db: Database,
        operations: Operations,
        quotas: Quotas,
        ports: RouterPorts,
        gateways: Gateways,
        scheduler: L3Scheduler,
        ha: HaNetworks,
        defaults: Defaults,
        check_flavor: Callable[[Connection, str], None],
        delegations: Delegations,
    ) -> None:
        self._db = db
        self._operations = operations
        self._quotas = quotas
        self._ports = ports
        self._gateways = gateways
        self._scheduler = scheduler
        self._ha = ha
        self._defaults = defaults
        self._check_flavor = check_flavor
        self._delegations = delegations

    # --- reading --------------------------------------------------------------------------------------------------

    def index(self, context: Context, query: Query, *conditions: sa.ColumnElement[bool]) -> list[Object]:
        with self._db.read() as connection:
            return router_view.ROUTERS.many(connection, query, context.project_id, *conditions)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self._db.read() as connection:
            return router_view.ROUTERS.show(
                connection, key, project=context.project_id, everyone=everyone, fields=fields
            )

    def owner(self, context: Context, key: str) -> Object:
        """What the policy may ask of a router that something belongs to; who may not see it does not find it."""
        with self._db.read() as connection:
            found = router_view.VIEW.show(
                connection, key, project=context.project_id, everyone=context.is_admin, fields=("project_id",)
            )
        if found is None:
            raise errors.RouterNotFound(id=key)
        return {"ext_parent:project_id": found["project_id"]}

    # --- creating -------------------------------------------------------------------------------------------------

    def create(self, context: Context, values: Object) -> Object:
        _check_left_to_flavor(values)
        kind = {name: self._kind(values, name) for name in KIND_NAMES}
        ha_network = self._ha.ensure(values["project_id"]) if kind["ha"] else None
        made: list[str] = []

        def attempt() -> Object:
            with self._db.read() as connection:
                check_hints(connection, values["availability_zone_hints"], words.L3)
                if values.get("flavor_id"):
                    self._check_flavor(connection, values["flavor_id"])
                wish = self._gateways.wish(connection, context, values["external_gateway_info"])
                router = self._new(values, kind, wish)
                if ha_network is not None:
                    router |= {"ha_network_id": ha_network, "ha_vr_id": self._ha.free_vr_id(connection, ha_network)}
                limit = self._quotas.limit(connection, "router", router["project_id"])
                part, gateway_ips = self._first_ports(connection, router, wish)

            made[:] = [router["id"]]
            with self._operations.write([step.context for step in part.steps]) as tx:
                tx.insert(t.routers, [as_row(t.routers, router)])
                part.write(tx)
                tx.use("router", router["project_id"], 1, limit)
                tx.record("router", router["id"], router["revision_number"])
            return router_view.api_router(router, gateway_ips, (), self._scheduler.status(router["id"]))

        try:
            return self._db.retrying(attempt)
        except errors.MechanismDriverError:
            self.take_back(made[0])
            raise

    def _kind(self, values: Mapping[str, Any], name: str) -> bool:
        asked = values.get(name)
        return bool(getattr(self._defaults, name) if asked is None else asked)

    def _new(self, values: Object, kind: Mapping[str, bool], wish: Wish) -> Object:
        given = {name: value for name, value in values.items() if name not in NOT_COLUMNS}
        # Setting the gateway counts as a change of its own.
        router = fresh(given, revision=1 if wish.network_id is None else 2)
        return router | {
            **kind,
            **self._gateways.values(wish),
            "gw_port_id": None,
            "status": "ACTIVE",
            "flavor_id": values.get("flavor_id") or None,
            "ha_network_id": None,
            "ha_vr_id": None,
            "routes": [],
            "conntrack_helpers": [],
        }

    def _first_ports(self, connection: Connection, router: Object, wish: Wish) -> tuple[Part, Sequence[Object]]:
        """A new router's gateway and agents; writes the gateway port's id into the router."""
        work = router["ha"] or wish.network_id is not None
        placed = self._scheduler.place(connection, router, new=True, work=work)
        part, gateway_ips = placed.part, ()  # type: tuple[Part, Sequence[Object]]
        if wish.network_id is not None:
            made, router["gw_port_id"], fixed = self._gateways.part(
                connection, router, wish, central_host(placed.agents)
            )
            part, gateway_ips = part + made, fixed or ()
        return part + self._ports.conform(connection, router, (), placed.agents), gateway_ips

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(several, lambda values: self.create(context, values), self.take_back)

    def take_back(self, key: str) -> None:
        try:
            self.delete(admin_context(), key, None)
        except errors.NotFound:
            return

    # --- changing -------------------------------------------------------------------------------------------------

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        left: list[str] = []  # projects that may have had their last HA router

        def attempt() -> Object:
            with self._db.read() as connection:
                before = router_view.load(connection, key)
                check_revision(before, revision)
                kind = self._changed_kind(before, values)
            ha_network = self._ha.ensure(before["project_id"]) if kind.get("ha") else None
            with self._db.read() as connection:
                if ha_network is not None:
                    kind |= {"ha_network_id": ha_network, "ha_vr_id": self._ha.free_vr_id(connection, ha_network)}
                after, part, gateway_ips = self._decide_update(connection, context, before, values, kind)
            zones = self._commit(before, after, part)
            left[:] = [before["project_id"]] if before["ha"] and not after["ha"] else []
            return router_view.api_router(after, gateway_ips, zones, self._scheduler.status(key))

        updated = self._db.retrying(attempt)
        for project_id in left:
            self._ha.discard(project_id)
        return updated

    def _changed_kind(self, before: Object, values: Object) -> Object:
        """What a request makes of the router's kind; that takes a router which is administratively down."""
        asked = {name: values[name] for name in KIND_NAMES if values.get(name) is not None}
        differing = {name: value for name, value in asked.items() if value != before[name]}
        if differing and (before["admin_state_up"] or values.get("admin_state_up")):
            raise refuse(f"{', '.join(differing)} can be changed only while admin_state_up is false")
        if differing.get("ha") is False:
            differing |= {"ha_network_id": None, "ha_vr_id": None}
        return differing

    def _decide_update(
        self, connection: Connection, context: Context, before: Object, values: Object, kind: Object
    ) -> tuple[Object, Part, Sequence[Object]]:
        """The router afterwards, its ports' part of the change, and the gateway's addresses."""
        after = {**before, **{name: value for name, value in values.items() if name not in NOT_COLUMNS}, **kind}
        if "routes" not in values and "external_gateway_info" not in values and not kind:
            return after, NOTHING, before["gateway_ips"]
        ports = read_ports(connection, before["id"])
        wish = None
        if "external_gateway_info" in values:
            wish = self._gateways.wish(connection, context, values["external_gateway_info"])
            self._gateways.check(connection, before, ports, wish, after["routes"])
            after |= self._gateways.values(wish)
        elif "routes" in values:
            check_routes(after["routes"], cidrs_of(ports), [a.ip_address for p in ports for a in p.addresses])
        if "routes" in values:
            self._check_number(connection, before["project_id"], after["routes"])
        part, host = self._replaced(connection, before, after, ports, recast=bool(kind))
        if wish is None:
            return after, part, before["gateway_ips"]
        if kind and wish.fixed_ips and wish.network_id == before["gw_network_id"]:
            raise refuse("the kind of a router and its gateway's addresses cannot be changed at once")
        made, after["gw_port_id"], fixed = self._gateways.part(connection, before, wish, host)
        if before["gw_network_id"] not in (None, wish.network_id):
            part += self._delegations.without_gateway(connection, ports)
        # What is created comes first: it is by the first change that a failed one is taken back.
        return after, made + part, before["gateway_ips"] if fixed is None else fixed

    def _replaced(
        self, connection: Connection, before: Object, after: Object, ports: Sequence[RouterPort], *, recast: bool
    ) -> tuple[Part, str]:
        """What a change of the gateway's network or of the kind means for agents and ports; where the gateway is then."""
        moved = after["gw_network_id"] != before["gw_network_id"]
        if not (moved or recast):
            return NOTHING, ""
        staying = [port for port in ports if not (moved and port.type == GATEWAY)]
        work = after["gw_network_id"] is not None or any(port.type in INTERFACES for port in staying)
        placed = self._scheduler.place(connection, after, work=work or after["ha"], recast=recast)
        part = placed.part + self._ports.conform(connection, after, staying, placed.agents)
        now = next((port.host for port in staying if port.host), "")
        return part, central_host(placed.agents, now)

    def _commit(self, before: Object, after: Object, part: Part) -> list[str]:
        """Write the change; `after` gets its revision. Gives the router's zones, as they are then."""
        if after != before or part:
            # A gateway that only gets other addresses is a change of its port.
            stamp = changed(before, {}, bump=1 if after != before else 0)
            after |= {name: stamp[name] for name in ("updated_at", "revision_number")}

            with self._operations.write([step.context for step in part.steps]) as tx:
                update_row(tx, t.routers, before, after, bump=after["revision_number"] - before["revision_number"])
                part.write(tx)
                tx.record("router", after["id"], after["revision_number"])
            self._delegations.told(part.steps)
        with self._db.read() as connection:
            return router_view.zones_of(connection, [before["id"]]).get(before["id"], [])

    def _check_number(self, connection: Connection, project_id: str, routes: Sequence[Any]) -> None:
        limit = self._quotas.limit(connection, "router_route", project_id)
        if 0 <= limit < len(routes):
            raise errors.OverQuota(overs=["router_route"])

    # --- extra routes ---------------------------------------------------------------------------------------------

    def add_routes(self, context: Context, key: str, body: Any) -> Object:
        return self._change_routes(context, key, _routes_in(body), routes_added)

    def remove_routes(self, context: Context, key: str, body: Any) -> Object:
        return self._change_routes(context, key, _routes_in(body), routes_removed)

    def _change_routes(
        self,
        context: Context,
        key: str,
        routes: Sequence[Object],
        change: Callable[[Sequence[Object], Sequence[Object]], list[dict[str, str]]],
    ) -> Object:
        """On the routes that there are when it is written: another request's routes are not lost."""

        def attempt() -> Object:
            with self._db.read() as connection:
                before = router_view.load(connection, key)
                values = {"routes": change(before["routes"], routes)}
                after, part, gateway_ips = self._decide_update(connection, context, before, values, {})
            zones = self._commit(before, after, part)
            return router_view.api_router(after, gateway_ips, zones, self._scheduler.status(key))

        return {"router": self._db.retrying(attempt)}

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete(self, context: Context, key: str, revision: int | None) -> None:
        def attempt() -> Object:
            with self._db.read() as connection:
                before = router_view.load(connection, key)
                check_revision(before, revision)
                ports = read_ports(connection, key)
                interfaces = [port.id for port in ports if port.type in INTERFACES]
                if interfaces:
                    raise errors.RouterInUse(router_id=key, reason=f"it has ports {', '.join(interfaces[:10])}")
                check_unused(connection, before)
                part = NOTHING
                for port in ports:
                    part += self._ports.take(connection, port.id)[0]

            with self._operations.write([step.context for step in part.steps]) as tx:
                part.write(tx)
                delete_row(tx, t.routers, before)
                sharing.forget(tx, key)
                tx.use("router", before["project_id"], -1)
                tx.record("router", key, before["revision_number"], deleted=True)
            return before

        gone = self._db.retrying(attempt)
        if gone["ha"]:
            self._ha.discard(gone["project_id"])


def _check_left_to_flavor(values: Object) -> None:
    given = [name for name in KIND_NAMES if values.get(name) is not None]
    if given and values.get("flavor_id"):
        raise refuse(f"flavor_id says what kind of router it is: {', '.join(given)} cannot be given beside it")


def _routes_in(body: Any) -> list[Object]:
    """The routes that a request to add or remove some names."""
    router = body.get("router") if isinstance(body, dict) else None
    if not isinstance(router, dict) or set(router) != {"routes"}:
        raise errors.HTTPBadRequest('The body has to name routes: {"router": {"routes": [...]}}.')
    routes: list[Object] = parse_attribute("routes", ROUTES, router["routes"])
    return routes
