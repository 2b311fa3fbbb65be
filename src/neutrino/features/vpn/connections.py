"""IPsec site connections: the API. A connection is the tunnel between a VPN service and a peer."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.vpn import checks
from neutrino.features.vpn.collection import VpnCollection
from neutrino.features.vpn.errors import (
    ExternalNetworkHasNoSubnet,
    MixedIPVersionsForIPSecConnection,
    MixedIPVersionsForIPSecEndpoints,
    MixedIPVersionsForPeerCidrs,
    SubnetIsNotConnectedToRouter,
    WrongEndpointGroupType,
)
from neutrino.features.vpn.peer_names import PeerNames
from neutrino.features.vpn.resources import CIDR, SUBNET
from neutrino.features.vpn.services import (
    PENDING_CREATE,
    PENDING_UPDATE,
    change_router,
    check_number,
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
from neutrino.server import errors
from neutrino.server.api import types
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.quota.quotas import Quotas

_v, _c = vpnservices.c, ipsec_site_connections.c
_NUMBERS = (
    sa.select(_v.router_id, sa.func.count().label("number"))
    .join(ipsec_site_connections, _c.vpnservice_id == _v.id)
    .group_by(_v.router_id)
)
_es, _g = vpn_endpoint_subnets.c, vpn_endpoint_groups.c
_LOCAL_SUBNETS = sa.select(sa.func.count()).where(_es.endpoint_group_id == _c.local_ep_group_id).scalar_subquery()
_ENDS = (
    sa.select(_v.router_id, _v.subnet_id, _LOCAL_SUBNETS.label("subnets"), _c.peer_cidrs, _g.endpoints)
    .join(ipsec_site_connections, _c.vpnservice_id == _v.id)
    .outerjoin(vpn_endpoint_groups, _g.id == _c.peer_ep_group_id)
)
ENDS = ("peer_cidrs", "local_ep_group_id", "peer_ep_group_id")
# What hosts apply of a connection: a change of another attribute does not make it PENDING.
APPLIED = (
    *ENDS,
    *("peer_address", "peer_id", "local_id", "psk", "initiator", "dpd", "admin_state_up"),
)


class IpsecSiteConnections(VpnCollection):
    kind = "ipsec_site_connection"

    def __init__(self, db: Database, quotas: Quotas, *, resolves_names: bool) -> None:
        super().__init__(db, CONNECTIONS, quotas)
        self._names = PeerNames(resolves_names)

    # Names of peers are resolved once, before the request is decided, which may be repeated.

    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        addresses = self._names.addresses(item["peer_address"] for item in items)
        resolved = [{**item, "peer_address": addresses[item["peer_address"]]} for item in items]
        return super().create_several(context, resolved)

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        if "peer_address" in values:
            given = values["peer_address"]
            values = {**values, "peer_address": self._names.addresses([given])[given]}
        return super().update(context, key, values, revision)

    def prepared(self, context: Context, values: Object, before: Object | None = None) -> Object:
        if "dpd" in values or before is None:
            known = before["dpd"] if before is not None else checks.DEFAULT_DPD
            values["dpd"] = {**known, **values.get("dpd", {})}
        if before is None:
            return {**values, "status": PENDING_CREATE, "auth_mode": "psk", "route_mode": "static"}
        if any(name in values and values[name] != before[name] for name in APPLIED):
            values["status"] = PENDING_UPDATE
        return values

    def check(self, connection: Connection, context: Context, after: Object, before: Object | None) -> None:
        project, everyone = context.project_id, context.is_admin
        service = SERVICES.get(connection, after["vpnservice_id"], project, everyone=everyone)
        ike = IKE_POLICIES.get(connection, after["ikepolicy_id"], project, everyone=everyone)
        IPSEC_POLICIES.get(connection, after["ipsecpolicy_id"], project, everyone=everyone)
        checks.check_endpoints(after, service["subnet_id"])
        if service["subnet_id"] is not None:
            local, peer = ip_versions(connection, [service["subnet_id"]]), after["peer_cidrs"]
            if len(checks.versions(peer)) > 1:
                raise MixedIPVersionsForPeerCidrs()
        else:
            local, peer = _endpoints(connection, context, after, service)
        if set(local.values()) != checks.versions(peer):
            raise MixedIPVersionsForIPSecConnection()
        checks.check_pairs(ike["ike_version"], len(local), len(peer))
        checks.check_dpd(after["dpd"])
        checks.check_mtu(after["mtu"], next(iter(local.values())))
        _check_reachable(after, service)

    def write_related(self, tx: Transaction, after: Object | None, before: Object | None) -> None:
        connection = after or before
        assert connection is not None, "a write is of some connection"
        router = tx.execute(sa.select(_v.router_id).where(_v.id == connection["vpnservice_id"])).scalar()
        if router is None:  # the service has been deleted: the transaction fails
            return
        group = None if before is None else before["local_ep_group_id"]
        is_needed = after is not None and (before is None or after["local_ep_group_id"] != group)
        change_router(tx, router, is_needed=is_needed)
        if before is None:
            _use_policies(tx, connection)
        elif after is not None and any(after[name] != before[name] for name in ENDS):
            _check_pairs(tx, [after])

    def check_number(self, tx: Transaction, made: Sequence[Object]) -> None:
        check_number(tx, _NUMBERS.where(_v.router_id.in_(_routers(made))), "IPsec site connections")
        _check_pairs(tx, made)


def _routers(connections: Iterable[Object]) -> sa.Select[tuple[str]]:
    used = vpnservices.alias("used").c
    return sa.select(used.router_id).where(used.id.in_({each["vpnservice_id"] for each in connections}))


def _check_pairs(tx: Transaction, written: Iterable[Object]) -> None:
    """Refuse connections, which the transaction has written, with more pairs of subnets than their routers can have."""
    pairs: Counter[str] = Counter()
    for row in tx.execute(_ENDS.where(_v.router_id.in_(_routers(written)))):
        local = 1 if row.subnet_id is not None else row.subnets
        pairs[row.router_id] += local * len(msgspec.json.decode(row.endpoints or row.peer_cidrs))
    for router_id, number in pairs.items():
        if number > checks.MAX_PAIRS_PER_ROUTER:
            what = "pairs of a local subnet and a CIDR of a peer, in all its VPN connections"
            raise errors.TooManyOfObject(kind="Router", id=router_id, most=checks.MAX_PAIRS_PER_ROUTER, what=what)


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
        group = ENDPOINT_GROUPS.get(
            connection, after[f"{side}_ep_group_id"], project=context.project_id, everyone=context.is_admin
        )
        if group["type"] != expected:
            raise WrongEndpointGroupType(which=group["id"], group_type=group["type"], expected=expected)
        groups[side] = group
    subnets, cidrs = ip_versions(connection, groups["local"]["endpoints"]), groups["peer"]["endpoints"]
    for subnet in subnets:
        if not is_connected(connection, service["router_id"], subnet):
            raise SubnetIsNotConnectedToRouter(subnet_id=subnet, router_id=service["router_id"])
    for side, versions in (("local", set(subnets.values())), ("peer", checks.versions(cidrs))):
        if len(versions) > 1:
            raise MixedIPVersionsForIPSecEndpoints(group=groups[side]["id"])
    return subnets, cidrs


def _check_reachable(connection: Object, service: Object) -> None:
    """The gateway needs an address of the peer's IP version."""
    version = types.ip(connection["peer_address"]).version
    if service[f"external_v{version}_ip"] is None:
        raise ExternalNetworkHasNoSubnet(router_id=service["router_id"], ip_version=f"IPv{version}")
