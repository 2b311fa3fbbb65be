"""Tunnel addresses are unique: packets for two hosts with the same address would reach either of them.

The host that has an address keeps it while its agent is alive. The report of another host that claims it is stored without
the address and without tunnel types: no tunnel leads to that host, no tunnelled network is bound there, and its agent shows
the problem until one of the two hosts changes its address.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.agents import AgentState
from neutrino.server.db import tables as t

Row = Mapping[str, Any] | sa.RowMapping
_c = t.agents.c
_LIVE = sa.select(_c.host, _c.configurations).where(
    _c.agent_type == words.OVS, _c.heartbeat_timestamp >= sa.bindparam("cutoff")
)


def resolve_conflicts(
    connection: Connection, states: Collection[AgentState], known: Iterable[Row], cutoff: str
) -> list[AgentState]:
    """The reports as they are stored. `known`: rows of their hosts; agents are dead before the cutoff."""
    claims = {s.host: address for s in states if s.agent_type == words.OVS and (address := _address(s.configurations))}
    own = _owned(row for row in known if row["agent_type"] == words.OVS and row["heartbeat_timestamp"] >= cutoff)
    if all(own.get(host) == address for host, address in claims.items()):
        return list(states)  # nearly always: no other agents need to be read
    owned = _owned(connection.execute(_LIVE, {"cutoff": cutoff}).mappings())
    # An owner keeps its address unless it now claims another one; of several new claims the first one wins.
    owner_of = {address: host for host, address in owned.items() if claims.get(host, address) == address}
    resolved = []
    for state in states:
        address = claims.get(state.host, "") if state.agent_type == words.OVS else ""
        owner = owner_of.setdefault(address, state.host) if address else state.host
        # Two first reports in concurrent transactions may both be stored. Then both hosts keep the address: taking it from
        # the one that reports next would make the two lose it in turn.
        kept = owner == state.host or owned.get(state.host) == address
        resolved.append(state if kept else _refused(state, owner))
    return resolved


def _owned(rows: Iterable[Row]) -> dict[str, str]:
    """The addresses of hosts."""
    decoded = ((row["host"], _address(msgspec.json.decode(row["configurations"]))) for row in rows)
    return {host: address for host, address in decoded if address}


def _refused(state: AgentState, owner: str) -> AgentState:
    problems = state.configurations.get(words.PROBLEMS)
    reason = f"{state.configurations[words.TUNNELING_IP]} is the address for tunnels of host {owner} already"
    changed = {
        words.TUNNELING_IP: "",
        words.TUNNEL_TYPES: [],
        words.PROBLEMS: {**(problems if isinstance(problems, dict) else {}), words.LOCAL_IP: reason},
    }
    return replace(state, configurations={**state.configurations, **changed})


def refusal(state: AgentState) -> str:
    """Why a report is not stored as it was sent; empty if it is."""
    problems = state.configurations.get(words.PROBLEMS)
    reason = problems.get(words.LOCAL_IP, "") if isinstance(problems, dict) else ""
    return f"{words.LOCAL_IP}: {reason}" if reason else ""


def _address(configurations: Mapping[str, Any]) -> str:
    text = configurations.get(words.TUNNELING_IP)
    try:
        return str(ipaddress.ip_address(text)) if isinstance(text, str) and text else ""
    except ValueError:
        return ""
