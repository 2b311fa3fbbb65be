"""Views of networks, subnets and ports: columns, filters, and which rows a project sees."""

import ipaddress
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Read, read
from neutrino.server.db.sql import Column, Condition, Expression, Selection
from neutrino.server.db.view import PROJECT, FilterRule, View, among, one_of, own_ids, shared_ids, shared_with_viewer
from neutrino.server.ipam.delegated import POOL, is_delegated
from neutrino.server.ml2.driver_api import Segment
from neutrino.server.ml2.segments import NAMES, provider_attributes
from neutrino.server.ml2.vlan_tags import NAMES as VLAN_TAGS

NO_SEGMENTS = b"null"
MAX_PARTS = 32  # of ip_address_substr: each one is searched in every address
NETWORK_RENAMED = {
    "router:external": "external",
    "provider:network_type": "network_type",
    "provider:physical_network": "physical_network",
    "provider:segmentation_id": "segmentation_id",
}
PORT_RENAMED = {
    "binding:host_id": "host",
    "binding:vif_type": "vif_type",
    "binding:vif_details": "vif_details",
    "binding:vnic_type": "vnic_type",
    "binding:profile": "profile",
}
_OPENED = shared_ids(sharing.SHARED, sharing.EXTERNAL)


def _if(condition: Condition) -> FilterRule:
    """The filter of an attribute that is computed from a condition."""
    return lambda values: sa.or_(*(condition if value else sa.not_(condition) for value in values))


# --- networks ---------------------------------------------------------------------------------------------------------


def _by_segment(name: str) -> FilterRule:
    s = t.network_segments.c
    return lambda values: sa.exists(sa.select(s.id).where(s.network_id == t.networks.c.id, one_of(s[name], values)))


_SHARED = shared_with_viewer(t.networks.c.id)
# Aliases, so that SQLAlchemy does not correlate them with the outer statement.
_other_subnet = t.subnets.alias().c
# A network whose subnets belong to segments is routed: its ports do not all reach each other on layer 2.
_IS_ROUTED = sa.exists(
    sa.select(_other_subnet.id).where(
        _other_subnet.network_id == t.networks.c.id, _other_subnet.segment_id.is_not(None)
    )
)
NETWORKS = View(
    t.networks,
    renamed=NETWORK_RENAMED,
    computed={"shared": _SHARED, "l2_adjacency": sa.not_(_IS_ROUTED)},
    # Provider attributes are filtered on the segments: a network with several has none of them in its row.
    filters={"shared": _if(_SHARED)} | {name: _by_segment(NETWORK_RENAMED[name]) for name in NAMES},
    scope=sa.or_(t.networks.c.project_id == PROJECT, _SHARED, shared_with_viewer(t.networks.c.id, sharing.EXTERNAL)),
    listed=among(t.networks, own_ids(t.networks), _OPENED),
    hidden=VLAN_TAGS,  # shown if the operator enables them
    not_found=errors.NetworkNotFound,
)


def one_form_of_segments(row: Object) -> Object:
    """Either `segments` or the provider attributes: to clients, `segments` means a network with several."""
    if "segments" not in row:
        return row
    hidden = ("segments",) if bytes(row["segments"]) == NO_SEGMENTS else NAMES
    return {name: value for name, value in row.items() if name not in hidden}


def api_network(network: Object, segments: Sequence[Segment]) -> Object:
    """A network that was just written, as the API shows it."""
    out = {name: value for name, value in network.items() if name not in (*NAMES, "segments")}
    if not segments:
        return {**out, **dict.fromkeys(NAMES)}
    attributes = [provider_attributes(segment) for segment in segments]
    return {**out, **(attributes[0] if len(attributes) == 1 else {"segments": attributes})}


# --- subnets ----------------------------------------------------------------------------------------------------------


def _on_networks(network_ids: Selection) -> Selection:
    subnet = t.subnets.alias()
    return sa.select(subnet.c.id).where(subnet.c.network_id.in_(network_ids))


def _of_network(column: Column, network_id: sa.Column[str]) -> Expression:
    return sa.select(column).where(t.networks.c.id == network_id).scalar_subquery()


def _of_pools(values: tuple[object, ...]) -> Condition:
    """The filter `subnetpool_id`, on the columns instead of the computed value, so that the index is used."""
    pools = tuple(value for value in values if value != POOL)
    wanted = [sa.and_(one_of(t.subnets.c.subnetpool_id, pools), sa.not_(t.subnets.c.prefix_delegated))] if pools else []
    return sa.or_(*wanted, *([t.subnets.c.prefix_delegated] if POOL in values else []))


_NETWORK_SHARED = shared_with_viewer(t.subnets.c.network_id)
# Prefix delegation is a column of its own, because no subnet pool has a row for it.
_POOL = sa.case((t.subnets.c.prefix_delegated, sa.literal(POOL, sa.String)), else_=t.subnets.c.subnetpool_id)
# Without the attributes of their network, which those who read its subnets have.
_SUBNETS_OF_NETWORK = View(t.subnets, computed={"subnetpool_id": _POOL}, hidden=("prefix_delegated",))
SUBNETS = View(
    t.subnets,
    computed={
        "subnetpool_id": _POOL,
        "router:external": _of_network(t.networks.c.external, t.subnets.c.network_id),
        "shared": _NETWORK_SHARED,
        "network:project_id": _of_network(t.networks.c.project_id, t.subnets.c.network_id),
        "network:shared": _NETWORK_SHARED,
    },
    filters={"shared": _if(_NETWORK_SHARED), "subnetpool_id": _of_pools},
    scope=sa.or_(
        t.subnets.c.project_id == PROJECT,
        _NETWORK_SHARED,
        shared_with_viewer(t.subnets.c.network_id, sharing.EXTERNAL),
        t.subnets.c.network_id.in_(sa.select(t.networks.c.id).where(t.networks.c.project_id == PROJECT)),
    ),
    listed=among(t.subnets, own_ids(t.subnets), _on_networks(own_ids(t.networks)), _on_networks(_OPENED)),
    hidden=("network:project_id", "network:shared", "shared", "prefix_delegated"),
    not_found=errors.SubnetNotFound,
)


def stored(subnet: Values) -> Object:
    """A subnet as stored: with the column for prefix delegation."""
    delegated = is_delegated(subnet)
    pool = None if delegated else subnet["subnetpool_id"]
    return {**subnet, "subnetpool_id": pool, "prefix_delegated": delegated}


def subnets_of(connection: Connection, network_ids: Sequence[str]) -> dict[str, list[Object]]:
    """The subnets of some networks, in the order of their creation; without attributes that are the network's."""
    out: dict[str, list[Object]] = {network_id: [] for network_id in network_ids}
    if not network_ids:
        return out
    for subnet in read(connection, reading_subnets(network_ids)):
        out[subnet["network_id"]].append(subnet)
    return out


def reading_subnets(network_ids: Sequence[str]) -> Read[list[Object]]:
    """The subnets of some networks, to be read together with other things."""
    reading = _SUBNETS_OF_NETWORK.reading_in("network_id", network_ids)
    return reading.then(lambda subnets: sorted(subnets, key=lambda s: (s["created_at"], s["id"])))


# --- ports ------------------------------------------------------------------------------------------------------------


def _address(text: str) -> str:
    """An address in its stored form; other text stays unchanged and matches nothing."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


_STORED_FORMS = {"ip_address": _address, "subnet_id": str.lower, "ip_address_substr": str.lower}


def _by_fixed_ip(values: tuple[object, ...]) -> Condition:
    """The filter `fixed_ips`: `ip_address=…`, `subnet_id=…`, `ip_address_substr=…`; OR within a kind, AND between kinds.

    Other kinds are ignored, as in Neutron: clients send whole fixed IPs of other APIs.
    """
    kinds: dict[str, list[str]] = {"ip_address": [], "subnet_id": [], "ip_address_substr": []}
    for text in map(str, values):
        kind, _, value = text.partition("=")
        if not kind or not value:
            raise errors.InvalidInput(f"Invalid input for fixed_ips: '{text}' is not a key and a value.")
        if kind in kinds:
            kinds[kind].append(_STORED_FORMS[kind](value))
    parts = kinds.pop("ip_address_substr")
    if len(parts) > MAX_PARTS:
        raise errors.InvalidInput(f"Invalid input for fixed_ips: more than {MAX_PARTS} of ip_address_substr.")
    a = t.ip_allocations.c
    where: list[Condition] = [a[kind].in_(wanted) for kind, wanted in kinds.items() if wanted]
    if parts:
        where.append(sa.or_(*(a.ip_address.contains(part, autoescape=True) for part in parts)))
    return t.ports.c.id.in_(sa.select(a.port_id).where(*where)) if where else sa.true()


_other = t.ports.alias().c


def _by_host(values: tuple[object, ...]) -> Condition:
    """Match ports by the host of any binding: Nova looks for the ports of a migration's other host."""
    b, hosts = t.port_bindings.c, list(values)
    bound = sa.select(b.port_id).where(b.host.in_(hosts))
    return t.ports.c.id.in_(sa.select(_other.id).where(_other.host.in_(hosts)).union(bound))


def _by_group(ids: tuple[object, ...]) -> Condition:
    g = t.port_security_groups.c
    return t.ports.c.id.in_(sa.select(g.port_id).where(g.security_group_id.in_(list(ids))))


PORTS = View(
    t.ports,
    renamed=PORT_RENAMED,
    computed={
        "network:project_id": _of_network(t.networks.c.project_id, t.ports.c.network_id),
        "network:shared": shared_with_viewer(t.ports.c.network_id),
    },
    filters={"binding:host_id": _by_host, "fixed_ips": _by_fixed_ip, "security_groups": _by_group},
    scope=sa.or_(
        t.ports.c.project_id == PROJECT,
        t.ports.c.network_id.in_(sa.select(t.networks.c.id).where(t.networks.c.project_id == PROJECT)),
    ),
    listed=among(t.ports, own_ids(t.ports), sa.select(_other.id).where(_other.network_id.in_(own_ids(t.networks)))),
    hidden=("network:project_id", "network:shared"),
    not_found=errors.PortNotFound,
)
