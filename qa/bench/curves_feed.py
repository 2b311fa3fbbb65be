"""Processor time of the feed against the number of hosts, ports and group members: the fan-out alone, without sockets.

The cloud is that of `hosts.py`: twenty ports per host on networks of a hundred ports, and one network on every host.
"""

from __future__ import annotations

import gc
import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from neutrino.model.state import FixedIp, Forwarding, Host, Member, Network, Port, Rule, SecurityGroup, Segment, Subnet
from neutrino.server.features import sources
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.queues import Pending
from neutrino.server.feed.records import AgentRecord, NetworkRecord, PortRecord
from qa.bench import layout

ROLES = ("l2",)
REPEATS = 5
Figures = dict[str, float]


class FeedCloud:
    """Records of a cloud, as readers take them from the database."""

    def __init__(self, hosts: Sequence[str], networks: Sequence[layout.Network]) -> None:
        self.hosts, self.networks = hosts, networks
        self.records: dict[str, dict[str, object]] = {"network": {}, "agent": {}, "security_group": {}, "port": {}}
        for number, name in enumerate(self.hosts):
            host = Host(id=name, tunneling_ip=layout.tunneling_ip(number), tunnel_types=("vxlan",))
            self.records["agent"][f"agent of {name}"] = AgentRecord(host)
        for number, network in enumerate(self.networks):
            self._add(number, network)

    def _add(self, number: int, network: layout.Network) -> None:
        name = network.name
        subnet = Subnet(id=f"subnet {name}", network_id=name, ip_version=4, cidr=network.cidr)
        segment = Segment(id=f"segment {name}", network_type="vxlan", segmentation_id=number + 1)
        self.records["network"][name] = NetworkRecord(Network(id=name, segments=(segment,), subnets=(subnet,)))
        rules = tuple(
            Rule(id=f"{name} {kind}", direction="ingress", ethertype=kind, remote_group_id=f"group {name}")
            for kind in ("IPv4", "IPv6")
        )
        self.records["security_group"][f"group {name}"] = SecurityGroup(id=f"group {name}", rules=rules)
        for index, host in enumerate(network.hosts):
            record = port(name, index, host)
            self.records["port"][record.id] = record


def port(network: str, index: int, host: str) -> PortRecord:
    key = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{network} {index}"))
    mac, address = f"fa:16:3e:00:{index >> 8:02x}:{index & 255:02x}", f"10.0.{index >> 8}.{index & 255}"
    value = Port(
        id=key,
        network_id=network,
        mac_address=mac,
        host=host,
        segment_id=f"segment {network}",
        device_owner="compute:bench",
        fixed_ips=(FixedIp(f"subnet {network}", address),),
        security_groups=(f"group {network}",),
        vif_type="ovs",
    )
    entry = Forwarding(id=key, network_id=network, host=host, mac_address=mac, ip_addresses=(address,))
    group = frozenset({f"group {network}"})
    return PortRecord(key, network, {host: value}, entry, group, frozenset({Member(address, mac)}))


def measure(hosts: int) -> Figures:
    """Milliseconds of processor time."""
    names = layout.host_names(hosts)
    cloud = FeedCloud(names, layout.networks(replace(layout.Sizes(), hosts=hosts), names))
    gc.collect()
    gc.freeze()
    fanout = Fanout(sources().kinds)
    try:
        return {
            "start: apply all records": _cpu(lambda: fanout.apply(cloud.records), 1),
            **_connections(fanout, cloud.hosts),
            **_changes(fanout, cloud),
        }
    finally:
        gc.unfreeze()


def measure_members(members: int, hosts: int = 20) -> Figures:
    """Milliseconds of processor time: one network and group of so many ports, on a few hosts."""
    names = layout.host_names(hosts)
    cloud = FeedCloud(
        names, [layout.Network("members", "10.0.0.0/16", tuple(itertools.islice(itertools.cycle(names), members)))]
    )
    fanout = Fanout(sources().kinds)
    fanout.apply(cloud.records)
    found = {**_connections(fanout, names), **_changes(fanout, cloud)}
    return {
        "snapshot of a host": found["snapshot of a host"],
        "comparison of a host that reconnects": found["comparison of a host that reconnects"],
        f"a new member, on {hosts} hosts": found["a new port, network on all hosts"],
    }


def _connections(fanout: Fanout, hosts: Sequence[str]) -> Figures:
    chosen = hosts[:: max(len(hosts) // REPEATS, 1)][:REPEATS]

    def snapshot(host: str) -> None:
        pending = fanout.connect(host, {}, ROLES)
        _drain(fanout, pending)
        fanout.disconnect(pending)

    def resume(host: str) -> None:
        fanout.disconnect(fanout.resume(host, {}, ROLES, lambda: None)[0])

    for host in chosen:  # encodes every object once
        snapshot(host)
    return {
        "snapshot of a host": min(_cpu(lambda host=host: snapshot(host), 1) for host in chosen),  # type: ignore[misc]
        "comparison of a host that reconnects": min(
            _cpu(lambda host=host: resume(host), 1)  # type: ignore[misc]
            for host in chosen
        ),
    }


def _changes(fanout: Fanout, cloud: FeedCloud) -> Figures:
    connected = [fanout.resume(host, {}, ROLES, lambda: None)[0] for host in cloud.hosts]
    for pending in connected:
        _drain(fanout, pending)
    number = 60_000

    def change(network: layout.Network) -> float:
        nonlocal number
        number += 1
        record = port(network.name, number, network.hosts[0])

        def work() -> None:
            fanout.apply({"port": {record.id: record}})
            for pending in connected:
                if pending:
                    _drain(fanout, pending)

        return _cpu(work, 1)

    return {
        "a new port, network on 10 to 50 hosts": min(change(cloud.networks[0]) for _ in range(REPEATS)),
        "a new port, network on all hosts": min(change(cloud.networks[-1]) for _ in range(REPEATS)),
    }


def _drain(fanout: Fanout, pending: Pending) -> None:
    while not fanout.next_frame(pending)[1]:
        pass


def _cpu(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) * 1000 / times
