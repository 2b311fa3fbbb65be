"""An address for tunnels is one host's: the frames for two hosts that claim it would reach either of them.

Who has it keeps it while its agent is alive. Another one that claims it is known, but without an address and with no types
of tunnels: nothing is sent to it, no tunnelled network is bound there, and its agent shows the reason until one of the two
changes.
"""

from __future__ import annotations

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
_decode = msgspec.json.decode
_LIVE = sa.select(_c.host, _c.configurations).where(
    _c.agent_type == words.OVS, _c.heartbeat_timestamp >= sa.bindparam("cutoff")
)


def without_taken(
    connection: Connection, states: Collection[AgentState], known: Iterable[Row], cutoff: str
) -> list[AgentState]:
    """The reports as they are to be kept. `known`: what is known of their hosts; `cutoff`: before it, agents are dead."""
    claims = {s.host: address for s in states if s.agent_type == words.OVS and (address := _address(s.configurations))}
    own = _owned(row for row in known if row["agent_type"] == words.OVS and row["heartbeat_timestamp"] >= cutoff)
    if all(own.get(host) == address for host, address in claims.items()):
        return list(states)
    return _settled(states, claims, _owned(connection.execute(_LIVE, {"cutoff": cutoff}).mappings()))


def _owned(rows: Iterable[Row]) -> dict[str, str]:
    return {row["host"]: address for row in rows if (address := _address(_decode(row["configurations"])))}


def _settled(states: Collection[AgentState], claims: Mapping[str, str], owned: Mapping[str, str]) -> list[AgentState]:
    """First come, first served; who has an address now has come before."""
    kept = {address: host for host, address in owned.items() if claims.get(host, address) == address}
    settled = []
    for state in states:
        address = claims.get(state.host, "") if state.agent_type == words.OVS else ""
        owner = kept.setdefault(address, state.host) if address else state.host
        settled.append(state if owner == state.host or owned.get(state.host) == address else _refused(state, owner))
    return settled


def _refused(state: AgentState, owner: str) -> AgentState:
    known = state.configurations.get(words.PROBLEMS)
    reason = f"{state.configurations[words.TUNNELING_IP]} is the address for tunnels of host {owner} already"
    return replace(
        state,
        configurations={
            **state.configurations,
            words.TUNNELING_IP: "",
            words.TUNNEL_TYPES: [],
            words.PROBLEMS: {**(known if isinstance(known, dict) else {}), words.LOCAL_IP: reason},
        },
    )


def refusal(state: AgentState) -> str:
    """Why a report is not kept as it came; empty if it is."""
    problems = state.configurations.get(words.PROBLEMS)
    reason = problems.get(words.LOCAL_IP, "") if isinstance(problems, dict) else ""
    return f"{words.LOCAL_IP}: {reason}" if reason else ""


def _address(configurations: Mapping[str, Any]) -> str:
    text = configurations.get(words.TUNNELING_IP)
    try:
        return str(ipaddress.ip_address(text)) if isinstance(text, str) and text else ""
    except ValueError:
        return ""
