"""Reads BGP speakers with their peers and advertised routes, as the hosts of their agents get them.

A change of a speaker's own attributes, peers and networks is logged with the speaker. What it advertises changes with
routers, their ports, and floating IPs: `speakers_of` finds the speakers. A router that has lost its gateway names no
network any more, so that such a change affects all speakers; a cloud has few.
"""

from collections.abc import Iterator
from operator import attrgetter

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.bgp import BgpPeer, BgpRoute, BgpSpeaker
from neutrino.server.api.resources.bgp import MD5
from neutrino.server.bgp.reading import read_routes
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, grouped, read_ids, read_rows
from neutrino.server.l3.routers.port_layout import AGENT_GATEWAY

SpeakerRecord = dict[str, BgpSpeaker]  # host → the speaker
_s, _sa, _sp, _peer = t.bgp_speakers.c, t.bgp_speaker_agents.c, t.bgp_speaker_peers.c, t.bgp_peers.c
_a, _f, _p = t.agents.c, t.floatingips.c, t.ports.c
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


def speakers_of(connection: Connection, routers: Ids, ports: Ids, agents: Ids) -> set[str]:
    """The speakers that a change of these routers, ports or agents may affect."""
    found = read_ids(connection, sa.select(_sa.bgp_speaker_id), _sa.agent_id, agents) if agents else set()
    speakers = read_ids(connection, sa.select(_sa.bgp_speaker_id), _sa.bgp_speaker_id, None)
    if not speakers <= found and (routers or _has_routes(connection, ports)):
        found |= speakers
    return found


def _has_routes(connection: Connection, ports: Ids) -> bool:
    """Whether a floating IP leads to one of these ports, or one is an agent gateway: routes of distributed routers."""
    gateways = sa.select(_p.id).where(_p.device_owner == AGENT_GATEWAY)
    return bool(
        read_ids(connection, sa.select(_f.port_id), _f.port_id, ports) or read_ids(connection, gateways, _p.id, ports)
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
            peers=tuple(peers[row.id]),
            routes=tuple(BgpRoute(*route) for route in read_routes(connection, row)),
        )
        yield row.id, dict.fromkeys(hosts[row.id], speaker)


def _bgp_peer(row: sa.Row[tuple[str, str, int, str, str | None]]) -> BgpPeer:
    password = row.password if row.auth_type == MD5 else None
    return BgpPeer(peer_ip=row.peer_ip, remote_as=row.remote_as, password=password or "")
