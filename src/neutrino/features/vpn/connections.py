"""IPsec site connections: the API. A connection is the tunnel between a VPN service and a peer."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.vpn import checks, errors
from neutrino.features.vpn.peer_names import PeerNames
from neutrino.features.vpn.resources import CIDR, SUBNET
from neutrino.features.vpn.services import (
    PENDING_CREATE,
    PENDING_UPDATE,
    change_router,
    ip_versions,
    is_connected,
)
from neutrino.features.vpn.tables import (
    ikepolicies,
    ipsec_site_connections,
    ipsecpolicies,
    vpn_endpoint_groups,
    vpn_endpoint_subnets,
    vpnservices,
)
from neutrino.features.vpn.views import CONNECTIONS, ENDPOINT_GROUPS, IKE_POLICIES, IPSEC_POLICIES, SERVICES
from neutrino.model.objects import Object
from neutrino.server.api import types
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.host_limits import check_most
from neutrino.server.quota.quotas import Quotas

_LOCAL_SUBNETS = (
    sa.select(sa.func.count())
    .where(vpn_endpoint_subnets.c.endpoint_group_id == ipsec_site_connections.c.local_ep_group_id)
    .scalar_subquery()
)
_ENDS = (
    sa.select(
        vpnservices.c.subnet_id,
        _LOCAL_SUBNETS.label("subnets"),
        ipsec_site_connections.c.peer_cidrs,
        vpn_endpoint_groups.c.endpoints,
    )
    .join(ipsec_site_connections, ipsec_site_connections.c.vpnservice_id == vpnservices.c.id)
    .outerjoin(vpn_endpoint_groups, vpn_endpoint_groups.c.id == ipsec_site_connections.c.peer_ep_group_id)
)
ENDS = ("peer_cidrs", "local_ep_group_id", "peer_ep_group_id")
# What hosts apply of a connection: a change of another attribute does not make it PENDING.
APPLIED = (
    *ENDS,
    *("peer_address", "peer_id", "local_id", "psk", "initiator", "dpd", "admin_state_up"),
)


class IpsecSiteConnections(Collection):
    def __init__(self, db: Database, quotas: Quotas, *, resolves_names: bool) -> None:
        super().__init__(db, CONNECTIONS, quotas)
        self._names = PeerNames(resolves_names)

    # Names of peers are resolved once, before the request is decided, which may be repeated.

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        addresses = self._names.addresses(values["peer_address"] for values in several)
        resolved = [{**values, "peer_address": addresses[values["peer_address"]]} for values in several]
        return super().create_several(context, resolved)

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        if "peer_address" in values:
            given = values["peer_address"]
            values = {**values, "peer_address": self._names.addresses([given])[given]}
        return super().update(context, key, values, revision)

    def new(self, context: Context, values: Object) -> Object:
        dpd = {**checks.DEFAULT_DPD, **values.get("dpd", {})}
        own = {"dpd": dpd, "status": PENDING_CREATE, "auth_mode": "psk", "route_mode": "static"}
        return {**super().new(context, values), **own}

    def changed(self, context: Context, before: Object, values: Object) -> Object:
        after = {**before, **values, "dpd": {**before["dpd"], **values.get("dpd", {})}}
        if any(after[name] != before[name] for name in APPLIED):
            after["status"] = PENDING_UPDATE
        return after

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for one in objects:
            _check(connection, context, one)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        _check(connection, context, after)

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        service_id = (after or before or {})["vpnservice_id"]
        router = tx.execute(sa.select(vpnservices.c.router_id).where(vpnservices.c.id == service_id)).scalar()
        if router is None:  # the service has been deleted: the transaction fails
            return
        group = None if before is None else before["local_ep_group_id"]
        is_needed = after is not None and (before is None or after["local_ep_group_id"] != group)
        change_router(tx, router, is_needed=is_needed)
        if before is None and after is not None:
            _use_policies(tx, after)
            _check_limits(tx, router)
        elif before is not None and after is not None and any(after[name] != before[name] for name in ENDS):
            _check_limits(tx, router)


def _check(connection: Connection, context: Context, after: Object) -> None:
    service = SERVICES.get_visible(connection, context, after["vpnservice_id"])
    ike = IKE_POLICIES.get_visible(connection, context, after["ikepolicy_id"])
    IPSEC_POLICIES.get_visible(connection, context, after["ipsecpolicy_id"])
    checks.check_endpoints(after, service["subnet_id"])
    if service["subnet_id"] is not None:
        local, peer = ip_versions(connection, [service["subnet_id"]]), after["peer_cidrs"]
        if len(checks.versions(peer)) > 1:
            raise errors.MixedIPVersionsForPeerCidrs()
    else:
        local, peer = _endpoints(connection, context, after, service)
    if set(local.values()) != checks.versions(peer):
        raise errors.MixedIPVersionsForIPSecConnection()
    checks.check_pairs(ike["ike_version"], len(local), len(peer))
    checks.check_dpd(after["dpd"])
    checks.check_mtu(after["mtu"], next(iter(local.values())))
    _check_reachable(after, service)


def _check_limits(tx: Transaction, router_id: str) -> None:
    """Refuse more connections, with the one that the transaction has written, than a router can have.

    Called after the router was changed: creates of one router exclude each other.
    """
    rows = tx.execute(_ENDS.where(vpnservices.c.router_id == router_id)).all()
    check_most("Router", router_id, len(rows), "IPsec site connections", checks.MAX_PER_ROUTER)
    local = (1 if row.subnet_id is not None else row.subnets for row in rows)
    peers = (len(msgspec.json.decode(row.endpoints or row.peer_cidrs)) for row in rows)
    pairs = sum(number * peer for number, peer in zip(local, peers, strict=True))
    what = "pairs of a local subnet and a CIDR of a peer, in all its VPN connections"
    check_most("Router", router_id, pairs, what, checks.MAX_PAIRS_PER_ROUTER)


def _use_policies(tx: Transaction, connection: Object) -> None:
    """A new connection uses its policies, which cannot be changed then: a change that was decided before is now stale."""
    for table, key in ((ikepolicies, connection["ikepolicy_id"]), (ipsecpolicies, connection["ipsecpolicy_id"])):
        next_one = {"revision_number": table.c.revision_number + 1}
        tx.change(sa.update(table).where(table.c.id == key).values(next_one))


def _endpoints(
    connection: Connection, context: Context, after: Object, service: Object
) -> tuple[dict[str, int], list[str]]:
    """Subnets of the local group with their IP versions, and CIDRs of the peer's group; each group has one IP version."""
    groups = {}
    for side, expected in (("local", SUBNET), ("peer", CIDR)):
        group = ENDPOINT_GROUPS.get_visible(connection, context, after[f"{side}_ep_group_id"])
        if group["type"] != expected:
            raise errors.WrongEndpointGroupType(which=group["id"], group_type=group["type"], expected=expected)
        groups[side] = group
    subnets, cidrs = ip_versions(connection, groups["local"]["endpoints"]), groups["peer"]["endpoints"]
    for subnet in subnets:
        if not is_connected(connection, service["router_id"], subnet):
            raise errors.SubnetIsNotConnectedToRouter(subnet_id=subnet, router_id=service["router_id"])
    for side, versions in (("local", set(subnets.values())), ("peer", checks.versions(cidrs))):
        if len(versions) > 1:
            raise errors.MixedIPVersionsForIPSecEndpoints(group=groups[side]["id"])
    return subnets, cidrs


def _check_reachable(connection: Object, service: Object) -> None:
    """The gateway needs an address of the peer's IP version."""
    version = types.ip(connection["peer_address"]).version
    if service[f"external_v{version}_ip"] is None:
        raise errors.ExternalNetworkHasNoSubnet(router_id=service["router_id"], ip_version=f"IPv{version}")
