"""Agents, with their ids, and the MACs of distributed routers on hosts."""

from neutrino.model.agents import DATAPLANE
from neutrino.server.db import tables as t
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, timestamp, unpaired
from neutrino.takeover.inverse import Parts, Theirs, as_text, moment

_AGENT = (
    *pairs("id", "agent_type", "binary", "topic", "host", "availability_zone", "description", "resources_synced"),
    *pairs("admin_state_up", default=True),
    *pairs("load", default=0),
)


_TIMES = ("created_at", "started_at", "heartbeat_timestamp")
_REPORTED = ("agent_type", "binary", "topic", "host", "availability_zone", "resources_synced", "load", *_TIMES)


def _agents(chunk: Chunk) -> None:
    for row in chunk.rows:
        times = {name: timestamp(row[name]) for name in _TIMES}
        values = {
            **paired(row, _AGENT),
            **times,
            "configurations": chunk.decoded(row["id"], "configurations", row["configurations"], {}),
            "resource_versions": chunk.decoded(row["id"], "resource_versions", row.get("resource_versions"), {}),
        }
        chunk.add(t.agents, values)


def _macs(chunk: Chunk) -> None:
    """Neutron stores these MAC addresses as FA-16-3F-00-00-01, unlike those of ports."""
    for row in chunk.rows:
        mac = row["mac_address"].replace("-", ":").lower()
        chunk.add(t.dvr_host_macs, {"host": row["host"], "mac_address": mac})


def _their_agents(parts: Parts) -> None:
    """Neutron's agents report all but what operators set."""
    for row in parts.rows[t.agents]:
        values = {
            **unpaired(row, _AGENT),
            **{name: moment(row[name]) for name in _TIMES},
            "configurations": as_text({k: v for k, v in row["configurations"].items() if k != DATAPLANE}),
            "resource_versions": as_text(row["resource_versions"]),
        }
        parts.add("agents", values)


def _their_macs(parts: Parts) -> None:
    for row in parts.rows[t.dvr_host_macs]:
        mac = row["mac_address"].replace(":", "-").upper()
        parts.add("dvr_host_macs", {"host": row["host"], "mac_address": mac})


FAMILIES = (
    Family(
        name="agents",
        source="agents",
        tables=(Owned(t.agents),),
        shown=(Shown("agents"),),
        compose=_agents,
        theirs=(Theirs("agents", once=frozenset({*_REPORTED, "configurations", "resource_versions"})),),
        decompose=_their_agents,
    ),
    Family(
        name="DVR MACs",
        source="dvr_host_macs",
        key="host",
        tables=(Owned(t.dvr_host_macs, "host"),),
        compose=_macs,
        theirs=(Theirs("dvr_host_macs", "host"),),
        decompose=_their_macs,
    ),
)
