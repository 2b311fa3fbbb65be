"""Reads BGP speakers with their peers and advertised routes, as the hosts of their agents get them.

A change of a speaker's own attributes, peers and networks is logged with the speaker. What it advertises changes with
routers, their ports, floating IPs, and with instances behind distributed routers: `speakers_of` finds the speakers by the
external networks.
"""

from collections.abc import Collection, Iterator
from operator import attrgetter

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.bgp.announced import read_direct_prefixes
from neutrino.features.bgp.reading import read_routes
from neutrino.features.bgp.resources import MD5
from neutrino.features.bgp.tables import (
    bgp_peers,
    bgp_speaker_agents,
    bgp_speaker_networks,
    bgp_speaker_peers,
    bgp_speakers,
)
from neutrino.features.router.feed import NETWORKS_OF_PORTS
from neutrino.features.router.tables import floatingips, router_ports, routers
from neutrino.model.bgp import BgpPeer, BgpRoute, BgpSpeaker
from neutrino.model.device_owners import GATEWAY, INTERFACES
from neutrino.model.fields import is_peer
from neutrino.model.kinds import KINDS
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, read, scalars
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.declarations import Affects, Changed, Feed, Part
from neutrino.server.feed.fanout import HostObjects, ServedKind
from neutrino.server.feed.readers.rows import Ids, grouped, read_ids, read_rows

SpeakerRecord = dict[str, BgpSpeaker]  # host → the speaker
_GATEWAY_NETWORKS = (
    sa.select(t.ports.c.network_id)
    .distinct()
    .join(router_ports, router_ports.c.port_id == t.ports.c.id)
    .where(router_ports.c.port_type == GATEWAY)
)
_inner, _inner_port = router_ports.alias("bgp_inner"), t.ports.alias("bgp_inner_port")
_DISTRIBUTED_ON_NETWORKS = (
    sa.select(routers.c.id)
    .join(_inner, _inner.c.router_id == routers.c.id)
    .join(_inner_port, _inner_port.c.id == _inner.c.port_id)
    .where(
        routers.c.distributed.is_(True),
        _inner.c.port_type.in_(INTERFACES),
        _inner_port.c.network_id.in_(sa.bindparam("networks", expanding=True)),
    )
)
_SCHEDULED = Lookup(sa.select(bgp_speaker_agents.c.bgp_speaker_id).distinct(), scalars)
_HOSTS = (
    sa.select(bgp_speaker_agents.c.bgp_speaker_id, t.agents.c.host)
    .join(t.agents, t.agents.c.id == bgp_speaker_agents.c.agent_id)
    .where(t.agents.c.admin_state_up.is_(True))  # an agent that is disabled keeps its speaker, but does not serve it
    .order_by(t.agents.c.host)
)
_PEERS = (
    sa.select(
        bgp_speaker_peers.c.bgp_speaker_id,
        bgp_peers.c.peer_ip,
        bgp_peers.c.remote_as,
        bgp_peers.c.auth_type,
        bgp_peers.c.password,
    )
    .join(bgp_peers, bgp_peers.c.id == bgp_speaker_peers.c.bgp_peer_id)
    .order_by(bgp_peers.c.peer_ip)
)


def speakers_of(connection: Connection, changed: Changed) -> set[str]:
    """The speakers that changes of routers, ports or agents may affect."""
    # The last networks of ports: also of deleted ones, such as the gateway that a router has lost.
    router_ids, ports, last_networks = changed.affected("router"), changed.named("port"), changed.last_networks
    agents = changed.named("agent")
    found = (
        read_ids(connection, sa.select(bgp_speaker_agents.c.bgp_speaker_id), bgp_speaker_agents.c.agent_id, agents)
        if agents
        else set()
    )
    scheduled = set(read(connection, _SCHEDULED()))
    if scheduled <= found or not (router_ids or ports):
        return found
    networks = sorted(_external_networks(connection, router_ids, ports, last_networks))
    return found | scheduled & read_ids(
        connection, sa.select(bgp_speaker_networks.c.bgp_speaker_id), bgp_speaker_networks.c.network_id, networks
    )


def _external_networks(
    connection: Connection, router_ids: Ids, ports: Ids, last_networks: Collection[str]
) -> Collection[str]:
    """Networks on which routes may have changed: of gateways, agent gateways, floating IPs, and in front of instances."""
    near = read_ids(connection, NETWORKS_OF_PORTS, t.ports.c.id, ports) | set(last_networks)
    in_front = _GATEWAY_NETWORKS.where(router_ports.c.router_id.in_(_DISTRIBUTED_ON_NETWORKS))
    return (
        near
        | read_ids(connection, _GATEWAY_NETWORKS, router_ports.c.router_id, router_ids)
        | read_ids(connection, sa.select(floatingips.c.floating_network_id), floatingips.c.port_id, ports)
        | (set(connection.execute(in_front, {"networks": sorted(near)}).scalars()) if near else set())
    )


def outward_routers(connection: Connection, _: Changed) -> set[str]:
    """The routers that a change of a speaker may affect: it decides how packets of distributed ones leave."""
    outward = sa.select(routers.c.id).where(routers.c.distributed.is_(True), routers.c.gw_network_id.is_not(None))
    return read_ids(connection, outward, routers.c.id, None)


def read_speakers(connection: Connection, ids: Ids) -> Iterator[tuple[str, SpeakerRecord]]:
    hosts = grouped(connection, _HOSTS, bgp_speaker_agents.c.bgp_speaker_id, ids, attrgetter("host"))
    if not hosts:
        return
    peers = grouped(connection, _PEERS, bgp_speaker_peers.c.bgp_speaker_id, sorted(hosts), _bgp_peer)
    for row in list(read_rows(connection, sa.select(bgp_speakers), bgp_speakers.c.id, sorted(hosts))):
        speaker = BgpSpeaker(
            id=row.id,
            local_as=row.local_as,
            ip_version=row.ip_version,
            peers=tuple(peer for peer in peers[row.id] if is_peer(peer.peer_ip)),
            routes=tuple(BgpRoute(*route) for route in read_routes(connection, row)),
        )
        yield row.id, dict.fromkeys(hosts[row.id], speaker)


def _bgp_peer(row: NamedRow) -> BgpPeer:
    password = row.password if row.auth_type == MD5 else None
    return BgpPeer(peer_ip=row.peer_ip, remote_as=row.remote_as, password=password or "")


FEED = Feed(
    kinds=(ServedKind(KINDS["bgp_speaker"], HostObjects, source="bgp_speaker", read=read_speakers),),
    parts=(Part(of="router", defaults={"direct_prefixes": ()}, read=read_direct_prefixes),),
    affects=(
        Affects(records="bgp_speaker", named=("port", "agent"), affected=("router",), find=speakers_of),
        Affects(records="router", named=("bgp_speaker",), find=outward_routers),
    ),
)
