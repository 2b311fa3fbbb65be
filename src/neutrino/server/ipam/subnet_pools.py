"""Subnet pools: prefixes from which subnets are allocated without overlap; and address scopes, which pools are in.

The prefix of a new subnet is chosen by what was read before the transaction (`choose_prefix`). The transaction that inserts
the subnet then raises the pool's `allocation_version` if it is unchanged (`claim`). Of several writers that chose from the
same free space one succeeds, and the others choose again. Other changes that must not happen between choice and insert,
such as removing prefixes or moving the pool to another address scope, claim the pool as well.
"""

from collections.abc import Callable, Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.subnetpool import ADDRESS_SCOPE, MAX_PREFIXES, PREFIXES, SUBNETPOOL
from neutrino.server.api.types import Uuid, parse_attribute
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, exists, fresh, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction, now
from neutrino.server.db.view import shareable_view, viewed_by
from neutrino.server.ipam import onboarding, prefixes
from neutrino.server.quota.quotas import Quotas

SMALLEST_MIN_PREFIXLEN = {4: 8, 6: 64}  # unless the pool says otherwise
LENGTHS = ("default_prefixlen", "min_prefixlen", "max_prefixlen")
VIEW = shareable_view(t.subnetpools, errors.SubnetPoolNotFound, hidden=("allocation_version",))
SCOPES = shareable_view(
    t.address_scopes, errors.AddressScopeNotFound, hidden=("description", "created_at", "updated_at", "tags")
)


# --- allocation, for subnets ------------------------------------------------------------------------------------------


def load(
    connection: Connection, key: str, project: str | None = None, *, everyone: bool = True, revision: int | None = None
) -> Object:
    """The pool as `choose_prefix` and `claim` need it; without `everyone`, only if the project may use it."""
    more = ("allocation_version",)
    return VIEW.get(connection, key, project, everyone=everyone, revision=revision, more=more)


def load_default(connection: Connection, ip_version: int, project: str | None, *, everyone: bool) -> Object | None:
    """The default pool of an IP version, if there is one and the project may use it."""
    default = sa.select(t.subnetpools.c.id).where(
        t.subnetpools.c.is_default, t.subnetpools.c.ip_version == ip_version, *(() if everyone else (VIEW.scope,))
    )
    key = connection.execute(default, viewed_by(project)).scalar()
    return None if key is None else load(connection, key, project)


def choose_prefix(
    connection: Connection, pool: Object, prefixlen: int | None, cidr: str | None, project_id: str
) -> str:
    """The CIDR for a new subnet: the lowest free one of the length, or the given one if it is free.

    `pool` is the result of `load`; the choice holds if `claim` succeeds with the same value.
    """
    wanted = prefixes.length(cidr) if cidr is not None else prefixlen
    if wanted is None:
        wanted = int(pool["default_prefixlen"])
    if wanted > pool["max_prefixlen"]:
        raise errors.MaxPrefixSubnetAllocationError(prefixlen=wanted, max_prefixlen=pool["max_prefixlen"])
    if wanted < pool["min_prefixlen"]:
        raise errors.MinPrefixSubnetAllocationError(prefixlen=wanted, min_prefixlen=pool["min_prefixlen"])
    taken = connection.execute(
        sa.select(t.subnets.c.cidr, t.subnets.c.project_id).where(t.subnets.c.subnetpool_id == pool["id"])
    ).all()
    if pool["default_quota"]:
        own = [row.cidr for row in taken if row.project_id == project_id]
        if not prefixes.within_quota(pool["ip_version"], own, wanted, pool["default_quota"]):
            raise errors.SubnetPoolQuotaExceeded()
    used = [row.cidr for row in taken]
    if cidr is not None:
        if not prefixes.is_free(pool["prefixes"], used, cidr):
            raise errors.SubnetAllocationError(reason=f"{cidr} is not free in subnet pool {pool['id']}")
        return cidr
    chosen = prefixes.lowest_free(pool["prefixes"], used, wanted)
    if chosen is None:
        raise errors.SubnetAllocationError(reason=f"subnet pool {pool['id']} has no /{wanted} left")
    return chosen


def claim(tx: Transaction, pool: Object) -> None:
    """Make a choice from `pool` valid for this transaction; Stale if another writer has claimed the pool meanwhile."""
    seen = pool["allocation_version"]
    unchanged = sa.and_(t.subnetpools.c.id == pool["id"], t.subnetpools.c.allocation_version == seen)
    tx.change(sa.update(t.subnetpools).where(unchanged).values(allocation_version=seen + 1))


# --- the API of subnet pools -----------------------------------------------------------------------------------------


class SubnetPools(Collection):
    extensions = (
        Extension("subnet_allocation", "Subnet Allocation", "Subnets whose prefix comes from a subnet pool."),
        Extension("default-subnetpools", "Default Subnetpools", "One subnet pool per IP version is the default."),
        Extension("subnetpool-prefix-ops", "Subnet Pool Prefix Operations", "Add and remove prefixes of a pool."),
        Extension("subnet_onboard", "Subnet Onboard", "Existing subnets of a network become those of a pool."),
    )

    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, VIEW)
        self.collections = ((SUBNETPOOL, self),)
        self._limits = quotas.limits

    def shown(self, row: Object) -> Object:
        return _as_shown(row)

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        """All of them or none."""
        made: list[Object] = []
        scopes: dict[str, Object] = {}
        with self.db.read() as connection:
            for values in several:
                pool = _new_pool(values)
                _check_default(connection, pool, made)
                scope = _scope_for(connection, context, pool, made)
                if scope is not None:
                    _check_shared_scope(connection, pool)
                    scopes[scope["id"]] = scope
                made.append(pool)
            limits = self._limits(connection, "subnetpool", made)
        with self.db.transaction() as tx:
            # Raises the scope's revision: of two pools that enter a scope at once, one checks for overlaps again.
            for scope in scopes.values():
                update_row(tx, t.address_scopes, scope, {})
            for pool in made:
                tx.insert(t.subnetpools, [as_row(t.subnetpools, pool)], limits)
                if pool["shared"]:
                    sharing.share_with_all(tx, "subnetpool", pool["id"], pool["project_id"])
        return [_as_shown(pool) for pool in made]

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        return self._update(context, key, lambda before: values, revision)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if exists(connection, t.subnets.c.subnetpool_id == before["id"]):
            raise errors.SubnetPoolDeleteError(reason="there are subnets from this pool")

    # --- actions ------------------------------------------------------------------------------------------------------

    def add_prefixes(self, context: Context, key: str, body: object) -> Object:
        more = _prefixes_of(body)
        changed = self._update(context, key, lambda before: {"prefixes": [*before["prefixes"], *more]})
        return {"prefixes": changed["prefixes"]}

    @retried
    def remove_prefixes(self, context: Context, key: str, body: object) -> Object:
        less = _prefixes_of(body)
        with self.db.read() as connection:
            before = load(connection, key)
            removed = [cidr for cidr in less if prefixes.version(cidr) == before["ip_version"]]
            if not prefixes.overlap(before["prefixes"], removed):
                return {"prefixes": before["prefixes"]}
            used = (
                connection.execute(sa.select(t.subnets.c.cidr).where(t.subnets.c.subnetpool_id == key)).scalars().all()
            )
        if prefixes.overlap(used, removed):
            raise errors.IllegalSubnetPoolPrefixUpdate(msg="subnets use addresses of the prefixes to be removed")
        kept = prefixes.subtract(prefixes.spans(before["prefixes"]), prefixes.spans(removed))
        left = _few(prefixes.cidrs(kept, before["ip_version"]))
        with self.db.transaction() as tx:
            claim(tx, before)  # a subnet may have been allocated from these prefixes since they were checked
            update_row(tx, t.subnetpools, before, {"prefixes": left})
        return {"prefixes": left}

    @retried
    def onboard_network_subnets(self, context: Context, key: str, body: object) -> list[Object]:
        """Put the existing subnets of a network in the pool, which gets their prefixes. All of one IP version at once."""
        network_id = _network_of(body)
        with self.db.read() as connection:
            before = load(connection, key, context.project_id)
            network, subnets = onboarding.read(connection, context, network_id, before["ip_version"])
            used = (
                connection.execute(sa.select(t.subnets.c.cidr).where(t.subnets.c.subnetpool_id == key)).scalars().all()
            )
            onboarding.check_subnets(before, subnets, used)
            more = [subnet["cidr"] for subnet in subnets]
            values = {"prefixes": _grown(before, [*before["prefixes"], *more])}
            after = {**before, **values}
            scope = _check_update(connection, context, before, after)
        if subnets:
            with self.db.transaction() as tx:
                claim(tx, before)  # a subnet may have been allocated at one of these prefixes since they were checked
                if scope is not None:
                    update_row(tx, t.address_scopes, scope, {})
                update_row(tx, t.subnetpools, before, values)
                onboarding.write(tx, after, network, subnets)
        return [{"id": subnet["id"], "cidr": subnet["cidr"]} for subnet in subnets]

    @retried
    def _update(
        self, context: Context, key: str, wanted: Callable[[Object], Object], revision: int | None = None
    ) -> Object:
        with self.db.read() as connection:
            before = load(connection, key, context.project_id, revision=revision)
            values = dict(wanted(before))
            if "prefixes" in values:
                values["prefixes"] = _grown(before, values["prefixes"])
            after = {**before, **values}
            _check_bounds(after)
            scope = _check_update(connection, context, before, after)
        rescoped = after["address_scope_id"] != before["address_scope_id"]
        with self.db.transaction() as tx:
            if rescoped:
                claim(tx, before)
            if scope is not None:
                update_row(tx, t.address_scopes, scope, {})
            stamp = update_row(tx, t.subnetpools, before, values)
            if rescoped:
                _rescope_networks(tx, after)
        after.pop("allocation_version")
        return {**after, **stamp}


def _as_shown(pool: Object) -> Object:
    """Prefix lengths are strings, as in Neutron, except in the answer to an update: clients compare them as such."""
    return {name: str(value) if name in LENGTHS else value for name, value in pool.items()}


def _new_pool(values: Object) -> Object:
    """The pool of a create request, with defaults for what the request leaves out."""
    given = values["prefixes"]
    if not given:
        raise errors.EmptySubnetPoolPrefixList()
    ip_version = _one_version(given)
    shortest = values.get("min_prefixlen", SMALLEST_MIN_PREFIXLEN[ip_version])
    bounds = {"max_prefixlen": prefixes.BITS[ip_version], "min_prefixlen": shortest, "default_prefixlen": shortest}
    pool = fresh({"default_quota": None, "address_scope_id": None, **bounds, **values}, revision=0)
    pool |= {"ip_version": ip_version, "prefixes": prefixes.compact(given)}
    _check_bounds(pool)
    return pool


def _one_version(cidrs: Sequence[str]) -> int:
    versions = {prefixes.version(cidr) for cidr in cidrs}
    if len(versions) > 1:
        raise errors.PrefixVersionMismatch()
    return versions.pop()


def _check_bounds(pool: Object) -> None:
    """min ≤ default ≤ max ≤ the length of an address."""
    longest = prefixes.BITS[pool["ip_version"]]
    ordered = (
        ("min_prefixlen", pool["min_prefixlen"], "max_prefixlen", pool["max_prefixlen"]),
        ("max_prefixlen", pool["max_prefixlen"], "ip_version_max", longest),
        ("default_prefixlen", pool["default_prefixlen"], "max_prefixlen", pool["max_prefixlen"]),
        ("min_prefixlen", pool["min_prefixlen"], "default_prefixlen", pool["default_prefixlen"]),
    )
    for name, least, other, most in ordered:
        if least > most:
            raise errors.IllegalSubnetPoolPrefixBounds(
                prefix_type=name, prefixlen=least, base_prefix_type=other, base_prefixlen=most
            )


def _grown(before: Object, wanted: Sequence[str]) -> list[str]:
    """A pool's new prefixes: at least the old ones, since subnets may be anywhere in them."""
    if not prefixes.covers(wanted, before["prefixes"]):
        raise errors.IllegalSubnetPoolPrefixUpdate(msg="the new prefixes must include all existing ones")
    if wanted and _one_version(wanted) != before["ip_version"]:
        raise errors.PrefixVersionMismatch()
    return _few(prefixes.compact(wanted))


def _few(cidrs: list[str]) -> list[str]:
    """Refuse more prefixes than a pool may have: a request is limited, but their sum would grow without end."""
    if len(cidrs) > MAX_PREFIXES:
        raise errors.HTTPBadRequest(f"Invalid input for prefixes: a pool has at most {MAX_PREFIXES}.")
    return cidrs


def _check_default(connection: Connection, pool: Object, made: Sequence[Object] = ()) -> None:
    if not pool["is_default"]:
        return
    ip_version = pool["ip_version"]
    twice = any(other["is_default"] and other["ip_version"] == ip_version for other in made)
    if twice or exists(
        connection,
        t.subnetpools.c.is_default,
        t.subnetpools.c.ip_version == ip_version,
        t.subnetpools.c.id != pool["id"],
    ):
        raise errors.InvalidInput(error_message=f"there is a default subnet pool for IPv{ip_version} already")


def _scope_for(connection: Connection, context: Context, pool: Object, made: Sequence[Object] = ()) -> Object | None:
    """The address scope of a pool, if the pool may be in it: prefixes are unique within a scope."""
    key = pool["address_scope_id"]
    if key is None:
        return None
    scope = SCOPES.show(connection, key, project=context.project_id, everyone=context.is_admin)
    if scope is None:
        raise errors.AddressScopeNotFound(id=key)
    if scope["ip_version"] != pool["ip_version"]:
        raise errors.IllegalSubnetPoolIpVersionAssociationToAddressScope(
            subnetpool_id=pool["id"], address_scope_id=key, ip_version=scope["ip_version"]
        )
    rows = connection.execute(
        sa.select(t.subnetpools.c.prefixes).where(
            t.subnetpools.c.address_scope_id == key, t.subnetpools.c.id != pool["id"]
        )
    ).scalars()
    others = [cidr for text in rows for cidr in msgspec.json.decode(text)]
    others += [cidr for other in made if other["address_scope_id"] == key for cidr in other["prefixes"]]
    if prefixes.overlap(others, pool["prefixes"]):
        raise errors.AddressScopePrefixConflict()
    return scope


def _check_shared_scope(connection: Connection, pool: Object) -> None:
    """Refuse a shared pool in a scope that is not shared: its users could not see the scope."""
    c, key = t.rbac_policies.c, pool["address_scope_id"]
    if pool["shared"] and not exists(connection, c.object_id == key, c.target_project == sharing.EVERYONE):
        raise errors.InvalidInput(error_message=f"a shared subnet pool needs a shared address scope, {key} is not")


def _check_update(connection: Connection, context: Context, before: Object, after: Object) -> Object | None:
    """Refuse an update that conflicts with other objects. The address scope if it must be unchanged at the write."""
    if after["is_default"] and not before["is_default"]:
        _check_default(connection, after)
    if before["address_scope_id"] is not None and not context.is_admin:
        scope = SCOPES.show(connection, before["address_scope_id"], project=context.project_id, everyone=True)
        if scope is not None and scope["project_id"] != context.project_id:
            raise errors.IllegalSubnetPoolUpdate(
                reason=f"{before['id']} is in address scope {scope['id']}, which belongs to another project"
            )
    rescoped = after["address_scope_id"] != before["address_scope_id"]
    if rescoped and _shares_a_network(connection, before):
        raise errors.NetworkAddressScopeAffinityError()
    if rescoped or after["prefixes"] != before["prefixes"]:
        return _scope_for(connection, context, after)
    return None


def _shares_a_network(connection: Connection, pool: Object) -> bool:
    """Whether a network has subnets of this pool and others: moving the pool would put them in different scopes."""
    networks = sa.select(t.subnets.c.network_id).where(t.subnets.c.subnetpool_id == pool["id"])
    elsewhere = sa.or_(t.subnets.c.subnetpool_id.is_(None), t.subnets.c.subnetpool_id != pool["id"])
    return exists(
        connection, t.subnets.c.network_id.in_(networks), t.subnets.c.ip_version == pool["ip_version"], elsewhere
    )


def _rescope_networks(tx: Transaction, pool: Object) -> None:
    """Write the pool's address scope into the networks that have subnets of the pool."""
    n = t.networks.c
    affected = n.id.in_(sa.select(t.subnets.c.network_id).where(t.subnets.c.subnetpool_id == pool["id"]))
    tx.write(
        sa.update(t.networks)
        .where(affected)
        .values(
            {
                f"ipv{pool['ip_version']}_address_scope": pool["address_scope_id"],
                "revision_number": n.revision_number + 1,
                "updated_at": now(),
            }
        )
    )
    for network_id in tx.execute(sa.select(n.id).where(affected)).scalars().all():
        tx.record("network", network_id)


def _network_of(body: object) -> str:
    network_id = body.get("network_id") if isinstance(body, dict) else None
    if not network_id:
        raise errors.InvalidInput(error_message="network_id must be given")
    return parse_attribute("network_id", Uuid(), network_id)


def _prefixes_of(body: object) -> list[str]:
    given = body.get("prefixes") if isinstance(body, dict) else None
    if not given or not isinstance(given, list):
        raise errors.HTTPBadRequest("The body must have a list of prefixes under 'prefixes'.")
    return parse_attribute("prefixes", PREFIXES, given)


# --- the API of address scopes ---------------------------------------------------------------------------------------


class AddressScopes(Collection):
    """Address scopes: prefixes are unique within one, so that its networks route to each other without NAT."""

    extensions = (Extension("address-scope", "Address scope", "Address scopes for subnet pools."),)

    def __init__(self, db: Database) -> None:
        super().__init__(db, SCOPES)
        self.collections = ((ADDRESS_SCOPE, self),)

    def new(self, context: Context, values: Object) -> Object:
        return fresh(values)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        if before["shared"] and not after["shared"]:
            raise errors.AddressScopeUpdateError(
                id=before["id"], reason="it is shared, and sharing cannot be taken back"
            )

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if exists(connection, t.subnetpools.c.address_scope_id == before["id"]):
            raise errors.AddressScopeInUse(id=before["id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is not None:
            sharing.write_shared(tx, "address_scope", before, after)
