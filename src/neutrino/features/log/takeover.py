"""Packet logs in Neutron's database."""

from neutrino.features.log.tables import logs
from neutrino.features.log.types import FIREWALL_GROUP, SECURITY_GROUP
from neutrino.model.objects import Object
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, standard, unpaired
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_LOG = pairs("resource_type", "target_id", "event", "enabled")
_RESOURCE = {SECURITY_GROUP: "resource_id", FIREWALL_GROUP: "firewall_group_id"}  # our column of each type
_THEIRS = {SECURITY_GROUP: "securitygroups", FIREWALL_GROUP: "firewall_groups_v2"}  # tables


def _compose(chunk: Chunk) -> None:
    for row in chunk.rows:
        if row["resource_type"] not in _RESOURCE:
            reason = f"a log of {row['resource_type']} has no place here: delete it, or it logs no longer"
            chunk.deviations.leave_out("logs", row["id"], reason)
            continue
        # Without it, the log would be of more ports: of those of its group, or of the whole project.
        if gone := _missing(chunk, row):
            chunk.deviations.leave_out("logs", row["id"], f"{gone} does not exist")
            continue
        resource = dict.fromkeys(_RESOURCE.values()) | {_RESOURCE[row["resource_type"]]: row["resource_id"]}
        chunk.add(logs, {**standard(row, chunk.deviations, chunk.kind), **paired(row, _LOG), **resource, "tags": []})


def _missing(chunk: Chunk, row: Object) -> str:
    """What the log is for and Neutron has no more; empty if nothing is missing."""
    for name, table in (("resource_id", _THEIRS[row["resource_type"]]), ("target_id", "ports")):
        value = row[name]
        if value is not None and not chunk.source.existing(table, "id", {value}):
            return f"{name} {value}"
    return ""


def _decompose(parts: Parts) -> None:
    for row in parts.rows[logs]:
        resource = {"resource_id": row[_RESOURCE[row["resource_type"]]]}
        parts.add("logs", {**standard_columns(row), **unpaired(row, _LOG), **resource})


FAMILIES = (
    Family(
        name="logs",
        source="logs",
        tables=(Owned(logs),),
        shown=(Shown("log/logs", "logs"),),
        compose=_compose,
        theirs=(Theirs("logs"),),
        decompose=_decompose,
        after=("security groups", "ports", "firewall groups"),
    ),
)
