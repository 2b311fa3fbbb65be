"""Rules for reports of hosts: types, bounds and closed lists for every field that reaches the database. Pure.

A report that breaks a rule is refused as a whole, and its host gets the reason; what is only too large is left out of it.
A host is trusted to report on itself, not to send valid values: without these rules a wrong tunnel address of one host
would reach all hosts that share a network with it.
"""

import ipaddress
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from neutrino.feed.messages import (
    Answer,
    ErrorMessage,
    HostReport,
    PortDown,
    PortReady,
    PortUp,
    Rates,
    Report,
    Status,
    Traffic,
)
from neutrino.model import roles as role
from neutrino.model.addresses import tunnel_address_fault
from neutrino.model.agents import AgentState
from neutrino.model.rates import MAX_COUNTED, MAX_PORTS, MAX_SECONDS, MAX_TUNNELS

MAX_STATES: Final = len(role.AGENT_TYPES)
MAX_ID: Final = 36  # a UUID, and the columns of ids
MAX_TEXT: Final = 64 * 1024  # of a reason, and of an agent's configurations as JSON
MAX_LOGGED: Final = 2000  # characters of a host's text in one line of the log
MAX_NAME: Final = 255
MAX_ANSWER: Final = 1024 * 1024  # bytes of an answer to a query
MAX_ERROR: Final = 2000  # characters of an error instead of an answer: the column
MAX_ENTRIES: Final = 1000  # of a list or a mapping
MAX_NUMBER: Final = 2**63 - 1
MAX_COUNTERS: Final = 50_000  # of metering labels, in all routers of a host


@dataclass(frozen=True)
class ReportedStatus:
    """The statuses of a kind of object that hosts report."""

    valid: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()  # that report it, each with its name; none: L3 does
    check: Callable[[str], str] | None = None  # instead of a closed list: what is wrong with a status


def prefix(status: str) -> str:
    """What is wrong with a delegated prefix, which is the status of a subnet."""
    try:
        ipaddress.IPv6Network(status)
    except ValueError:
        return f"{status[:MAX_ID]!r} is no prefix"
    return ""


Statuses = Mapping[str, ReportedStatus]  # by kind
WIRING: Final = frozenset({role.L2, role.SRIOV})  # roles that wire ports
DONE_OR_NOT: Final = frozenset({"ACTIVE", "ERROR", "INACTIVE"})
UP_OR_DOWN: Final = frozenset({"ACTIVE", "DOWN", "ERROR"})

_Name = Annotated[str, Meta(min_length=1)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]
_Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]

# Keys of an agent's `configurations` that the server, other hosts or tools read; other keys are stored unchecked.
# Length and characters of names are checked by `_names_in`.
_TYPES: Final[Mapping[str, Any]] = {
    "bridge_mappings": dict[_Name, _Name],
    "device_mappings": dict[_Name, str | list[_Name]],
    "tunnel_types": list[Literal["gre", "vxlan", "geneve"]],
    "extensions": list[_Name],
    "datapath_type": Literal["system", "netdev", "dummy"],
    "ovs_capabilities": dict[_Name, list[_Name]],
    "integration_bridge": _Name,
    "agent_mode": Literal["legacy", "dvr", "dvr_snat", "dvr_no_external"],
    "dataplane": _Text,
    "links": dict[_Name, dict[Literal["use", "state"], _Name]],
    "respawned": dict[_Text, _Text],
    # Names in it are the host's own: it must be able to report a problem with any object, whatever its id.
    "problems": dict[_Text, _Text] | list[_Text],
    **dict.fromkeys(("tunneling_ip", "vhostuser_socket_dir", "gateway_external_network_id"), str | None),
    **dict.fromkeys(("external_network_bridge", "interface_driver"), str | None),
    **dict.fromkeys(("l2_population", "arp_responder_enabled", "enable_distributed_routing", "ovs_hybrid_plug"), bool),
    **dict.fromkeys(("in_distributed_mode", "log_agent_heartbeats", "handle_internal_only_routers"), bool),
    **dict.fromkeys(("dhcp_port_by_server", "dhcp_distributed", "use_gateway_ips"), bool),
    **dict.fromkeys(("devices", "ancillary_devices", "networks", "subnets", "ports", "routers"), _Number),
    **dict.fromkeys(("ex_gw_ports", "interfaces", "floating_ips"), _Number),
}
_FREE_TEXT: Final = frozenset({"dataplane", "problems", "respawned"})  # of any characters
_Configurations = msgspec.defstruct("_Configurations", [(key, cls | UnsetType, UNSET) for key, cls in _TYPES.items()])


def without_oversized(message: HostReport) -> tuple[HostReport, str]:
    """A message without what is too large to be stored, and what that is; empty: nothing.

    An error text of any length must neither make the agents of a host look dead, nor keep a port ACTIVE that is down.
    """
    match message:
        case Report():
            fitting = [_fitting(state) for state in message.states]
            left_out = [f"{state.agent_type}: {', '.join(names)}" for state, names in fitting if names]
            if left_out:
                states = tuple(state for state, _ in fitting)
                named = one_line("; ".join(left_out))
                return msgspec.structs.replace(message, states=states), f"too large to be stored: {named}"
        case PortDown() | Status() if len(message.reason) > MAX_TEXT:
            return msgspec.structs.replace(message, reason=message.reason[:MAX_TEXT]), "reason: too long, shortened"
        case ErrorMessage() if len(message.text) > MAX_TEXT:
            return msgspec.structs.replace(message, text=message.text[:MAX_TEXT]), "text: too long, shortened"
    return message, ""


def _fitting(state: AgentState) -> tuple[AgentState, list[str]]:
    """An agent without the largest keys of its configurations if they are too large, and the names of these keys."""
    try:
        sizes = {key: len(msgspec.json.encode({key: value})) for key, value in state.configurations.items()}
        versions = len(msgspec.json.encode(state.resource_versions))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return state, []  # it is refused, with the reason
    left_out, total = [], sum(sizes.values())
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if total <= MAX_TEXT:
            break
        left_out.append(key)
        total -= sizes[key]
    kept = {key: value for key, value in state.configurations.items() if key not in left_out}
    if versions > MAX_TEXT:
        return replace(state, configurations=kept, resource_versions={}), [*left_out, "resource_versions"]
    return (replace(state, configurations=kept), left_out) if left_out else (state, [])


def refusal(message: HostReport, host: str, roles: Collection[str], statuses: Statuses) -> str:
    """Why a message of a host with these roles is refused; empty if it is not."""
    if isinstance(message, Report):
        fault = _report(message, host, roles)
        return f"the report of host {host} is refused: {fault}" if fault else ""
    needed, fault = _needed_roles_and_fault(message, statuses)
    if needed and needed.isdisjoint(roles):
        names = " or ".join(sorted(needed))
        return f"host {host} does not have the role {names}: {type(message).__name__} is refused"
    return f"{type(message).__name__} of host {host} is refused: {fault}" if fault else ""


def _needed_roles_and_fault(message: HostReport, statuses: Statuses) -> tuple[frozenset[str], str]:
    """The roles of which the host needs one, none for a message of any host; and what is wrong with the message."""
    match message:
        case PortUp():
            return WIRING, _id(message.port_id) or _number(message.revision)
        case PortDown():
            return WIRING, _id(message.port_id) or _text(message.reason)
        case PortReady():
            return frozenset({role.DHCP}), _id(message.port_id) or _number(message.revision)
        case Status():
            known = statuses.get(message.kind, ReportedStatus())
            fault = _id(message.id) or _status(message, known) or _number(message.revision) or _text(message.reason)
            reporters = known.roles or frozenset({role.L3})
            return frozenset({message.role}) if message.role in reporters else reporters, fault
        case Traffic():
            return frozenset({role.L3}), _traffic(message)
        case Rates():
            return frozenset({role.L2}), _rates(message)
        case Answer():
            return frozenset(), _id(message.id) or _answer(message)
        case ErrorMessage():
            return frozenset(), _text(message.text) or _name(message.kind) or _name(message.id)
    return frozenset(), ""


def one_line(text: str) -> str:
    """Text of a host for the server's log: it can neither fake lines, nor control a terminal, nor fill the disk."""
    return "".join(each for each in " ".join(text[: 2 * MAX_LOGGED].split()) if each.isprintable())[:MAX_LOGGED]


def _traffic(message: Traffic) -> str:
    if len(message.counters) > MAX_COUNTERS:
        return f"counters: at most {MAX_COUNTERS} are allowed"
    if len({counter.id for counter in message.counters}) != len(message.counters):
        return "counters: one is there twice"
    for counter in message.counters:
        faults = (
            *map(_id, (counter.id, counter.label_id, counter.router_id)),
            *map(_number, (counter.packets, counter.bytes, counter.first_update, counter.last_update)),
            _name(counter.project_id),
        )
        if fault := next(filter(None, faults), ""):
            return f"counters: {fault}"
    return ""


def _rates(message: Rates) -> str:
    if not 1 <= message.seconds <= MAX_SECONDS:
        return f"seconds: a number from 1 to {MAX_SECONDS} is needed"
    if len(message.ports) > MAX_PORTS or len(message.tunnels) > MAX_TUNNELS:
        return f"at most {MAX_PORTS} ports and {MAX_TUNNELS} tunnels are allowed"
    for counted in (*message.ports.values(), *message.tunnels.values()):
        if min(counted) < 0 or max(counted) > MAX_COUNTED:
            return f"counters: numbers from 0 to {MAX_COUNTED} are needed"
    fault = next(filter(None, map(_id, message.ports)), "")
    return fault or next(filter(None, map(tunnel_address_fault, message.tunnels)), "")


def _answer(message: Answer) -> str:
    if len(message.error) > MAX_ERROR or not message.error.isprintable():
        return f"error: a printable text of at most {MAX_ERROR} characters is needed"
    if len(bytes(message.result)) > MAX_ANSWER:
        return f"result: {len(bytes(message.result))} bytes are more than the {MAX_ANSWER} that are allowed"
    try:
        msgspec.json.decode(message.result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "result: it is not JSON"
    return ""


def _status(message: Status, known: ReportedStatus) -> str:
    if message.role and message.role not in known.roles:
        return f"{message.role[:MAX_ID]!r} is no role that reports a {message.kind[:MAX_ID]}"
    if known.check is not None:
        return known.check(message.status)
    if not known.valid:
        return f"{message.kind[:MAX_ID]!r} has no status"
    return "" if message.status in known.valid else f"{message.status[:MAX_ID]!r} is no status of a {message.kind}"


def _report(message: Report, host: str, roles: Collection[str]) -> str:
    types = [state.agent_type for state in message.states]
    if len(types) > MAX_STATES or len(set(types)) != len(types):
        return "it has an agent twice"
    for state in message.states:
        if fault := _agent(state, host, roles):
            return fault
    fault = _number(message.applied) if message.applied is not None else ""
    return f"applied: {fault}" if fault else ""


def _agent(state: AgentState, host: str, roles: Collection[str]) -> str:
    needed = role.AGENT_TYPES.get(state.agent_type)
    if needed is None:
        return f"{state.agent_type!r} is no agent type"
    if needed not in roles:
        return f"its credential has the roles {', '.join(roles)}, and not {needed}, which the {state.agent_type} needs"
    if state.host != host:
        return f"it cannot report for {state.host}"
    for what, value in (("configurations", state.configurations), ("resource_versions", state.resource_versions)):
        try:
            size = len(msgspec.json.encode(value))
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            return f"{what}: {error}"
        if size > MAX_TEXT:
            return f"{what}: {size} bytes are more than {MAX_TEXT}"
    if fault := next(filter(None, (_name(name, least=1) for name in state.configurations)), ""):
        return f"configurations: names of keys: {fault}"
    try:
        msgspec.convert(state.configurations, _Configurations)
    except msgspec.ValidationError as error:
        return f"configurations: {error}"
    for key in (_TYPES.keys() & state.configurations.keys()) - _FREE_TEXT:
        if fault := _names_in(state.configurations[key]):
            return f"configurations: {key}: {fault}"
    if len(state.configurations.get("problems", ())) > MAX_ENTRIES:
        return f"configurations: problems: at most {MAX_ENTRIES} entries are allowed"
    fault = tunnel_address_fault(state.configurations.get("tunneling_ip"))
    return f"configurations: tunneling_ip: {fault}" if fault else ""


def _names_in(value: object) -> str:
    """The fault of a name or list in a value of configurations, at any depth.

    Names reach logs and the API: control and format characters, such as bidirectional overrides, would make a line read
    as another one.
    """
    match value:
        case str():
            return _name(value)
        case list() | dict():
            if len(value) > MAX_ENTRIES:
                return f"at most {MAX_ENTRIES} entries are allowed"
            parts = [*value, *value.values()] if isinstance(value, dict) else value
            return next(filter(None, map(_names_in, parts)), "")
    return ""


def _id(value: str) -> str:
    fits = 0 < len(value) <= MAX_ID and value.isascii() and value.isprintable()
    return "" if fits else f"{value[:MAX_ID]!r} is no id"


def _name(value: str, least: int = 0) -> str:
    fits = least <= len(value) <= MAX_NAME and value.isprintable()
    return "" if fits else f"a printable text of at most {MAX_NAME} characters is needed"


def _text(value: str) -> str:
    return "" if len(value) <= MAX_TEXT else f"at most {MAX_TEXT} characters are allowed"


def _number(value: int) -> str:
    return "" if 0 <= value <= MAX_NUMBER else f"a number from 0 to {MAX_NUMBER} is needed"
