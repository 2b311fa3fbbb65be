"""Networks with their segments, and the DHCP agents that serve them."""

from collections.abc import Sequence

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.ml2.driver_api import Segment
from neutrino.server.ml2.segments import DYNAMIC, shown
from neutrino.takeover.family import (
    TAGS,
    Chunk,
    Family,
    Owned,
    Pair,
    Shown,
    flag,
    paired,
    pairs,
    standard,
    timestamp,
    unpaired,
)
from neutrino.takeover.inverse import Parts, Theirs, as_text, moment, standard_columns

_NETWORK = (
    *pairs("admin_state_up", default=True),
    *pairs("status", default="ACTIVE"),
    *pairs("mtu", default=0),
    *pairs("vlan_transparent", "qinq", default=False),
)
_HINTS = "availability_zone_hints"
_SEGMENT = (
    *pairs("id", "network_id", "network_type", "physical_network", "segmentation_id", "name"),
    Pair("description", "standard_description"),
    Pair("revision_number", "standard_revision_number", 0),
)


def identity(segment: Object) -> str:
    """Uniqueness key of a segment, as the type drivers have it."""
    if segment["network_type"] == "local":
        return f"local/{segment['id']}"
    parts = (segment["network_type"], segment["physical_network"], segment["segmentation_id"])
    return "/".join(str(part) for part in parts if part is not None)


def _compose(chunk: Chunk) -> None:
    external = chunk.first("externalnetworks", "network_id")
    security = chunk.first("networksecuritybindings", "network_id")
    domains = chunk.first("networkdnsdomains", "network_id")
    qos = chunk.first("qos_network_policy_bindings", "network_id")
    segments = chunk.children("networksegments", "network_id")
    subnets = chunk.children("subnets", "network_id")
    tags = chunk.tags()
    scopes = _scopes(chunk, subnets)
    for row in chunk.rows:
        key = row["id"]
        own = sorted(segments.get(key, ()), key=lambda one: (one["segment_index"], one["id"]))
        labels = tags.get(row.get("standard_attr_id"), [])
        if not any(not one["is_dynamic"] for one in own):
            chunk.deviations.repair("networks", key, "has no segment: shown without provider attributes")
        values = {
            **standard(row, chunk.deviations, "networks"),
            **paired(row, _NETWORK),
            "external": key in external,
            "is_default": flag(external.get(key), "is_default", False),
            "port_security_enabled": flag(security.get(key), "port_security_enabled", True),
            "dns_domain": domains[key]["dns_domain"] or "" if key in domains else "",
            "qos_policy_id": qos[key]["policy_id"] if key in qos else None,
            **{f"ipv{version}_address_scope": scopes.get((key, version)) for version in (4, 6)},
            "availability_zone_hints": chunk.decoded(key, _HINTS, row.get(_HINTS), []),
            "extra_dhcp_opts": [],
            "subnets": [one["id"] for one in sorted(subnets.get(key, ()), key=_created)],
            **shown([_segment(one) for one in own if not one["is_dynamic"]]),
            "tags": labels,
        }
        chunk.add(t.networks, values)
        chunk.add_tags(key, labels)
        _add_segments(chunk, own)


def _add_segments(chunk: Chunk, own: Sequence[Object]) -> None:
    dynamic = static = 0
    for one in own:
        position = DYNAMIC + dynamic if one["is_dynamic"] else static
        dynamic, static = dynamic + bool(one["is_dynamic"]), static + (not one["is_dynamic"])
        times = {name: timestamp(one.get(f"standard_{name}")) for name in ("created_at", "updated_at")}
        chunk.add(
            t.network_segments, {**paired(one, _SEGMENT), **times, "position": position, "identity": identity(one)}
        )


def _segment(row: Object) -> Segment:
    return Segment(row["network_type"], row["physical_network"], row["segmentation_id"], row["id"])


def _created(row: Object) -> tuple[str, str]:
    return timestamp(row.get("standard_created_at")), row["id"]


def _scopes(chunk: Chunk, subnets: dict[object, list[Object]]) -> dict[tuple[object, int], str]:
    """The address scope of a network by IP version: that of the pool of its subnets."""
    pools = {one["subnetpool_id"] for some in subnets.values() for one in some if one["subnetpool_id"]}
    scope_of = {row["id"]: row["address_scope_id"] for row in chunk.source.among("subnetpools", "id", pools)}
    found: dict[tuple[object, int], str] = {}
    for network_id, some in subnets.items():
        for one in some:
            scope = scope_of.get(one["subnetpool_id"])
            if scope:
                found[network_id, int(one["ip_version"])] = scope
    return found


def _dhcp_agents(chunk: Chunk) -> None:
    for row in chunk.rows:
        values = {"network_id": row["network_id"], "agent_id": row["dhcp_agent_id"]}
        chunk.add(t.network_dhcp_agents, values)


def _decompose(parts: Parts) -> None:
    for row in parts.rows[t.networks]:
        key = row["id"]
        if row["extra_dhcp_opts"]:
            parts.refuse(key, "extra_dhcp_opts of a network have no place in Neutron")
        hints = {_HINTS: as_text(row[_HINTS])}
        parts.add("networks", {**standard_columns(row), **unpaired(row, _NETWORK), **hints})
        security = row["port_security_enabled"]
        parts.add("networksecuritybindings", {"network_id": key, "port_security_enabled": security})
        if row["external"]:
            parts.add("externalnetworks", {"network_id": key, "is_default": row["is_default"]})
        if row["dns_domain"]:
            parts.add("networkdnsdomains", {"network_id": key, "dns_domain": row["dns_domain"]})
        if row["qos_policy_id"]:
            parts.add("qos_network_policy_bindings", {"network_id": key, "policy_id": row["qos_policy_id"]})
    for row in parts.rows[t.network_segments]:
        is_dynamic = row["position"] >= DYNAMIC
        values = {
            **unpaired(row, _SEGMENT),
            **{f"standard_{name}": moment(row[name]) for name in ("created_at", "updated_at")},
            "is_dynamic": is_dynamic,
            "segment_index": 0 if is_dynamic else row["position"],
        }
        parts.add("networksegments", values)


def _their_dhcp_agents(parts: Parts) -> None:
    for row in parts.rows[t.network_dhcp_agents]:
        parts.add("networkdhcpagentbindings", {"network_id": row["network_id"], "dhcp_agent_id": row["agent_id"]})


FAMILIES = (
    Family(
        name="networks",
        source="networks",
        tables=(Owned(t.networks), Owned(t.network_segments, "network_id"), TAGS),
        shown=(
            Shown("networks", parts=(("networks/{id}/dhcp-agents", "agents"),)),
            Shown("segments"),
        ),
        compose=_compose,
        theirs=(
            Theirs("networks"),
            *(Theirs(name, "network_id") for name in ("networksecuritybindings", "externalnetworks")),
            Theirs("networkdnsdomains", "network_id"),
            Theirs("qos_network_policy_bindings", "network_id", identity=("network_id",)),
            Theirs("networksegments", "network_id"),
        ),
        decompose=_decompose,
        reads=(
            *("externalnetworks", "networksecuritybindings", "networkdnsdomains", "qos_network_policy_bindings"),
            *("networksegments", "tags", "standardattributes"),
        ),
        after=("QoS policies",),
    ),
    Family(
        name="networks on DHCP agents",
        source="networkdhcpagentbindings",
        tables=(Owned(t.network_dhcp_agents, "network_id"),),
        compose=_dhcp_agents,
        theirs=(Theirs("networkdhcpagentbindings", "network_id", numbered="binding_index"),),
        decompose=_their_dhcp_agents,
        after=("networks", "agents"),
        whole=True,
    ),
)
