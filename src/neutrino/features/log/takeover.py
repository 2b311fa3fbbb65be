"""Packet logs in Neutron's database."""

from neutrino.features.log.tables import logs
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, standard, untagged
from neutrino.takeover.inverse import Theirs

_LOG = pairs("resource_type", "resource_id", "target_id", "event", "enabled")


def _compose(chunk: Chunk) -> None:
    for row in chunk.rows:
        if row["resource_type"] != "security_group":
            reason = f"a log of {row['resource_type']} has no place here: delete it, or it logs no longer"
            chunk.deviations.leave_out("logs", row["id"], reason)
            continue
        chunk.add(logs, {**standard(row, chunk.deviations, chunk.kind), **paired(row, _LOG), "tags": []})


FAMILIES = (
    Family(
        name="logs",
        source="logs",
        tables=(Owned(logs),),
        shown=(Shown("log/logs", "logs"),),
        compose=_compose,
        theirs=(Theirs("logs"),),
        decompose=untagged(logs, "logs", _LOG),
        after=("security groups", "ports"),
    ),
)
