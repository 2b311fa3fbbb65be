"""IPsec site connections: the API. A connection is the tunnel between a VPN service and a peer."""

import socket
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.api import types
from neutrino.server.api.resources.vpn import CIDR, SUBNET
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import Object
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.quota.quotas import Quotas
from neutrino.server.vpn import checks
from neutrino.server.vpn.collection import VpnCollection
from neutrino.server.vpn.services import PENDING_CREATE, PENDING_UPDATE, change_router, ip_versions, is_connected
from neutrino.server.vpn.views import CONNECTIONS, ENDPOINT_GROUPS, IKE_POLICIES, IPSEC_POLICIES, SERVICES

_v = t.vpnservices.c
# What hosts apply of a connection: a change of another attribute does not make it PENDING.
APPLIED = (
    *("peer_address", "peer_id", "local_id", "peer_cidrs", "local_ep_group_id", "peer_ep_group_id", "psk"),
    *("initiator", "dpd", "admin_state_up"),
)


def resolve(name: str) -> str:
    """The address of a name; an OSError if it has none."""
    return str(socket.getaddrinfo(name, None)[0][4][0])


class IpsecSiteConnections(VpnCollection):
    kind = "ipsec_site_connection"

    def __init__(self, db: Database, quotas: Quotas, resolve: Callable[[str], str] = resolve) -> None:
        super().__init__(db, CONNECTIONS, quotas)
        self._resolve = resolve

    def prepared(self, context: Context, values: Object, before: Object | None = None) -> Object:
        if "peer_address" in values:
            values["peer_address"] = self._address(values["peer_address"])
        if "dpd" in values or before is None:
            known = before["dpd"] if before is not None else checks.DEFAULT_DPD
            values["dpd"] = {**known, **values.get("dpd", {})}
        if before is None:
            return {**values, "status": PENDING_CREATE, "auth_mode": "psk", "route_mode": "static"}
        if any(name in values and values[name] != before[name] for name in APPLIED):
            values["status"] = PENDING_UPDATE
        return values

    def _address(self, text: str) -> str:
        """The address of a peer, which may be given by its name: as in Neutron it is resolved once."""
        try:
            return str(types.ip(text))
        except ValueError:
            pass
        try:
            return str(types.ip(self._resolve(types.DnsName().parse(text) or "-")))
        except (types.Invalid, ValueError, OSError):
            raise errors.VPNPeerAddressNotResolved(peer_address=text) from None

    def check(self, connection: Connection, context: Context, after: Object, before: Object | None) -> None:
        project, everyone = context.project_id, context.is_admin
        service = SERVICES.get(connection, after["vpnservice_id"], project, everyone=everyone)
        IKE_POLICIES.get(connection, after["ikepolicy_id"], project, everyone=everyone)
        IPSEC_POLICIES.get(connection, after["ipsecpolicy_id"], project, everyone=everyone)
        checks.check_endpoints(after, service["subnet_id"])
        if service["subnet_id"] is not None:
            local = set(ip_versions(connection, [service["subnet_id"]]).values())
            peer = checks.versions(after["peer_cidrs"])
            if len(peer) > 1:
                raise errors.MixedIPVersionsForPeerCidrs()
        else:
            local, peer = _group_versions(connection, context, after, service)
        if local != peer:
            raise errors.MixedIPVersionsForIPSecConnection()
        checks.check_dpd(after["dpd"])
        checks.check_mtu(after["mtu"], next(iter(local)))
        _check_reachable(after, service)

    def written(self, tx: Transaction, after: Object | None, before: Object | None) -> None:
        connection = after or before
        assert connection is not None, "a write is of some connection"
        router = tx.execute(sa.select(_v.router_id).where(_v.id == connection["vpnservice_id"])).scalar()
        if router is not None:  # else the transaction fails: the service has been deleted
            change_router(tx, router, is_needed=before is None)


def _group_versions(
    connection: Connection, context: Context, after: Object, service: Object
) -> tuple[set[int], set[int]]:
    """IP versions of both sides' endpoints, which are one each."""
    groups = {}
    for side, expected in (("local", SUBNET), ("peer", CIDR)):
        group = ENDPOINT_GROUPS.get(
            connection, after[f"{side}_ep_group_id"], project=context.project_id, everyone=context.is_admin
        )
        if group["type"] != expected:
            raise errors.WrongEndpointGroupType(which=group["id"], group_type=group["type"], expected=expected)
        groups[side] = group
    subnets = ip_versions(connection, groups["local"]["endpoints"])
    for subnet in subnets:
        if not is_connected(connection, service["router_id"], subnet):
            raise errors.SubnetIsNotConnectedToRouter(subnet_id=subnet, router_id=service["router_id"])
    local, peer = set(subnets.values()), checks.versions(groups["peer"]["endpoints"])
    for side, found in (("local", local), ("peer", peer)):
        if len(found) > 1:
            raise errors.MixedIPVersionsForIPSecEndpoints(group=groups[side]["id"])
    return local, peer


def _check_reachable(connection: Object, service: Object) -> None:
    """The gateway needs an address of the peer's IP version."""
    version = types.ip(connection["peer_address"]).version
    if service[f"external_v{version}_ip"] is None:
        raise errors.ExternalNetworkHasNoSubnet(router_id=service["router_id"], ip_version=f"IPv{version}")
