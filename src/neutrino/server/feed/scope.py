"""What a host needs, said once and plainly: from all records, the objects for one host.

This is the definition. The feed arrives at the same by following changes (`world.py`), and a test compares the two after
any changes. It is also what `neutrino host show` prints.
"""

from __future__ import annotations

from collections.abc import Sequence

from neutrino.model.dhcp import is_metadata_network, networks_behind, routers_on
from neutrino.model.state import GroupMembers, Host, Object, Port
from neutrino.server.feed.dhcp_copies import copies, copy_hosts, distributed_hosts, is_server
from neutrino.server.feed.records import DhcpRecord, PortRecord, Records, is_tunnelled

Key = tuple[str, str]  # kind, id


def scope(records: Records, host: str) -> dict[Key, Object]:
    out: dict[Key, Object] = {}
    ports = [p for p in records.ports.values() if p is not None]
    own = [p for p in ports if host in p.bound]
    for port in own:
        out["port", port.id] = port.bound[host]
    followed = {p.network_id for p in own}
    for network_id in followed:
        network = records.networks.get(network_id)
        if network is not None:
            out["network", network_id] = network
    for group_id in {g for p in own for g in p.groups}:
        group = records.groups.get(group_id)
        if group is None:
            continue
        out["security_group", group_id] = group.group
        for remote in group.remote_groups:
            members = frozenset(m for p in ports if remote in p.groups for m in p.members)
            out["group_members", remote] = GroupMembers(id=remote, members=members)
        for address_group_id in group.address_groups:
            address_group = records.address_groups.get(address_group_id)
            if address_group is not None:
                out["address_group", address_group_id] = address_group
    tunnelled = {n for n in followed if is_tunnelled(records.networks.get(n))}
    hosts = _hosts(records)
    for port in ports:
        if port.network_id not in tunnelled:
            continue
        for other in port.bound.keys() - {host}:
            if other in hosts:
                out["host", other] = hosts[other]
        if port.forwarding is not None and port.forwarding.host != host:
            out["forwarding", port.id] = port.forwarding
    dhcp_ports = [port.dhcp for port in ports if port.dhcp is not None]
    served: set[str] = set()  # networks on which the host does something for all ports
    for network_id, record in records.dhcp.items():
        if record is None:
            continue
        here = [port for port in ports if port.network_id == network_id]
        copied = _copies(records, record, here)
        if host in copied or host in record.hosts(records.dhcp_agents):
            out["dhcp_network", network_id] = record.network
            served.add(network_id)
            if is_metadata_network(record.network):  # it answers for all that its router joins to it
                served |= networks_behind(routers_on(network_id, dhcp_ports), dhcp_ports)
        if copy := copied.get(host):
            out["port", copy.id] = copy
    for router_id, router in records.routers.items():
        if router is not None and host in router.by_host:
            out["router", router_id] = router.by_host[host]
            served |= router.networks(host)
    out.update((("dhcp_port", port.id), port) for port in dhcp_ports if port.network_id in served)
    macs = [mac for mac in records.dvr_macs.values() if mac is not None]
    if any(mac.id == host for mac in macs):
        out.update((("dvr_mac", mac.id), mac) for mac in macs)
    return out


def _copies(records: Records, network: DhcpRecord, ports: Sequence[PortRecord]) -> dict[str, Port | None]:
    """The hosts that serve the network for their own ports, each with its copy of the DHCP port if there is one."""
    distributed = distributed_hosts(records.dhcp_agents.values())
    having = {host for port in ports if not is_server(port) for host in port.bound}
    hosts = copy_hosts(network, records.dhcp_agents, distributed, having)
    return {**dict.fromkeys(hosts), **copies([port for port in ports if is_server(port)], hosts)}


def _hosts(records: Records) -> dict[str, Host]:
    """The hosts that can be reached through a tunnel, by name."""
    return {h.id: h for h in records.agents.values() if h is not None and h.tunneling_ip}
