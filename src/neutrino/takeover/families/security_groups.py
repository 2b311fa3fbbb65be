"""Security groups with their rules, templates of rules, and the default of `stateful`."""

import ipaddress

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.securitygroups.checks import Rule
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Pair, Shown, paired, pairs, standard, unpaired
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_MATCH = (
    *pairs("direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix"),
    *pairs("remote_group_id", "remote_address_group_id"),
)
_TEMPLATE = (
    *pairs("id"),
    *_MATCH,
    Pair("description", "standard_description", ""),
    *pairs("used_in_default_sg", "used_in_non_default_sg", default=False),
)


def _groups(chunk: Chunk) -> None:
    tags = chunk.tags()
    defaults = chunk.first("default_security_group", "security_group_id")
    rules = chunk.children("securitygrouprules", "security_group_id")
    rule_tags = _tags_of_rules(chunk, rules)
    for row in chunk.rows:
        key, labels = row["id"], tags.get(row.get("standard_attr_id"), [])
        values = {
            **standard(row, chunk.deviations, "securitygroups"),
            "stateful": row.get("stateful") in (None, True, 1),
            "is_default": key in defaults,
            "tags": labels,
        }
        chunk.add(t.security_groups, values)
        chunk.add_tags(key, labels)
        if key in defaults:
            chunk.add(t.default_security_groups, {"project_id": defaults[key]["project_id"], "security_group_id": key})
        _add_rules(chunk, rules.get(key, []), rule_tags)


def _tags_of_rules(chunk: Chunk, rules: dict[object, list[Object]]) -> dict[object, list[str]]:
    ids = {rule.get("standard_attr_id") for some in rules.values() for rule in some}
    found = chunk.source.children("tags", "standard_attr_id", ids)
    return {key: sorted(row["tag"] for row in rows) for key, rows in found.items()}


def _add_rules(chunk: Chunk, rules: list[Object], tags: dict[object, list[str]]) -> None:
    """Rules of equal meaning, which Neutron allows, are all kept: the identity of a further one has its id."""
    seen: set[str] = set()
    for row in sorted(rules, key=lambda one: str(one["id"])):
        match = paired(row, _MATCH)
        cidr = _normalized(chunk, row)
        identity = Rule(**{**match, "ethertype": match["ethertype"] or "IPv4", "normalized_cidr": cidr}).identity
        if identity in seen:
            chunk.deviations.repair("securitygrouprules", row["id"], "has the meaning of another rule: both are kept")
            identity = f"{identity} {row['id']}"
        seen.add(identity)
        labels = tags.get(row.get("standard_attr_id"), [])
        values = {
            **standard(row, chunk.deviations, "securitygrouprules"),
            **match,
            "ethertype": match["ethertype"] or "IPv4",
            "security_group_id": row["security_group_id"],
            "normalized_cidr": cidr,
            "identity": identity,
            "tags": labels,
        }
        chunk.add(t.security_group_rules, values)


def _normalized(chunk: Chunk, row: Object) -> str | None:
    """The prefix without host bits, as the API shows it."""
    prefix = row["remote_ip_prefix"]
    if prefix is None:
        return None
    try:
        return str(ipaddress.ip_network(prefix, strict=False))
    except ValueError:
        chunk.deviations.refuse("securitygrouprules", row["id"], f"remote_ip_prefix {prefix!r} is no prefix")
        return None


def _templates(chunk: Chunk) -> None:
    for row in chunk.rows:
        values = paired(row, _TEMPLATE)
        rule = Rule(**{pair.ours: values[pair.ours] for pair in _MATCH})
        identity = rule.identity
        values |= {
            "in_default": identity if values["used_in_default_sg"] else None,
            "in_others": identity if values["used_in_non_default_sg"] else None,
        }
        chunk.add(t.default_security_group_rules, values)


def _statefulness(chunk: Chunk) -> None:
    for row in chunk.rows:
        project = row["project_id"] or None
        values = {
            "id": row["id"],
            "project_id": project,
            "scope": "*" if project is None else f"project {project}",
            "stateful": row["stateful"],
        }
        chunk.add(t.security_groups_default_statefulness, values)


def _rule_tags(chunk: Chunk) -> None:
    tags = chunk.tags()
    for row in chunk.rows:
        chunk.add_tags(row["id"], tags.get(row.get("standard_attr_id"), []))


def _their_groups(parts: Parts) -> None:
    for row in parts.rows[t.security_groups]:
        parts.add("securitygroups", {**standard_columns(row), "stateful": row["stateful"]})
    for row in parts.rows[t.default_security_groups]:
        parts.add("default_security_group", unpaired(row, pairs("project_id", "security_group_id")))
    for row in parts.rows[t.security_group_rules]:
        values = {**standard_columns(row), **unpaired(row, _MATCH), "security_group_id": row["security_group_id"]}
        parts.add("securitygrouprules", {name: value for name, value in values.items() if name != "name"})


def _their_templates(parts: Parts) -> None:
    for row in parts.rows[t.default_security_group_rules]:
        parts.add("securitygroupdefaultrules", unpaired(row, _TEMPLATE))


def _their_statefulness(parts: Parts) -> None:
    for row in parts.rows[t.security_groups_default_statefulness]:
        values = {"id": row["id"], "project_id": row["project_id"] or "", "stateful": row["stateful"]}
        parts.add("security_groups_default_statefulness", values)


FAMILIES = (
    Family(
        name="security groups",
        source="securitygroups",
        tables=(
            Owned(t.security_groups),
            Owned(t.default_security_groups, "security_group_id"),
            Owned(t.security_group_rules, "security_group_id"),
            TAGS,
        ),
        shown=(
            Shown("security-groups", "security_groups"),
            Shown("security-group-rules", "security_group_rules"),
        ),
        compose=_groups,
        theirs=(
            Theirs("securitygroups"),
            Theirs("default_security_group", "security_group_id"),
            Theirs("securitygrouprules", "security_group_id"),
        ),
        decompose=_their_groups,
        reads=("securitygrouprules", "default_security_group"),
        after=("address groups",),
    ),
    # Without an inverse: groups have their rules, with the tags of these.
    Family(name="tags of rules", source="securitygrouprules", tables=(TAGS,), compose=_rule_tags),
    Family(
        name="templates of rules",
        source="securitygroupdefaultrules",
        tables=(Owned(t.default_security_group_rules),),
        shown=(Shown("default-security-group-rules", "default_security_group_rules"),),
        compose=_templates,
        theirs=(Theirs("securitygroupdefaultrules"),),
        decompose=_their_templates,
        after=("address groups",),
        whole=True,
    ),
    Family(
        name="default statefulness",
        source="security_groups_default_statefulness",
        tables=(Owned(t.security_groups_default_statefulness),),
        compose=_statefulness,
        theirs=(Theirs("security_groups_default_statefulness"),),
        decompose=_their_statefulness,
        whole=True,
    ),
)
