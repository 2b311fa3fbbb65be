"""Reads BGP speakers with their peers and advertised routes, as the hosts of their agents get them.

A change of a speaker's own attributes, peers and networks is logged with the speaker. What it advertises changes with
routers, their ports, floating IPs, and with instances behind distributed routers: `speakers_of` finds the speakers by the
external networks.
"""

from collections.abc import Collection, Iterator
from operator import attrgetter

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.bgp import BgpPeer, BgpRoute, BgpSpeaker
from neutrino.model.fields import is_peer
from neutrino.server.api.resources.bgp import MD5
from neutrino.server.bgp.reading import read_routes
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, read, scalars
from neutrino.server.feed.declarations import Changed
from neutrino.server.feed.readers.routers import NETWORKS_OF_PORTS
from neutrino.server.feed.readers.rows import Ids, grouped, read_ids, read_rows
from neutrino.server.l3.routers.port_layout import GATEWAY, INTERFACES

SpeakerRecord = dict[str, BgpSpeaker]  # host → the speaker
_s, _sa, _sp, _peer = t.bgp_speakers.c, t.bgp_speaker_agents.c, t.bgp_speaker_peers.c, t.bgp_peers.c
_a, _f, _p, _r, _rp, _sn = (
    t.agents.c,
    t.floatingips.c,
    t.ports.c,
    t.routers.c,
    t.router_ports.c,
    t.bgp_speaker_networks.c,
)
_GATEWAY_NETWORKS = (
    sa.select(_p.network_id).distinct().join(t.router_ports, _rp.port_id == _p.id).where(_rp.port_type == GATEWAY)
)
_inner, _inner_port = t.router_ports.alias("bgp_inner"), t.ports.alias("bgp_inner_port")
_DISTRIBUTED_ON_NETWORKS = (
    sa.select(_r.id)
    .join(_inner, _inner.c.router_id == _r.id)
    .join(_inner_port, _inner_port.c.id == _inner.c.port_id)
    .where(
        _r.distributed.is_(True),
        _inner.c.port_type.in_(INTERFACES),
        _inner_port.c.network_id.in_(sa.bindparam("networks", expanding=True)),
    )
)
_SCHEDULED = Lookup(sa.select(_sa.bgp_speaker_id).distinct(), scalars)
_HOSTS = (
    sa.select(_sa.bgp_speaker_id, _a.host)
    .join(t.agents, _a.id == _sa.agent_id)
    .where(_a.admin_state_up.is_(True))  # an agent that is disabled keeps its speaker, but does not serve it
    .order_by(_a.host)
)
_PEERS = (
    sa.select(_sp.bgp_speaker_id, _peer.peer_ip, _peer.remote_as, _peer.auth_type, _peer.password)
    .join(t.bgp_peers, _peer.id == _sp.bgp_peer_id)
    .order_by(_peer.peer_ip)
)


def speakers_of(connection: Connection, changed: Changed) -> set[str]:
    """The speakers that changes of routers, ports or agents may affect."""
    # The last networks of ports: also of deleted ones, such as the gateway that a router has lost.
    routers, ports, last_networks = changed.affected("router"), changed.named("port"), changed.last_networks
    agents = changed.named("agent")
    found = read_ids(connection, sa.select(_sa.bgp_speaker_id), _sa.agent_id, agents) if agents else set()
    scheduled = set(read(connection, _SCHEDULED()))
    if scheduled <= found or not (routers or ports):
        return found
    networks = sorted(_external_networks(connection, routers, ports, last_networks))
    return found | scheduled & read_ids(connection, sa.select(_sn.bgp_speaker_id), _sn.network_id, networks)


def _external_networks(
    connection: Connection, routers: Ids, ports: Ids, last_networks: Collection[str]
) -> Collection[str]:
    """Networks on which routes may have changed: of gateways, agent gateways, floating IPs, and in front of instances."""
    near = read_ids(connection, NETWORKS_OF_PORTS, _p.id, ports) | set(last_networks)
    in_front = _GATEWAY_NETWORKS.where(_rp.router_id.in_(_DISTRIBUTED_ON_NETWORKS))
    return (
        near
        | read_ids(connection, _GATEWAY_NETWORKS, _rp.router_id, routers)
        | read_ids(connection, sa.select(_f.floating_network_id), _f.port_id, ports)
        | (set(connection.execute(in_front, {"networks": sorted(near)}).scalars()) if near else set())
    )


def read_speakers(connection: Connection, ids: Ids) -> Iterator[tuple[str, SpeakerRecord]]:
    hosts = grouped(connection, _HOSTS, _sa.bgp_speaker_id, ids, attrgetter("host"))
    if not hosts:
        return
    peers = grouped(connection, _PEERS, _sp.bgp_speaker_id, sorted(hosts), _bgp_peer)
    for row in list(read_rows(connection, sa.select(t.bgp_speakers), _s.id, sorted(hosts))):
        speaker = BgpSpeaker(
            id=row.id,
            local_as=row.local_as,
            ip_version=row.ip_version,
            peers=tuple(peer for peer in peers[row.id] if is_peer(peer.peer_ip)),
            routes=tuple(BgpRoute(*route) for route in read_routes(connection, row)),
        )
        yield row.id, dict.fromkeys(hosts[row.id], speaker)


def _bgp_peer(row: sa.Row[tuple[str, str, int, str, str | None]]) -> BgpPeer:
    password = row.password if row.auth_type == MD5 else None
    return BgpPeer(peer_ip=row.peer_ip, remote_as=row.remote_as, password=password or "")
