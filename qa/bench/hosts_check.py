"""What hosts should have by the database: all objects of full hosts, digests of lean ones."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from neutrino.feed.digests import text_of
from neutrino.server.db.session import Database
from neutrino.server.features import sources
from neutrino.server.feed.change_log import read_all
from neutrino.server.feed.fanout import Item
from neutrino.server.feed.records import PortRecord, Records
from neutrino.server.feed.stores import MemberSet
from qa.bench.lean_state import ENTRIES, MEMBERS, PEERS
from tests.support.feed_scope import scope

Summary = dict[str, dict[str, str]]  # kind → id → digest


def records_of(connection: str) -> Records:
    db = Database(connection)
    try:
        with db.read() as reading:
            return read_all(reading, sources())
    finally:
        db.close()


def wanted_objects(records: Records, host: str) -> dict[str, list[bytes]]:
    """By the plain definition of the scope."""
    wanted: dict[str, list[bytes]] = {}
    for (kind, _), value in scope(records, host).items():
        wanted.setdefault(kind, []).append(msgspec.json.encode(value))
    return wanted


def are_equal(some: Mapping[str, list[bytes]], others: Mapping[str, list[bytes]]) -> bool:
    plain = [{kind: sorted(map(_plain, several)) for kind, several in each.items()} for each in (some, others)]
    return plain[0] == plain[1]


def _plain(data: bytes) -> str:
    """An object's text whatever the order of its sets."""

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ordered(part) for key, part in value.items()}
        if isinstance(value, list):
            return sorted((ordered(part) for part in value), key=json.dumps)
        return value

    return json.dumps(ordered(json.loads(data)), sort_keys=True)


class Expected:
    """Digests of what each host of the benchmark should have: ports on tunnelled networks, and their security groups."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._own: defaultdict[str, list[PortRecord]] = defaultdict(list)
        self._hosts: defaultdict[str, set[str]] = defaultdict(set)  # of a network
        self._entries: defaultdict[tuple[str, str], int] = defaultdict(int)  # by network and host, and of all
        self._members: defaultdict[str, MemberSet] = defaultdict(MemberSet)
        self._peers = {
            record.host.id: Item(PEERS, record.host).number
            for record in records["agent"].values()
            if record is not None and record.host is not None
        }
        for port in records["port"].values():
            if port is not None:
                self._add(port)
        self._shared = {
            "network": {key: Item("network", value.network).digest for key, value in records["network"].items()},
            "security_group": {
                key: Item("security_group", value).digest for key, value in records["security_group"].items()
            },
        }

    def _add(self, port: PortRecord) -> None:
        for host in port.bound:
            self._own[host].append(port)
            self._hosts[port.network_id].add(host)
        if port.forwarding is not None:
            number = Item(ENTRIES, port.forwarding).number
            self._entries[port.network_id, ""] += number
            self._entries[port.network_id, port.forwarding.host] += number
        for group in port.groups:
            self._members[group].change(port.members, ())

    def of(self, host: str) -> Summary:
        own = self._own.get(host, [])
        networks = {port.network_id for port in own}
        groups = {group for port in own for group in port.bound[host].security_groups}
        remote = {
            rule.remote_group_id
            for group in groups
            for rule in self._records["security_group"][group].rules
            if rule.remote_group_id
        }
        peers = set[str]().union(*(self._hosts[network] for network in networks)) - {host}
        found = {
            "port": {port.id: Item("port", port.bound[host]).digest for port in own},
            "network": {key: self._shared["network"][key] for key in networks},
            "security_group": {key: self._shared["security_group"][key] for key in groups},
            MEMBERS: {key: self._members[key].digest for key in remote},
            PEERS: {"": text_of(sum(self._peers[peer] for peer in peers))},
            ENTRIES: {key: text_of(self._entries[key, ""] - self._entries[key, host]) for key in networks},
        }
        return {kind: keys for kind, keys in found.items() if keys}
