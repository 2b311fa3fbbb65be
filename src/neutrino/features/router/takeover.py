"""Routers, floating IPs and what belongs to them in Neutron's database."""

from collections import Counter
from collections.abc import Sequence

from neutrino.features.router.floating_ips.port_forwardings import SHOWN_IN_FLOATING_IP
from neutrino.features.router.tables import (
    auto_allocated_topologies,
    conntrack_helpers,
    distributed_port_hosts,
    floatingips,
    ha_networks,
    ha_router_networks,
    ndp_proxies,
    port_forwardings,
    router_l3_agents,
    router_ports,
    routers,
)
from neutrino.model.device_owners import GATEWAY, HA_PORT
from neutrino.model.objects import Object
from neutrino.server.db.tables import ports
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
    unpaired,
    unpaired_rows,
    untagged,
)
from neutrino.takeover.inverse import Parts, Theirs, as_text, standard_columns

_ROUTER = (
    *pairs("gw_port_id", "flavor_id"),
    *pairs("admin_state_up", "enable_snat", default=True),
    *pairs("status", default="ACTIVE"),
)
_HELPER = pairs("id", "router_id", "protocol", "port", "helper")
_NDP_PROXY = pairs("router_id", "port_id", "ip_address")
_TOPOLOGY = pairs("project_id", "network_id", "router_id")
_EXTRA = ("distributed", "ha", "enable_default_route_ecmp", "enable_default_route_bfd")
_INTERNAL_PORT = Pair("internal_port_id", "internal_neutron_port_id")
_HINTS = "availability_zone_hints"
_FLOATING_IP = (
    *pairs("floating_network_id", "floating_ip_address", "floating_port_id", "fixed_ip_address", "router_id"),
    Pair("port_id", "fixed_port_id"),
    *pairs("status", default="DOWN"),
)


def _routers(chunk: Chunk) -> None:
    tags = chunk.tags()
    extra = chunk.first("router_extra_attributes", "router_id")
    ndp = chunk.first("router_ndp_proxy_state", "router_id")
    qos = chunk.first("qos_router_gw_policy_bindings", "router_id")
    routes = chunk.children("routerroutes", "router_id")
    helpers = chunk.children("conntrack_helpers", "router_id")
    router_port_rows = chunk.children("routerports", "router_id")
    bindings = chunk.children("routerl3agentbindings", "router_id")
    ha_ports = chunk.children("ha_router_agent_port_bindings", "router_id")
    port_ids = {one["port_id"] for some in (*router_port_rows.values(), *ha_ports.values()) for one in some}
    port_ids |= {row["gw_port_id"] for row in chunk.rows}
    network_of = {one["id"]: one["network_id"] for one in chunk.source.among("ports", "id", port_ids)}
    project_networks = chunk.source.children("ha_router_networks", "project_id", {r["project_id"] for r in chunk.rows})
    for row in chunk.rows:
        key, labels = row["id"], tags.get(row.get("standard_attr_id"), [])
        own = extra.get(key)
        gateway = row["gw_port_id"]
        if gateway is not None and gateway not in network_of:
            chunk.deviations.repair("routers", key, f"its gateway port {gateway} does not exist: no gateway")
            gateway = None
        gateways = [one["port_id"] for one in router_port_rows.get(key, ()) if one["port_type"] == GATEWAY]
        ha_network = _ha_network(ha_ports.get(key, ()), network_of, project_networks.get(row["project_id"], ()), own)
        own_helpers = [{n: one[n] for n in ("protocol", "port", "helper")} for one in helpers.get(key, ())]
        values = {
            **standard(row, chunk.deviations, chunk.kind),
            **paired(row, _ROUTER),
            **{name: flag(own, name, False) for name in _EXTRA},
            "enable_ndp_proxy": flag(ndp.get(key), "enable_ndp_proxy", False),
            "gw_port_id": gateway,
            "extra_gw_port_ids": sorted(one for one in gateways if one != gateway) if gateway else [],
            "gw_network_id": network_of.get(gateway),
            "gw_qos_policy_id": qos[key]["policy_id"] if key in qos else None,
            "ha_network_id": ha_network,
            "ha_vr_id": own["ha_vr_id"] if own is not None and ha_network else None,
            "availability_zone_hints": chunk.decoded(key, _HINTS, own and own.get(_HINTS), []),
            "routes": [{n: one[n] for n in ("destination", "nexthop")} for one in routes.get(key, ())],
            "conntrack_helpers": own_helpers,
            "tags": labels,
        }
        if own is not None and own.get("service_router"):
            chunk.deviations.repair("routers", key, "service_router has no place here")
        chunk.add(routers, values)
        chunk.add_tags(key, labels)
        if ha_network:
            chunk.add(ha_router_networks, {"router_id": key, "network_id": ha_network})
        for one in router_port_rows.get(key, ()):
            _add_port(chunk, key, one, network_of)
        states = {one["l3_agent_id"]: one for one in ha_ports.get(key, ()) if one["l3_agent_id"]}
        for one in bindings.get(key, ()):
            state = states.get(one["l3_agent_id"])
            chunk.add(
                router_l3_agents,
                {
                    "router_id": key,
                    "agent_id": one["l3_agent_id"],
                    "ha_port_id": state and state["port_id"],
                    "ha_state": state and state["state"],
                },
            )
        for one in helpers.get(key, ()):
            chunk.add(conntrack_helpers, paired(one, _HELPER))


def _add_port(chunk: Chunk, router_id: str, row: Object, network_of: Object) -> None:
    """A port of a router, also that of an HA router on one of its hosts."""
    if row["port_id"] not in network_of:
        chunk.deviations.leave_out("routerports", row["port_id"], f"port of router {router_id} does not exist")
    elif row["port_type"] is None:
        chunk.deviations.leave_out("routerports", row["port_id"], f"port of router {router_id} has no type")
    else:
        values = {"port_id": row["port_id"], "router_id": router_id, "port_type": row["port_type"]}
        chunk.add(router_ports, values)


def _ha_network(
    bindings: Sequence[Object], network_of: Object, of_project: Sequence[Object], extra: Object | None
) -> str | None:
    """The HA network of a router: that of its HA ports, or else that of its project."""
    if extra is None or not extra["ha"]:
        return None
    networks = Counter(network_of[one["port_id"]] for one in bindings if one["port_id"] in network_of)
    if networks:
        return str(networks.most_common(1)[0][0])
    return str(of_project[0]["network_id"]) if of_project else None


def _ha_networks(chunk: Chunk) -> None:
    """One HA network per project: before 2023.2 there could be several, of which the most used one is taken."""
    ports = chunk.source.children("ports", "network_id", {row["network_id"] for row in chunk.rows})
    by_project: dict[str, list[Object]] = {}
    for row in chunk.rows:
        by_project.setdefault(row["project_id"], []).append(row)
    for project, some in by_project.items():
        some.sort(key=lambda row: (-len(ports.get(row["network_id"], ())), row["network_id"]))
        for other in some[1:]:
            reason = f"project {project} has several HA networks: new routers get {some[0]['network_id']}"
            chunk.deviations.repair("ha_router_networks", other["network_id"], reason)
        chunk.add(ha_networks, {"project_id": project, "network_id": some[0]["network_id"]})


def _distributed_hosts(chunk: Chunk) -> None:
    for row in chunk.rows:
        if row["status"] == "ACTIVE" and row["host"]:
            chunk.add(distributed_port_hosts, paired(row, pairs("port_id", "host")))


def _floating_ips(chunk: Chunk) -> None:
    tags = chunk.tags()
    names = chunk.first("floatingipdnses", "floatingip_id")
    qos = chunk.first("qos_fip_policy_bindings", "fip_id")
    forwardings = chunk.children("portforwardings", "floatingip_id")
    for row in chunk.rows:
        key, labels = row["id"], tags.get(row.get("standard_attr_id"), [])
        own = [_forwarding(one) for one in forwardings.get(key, ())]
        values = {
            **standard(row, chunk.deviations, chunk.kind),
            **paired(row, _FLOATING_IP),
            "dns_name": names[key]["dns_name"] if key in names else "",
            "dns_domain": names[key]["dns_domain"] if key in names else "",
            "qos_policy_id": qos[key]["policy_id"] if key in qos else None,
            "port_forwardings": [
                {name: one[name] for name in SHOWN_IN_FLOATING_IP if one.get(name) is not None} for one in own
            ],
            "tags": labels,
        }
        chunk.add(floatingips, values)
        chunk.add_tags(key, labels)
        for one in own:
            chunk.add(port_forwardings, {**one, "floatingip_id": key})


def _forwarding(row: Object) -> Object:
    out = {
        **paired(row, (*pairs("id", "protocol"), _INTERNAL_PORT)),
        "internal_ip_address": row["internal_ip_address"],
        "description": row.get("standard_description") or "",
    }
    for side in ("internal", "external"):
        first, last = row[f"{side}_port_start"], row[f"{side}_port_end"]
        out[f"{side}_port_range"] = f"{first}:{last}"
        out[f"{side}_port"] = first if first == last else None
    return out


def _ndp_proxies(chunk: Chunk) -> None:
    for row in chunk.rows:
        values = standard(row, chunk.deviations, chunk.kind) | paired(row, _NDP_PROXY)
        chunk.add(ndp_proxies, {**values, "tags": []})


def _topologies(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(auto_allocated_topologies, paired(row, _TOPOLOGY))


# --- the inverse --------------------------------------------------------------------------------------------------------

# Neutron's names of what serves a router: by whether it is distributed, and has several hosts.
_PROVIDERS = {
    (False, False): "single_node",
    (False, True): "ha",
    (True, False): "dvr",
    (True, True): "dvrha",
}


def _their_routers(parts: Parts) -> None:
    agents = parts.of(router_l3_agents, "router_id")
    own = {row["id"] for row in parts.rows[routers]}
    ha_ports = [one for one in parts.among(ports, "device_id", own) if one["device_owner"] == HA_PORT]
    for row in parts.rows[routers]:
        key = row["id"]
        parts.add("routers", {**standard_columns(row), **unpaired(row, _ROUTER)})
        extra = {"ha_vr_id": row["ha_vr_id"] or 0, _HINTS: as_text(row[_HINTS]), "service_router": False}
        parts.add("router_extra_attributes", {"router_id": key, **{n: row[n] for n in _EXTRA}, **extra})
        parts.add("router_ndp_proxy_state", {"router_id": key, "enable_ndp_proxy": row["enable_ndp_proxy"]})
        provider = _PROVIDERS[bool(row["distributed"]), bool(row["ha"])]
        parts.add("providerresourceassociations", {"resource_id": key, "provider_name": provider})
        if row["gw_qos_policy_id"]:
            parts.add("qos_router_gw_policy_bindings", {"router_id": key, "policy_id": row["gw_qos_policy_id"]})
        for route in row["routes"]:
            parts.add("routerroutes", {"router_id": key, **route})
        states = {one["ha_port_id"]: one for one in agents.get(key, ())}
        for one in agents.get(key, ()):
            parts.add("routerl3agentbindings", {"router_id": key, "l3_agent_id": one["agent_id"]})
        for port in (one["id"] for one in ha_ports if one["device_id"] == key):
            agent = states.get(port, {"agent_id": None, "ha_state": None})
            state = {"l3_agent_id": agent["agent_id"], "state": agent["ha_state"] or "standby"}
            parts.add("ha_router_agent_port_bindings", {"router_id": key, "port_id": port, **state})
    unpaired_rows(parts, router_ports, "routerports", pairs("router_id", "port_id", "port_type"))
    unpaired_rows(parts, conntrack_helpers, "conntrack_helpers", _HELPER)


def _their_ha_networks(parts: Parts) -> None:
    unpaired_rows(parts, ha_networks, "ha_router_networks", pairs("project_id", "network_id"))


def _their_distributed_hosts(parts: Parts) -> None:
    rows = parts.rows[distributed_port_hosts]
    router_of = {one["id"]: one["device_id"] for one in parts.among(ports, "id", {row["port_id"] for row in rows})}
    for row in rows:
        bound = {"router_id": router_of[row["port_id"]], "vif_type": "ovs", "vnic_type": "normal", "status": "ACTIVE"}
        values = {"port_id": row["port_id"], "host": row["host"], **bound, "vif_details": "", "profile": ""}
        parts.add("ml2_distributed_port_bindings", values)


def _their_floating_ips(parts: Parts) -> None:
    for row in parts.rows[floatingips]:
        parts.add("floatingips", {**standard_columns(row), **unpaired(row, _FLOATING_IP)})
        if row["dns_name"] or row["dns_domain"]:
            names = {"dns_name": row["dns_name"], "dns_domain": row["dns_domain"]}
            published = {f"published_{name}": "" for name in names}
            parts.add("floatingipdnses", {"floatingip_id": row["id"], **names, **published})
        if row["qos_policy_id"]:
            parts.add("qos_fip_policy_bindings", {"fip_id": row["id"], "policy_id": row["qos_policy_id"]})
    for row in parts.rows[port_forwardings]:
        parts.add("portforwardings", _their_forwarding(row))


def _their_forwarding(row: Object) -> Object:
    out = {
        **unpaired(row, (*pairs("id", "floatingip_id", "protocol", "internal_ip_address"), _INTERNAL_PORT)),
        "standard_description": row["description"],
    }
    for side in ("internal", "external"):
        first, _, last = row[f"{side}_port_range"].partition(":")
        out |= {f"{side}_port_start": int(first), f"{side}_port_end": int(last or first)}
    return out


def _their_topologies(parts: Parts) -> None:
    unpaired_rows(parts, auto_allocated_topologies, "auto_allocated_topologies", _TOPOLOGY)


FAMILIES = (
    Family(
        name="HA networks",
        source="ha_router_networks",
        tables=(Owned(ha_networks, "project_id"),),
        compose=_ha_networks,
        theirs=(Theirs("ha_router_networks", "project_id"),),
        decompose=_their_ha_networks,
        after=("networks", "ports"),
        whole=True,
    ),
    Family(
        name="routers",
        source="routers",
        tables=(
            Owned(routers),
            Owned(ha_router_networks, "router_id"),
            Owned(router_ports, "router_id"),
            Owned(router_l3_agents, "router_id"),
            Owned(conntrack_helpers, "router_id"),
            TAGS,
        ),
        shown=(
            Shown(
                "routers",
                parts=(("routers/{id}/l3-agents", "agents"), ("routers/{id}/conntrack_helpers", "conntrack_helpers")),
            ),
        ),
        compose=_routers,
        theirs=(
            Theirs("routers"),
            Theirs("router_extra_attributes", "router_id", once=frozenset({"service_router"})),
            Theirs("router_ndp_proxy_state", "router_id"),
            Theirs("providerresourceassociations", "resource_id"),
            *(Theirs(n, "router_id") for n in ("qos_router_gw_policy_bindings", "routerroutes", "conntrack_helpers")),
            Theirs("routerports", "router_id"),
            Theirs("routerl3agentbindings", "router_id", numbered="binding_index"),
            Theirs("ha_router_agent_port_bindings", "router_id"),
        ),
        decompose=_their_routers,
        reads=(
            *("router_extra_attributes", "router_ndp_proxy_state", "qos_router_gw_policy_bindings", "routerroutes"),
            *("conntrack_helpers", "routerports", "routerl3agentbindings", "ha_router_agent_port_bindings"),
            "ha_router_vrid_allocations",
        ),
        after=("ports", "agents", "flavors", "QoS policies", "networks"),
    ),
    Family(
        name="distributed ports",
        source="ml2_distributed_port_bindings",
        tables=(Owned(distributed_port_hosts, "port_id"),),
        compose=_distributed_hosts,
        theirs=(Theirs("ml2_distributed_port_bindings", "port_id"),),
        decompose=_their_distributed_hosts,
        after=("ports",),
        whole=True,
    ),
    Family(
        name="floating IPs",
        source="floatingips",
        tables=(Owned(floatingips), Owned(port_forwardings, "floatingip_id"), TAGS),
        shown=(Shown("floatingips", parts=(("floatingips/{id}/port_forwardings", "port_forwardings"),)),),
        compose=_floating_ips,
        theirs=(
            Theirs("floatingips"),
            Theirs(
                "floatingipdnses",
                "floatingip_id",
                once=frozenset({"published_dns_name", "published_dns_domain"}),
            ),
            Theirs("qos_fip_policy_bindings", "fip_id", identity=("fip_id",)),
            Theirs("portforwardings", "floatingip_id"),
        ),
        decompose=_their_floating_ips,
        reads=("floatingipdnses", "qos_fip_policy_bindings", "portforwardings"),
        after=("routers",),
    ),
    Family(
        name="NDP proxies",
        source="ndp_proxies",
        tables=(Owned(ndp_proxies),),
        shown=(Shown("ndp-proxies", "ndp_proxies"),),
        compose=_ndp_proxies,
        theirs=(Theirs("ndp_proxies"),),
        decompose=untagged(ndp_proxies, "ndp_proxies", _NDP_PROXY),
        after=("routers",),
    ),
    Family(
        name="auto-allocated topologies",
        source="auto_allocated_topologies",
        key="project_id",
        tables=(Owned(auto_allocated_topologies, "project_id"),),
        compose=_topologies,
        theirs=(Theirs("auto_allocated_topologies", "project_id"),),
        decompose=_their_topologies,
        after=("routers", "networks"),
        whole=True,
    ),
)
