"""BGP speakers and peers."""

import sqlalchemy as sa

from neutrino.server.db.columns import History, flags, integers, owner, primary_id, reference, table, text

# `revision_number` is not shown: it grows with every change of a speaker's peers, networks and agents, which exclude each
# other by it.
bgp_speakers = table(
    "bgp_speakers",
    primary_id(),
    text(255, "project_id", index=True),
    text(255, "name", default=""),
    sa.Column("local_as", sa.BigInteger, nullable=False),
    integers("ip_version"),
    flags("advertise_floating_ip_host_routes", "advertise_tenant_networks", default=True),
    integers("revision_number", default=0),
    history=History("bgp_speaker", feed=True),
)

bgp_peers = table(
    "bgp_peers",
    primary_id(),
    text(255, "project_id", index=True),
    text(255, "name", default=""),
    text(64, "peer_ip"),
    sa.Column("remote_as", sa.BigInteger, nullable=False),
    text(16, "auth_type"),
    text(255, "password", nullable=True),
    history=History("bgp_peer", secrets=frozenset({"password"})),
)

# The address is that of the peer, which never changes: a speaker has one session with an address.
bgp_speaker_peers = table(
    "bgp_speaker_peers",
    owner("bgp_speaker_id", "bgp_speakers"),
    reference("bgp_peer_id", "bgp_peers", cascade=True, primary_key=True),
    text(64, "peer_ip"),
    sa.UniqueConstraint("bgp_speaker_id", "peer_ip"),
)

bgp_speaker_networks = table(
    "bgp_speaker_networks",
    owner("bgp_speaker_id", "bgp_speakers"),
    reference("network_id", "networks", cascade=True, primary_key=True),
)

# An agent has one speaker at most, as in Neutron; a speaker may have several agents.
bgp_speaker_agents = table(
    "bgp_speaker_agents",
    owner("agent_id", "agents"),
    reference("bgp_speaker_id", "bgp_speakers", cascade=True),
)
