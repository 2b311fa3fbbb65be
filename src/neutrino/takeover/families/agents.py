"""Agents, with their ids, and the MACs of distributed routers on hosts."""

from neutrino.server.db import tables as t
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, timestamp

_AGENT = (
    *pairs("id", "agent_type", "binary", "topic", "host", "availability_zone", "description", "resources_synced"),
    *pairs("admin_state_up", default=True),
    *pairs("load", default=0),
)


def _agents(chunk: Chunk) -> None:
    for row in chunk.rows:
        times = {name: timestamp(row[name]) for name in ("created_at", "started_at", "heartbeat_timestamp")}
        values = {
            **paired(row, _AGENT),
            **times,
            "configurations": chunk.decoded(row["id"], "configurations", row["configurations"], {}),
            "resource_versions": chunk.decoded(row["id"], "resource_versions", row.get("resource_versions"), {}),
        }
        chunk.add(t.agents, values)


def _macs(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(t.dvr_host_macs, paired(row, pairs("host", "mac_address")))


FAMILIES = (
    Family(name="agents", source="agents", tables=(Owned(t.agents),), shown=(Shown("agents"),), compose=_agents),
    Family(
        name="DVR MACs", source="dvr_host_macs", key="host", tables=(Owned(t.dvr_host_macs, "host"),), compose=_macs
    ),
)
