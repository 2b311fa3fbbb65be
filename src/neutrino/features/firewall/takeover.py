"""Firewall groups, policies and rules of neutron-fwaas (v2) in Neutron's database."""

from neutrino.features.firewall.tables import (
    default_groups,
    firewall_groups,
    firewall_policies,
    firewall_rules,
    group_ports,
    policy_rules,
)
from neutrino.model.objects import Object
from neutrino.takeover.family import (
    TAGS,
    Chunk,
    Family,
    Owned,
    Shown,
    paired,
    pairs,
    standard,
    tagged,
    unpaired,
    unpaired_rows,
)
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_RULE = (
    *pairs("protocol", "source_ip_address", "destination_ip_address"),
    *pairs("ip_version", default=4),
    *pairs("shared", default=False),
    *pairs("enabled", default=True),
    *pairs("action", default="deny"),
)
_GROUP = (
    *pairs("ingress_firewall_policy_id", "egress_firewall_policy_id"),
    *pairs("status", default="INACTIVE"),
    *pairs("admin_state_up", default=True),
    *pairs("shared", default=False),
)


_POLICY = pairs("shared", "audited", default=False)
_PORT = pairs("port_id", "firewall_group_id")


def _rules(chunk: Chunk) -> None:
    tags = chunk.tags()
    for row in chunk.rows:
        labels = tags.get(row.get("standard_attr_id"), [])
        values = standard(row, chunk.deviations, chunk.kind) | paired(row, _RULE)
        chunk.add(
            firewall_rules,
            {
                **values,
                "source_port": _ports(row, "source"),
                "destination_port": _ports(row, "destination"),
                "tags": labels,
            },
        )
        chunk.add_tags(row["id"], labels)


def _ports(row: Object, side: str) -> str | None:
    """A port, or a range as 80:90."""
    first, last = row[f"{side}_port_range_min"], row[f"{side}_port_range_max"]
    if first is None:
        return None
    return str(first) if last in (None, first) else f"{first}:{last}"


def _policies(chunk: Chunk) -> None:
    rules = chunk.children("firewall_policy_rule_associations_v2", "firewall_policy_id")
    tags = chunk.tags()
    for row in chunk.rows:
        key, labels = row["id"], tags.get(row.get("standard_attr_id"), [])
        own = sorted(rules.get(key, ()), key=lambda one: (one["position"] or 0, one["firewall_rule_id"]))
        values = {
            **standard(row, chunk.deviations, chunk.kind),
            **paired(row, _POLICY),
            "firewall_rules": [one["firewall_rule_id"] for one in own],
            "tags": labels,
        }
        chunk.add(firewall_policies, values)
        chunk.add_tags(key, labels)
        for position, one in enumerate(own):
            association = {"firewall_policy_id": key, "firewall_rule_id": one["firewall_rule_id"], "position": position}
            chunk.add(policy_rules, association)


def _groups(chunk: Chunk) -> None:
    defaults = chunk.first("default_firewall_groups", "firewall_group_id")
    tagged(chunk, firewall_groups, _GROUP)
    for row, composed in zip(chunk.rows, chunk.composed.get(firewall_groups, ()), strict=True):
        composed["is_default"] = row["id"] in defaults
        if row["id"] in defaults:
            default = {"project_id": defaults[row["id"]]["project_id"], "firewall_group_id": row["id"]}
            chunk.add(default_groups, default)
    for rows in chunk.children("firewall_group_port_associations_v2", "firewall_group_id").values():
        for one in rows:
            chunk.add(group_ports, paired(one, _PORT))


def _their_rules(parts: Parts) -> None:
    for row in parts.rows[firewall_rules]:
        ranges = {**_range(row, "source"), **_range(row, "destination")}
        parts.add("firewall_rules_v2", {**standard_columns(row), **unpaired(row, _RULE), **ranges})


def _range(row: Object, side: str) -> Object:
    first, _, last = (row[f"{side}_port"] or "").partition(":")
    numbers = (int(first), int(last or first)) if first else (None, None)
    return {f"{side}_port_range_min": numbers[0], f"{side}_port_range_max": numbers[1]}


def _their_policies(parts: Parts) -> None:
    for row in parts.rows[firewall_policies]:
        parts.add("firewall_policies_v2", {**standard_columns(row), **unpaired(row, _POLICY)})
        for position, rule in enumerate(row["firewall_rules"], start=1):
            values = {"firewall_policy_id": row["id"], "firewall_rule_id": rule, "position": position}
            parts.add("firewall_policy_rule_associations_v2", values)


def _their_groups(parts: Parts) -> None:
    for row in parts.rows[firewall_groups]:
        parts.add("firewall_groups_v2", {**standard_columns(row), **unpaired(row, _GROUP)})
    unpaired_rows(parts, default_groups, "default_firewall_groups", pairs("project_id", "firewall_group_id"))
    unpaired_rows(parts, group_ports, "firewall_group_port_associations_v2", _PORT)


FAMILIES = (
    Family(
        name="firewall rules",
        source="firewall_rules_v2",
        tables=(Owned(firewall_rules), TAGS),
        shown=(Shown("fwaas/firewall_rules", "firewall_rules"),),
        compose=_rules,
        theirs=(Theirs("firewall_rules_v2"),),
        decompose=_their_rules,
    ),
    Family(
        name="firewall policies",
        source="firewall_policies_v2",
        tables=(Owned(firewall_policies), Owned(policy_rules, "firewall_policy_id"), TAGS),
        shown=(Shown("fwaas/firewall_policies", "firewall_policies"),),
        compose=_policies,
        theirs=(
            Theirs("firewall_policies_v2"),
            Theirs("firewall_policy_rule_associations_v2", "firewall_policy_id"),
        ),
        decompose=_their_policies,
        reads=("firewall_policy_rule_associations_v2",),
        after=("firewall rules",),
    ),
    Family(
        name="firewall groups",
        source="firewall_groups_v2",
        tables=(
            Owned(firewall_groups),
            Owned(default_groups, "firewall_group_id"),
            Owned(group_ports, "firewall_group_id"),
            TAGS,
        ),
        shown=(Shown("fwaas/firewall_groups", "firewall_groups"),),
        compose=_groups,
        theirs=(
            Theirs("firewall_groups_v2"),
            Theirs("default_firewall_groups", "firewall_group_id"),
            Theirs("firewall_group_port_associations_v2", "firewall_group_id"),
        ),
        decompose=_their_groups,
        reads=("default_firewall_groups", "firewall_group_port_associations_v2"),
        after=("firewall policies", "ports"),
    ),
)
