"""Subnets: their prefix given or taken from a pool, changed, and what that means for the network and its ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.bulk import one_by_one
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, check_revision, delete_row, fresh, update_row
from neutrino.server.db.session import Database
from neutrino.server.ipam import delegated, subnet_pools
from neutrino.server.ipam import subnet_rules as rules
from neutrino.server.ml2.auto_addresses import AutoAddresses
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.drivers import Extensions
from neutrino.server.ml2.network_checks import check_mtu
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.subnet_ports import check_gateway_unused, ports_on
from neutrino.server.ml2.subnet_view import VIEW, stored, subnets_of
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

Object = dict[str, Any]
DELEGATION: Final[Object] = {"id": delegated.POOL}  # in place of a pool


@dataclass(frozen=True)
class Limits:
    dns_nameservers: int
    host_routes: int

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> Limits:
        return cls(conf.max_dns_nameservers, conf.max_subnet_host_routes)


class DhcpPorts(Protocol):
    """The ports that DHCP agents serve from follow the subnets, in the same transaction."""

    def steps(self, connection: Connection, network_id: str, *, subnets: Sequence[Object]) -> list[Any]: ...

    def notify(self, steps: Sequence[Any]) -> None: ...


class Subnets:
    def __init__(
        self,
        db: Database,
        operations: Operations,
        networks: Networks,
        extensions: Extensions,
        quotas: Quotas,
        limits: Limits,
        auto_addresses: AutoAddresses,
        schedule: Callable[[str, Sequence[str]], Any],
        settle: Callable[[str], None],
        dhcp_ports: DhcpPorts | None,
        delegates_by_default: bool = False,
    ) -> None:
        """`delegates_by_default`: the default pool of IPv6 subnets is a prefix delegated to their router."""
        self._db = db
        self._operations = operations
        self._networks = networks
        self._extensions = extensions
        self._quotas = quotas
        self._limits = limits
        self._auto_addresses = auto_addresses
        self._schedule = schedule
        self._settle = settle
        self._delegates_by_default = delegates_by_default
        self._dhcp_ports = dhcp_ports

    # --- reading --------------------------------------------------------------------------------------------------

    def index(self, context: Context, query: Query) -> list[Object]:
        with self._db.read() as connection:
            return VIEW.many(connection, query, context.project_id)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self._db.read() as connection:
            return VIEW.show(connection, key, project=context.project_id, everyone=everyone, fields=fields)

    def load(self, connection: Connection, key: str) -> Object:
        found = VIEW.load(connection, key)
        if found is None:
            raise errors.SubnetNotFound(id=key)
        return found

    # --- creating -------------------------------------------------------------------------------------------------

    def target(self, context: Context, values: Object) -> Object:
        """Attributes of the subnet's network, for policy rules."""
        return self._networks.owner(context, values["network_id"], everyone=True)

    def create(self, context: Context, values: Object) -> Object:
        def attempt() -> Object:
            with self._db.read() as connection:
                network = self._networks.load(connection, values["network_id"], context.project_id)
                siblings = subnets_of(connection, [network["id"]])[network["id"]]
                pool = self._pool(connection, context, values)
                subnet = self._decide(connection, values, network, siblings, pool)
                limit = self._quotas.limit(connection, "subnet", subnet["project_id"])
                served = self._dhcp_steps(connection, network["id"], [*siblings, subnet])
                stepped = {step.context.current["id"] for step in served}
                to_address = self._auto_addresses.ports_to_address(connection, subnet)
                addressed = [port for port in to_address if port.id not in stepped]
            scope = _scope_of(network, subnet, pool, siblings)

            changes = [DriverContext("create", "subnet", subnet, network=network), *(step.context for step in served)]
            with self._operations.write(changes) as tx:
                # First the network: it is the one row that subnets created at once on it all have to pass.
                subnet_ids = [*network["subnets"], subnet["id"]]
                stamp = update_row(tx, t.networks, network, {"subnets": subnet_ids, **scope})
                if pool is not None and pool is not DELEGATION:
                    subnet_pools.claim(tx, pool)
                tx.insert(t.subnets, [as_row(t.subnets, stored(subnet))])
                self._auto_addresses.add(tx, subnet, addressed)
                for step in served:
                    step.write(tx)
                self._extensions.store("create", "subnet", tx, subnet)
                tx.use("subnet", subnet["project_id"], 1, limit)
                tx.record("subnet", subnet["id"], subnet["revision_number"])
                tx.record("network", network["id"], stamp["revision_number"])
            self._told(served)
            if subnet["enable_dhcp"]:
                self._schedule(network["id"], network["availability_zone_hints"])
            return {**subnet, "tenant_id": subnet["project_id"], "router:external": network["router:external"]}

        return self._db.retrying(attempt)

    def _dhcp_steps(self, connection: Connection, network_id: str, subnets: Sequence[Object]) -> list[Any]:
        """What becomes of the network's DHCP ports when these are its subnets."""
        return [] if self._dhcp_ports is None else self._dhcp_ports.steps(connection, network_id, subnets=subnets)

    def _told(self, steps: Sequence[Any]) -> None:
        if self._dhcp_ports is not None:
            self._dhcp_ports.notify(steps)

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        return one_by_one(
            several, lambda values: self.create(context, values), lambda key: self.delete(context, key, None)
        )

    def _pool(self, connection: Connection, context: Context, values: Object) -> Object | None:
        if delegated.asks_for_delegation(values, self._delegates_by_default):
            delegated.check_request(values)
            return DELEGATION
        pool_id = values.get("subnetpool_id")
        if pool_id == delegated.POOL:  # with a prefix that is the caller's own choice
            pool_id = None
        if pool_id is None and values.get("use_default_subnetpool"):
            if values.get("cidr"):
                raise errors.BadRequest(resource="subnets", msg="a CIDR and the default subnet pool exclude each other")
            everyone = context.is_admin
            default = subnet_pools.load_default(connection, values["ip_version"], context.project_id, everyone=everyone)
            if default is None:
                msg = f"there is no default subnet pool for IPv{values['ip_version']}"
                raise errors.BadRequest(resource="subnets", msg=msg)
            return default
        if pool_id is None:
            if not values.get("cidr"):
                raise errors.BadRequest(resource="subnets", msg="a cidr or a subnetpool_id is needed")
            if "prefixlen" in values:
                raise errors.BadRequest(resource="subnets", msg="prefixlen needs a subnet pool")
            return None
        if values.get("cidr") and "prefixlen" in values:
            raise errors.BadRequest(resource="subnets", msg="cidr and prefixlen exclude each other")
        pool = subnet_pools.load(connection, pool_id, context.project_id, everyone=context.is_admin)
        if pool is None:
            raise errors.SubnetPoolNotFound(id=pool_id)
        if pool["ip_version"] != values["ip_version"]:
            raise errors.BadRequest(resource="subnets", msg=f"the subnet pool is one of IPv{pool['ip_version']}")
        return pool

    def _decide(
        self,
        connection: Connection,
        values: Object,
        network: Object,
        siblings: Sequence[Object],
        pool: Object | None,
    ) -> Object:
        _check_affinity(values["ip_version"], pool, siblings)
        check_mtu(network["id"], network["mtu"], [values["ip_version"]])
        prefix = self._prefix(connection, values, siblings, pool)
        subnet = fresh(values, revision=1 if values.get("service_types") else 0)
        subnet |= {
            "cidr": str(prefix),
            "subnetpool_id": pool["id"] if pool else None,
            "ipv6_ra_mode": values.get("ipv6_ra_mode"),
            "ipv6_address_mode": values.get("ipv6_address_mode"),
            "dns_nameservers": values.get("dns_nameservers", []),
            "host_routes": values.get("host_routes", []),
            "service_types": values.get("service_types", []),
            "segment_id": None,
            "dns_publish_fixed_ip": False,
        }
        for name in ("prefixlen", "use_default_subnetpool", "shared"):
            subnet.pop(name, None)
        if pool is DELEGATION:
            values = {**values, **delegated.addressing(str(prefix))}
        subnet["gateway_ip"] = values["gateway_ip"] if "gateway_ip" in values else rules.default_gateway(prefix)
        if subnet["gateway_ip"] is not None:
            rules.check_gateway(subnet["gateway_ip"], prefix)
        rules.check_ipv6_modes(subnet)
        rules.check_lists(
            values,
            values["ip_version"],
            values["name"] or str(prefix),
            self._limits.dns_nameservers,
            self._limits.host_routes,
        )
        subnet["allocation_pools"] = values.get("allocation_pools")
        if not subnet["allocation_pools"]:  # a new subnet without any: clients send an empty list for "as usual"
            subnet["allocation_pools"] = rules.default_pools(prefix, subnet["gateway_ip"])
        else:
            rules.check_pools(subnet["allocation_pools"], prefix)
            rules.check_gateway_outside_pools(subnet["gateway_ip"], subnet["allocation_pools"])
        self._extensions.process("create", "subnet", values, subnet, network=network)
        return subnet

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

    # --- changing -------------------------------------------------------------------------------------------------

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        def attempt() -> Object:
            with self._db.read() as connection:
                before = self.load(connection, key)
                check_revision(before, revision)
                network = self._networks.load(connection, before["network_id"], context.project_id)
                after = {**before, **self._decide_update(connection, before, values)}
            self._extensions.process("update", "subnet", values, after, network=network)
            if after == before:
                return {**before, "tenant_id": before["project_id"]}
            now = changed(before, after)
            served = self._dhcp_toggled(before, now)

            changes = [
                DriverContext("update", "subnet", now, before, network=network),
                *(step.context for step in served),
            ]
            with self._operations.write(changes) as tx:
                update_row(tx, t.subnets, before, stored(now))
                for step in served:
                    step.write(tx)
                self._extensions.store("update", "subnet", tx, now)
                tx.record("subnet", key, now["revision_number"])
            self._told(served)
            if after["enable_dhcp"] and not before["enable_dhcp"]:
                self._schedule(network["id"], network["availability_zone_hints"])
            elif before["enable_dhcp"] and not after["enable_dhcp"]:
                self._settle(network["id"])
            return {**now, "tenant_id": now["project_id"]}

        return self._db.retrying(attempt)

    def _dhcp_toggled(self, before: Object, after: Object) -> list[Any]:
        if after["enable_dhcp"] == before["enable_dhcp"]:
            return []
        with self._db.read() as connection:
            siblings = subnets_of(connection, [before["network_id"]])[before["network_id"]]
            subnets = [after if s["id"] == after["id"] else s for s in siblings]
            return self._dhcp_steps(connection, before["network_id"], subnets)

    def _decide_update(self, connection: Connection, before: Object, values: Object) -> Object:
        prefix = ipaddress.ip_network(before["cidr"])
        after = {**before, **values}
        delegated.check_update(before, values)
        rules.check_ipv6_modes(after)
        rules.check_lists(
            values,
            before["ip_version"],
            before["name"] or before["id"],
            self._limits.dns_nameservers,
            self._limits.host_routes,
        )
        if values.get("enable_dhcp") and not before["enable_dhcp"]:
            rules.check_prefix(before["cidr"], before["ip_version"], True)
        if "gateway_ip" in values and values["gateway_ip"] != before["gateway_ip"]:
            check_gateway_unused(connection, before)
        if "allocation_pools" in values:
            rules.check_pools(values["allocation_pools"], prefix)
        if "gateway_ip" in values or "allocation_pools" in values:
            if values.get("gateway_ip") is not None:
                rules.check_gateway(values["gateway_ip"], prefix)
            rules.check_gateway_outside_pools(after["gateway_ip"], after["allocation_pools"])
        return values

    def delete(self, context: Context, key: str, revision: int | None) -> None:
        def attempt() -> None:
            with self._db.read() as connection:
                before = self.load(connection, key)
                check_revision(before, revision)
                network = self._networks.load(connection, before["network_id"])
                going, losing = ports_on(connection, before)
                siblings = [s for s in subnets_of(connection, [network["id"]])[network["id"]] if s["id"] != key]
                served = self._dhcp_steps(connection, network["id"], siblings)
                stepped = {step.context.current["id"] for step in served}
                going, losing = ([p for p in some if p.id not in stepped] for some in (going, losing))

            changes = [DriverContext("delete", "subnet", before, network=network), *(step.context for step in served)]
            with self._operations.write(changes) as tx:
                scope = {} if before["subnetpool_id"] is None else _scope_left(before, siblings)
                stamp = update_row(
                    tx, t.networks, network, {"subnets": [s for s in network["subnets"] if s != key], **scope}
                )
                self._auto_addresses.remove(tx, before, losing)
                for step in served:
                    step.write(tx)
                for port in going:
                    tx.execute(sa.delete(t.ports).where(t.ports.c.id == port.id))
                    tx.use("port", port.project_id, -1)
                    tx.record("port", port.id, port.revision_number, deleted=True)
                delete_row(tx, t.subnets, before)
                sharing.forget(tx, key)
                tx.use("subnet", before["project_id"], -1)
                tx.record("subnet", key, before["revision_number"], deleted=True)
                tx.record("network", network["id"], stamp["revision_number"])
            self._told(served)

        self._db.retrying(attempt)


def _check_affinity(ip_version: int, pool: Object | None, siblings: Sequence[Mapping[str, Any]]) -> None:
    """All subnets of a network and an IP version come from one pool, or all from none."""
    pool_id = pool["id"] if pool else None
    for other in siblings:
        if other["ip_version"] == ip_version and other["subnetpool_id"] != pool_id:
            raise errors.NetworkSubnetPoolAffinityError()


def _scope_of(network: Object, subnet: Object, pool: Object | None, siblings: Sequence[Mapping[str, Any]]) -> Object:
    if pool is None or pool.get("address_scope_id") is None:
        return {}
    return {f"ipv{subnet['ip_version']}_address_scope": pool["address_scope_id"]}


def _scope_left(subnet: Object, siblings: Sequence[Mapping[str, Any]]) -> Object:
    """The network leaves an address scope with the last subnet that is in it."""
    if any(s["ip_version"] == subnet["ip_version"] and s["subnetpool_id"] for s in siblings):
        return {}
    return {f"ipv{subnet['ip_version']}_address_scope": None}


__all__ = ["VIEW", "Limits", "Subnets", "subnets_of"]
