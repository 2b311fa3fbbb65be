"""Reads agents: tunnel endpoints, MACs for distributed routing, and DHCP agents."""

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents
from neutrino.model.state import DvrMac, Host
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, read_rows
from neutrino.server.feed.records import TUNNEL_TYPES, AgentRecord, DhcpAgent
from neutrino.server.feed.report_rules import tunnel_address

_a, _m = t.agents.c, t.dvr_host_macs.c


def read_agents(connection: Connection, ids: Ids) -> Iterator[tuple[str, AgentRecord]]:
    statement = (
        sa.select(_a.id, _a.host, _a.agent_type, _a.admin_state_up, _a.configurations, _m.mac_address)
        .outerjoin(t.dvr_host_macs, _m.host == _a.host)
        .where(_a.agent_type.in_([agents.OVS, agents.DHCP]))
    )
    for row in read_rows(connection, statement, _a.id, ids):
        configurations = msgspec.json.decode(row.configurations)
        if row.agent_type == agents.DHCP:
            distributed = configurations.get(agents.DHCP_DISTRIBUTED) is True
            yield row.id, AgentRecord(dhcp=DhcpAgent(row.host, bool(row.admin_state_up), distributed))
        else:
            mac = DvrMac(id=row.host, mac_address=row.mac_address) if row.mac_address is not None else None
            yield row.id, AgentRecord(_endpoint(row.host, configurations), mac)


def _endpoint(name: str, configurations: dict[str, Any]) -> Host | None:
    """The host as a tunnel endpoint. A row may be older than the rules for reports: values that break them are left out."""
    address, types = configurations.get(agents.TUNNELING_IP), configurations.get(agents.TUNNEL_TYPES)
    if not address or not isinstance(address, str) or tunnel_address(address):
        return None
    known = types if isinstance(types, list) else []
    return Host(
        id=name,
        tunneling_ip=address,
        tunnel_types=tuple(each for each in known if isinstance(each, str) and each in TUNNEL_TYPES),
        l2_population=bool(configurations.get(agents.L2_POPULATION, True)),
    )
