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
from neutrino.model.device_owners import GATEWAY
from neutrino.model.objects import Object
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Pair, Shown, flag, paired, pairs, standard

_ROUTER = (
    *pairs("gw_port_id", "flavor_id"),
    *pairs("admin_state_up", "enable_snat", default=True),
    *pairs("status", default="ACTIVE"),
)
_EXTRA = ("distributed", "ha", "enable_default_route_ecmp", "enable_default_route_bfd")
_HINTS = "availability_zone_hints"
_HA_OWNER = "network:router_ha_interface"
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
            chunk.add(conntrack_helpers, paired(one, pairs("id", "router_id", "protocol", "port", "helper")))


def _add_port(chunk: Chunk, router_id: str, row: Object, network_of: Object) -> None:
    """A port of a router; HA ports are those of its agents here."""
    if row["port_id"] not in network_of:
        chunk.deviations.leave_out("routerports", row["port_id"], f"port of router {router_id} does not exist")
    elif row["port_type"] is None:
        chunk.deviations.leave_out("routerports", row["port_id"], f"port of router {router_id} has no type")
    elif row["port_type"] != _HA_OWNER:
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
        **paired(row, (*pairs("id", "protocol"), Pair("internal_port_id", "internal_neutron_port_id"))),
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
        values = standard(row, chunk.deviations, chunk.kind) | paired(row, pairs("router_id", "port_id", "ip_address"))
        chunk.add(ndp_proxies, {**values, "tags": []})


def _topologies(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(auto_allocated_topologies, paired(row, pairs("project_id", "network_id", "router_id")))


FAMILIES = (
    Family(
        name="HA networks",
        source="ha_router_networks",
        tables=(Owned(ha_networks, "project_id"),),
        compose=_ha_networks,
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
        after=("ports",),
        whole=True,
    ),
    Family(
        name="floating IPs",
        source="floatingips",
        tables=(Owned(floatingips), Owned(port_forwardings, "floatingip_id"), TAGS),
        shown=(Shown("floatingips", parts=(("floatingips/{id}/port_forwardings", "port_forwardings"),)),),
        compose=_floating_ips,
        reads=("floatingipdnses", "qos_fip_policy_bindings", "portforwardings"),
        after=("routers",),
    ),
    Family(
        name="NDP proxies",
        source="ndp_proxies",
        tables=(Owned(ndp_proxies),),
        shown=(Shown("ndp-proxies", "ndp_proxies"),),
        compose=_ndp_proxies,
        after=("routers",),
    ),
    Family(
        name="auto-allocated topologies",
        source="auto_allocated_topologies",
        key="project_id",
        tables=(Owned(auto_allocated_topologies, "project_id"),),
        compose=_topologies,
        after=("routers", "networks"),
        whole=True,
    ),
)
