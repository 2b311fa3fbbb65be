"""Which combinations of a connection's attributes are possible. Pure."""

import ipaddress
from collections.abc import Collection
from typing import Final

from neutrino.features.vpn.errors import (
    InvalidEndpointGroup,
    IPsecSiteConnectionDpdIntervalValueError,
    IPsecSiteConnectionMtuError,
    MissingPeerCidrs,
    MissingRequiredEndpointGroup,
    PeerCidrsInvalid,
)
from neutrino.model.objects import Values
from neutrino.server import errors

# Quotas are unlimited by default, as in Neutron, but a host gets all VPN objects of a router in one message.
MAX_PER_ROUTER: Final = 500
MIN_MTU: Final = {4: 68, 6: 1280}
MAX_PAIRS: Final = 256  # of a local subnet and a CIDR of the peer, in a connection with IKEv1
# In all connections of a router: each pair is three policies of the kernel, and a routing rule on hosts of a distributed
# router. Without the limit a project could exhaust the memory of hosts that serve others too.
MAX_PAIRS_PER_ROUTER: Final = 10_000
DEFAULT_DPD: Final = {"action": "hold", "interval": 30, "timeout": 120}
_GROUPS: Final = ("local", "peer")


def check_endpoints(connection: Values, service_subnet: str | None) -> None:
    """A service with a subnet needs CIDRs of the peer and no groups; one without needs both groups and no CIDRs."""
    given = [side for side in _GROUPS if connection[f"{side}_ep_group_id"] is not None]
    if service_subnet is not None:
        if not connection["peer_cidrs"]:
            raise MissingPeerCidrs()
        if given:
            raise InvalidEndpointGroup(which=" and ".join(given))
        return
    if connection["peer_cidrs"]:
        raise PeerCidrsInvalid()
    missing = [side for side in _GROUPS if side not in given]
    if missing:
        raise MissingRequiredEndpointGroup(which=" and ".join(missing))


def versions(cidrs: Collection[str]) -> set[int]:
    return {ipaddress.ip_network(cidr, strict=False).version for cidr in cidrs}


def networks(cidrs: Collection[str]) -> tuple[str, ...]:
    """CIDRs as hosts get them: charon and nft take canonical texts without host bits only, and no network twice."""
    return tuple(dict.fromkeys(str(ipaddress.ip_network(cidr, strict=False)) for cidr in cidrs))


def check_pairs(ike_version: str, local: int, peer: int) -> None:
    """With IKEv1 each pair of subnets is a tunnel of its own, and charon's messages have a limited size."""
    if ike_version == "v1" and local * peer > MAX_PAIRS:
        raise errors.InvalidInput(
            f"The connection has {local} local subnets and {peer} CIDRs of the peer: with IKE version v1 at most "
            f"{MAX_PAIRS} pairs are possible; with v2 more are."
        )


def check_dpd(dpd: Values) -> None:
    if dpd["timeout"] <= dpd["interval"]:
        raise IPsecSiteConnectionDpdIntervalValueError(attr="dpd_timeout")


def check_mtu(mtu: int, ip_version: int) -> None:
    if mtu and mtu < MIN_MTU[ip_version]:
        raise IPsecSiteConnectionMtuError(mtu=mtu, version=ip_version)
