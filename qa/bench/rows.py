"""Fills a database with copies of what the API has made once: a hundred thousand ports in half a minute.

A template is one network with its subnet, default security group and one bound port, in a project of its own. Copies get
new ids, addresses and hosts; everything else is as the API wrote it. The change log has no rows of them, so this is for
a server that starts afterwards. For measurements of the API and the feed alone: `hosts.py` makes its cloud by requests.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from qa.bench.layout import Network, tunneling_ip

Rows = list[dict[str, Any]]
_BATCH = 2000
_OF_NETWORK = (t.security_groups, t.default_security_groups, t.security_group_rules, t.networks, t.network_segments)
_OF_PORT = (t.ports, t.ip_allocations, t.port_security_groups, t.port_bindings)


class Copies:
    """Rows of one project, to be copied. `network_id`: of the template, which has one port at least."""

    def __init__(self, db: Database, network_id: str) -> None:
        self._db = db
        with db.read() as connection:

            def rows(table: sa.Table, condition: Any) -> Rows:
                return [dict(row._mapping) for row in connection.execute(sa.select(table).where(condition))]

            (network,) = rows(t.networks, t.networks.c.id == network_id)
            port = rows(t.ports, t.ports.c.network_id == network_id)[0]
            project = network["project_id"]
            self._rows: dict[sa.Table, Rows] = {
                t.networks: [network],
                t.network_segments: rows(t.network_segments, t.network_segments.c.network_id == network_id),
                t.subnets: rows(t.subnets, t.subnets.c.network_id == network_id),
                t.ports: [port],
                t.agents: rows(t.agents, t.agents.c.host == port["host"]),
            }
            for table in (t.security_groups, t.default_security_groups, t.security_group_rules):
                self._rows[table] = rows(table, table.c.project_id == project)
            for table in (t.ip_allocations, t.port_security_groups, t.port_bindings):
                self._rows[table] = rows(table, table.c.port_id == port["id"])
        self._address = self._rows[t.ip_allocations][0]["ip_address"]
        self._first = (self._rows[t.network_segments][0]["segmentation_id"], port["host"], port["mac_address"])

    def add(self, hosts: Sequence[str], networks: Sequence[Network], status: str = "ACTIVE") -> None:
        """Add agents of these hosts, and the networks with their ports, which have this status."""
        batches: dict[sa.Table, Rows] = {}
        with self._db.transaction() as transaction:
            connection = transaction.connection

            def put(table: sa.Table, row: dict[str, Any]) -> None:
                batch = batches.setdefault(table, [])
                batch.append(row)
                if len(batch) >= _BATCH:
                    flush()

            def flush() -> None:
                # All of them, in this order: rows refer to rows of tables before them.
                for table in (t.agents, *_OF_NETWORK, t.subnets, *_OF_PORT):
                    if several := batches.pop(table, []):
                        connection.execute(sa.insert(table), several)

            for table, row in self._agents(hosts):
                put(table, row)
            for number, network in enumerate(networks):
                for table, row in self._network(number, network, status):
                    put(table, row)
            flush()

    def _agents(self, hosts: Sequence[str]) -> Iterator[tuple[sa.Table, dict[str, Any]]]:
        (template,) = self._rows[t.agents]
        for number, host in enumerate(hosts):
            if host != template["host"]:
                configurations = template["configurations"].replace('"192.168.0.1"', f'"{tunneling_ip(number)}"')
                changed = {"id": str(uuid.uuid4()), "host": host, "configurations": configurations}
                yield t.agents, {**template, **changed}

    def _network(self, number: int, network: Network, status: str) -> Iterator[tuple[sa.Table, dict[str, Any]]]:
        replaced = _Replaced(self._rows[t.networks][0]["project_id"])
        tag, _, _ = self._first
        for table in (*_OF_NETWORK, t.subnets):
            for row in self._rows[table]:
                copy = replaced(row)
                if table in (t.networks, t.network_segments):
                    copy["segmentation_id"] = 20_000 + number if tag != 20_000 + number else 1
                if table is t.network_segments:
                    copy["identity"] = f"vxlan/{copy['segmentation_id']}"
                if table is t.subnets:
                    first = network.cidr.rpartition(".")[0]
                    copy["cidr"], copy["gateway_ip"] = network.cidr, f"{first}.1"
                if table is t.networks:
                    copy["name"] = network.name
                yield table, copy
        prefix = ".".join(network.cidr.split(".")[:2])
        for index, host in enumerate(network.hosts):
            own = replaced.another()
            address = f"{prefix}.{(index + 10) >> 8}.{(index + 10) & 255}"
            mac = f"fa:16:3e:{index >> 8:02x}:{index & 255:02x}:{number & 255:02x}"
            for table in _OF_PORT:
                for row in self._rows[table]:
                    copy = own(row, {self._address: address})
                    if "host" in copy:
                        copy["host"] = host
                    if table is t.ports:
                        changed = {"mac_address": mac, "status": status, "name": f"{network.name}-{index}"}
                        copy |= {**changed, "device_id": str(uuid.uuid4())}
                    yield table, copy


class _Replaced:
    """Replaces the ids of a template by new ones, also where they are within JSON."""

    def __init__(self, project: str, ids: dict[str, str] | None = None) -> None:
        self._ids = dict(ids) if ids is not None else {project: uuid.uuid4().hex}

    def another(self) -> _Replaced:
        """For a port: the ids of the network stay."""
        return _Replaced("", self._ids)

    def __call__(self, row: dict[str, Any], texts: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
        if "id" in row:
            self._ids.setdefault(row["id"], str(uuid.uuid4()))

        def replaced(text: str) -> str:
            for old, new in texts.items():
                text = text.replace(old, new)
            return self._value(text)

        return {name: replaced(value) if isinstance(value, str) else value for name, value in row.items()}

    def _value(self, text: str) -> str:
        known = self._ids.get(text)
        if known is not None:
            return known
        if len(text) > 30 and "-" in text:
            for old, new in self._ids.items():
                if old in text:
                    text = text.replace(old, new)
        return text
