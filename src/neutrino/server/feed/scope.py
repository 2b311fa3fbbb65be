"""What a host needs, said once and plainly: from all records, the objects for one host.

This is the definition. The feed arrives at the same by following changes (`world.py`), and a test compares the two after
any changes. It is also what `neutrino host show` prints.
"""

from __future__ import annotations

from neutrino.model.state import GroupMembers, Host, Object
from neutrino.server.feed.records import Records, is_tunnelled

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
        record = records.groups.get(group_id)
        if record is None:
            continue
        out["security_group", group_id] = record.group
        for remote in record.remote_groups:
            members = frozenset(m for p in ports if remote in p.groups for m in p.members)
            out["group_members", remote] = GroupMembers(id=remote, members=members)
        for address_group_id in record.address_groups:
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
    return out


def _hosts(records: Records) -> dict[str, Host]:
    """The hosts that can be reached through a tunnel, by name."""
    return {h.id: h for h in records.agents.values() if h is not None and h.tunneling_ip}
