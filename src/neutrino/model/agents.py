"""What an agent says of itself, and what the server answers: the words that both sides speak.

A report is read leniently where releases may differ (keys that the reader does not know are passed over, all but the
first four may be missing) and strictly in its types: one that cannot be understood is refused with the host's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

OVS: Final = "Open vSwitch agent"
DHCP: Final = "DHCP agent"
L3: Final = "L3 agent"
METADATA: Final = "Metadata agent"
NIC_SWITCH: Final = "NIC Switch agent"
AGENT_TYPES: Final = (OVS, DHCP, L3, METADATA, NIC_SWITCH)

# --- keys of `configurations` that tools and the server read ----------------------------------------------------------

BRIDGE_MAPPINGS: Final = "bridge_mappings"
TUNNEL_TYPES: Final = "tunnel_types"
TUNNELING_IP: Final = "tunneling_ip"
L2_POPULATION: Final = "l2_population"
ARP_RESPONDER_ENABLED: Final = "arp_responder_enabled"
ENABLE_DISTRIBUTED_ROUTING: Final = "enable_distributed_routing"
IN_DISTRIBUTED_MODE: Final = "in_distributed_mode"
EXTENSIONS: Final = "extensions"
DATAPATH_TYPE: Final = "datapath_type"
OVS_CAPABILITIES: Final = "ovs_capabilities"
VHOSTUSER_SOCKET_DIR: Final = "vhostuser_socket_dir"
OVS_HYBRID_PLUG: Final = "ovs_hybrid_plug"
DEVICES: Final = "devices"
NETWORKS: Final = "networks"
LOG_AGENT_HEARTBEATS: Final = "log_agent_heartbeats"
AGENT_MODE: Final = "agent_mode"
HANDLE_INTERNAL_ONLY_ROUTERS: Final = "handle_internal_only_routers"
GATEWAY_EXTERNAL_NETWORK_ID: Final = "gateway_external_network_id"
EXTERNAL_NETWORK_BRIDGE: Final = "external_network_bridge"
INTERFACE_DRIVER: Final = "interface_driver"
DHCP_PORT_BY_SERVER: Final = "dhcp_port_by_server"  # the server makes the ports that the DHCP agent serves from
DHCP_DISTRIBUTED: Final = "dhcp_distributed"  # the DHCP agent answers the ports of its host, wherever the network is
USE_GATEWAY_IPS: Final = "use_gateway_ips"  # the DHCP agent has the gateways' addresses: its port needs none
DATAPLANE: Final = "dataplane"  # "up", or "down: " and why
PROBLEMS: Final = "problems"  # things that could not be done, each with the reason
LOCAL_IP: Final = "local_ip"  # among the problems: another host has this one's address for tunnels
FEED_BEHIND: Final = "feed_behind"  # written by the server: how many positions of the log are not carried out yet
LAST_REPAIR: Final = "last_repair"  # what was not as the agent had left it

# --- the report -------------------------------------------------------------------------------------------------------

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]


class AgentStatus(StrEnum):
    """What a report means to the server; an agent that is not ALIVE has to be brought up to date."""

    NEW = "new"
    REVIVED = "revived"
    ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class AgentState:
    """One report of one agent. `start_flag` is set in the first one after the agent's start."""

    agent_type: Name
    binary: Name
    host: Name
    topic: Name
    availability_zone: Name | None = None  # None, or no versions: as they were reported before
    configurations: dict[str, Any] = field(default_factory=dict)
    resource_versions: dict[str, Any] = field(default_factory=dict)
    start_flag: bool = False


class BadReport(ValueError):
    """A report that is not understood."""

    def __init__(self, host: object, reason: object) -> None:
        self.host = host
        super().__init__(f"The report from host {host!r} cannot be understood: {reason}")


def read_report(report: object) -> AgentState:
    """The report in a message, or BadReport."""
    try:
        return msgspec.convert(report, AgentState)
    except msgspec.ValidationError as error:
        raise BadReport(report.get("host") if isinstance(report, dict) else None, error) from None


def checked(state: AgentState) -> AgentState:
    """The same report if its values are what they are declared to be and can be sent and stored, or BadReport."""
    try:
        return msgspec.json.decode(msgspec.json.encode(state), type=AgentState)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise BadReport(state.host, error) from None
