"""The scope of a host in plain words: from all records, the objects that one host should receive.

This is the definition, and the oracle of the tests: the feed arrives at the same by applying changes one by one to its
stores and its subscription index (`server/feed/fanout.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy.engine import Connection

from neutrino.model.dhcp import ROUTERS, is_metadata_network
from neutrino.model.routing import Router, RouterInterface
from neutrino.model.state import GroupMembers, Network, Object, Port, SecurityGroup
from neutrino.server.features import sources
from neutrino.server.feed.change_log import read_all
from neutrino.server.feed.records import TUNNEL_TYPES, NetworkRecord, PortRecord, Records

Key = tuple[str, str]  # kind, id


def scope_in_database(connection: Connection, host: str) -> dict[Key, Object]:
    return scope(read_all(connection, sources()), host)


def scope(records: Records, host: str) -> dict[Key, Object]:
    found: dict[str, dict[str, Any]] = {
        source: {key: record for key, record in records.get(source, {}).items() if record is not None}
        for source in (
            "network",
            "security_group",
            "address_group",
            "agent",
            "router",
            "port",
            "firewall_group",
            "qos_policy",
            "log",
            "bgp_speaker",
        )
    }
    ports: list[PortRecord] = list(found["port"].values())
    own = [port for port in ports if host in port.bound]
    networks = {port.network_id for port in own} & found["network"].keys()
    out: dict[Key, Object] = {("port", port.id): port.bound[host] for port in own}
    out |= {("network", key): found["network"][key].network for key in networks}
    out |= _security_groups(found, {key for port in own for key in port.bound[host].security_groups})
    out |= _tunnels(found, {key for key in networks if _is_tunnelled(found["network"][key])}, host)
    served: set[str] = set()  # networks all of whose ports the host needs
    on_network: dict[str, list[PortRecord]] = {}
    for port in ports:
        on_network.setdefault(port.network_id, []).append(port)
    for network_id, network in found["network"].items():
        scheduled, copies = _dhcp_hosts(found, network, on_network.get(network_id, []))
        if network.dhcp is not None and (host in scheduled or host in copies):
            out["dhcp_network", network_id] = network.dhcp
            served |= {network_id, *(_routed_with(network_id, ports) if is_metadata_network(network.dhcp) else ())}
        copy = copies.get(host)
        if copy is not None:
            out["port", copy.id] = copy
    for router_id, router in found["router"].items():
        if host in router:
            out["router", router_id] = router[host]
            served |= {interface.network_id for interface in router[host].interfaces}
    out |= {("bgp_speaker", key): speaker[host] for key, speaker in found["bgp_speaker"].items() if host in speaker}
    out |= _policies(found, list(out.values()))
    out |= _logs(found, list(out.values()))
    out |= _firewall_groups(found, [each for each in out.values() if isinstance(each, Port | Router)])
    out |= {("dhcp_port", p.id): p.dhcp for p in ports if p.dhcp is not None and p.network_id in served}
    macs = [agent.dvr_mac for agent in found["agent"].values() if agent.dvr_mac is not None]
    if any(mac.id == host for mac in macs):
        out |= {("dvr_mac", mac.id): mac for mac in macs}
    return out


def _policies(found: Mapping[str, Any], holders: Sequence[Object]) -> dict[Key, Object]:
    """The QoS policies that ports, networks and routers of the host have."""
    ids: set[str] = set()
    for holder in holders:
        if isinstance(holder, Port | Network):
            ids.add(holder.qos_policy_id)
        elif isinstance(holder, Router):
            ids.add(holder.gateway_qos_policy_id)
            ids |= {each.qos_policy_id for each in holder.floating_ips}
            ids |= {each.qos_policy_id for each in holder.port_forwardings}
    return {("qos_policy", key): found["qos_policy"][key] for key in ids & found["qos_policy"].keys()}


def _logs(found: Mapping[str, Any], holders: Sequence[Object]) -> dict[Key, Object]:
    """The logs of ports on the host's networks, of its groups, and of the projects of these."""
    groups = [holder for holder in holders if isinstance(holder, SecurityGroup)]
    topics = {holder.id for holder in holders if isinstance(holder, Network)}
    topics |= {key for group in groups for key in (group.id, group.project_id) if key}
    logs = found["log"].items()
    return {("log", key): log for key, log in logs if (log.network_id or log.resource_id or log.project_id) in topics}


def _security_groups(found: Mapping[str, Any], group_ids: set[str]) -> dict[Key, Object]:
    out: dict[Key, Object] = {}
    for group_id in group_ids & found["security_group"].keys():
        group = out["security_group", group_id] = found["security_group"][group_id]
        for rule in group.rules:
            if remote := rule.remote_group_id:
                members = frozenset(m for p in found["port"].values() if remote in p.groups for m in p.members)
                out["group_members", remote] = GroupMembers(id=remote, members=members)
            if rule.remote_address_group_id in found["address_group"]:
                key = rule.remote_address_group_id
                out["address_group", key] = found["address_group"][key]
    return out


def _firewall_groups(found: Mapping[str, Any], holders: Sequence[Port | Router]) -> dict[Key, Object]:
    """The groups that filter these ports, and the interfaces of these routers."""
    filtered: list[Port | RouterInterface] = []
    for holder in holders:
        filtered += (holder,) if isinstance(holder, Port) else (*holder.interfaces, *holder.snat_interfaces)
    named = {each.firewall_group_id for each in filtered} & found["firewall_group"].keys()
    return {("firewall_group", key): found["firewall_group"][key] for key in named}


def _is_tunnelled(network: NetworkRecord) -> bool:
    return any(segment.network_type in TUNNEL_TYPES for segment in network.network.segments)


def _tunnels(found: Mapping[str, Any], networks: set[str], host: str) -> dict[Key, Object]:
    """The other hosts on these tunnelled networks, and where their ports are."""
    hosts = {agent.host.id: agent.host for agent in found["agent"].values() if agent.host is not None}
    out: dict[Key, Object] = {}
    for port in found["port"].values():
        if port.network_id in networks:
            out |= {("host", other): hosts[other] for other in port.bound.keys() - {host} if other in hosts}
            # During a live migration its source has it too.
            if port.forwarding is not None and (port.forwarding.host != host or port.forwarding.migrates_to):
                out["forwarding", port.id] = port.forwarding
    return out


def _dhcp_hosts(
    found: Mapping[str, Any], network: NetworkRecord, ports: Sequence[PortRecord]
) -> tuple[set[str], dict[str, Port | None]]:
    """The hosts that a network is scheduled to, and those that serve it for their own ports, with the copy they get."""
    if network.dhcp is None:
        return set(), {}
    agents = {key: a.dhcp for key, a in found["agent"].items() if a.dhcp is not None and a.dhcp.admin_state_up}
    scheduled = {agent.host for key, agent in agents.items() if key in network.dhcp_agents}
    distributed = {agent.host for agent in agents.values() if agent.distributed}
    clients = [port for each in ports if not each.is_dhcp_server for port in each.bound.values()]
    servers = sorted((port for port in ports if port.is_dhcp_server), key=lambda port: port.id)
    is_routed = any(subnet.segment_id for subnet in network.dhcp.subnets)
    copies: dict[str, Port | None] = dict.fromkeys({port.host for port in clients} & distributed - scheduled)
    for host in copies:
        own = {port.segment_id for port in clients if port.host == host}
        for server in servers:
            active = next((port for port in server.bound.values() if port.active), None)
            if is_routed and (active is None or active.segment_id not in own):
                continue
            if active is not None and host not in server.bound:
                copies[host] = msgspec.structs.replace(active, host=host, copy=True)
            break
    return scheduled, copies


def _routed_with(network_id: str, ports: Sequence[PortRecord]) -> set[str]:
    """The networks of the routers on this one."""
    interfaces = [port.dhcp for port in ports if port.dhcp is not None and port.dhcp.device_owner in ROUTERS]
    routers = {port.device_id for port in interfaces if port.network_id == network_id}
    return {port.network_id for port in interfaces if port.device_id in routers}
