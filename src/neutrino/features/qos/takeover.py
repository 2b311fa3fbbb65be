"""QoS policies and their rules in Neutron's database."""

from typing import Final

from neutrino.features.qos.resources import RULE_PARAMETERS
from neutrino.features.qos.tables import default_qos_policies, qos_policies, qos_rules
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Shown, pairs, standard, unpaired_rows
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_TABLES: Final = {type_: f"qos_{type_}_rules" for type_ in RULE_PARAMETERS}
_ALL: Final = sorted({name for names in RULE_PARAMETERS.values() for name in names} - {"direction"})


def _compose(chunk: Chunk) -> None:
    tags = chunk.tags()
    defaults = chunk.first("qos_policies_default", "qos_policy_id")
    rules = {type_: chunk.children(table, "qos_policy_id") for type_, table in _TABLES.items()}
    for row in chunk.rows:
        key, labels = row["id"], tags.get(row.get("standard_attr_id"), [])
        own = [
            {"id": one["id"], "qos_policy_id": key, "type": type_, **{n: one[n] for n in RULE_PARAMETERS[type_]}}
            for type_ in _TABLES
            for one in rules[type_].get(key, ())
        ]
        values = {
            **standard(row, chunk.deviations, chunk.kind),
            "is_default": key in defaults,
            "rules": own,
            "tags": labels,
        }
        chunk.add(qos_policies, values)
        chunk.add_tags(key, labels)
        if key in defaults:
            chunk.add(default_qos_policies, {"project_id": defaults[key]["project_id"], "qos_policy_id": key})
        for rule in own:
            chunk.add(qos_rules, {**dict.fromkeys(_ALL), "direction": "", **rule})


def _decompose(parts: Parts) -> None:
    for row in parts.rows[qos_policies]:
        parts.add("qos_policies", standard_columns(row))
    unpaired_rows(parts, default_qos_policies, "qos_policies_default", pairs("project_id", "qos_policy_id"))
    for row in parts.rows[qos_rules]:
        names = ("id", "qos_policy_id", *RULE_PARAMETERS[row["type"]])
        parts.add(_TABLES[row["type"]], {name: row[name] for name in names})


FAMILIES = (
    Family(
        name="QoS policies",
        source="qos_policies",
        tables=(
            Owned(qos_policies),
            Owned(default_qos_policies, "qos_policy_id"),
            Owned(qos_rules, "qos_policy_id"),
            TAGS,
        ),
        shown=(Shown("qos/policies", "policies"),),
        compose=_compose,
        theirs=(
            Theirs("qos_policies"),
            *(Theirs(name, "qos_policy_id") for name in ("qos_policies_default", *_TABLES.values())),
        ),
        decompose=_decompose,
        reads=("qos_policies_default", *_TABLES.values()),
    ),
)
