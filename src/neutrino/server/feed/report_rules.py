"""What a host may say: every field of every message that reaches the database, the log or other hosts. Pure.

A message that breaks a rule is refused as a whole: its host is told why, and nothing of it is written. Hosts are trusted
with what is theirs, not with the shape of it: a wrong address in one host's report would otherwise be the business of all
hosts that share a network with it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from neutrino.feed.messages import HostMessage, PortDown, PortReady, PortUp, Problem, Report, Status
from neutrino.model import agents as words
from neutrino.model import roles as role
from neutrino.model.agents import AgentState

MAX_STATES: Final = len(role.AGENT_TYPES)
MAX_ID: Final = 36
MAX_TEXT: Final = 64 * 1024  # of a reason, and of an agent's configurations as JSON
MAX_NAME: Final = 255
MAX_ENTRIES: Final = 1000  # of a list or a mapping
MAX_NUMBER: Final = 2**63 - 1
TUNNEL_TYPES: Final = frozenset({"gre", "vxlan", "geneve"})
AGENT_MODES: Final = frozenset({"legacy", "dvr", "dvr_snat", "dvr_no_external"})
DATAPATHS: Final = frozenset({"system", "netdev", "dummy"})
COMPONENTS: Final = frozenset({"DHCP"})
STATUSES: Final[Mapping[str, frozenset[str]]] = {
    "floatingip": frozenset({"ACTIVE", "DOWN", "ERROR"}),
    "router": frozenset({"active", "standby", "unknown"}),
}
SUBNET: Final = "subnet"


def refusal(message: HostMessage, host: str, roles: Collection[str]) -> str:
    """Why the message of a host with these roles is not taken; empty if it is."""
    if isinstance(message, Report):
        return _report(message, host, roles)
    needed, fault = _port_message(message)
    if needed and needed not in roles:
        return f"host {host} has not the role {needed}: {type(message).__name__} is not its to say"
    return f"{type(message).__name__} of host {host}: {fault}" if fault else ""


def _port_message(message: HostMessage) -> tuple[str, str]:
    """The role that the message needs, and what is wrong with it."""
    if isinstance(message, PortUp):
        return role.L2, _id(message.port_id) or _number(message.revision)
    if isinstance(message, PortDown):
        return role.L2, _id(message.port_id) or _text(message.reason)
    if isinstance(message, PortReady):
        wrong = "" if message.component in COMPONENTS else f"{message.component[:MAX_ID]!r} is no component"
        return role.DHCP, _id(message.port_id) or _number(message.revision) or wrong
    if isinstance(message, Status):
        return role.L3, _id(message.id) or _status(message)
    if isinstance(message, Problem):
        return "", _text(message.text) or _name(message.kind, least=0) or _name(message.id, least=0)
    return "", ""


def _status(message: Status) -> str:
    if message.kind == SUBNET:
        try:
            ipaddress.IPv6Network(message.status)
        except ValueError:
            return f"{message.status[:MAX_ID]!r} is no prefix"
        return ""
    known = STATUSES.get(message.kind)
    if known is None:
        return f"{message.kind[:MAX_ID]!r} has no status"
    return "" if message.status in known else f"{message.status[:MAX_ID]!r} is no status of a {message.kind}"


# --- reports ----------------------------------------------------------------------------------------------------------


def _report(message: Report, host: str, roles: Collection[str]) -> str:
    types = [state.agent_type for state in message.states]
    if len(types) > MAX_STATES or len(set(types)) != len(types):
        return f"host {host} reports an agent twice"
    for state in message.states:
        fault = _agent(state, host, roles)
        if fault:
            return f"the report of host {host} is refused: {fault}"
    fault = _number(message.applied) if message.applied is not None else ""
    return f"the report of host {host} is refused: applied: {fault}" if fault else ""


def _agent(state: AgentState, host: str, roles: Collection[str]) -> str:
    needed = role.AGENT_TYPES.get(state.agent_type)
    if needed is None:
        return f"{state.agent_type!r} is no agent type"
    if needed not in roles:
        return f"its credential has the roles {', '.join(roles)}, and not {needed}, which the {state.agent_type} needs"
    if state.host != host:
        return f"it cannot report for {state.host}"
    for name, value in state.configurations.items():
        check = _CONFIGURATIONS.get(name)
        fault = _name(name) or (check(value) if check is not None else "")
        if fault:
            return f"configurations: {name[:MAX_NAME]}: {fault}"
    for what, given in (("configurations", state.configurations), ("resource_versions", state.resource_versions)):
        try:
            size = len(msgspec.json.encode(given))
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            return f"{what}: {error}"
        if size > MAX_TEXT:
            return f"{what}: {size} bytes are more than {MAX_TEXT}"
    return ""


# --- values -----------------------------------------------------------------------------------------------------------


def _id(value: str) -> str:
    fits = 0 < len(value) <= MAX_ID and value.isascii() and value.isprintable()
    return "" if fits else f"{value[:MAX_ID]!r} is no id"


def _name(value: object, least: int = 1) -> str:
    fits = isinstance(value, str) and least <= len(value) <= MAX_NAME and value.isprintable()
    return "" if fits else f"a printable text of at most {MAX_NAME} characters is needed"


def _text(value: object) -> str:
    return "" if isinstance(value, str) and len(value) <= MAX_TEXT else f"at most {MAX_TEXT} characters are allowed"


def _number(value: object) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER
    return "" if fits else "a number that is not negative is needed"


def _flag(value: object) -> str:
    return "" if isinstance(value, bool) else "true or false is needed"


def _optional_name(value: object) -> str:
    return "" if value is None else _name(value, least=0)


def _one_of(known: frozenset[str]) -> Callable[[object], str]:
    def check(value: object) -> str:
        return "" if isinstance(value, str) and value in known else f"one of {', '.join(sorted(known))} is needed"

    return check


def _list_of(check: Callable[[object], str]) -> Callable[[object], str]:
    def several(value: object) -> str:
        if not isinstance(value, list) or len(value) > MAX_ENTRIES:
            return f"a list of at most {MAX_ENTRIES} entries is needed"
        return next(filter(None, map(check, value)), "")

    return several


def _map_of(check: Callable[[object], str]) -> Callable[[object], str]:
    def several(value: object) -> str:
        if not isinstance(value, dict) or len(value) > MAX_ENTRIES:
            return f"a mapping of at most {MAX_ENTRIES} entries is needed"
        return next(filter(None, (_name(key) or check(each) for key, each in value.items())), "")

    return several


def _mapped_devices(value: object) -> str:
    return _list_of(_name)(value) if isinstance(value, list) else _name(value)


def _problems(value: object) -> str:
    """Names of things are the host's own words: whatever they are, it must be able to say what is wrong with it."""
    texts = [*value, *value.values()] if isinstance(value, dict) else value
    return _list_of(_text)(texts)


def _capabilities(value: object) -> str:
    return _map_of(_list_of(_name))(value)


def tunnel_address(value: object) -> str:
    """What is wrong with an address for tunnels: other hosts send to it."""
    if value is None or value == "":
        return ""
    try:
        address = ipaddress.ip_address(value) if isinstance(value, str) else None
    except ValueError:
        address = None
    if address is None or "%" in str(value):
        return f"{str(value)[:MAX_ID]!r} is no IP address"
    if address.is_multicast or address.is_unspecified or address == ipaddress.IPv4Address(2**32 - 1):
        return f"{address} is no address of one host"
    return ""


_CONFIGURATIONS: Final[Mapping[str, Callable[[Any], str]]] = {
    words.BRIDGE_MAPPINGS: _map_of(_name),
    "device_mappings": _map_of(_mapped_devices),
    words.TUNNEL_TYPES: _list_of(_one_of(TUNNEL_TYPES)),
    words.TUNNELING_IP: tunnel_address,
    words.EXTENSIONS: _list_of(_name),
    words.DATAPATH_TYPE: _one_of(DATAPATHS),
    words.OVS_CAPABILITIES: _capabilities,
    words.VHOSTUSER_SOCKET_DIR: _optional_name,
    "integration_bridge": _name,
    words.AGENT_MODE: _one_of(AGENT_MODES),
    words.GATEWAY_EXTERNAL_NETWORK_ID: _optional_name,
    words.EXTERNAL_NETWORK_BRIDGE: _optional_name,
    words.INTERFACE_DRIVER: _optional_name,
    words.DATAPLANE: _text,
    words.PROBLEMS: _problems,
    **dict.fromkeys(
        (
            words.L2_POPULATION,
            words.ARP_RESPONDER_ENABLED,
            words.ENABLE_DISTRIBUTED_ROUTING,
            words.IN_DISTRIBUTED_MODE,
            words.OVS_HYBRID_PLUG,
            words.LOG_AGENT_HEARTBEATS,
            words.HANDLE_INTERNAL_ONLY_ROUTERS,
            words.DHCP_PORT_BY_SERVER,
            words.DHCP_DISTRIBUTED,
            words.USE_GATEWAY_IPS,
        ),
        _flag,
    ),
    **dict.fromkeys(
        (words.DEVICES, words.NETWORKS, "subnets", "ports", "routers", "ex_gw_ports", "interfaces", "floating_ips"),
        _number,
    ),
}
