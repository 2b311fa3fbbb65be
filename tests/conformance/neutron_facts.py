"""Attributes of the extensions that Neutron 29 defines itself, and that are not in neutron-lib.

An attribute is described by words: post and put (it can be given), decided (the server chooses where it is not), hidden (it
is not shown), filter and sort (a list goes by it); with a default, as a pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Words = str | tuple[str, Any]

_TAGGED = ("networks", "subnets", "ports", "subnetpools", "security_groups", "routers", "floatingips", "policies")
_TAGGED = (*_TAGGED, "network_segment_ranges")
_STANDARD = ("networks", "subnets", "ports", "subnetpools", "routers", "floatingips", "policies")
_STANDARD = (*_STANDARD, "segments", "network_segment_ranges")


def _on(collections: Iterable[str], **attributes: Words) -> dict[tuple[str, str], Words]:
    return {
        (collection, name.replace("__", "-")): words for collection in collections for name, words in attributes.items()
    }


NEUTRON: dict[str, dict[tuple[str, str], Words]] = {
    "standard-attr-timestamp": _on(
        (*_STANDARD, "security_groups", "security_group_rules"), created_at="", updated_at=""
    ),
    "standard-attr-revisions": _on(_STANDARD, revision_number="filter"),
    "standard-attr-description": _on(_STANDARD, description=("post put filter", "")),
    "standard-attr-tag": {
        **_on(_TAGGED, tags="filter", tags__any="hidden filter", not__tags="hidden filter"),
        **_on(_TAGGED, not__tags__any="hidden filter"),
        **_on(["ports"], tags=("post filter", [])),
    },
    "security-group": {
        **_on(["ports"], security_groups="post put decided filter"),
        **_on(
            ["security_groups"],
            id="filter sort",
            name=("post put filter sort", ""),
            project_id="post filter sort",
            security_group_rules="",
        ),
        **_on(
            ["security_group_rules"],
            id="filter sort",
            project_id="post filter sort",
            security_group_id="post filter sort",
            remote_group_id=("post filter sort", None),
            direction="post filter sort",
            protocol=("post filter sort", None),
            port_range_min=("post filter sort", None),
            port_range_max=("post filter sort", None),
            ethertype=("post filter sort", "IPv4"),
            remote_ip_prefix=("post filter sort", None),
        ),
    },
    "security-groups-default-rules": _on(
        ["default_security_group_rules"],
        id="filter sort",
        description=("post filter", ""),
        remote_group_id=("post filter sort", None),
        remote_address_group_id=("post filter sort", None),
        direction="post filter sort",
        protocol=("post filter sort", None),
        port_range_min=("post filter sort", None),
        port_range_max=("post filter sort", None),
        ethertype=("post filter sort", "IPv4"),
        remote_ip_prefix=("post filter sort", None),
        used_in_default_sg="post filter",
        used_in_non_default_sg="post filter",
    ),
    "rbac-policies": _on(
        ["rbac_policies"],
        id="filter",
        project_id="post filter",
        object_type=("post filter", None),
        object_id="post filter",
        target_tenant="post put filter",
        action="post filter",
    ),
    # These have no attributes of resources, only routes or behaviour.
    "quotas": {},
    "quota_details": {},
    "subnet_allocation": {},
    "l3_agent_scheduler": {},
}
