"""Templates of the rules of new security groups, and the default of their `stateful`."""

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import ALL_VERBS, REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ID
from neutrino.server.api.resources.security_group import SECURITY_GROUP_RULE

PARENT_GROUP = "PARENT"  # as the remote group of a template: the group that the rule is made for


def _of_a_rule(name: str) -> Attribute:
    return SECURITY_GROUP_RULE.by_name[name]


def _used_in(kind: str) -> Attribute:
    return creatable(f"used_in_{kind}", t.Bool(), default=REQUIRED, filter=True)


def parse_remote_group(value: object) -> str | None:
    """The id of a group, or the word for the group itself. An id that does not exist is refused when it is looked up."""
    return t.Nullable(t.Text(36)).parse(value) or None


# A template cannot be changed: like a rule, it is deleted and created again.
DEFAULT_SECURITY_GROUP_RULE = Resource(
    name="default_security_group_rule",
    verbs=ALL_VERBS - {"update"},
    not_found=errors.DefaultSecurityGroupRuleNotFound,
    attributes=(
        ID,
        *(_of_a_rule(name) for name in ("direction", "ethertype", "protocol", "port_range_min", "port_range_max")),
        _of_a_rule("remote_ip_prefix"),
        creatable(
            *("remote_group_id", t.Parsed(parse_remote_group, t.Nullable(t.Text(36)))), default=None, searchable=True
        ),
        _of_a_rule("remote_address_group_id"),
        creatable("description", t.Text(255), default="", filter=True),
        _used_in("default_sg"),
        _used_in("non_default_sg"),
    ),
)

# The name as clients have it. In neutron-lib it is that of the collection, so that a create looks like a bulk create.
DEFAULT_STATEFULNESS = Resource(
    name="security_group_default_statefulness",
    collection="security_groups_default_statefulness",
    cloud_wide=True,
    not_found=errors.SecurityGroupDefaultStatefulnessNotFound,
    attributes=(
        ID,
        creatable("project_id", t.Nullable(t.Text()), searchable=True),
        writable("stateful", t.Bool(), default=True, searchable=True),
    ),
)
