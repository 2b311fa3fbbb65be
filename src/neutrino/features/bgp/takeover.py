"""BGP speakers and peers of neutron-dynamic-routing in Neutron's database."""

from neutrino.features.bgp.tables import (
    bgp_peers,
    bgp_speaker_agents,
    bgp_speaker_networks,
    bgp_speaker_peers,
    bgp_speakers,
)
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, unpaired, unpaired_rows
from neutrino.takeover.inverse import Parts, Theirs

_COMMON = (*pairs("id"), *pairs("project_id", "name", default=""))
_PEER = (*_COMMON, *pairs("peer_ip", "remote_as", "auth_type", "password"))
_SPEAKER = (
    *_COMMON,
    *pairs("local_as", "ip_version"),
    *pairs("advertise_floating_ip_host_routes", "advertise_tenant_networks", default=True),
)


_PEERING = pairs("bgp_speaker_id", "bgp_peer_id")
_AGENT = pairs("agent_id", "bgp_speaker_id")


def _peers(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(bgp_peers, paired(row, _PEER))


def _speakers(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(bgp_speakers, paired(row, _SPEAKER))
    networks = {
        (one["bgp_speaker_id"], one["network_id"])
        for some in chunk.children("bgp_speaker_network_bindings", "bgp_speaker_id").values()
        for one in some
    }
    for speaker, network in sorted(networks):
        chunk.add(bgp_speaker_networks, {"bgp_speaker_id": speaker, "network_id": network})
    bound = [o for some in chunk.children("bgp_speaker_peer_bindings", "bgp_speaker_id").values() for o in some]
    address = {
        one["id"]: one["peer_ip"] for one in chunk.source.among("bgp_peers", "id", {o["bgp_peer_id"] for o in bound})
    }
    for one in bound:
        values = {**paired(one, _PEERING), "peer_ip": address.get(one["bgp_peer_id"], "")}
        chunk.add(bgp_speaker_peers, values)


def _agents(chunk: Chunk) -> None:
    seen: set[object] = set()
    for row in chunk.rows:
        if row["agent_id"] in seen:
            reason = f"agent {row['agent_id']} has several speakers: one is kept"
            chunk.deviations.repair("bgp_speaker_dragent_bindings", row["bgp_speaker_id"], reason)
            continue
        seen.add(row["agent_id"])
        chunk.add(bgp_speaker_agents, paired(row, _AGENT))


def _their_peers(parts: Parts) -> None:
    unpaired_rows(parts, bgp_peers, "bgp_peers", _PEER)


def _their_speakers(parts: Parts) -> None:
    versions = {}
    for row in parts.rows[bgp_speakers]:
        parts.add("bgp_speakers", unpaired(row, _SPEAKER))
        versions[row["id"]] = row["ip_version"]
    for row in parts.rows[bgp_speaker_networks]:
        values = unpaired(row, pairs("bgp_speaker_id", "network_id"))
        parts.add("bgp_speaker_network_bindings", {**values, "ip_version": versions[row["bgp_speaker_id"]]})
    unpaired_rows(parts, bgp_speaker_peers, "bgp_speaker_peer_bindings", _PEERING)


def _their_agents(parts: Parts) -> None:
    unpaired_rows(parts, bgp_speaker_agents, "bgp_speaker_dragent_bindings", _AGENT)


FAMILIES = (
    Family(
        name="BGP peers",
        source="bgp_peers",
        tables=(Owned(bgp_peers),),
        shown=(Shown("bgp-peers", "bgp_peers"),),
        compose=_peers,
        theirs=(Theirs("bgp_peers"),),
        decompose=_their_peers,
    ),
    Family(
        name="BGP speakers",
        source="bgp_speakers",
        tables=(
            Owned(bgp_speakers),
            Owned(bgp_speaker_peers, "bgp_speaker_id"),
            Owned(bgp_speaker_networks, "bgp_speaker_id"),
        ),
        shown=(Shown("bgp-speakers", "bgp_speakers"),),
        compose=_speakers,
        theirs=(
            Theirs("bgp_speakers"),
            *(Theirs(name, "bgp_speaker_id") for name in ("bgp_speaker_network_bindings", "bgp_speaker_peer_bindings")),
        ),
        decompose=_their_speakers,
        reads=("bgp_speaker_network_bindings", "bgp_speaker_peer_bindings"),
        after=("BGP peers", "networks"),
    ),
    Family(
        name="BGP speakers on agents",
        source="bgp_speaker_dragent_bindings",
        tables=(Owned(bgp_speaker_agents, "agent_id"),),
        compose=_agents,
        theirs=(Theirs("bgp_speaker_dragent_bindings", "agent_id"),),
        decompose=_their_agents,
        after=("BGP speakers", "agents"),
        whole=True,
    ),
)
