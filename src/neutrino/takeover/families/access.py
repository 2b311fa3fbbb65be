"""Quotas and RBAC policies."""

from neutrino.server.db import tables as t
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, unpaired
from neutrino.takeover.inverse import Parts, Theirs

# Neutron's tables of RBAC policies, by the type of their objects.
RBAC = {
    "networkrbacs": "network",
    "qospolicyrbacs": "qos_policy",
    "securitygrouprbacs": "security_group",
    "addressgrouprbacs": "address_group",
    "addressscoperbacs": "address_scope",
    "subnetpoolrbacs": "subnetpool",
}


_QUOTA = pairs("project_id", "resource", "limit", default="")
_POLICY = pairs("id", "object_id", "action")


def _quotas(chunk: Chunk) -> None:
    for row in chunk.rows:
        if row["limit"] is None or not row["resource"]:
            chunk.deviations.leave_out("quotas", row["id"], "has no limit or no resource")
            continue
        chunk.add(t.quotas, paired(row, _QUOTA))


def _policies(chunk: Chunk) -> None:
    for table, object_type in RBAC.items():
        for row in chunk.source.rows(table):
            values = paired(row, _POLICY) | {
                "project_id": row["project_id"] or "",
                "object_type": object_type,
                "target_project": row.get("target_project") or row.get("target_tenant"),
            }
            chunk.add(t.rbac_policies, values)


def _their_quotas(parts: Parts) -> None:
    for row in parts.rows[t.quotas]:
        parts.add("quotas", unpaired(row, _QUOTA))


def _their_policies(parts: Parts) -> None:
    tables = {object_type: table for table, object_type in RBAC.items()}
    for row in parts.rows[t.rbac_policies]:
        if row["object_type"] not in tables:
            parts.refuse(row["id"], f"an RBAC policy of {row['object_type']} has no place in Neutron")
            continue
        values = {"project_id": row["project_id"], "target_project": row["target_project"]}
        parts.add(tables[row["object_type"]], {**unpaired(row, _POLICY), **values})


FAMILIES = (
    Family(
        name="quotas",
        source="quotas",
        tables=(Owned(t.quotas, "project_id"),),
        shown=(Shown("quotas"),),
        compose=_quotas,
        theirs=(Theirs("quotas", "project_id", identity=("project_id", "resource")),),
        decompose=_their_quotas,
        whole=True,
    ),
    Family(
        name="RBAC policies",
        source="networkrbacs",
        tables=(Owned(t.rbac_policies),),
        shown=(Shown("rbac-policies", "rbac_policies"),),
        compose=_policies,
        theirs=tuple(Theirs(table) for table in RBAC),
        decompose=_their_policies,
        reads=tuple(RBAC),
        after=("networks", "QoS policies", "security groups", "address groups", "address scopes", "subnet pools"),
        whole=True,
    ),
)
