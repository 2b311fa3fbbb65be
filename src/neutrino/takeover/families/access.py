"""Quotas and RBAC policies."""

from neutrino.server.db import tables as t
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs

# Neutron's tables of RBAC policies, by the type of their objects.
RBAC = {
    "networkrbacs": "network",
    "qospolicyrbacs": "qos_policy",
    "securitygrouprbacs": "security_group",
    "addressgrouprbacs": "address_group",
    "addressscoperbacs": "address_scope",
    "subnetpoolrbacs": "subnetpool",
}


def _quotas(chunk: Chunk) -> None:
    for row in chunk.rows:
        if row["limit"] is None or not row["resource"]:
            chunk.deviations.leave_out("quotas", row["id"], "has no limit or no resource")
            continue
        chunk.add(t.quotas, paired(row, pairs("project_id", "resource", "limit", default="")))


def _policies(chunk: Chunk) -> None:
    for table, object_type in RBAC.items():
        for row in chunk.source.rows(table):
            values = paired(row, pairs("id", "object_id", "action")) | {
                "project_id": row["project_id"] or "",
                "object_type": object_type,
                "target_project": row.get("target_project") or row.get("target_tenant"),
            }
            chunk.add(t.rbac_policies, values)


FAMILIES = (
    Family(
        name="quotas",
        source="quotas",
        tables=(Owned(t.quotas, "project_id"),),
        shown=(Shown("quotas"),),
        compose=_quotas,
        whole=True,
    ),
    Family(
        name="RBAC policies",
        source="networkrbacs",
        tables=(Owned(t.rbac_policies),),
        shown=(Shown("rbac-policies", "rbac_policies"),),
        compose=_policies,
        reads=tuple(RBAC),
        whole=True,
    ),
)
