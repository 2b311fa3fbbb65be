"""All metrics. docs/design/observability.md has their table, which a test compares with this module.

Labels are bounded: resources, methods, roles, kinds and states are fixed sets, `host` is one of the cloud's hosts, and
`bridge` one of the host's own. There is no label by project, network, port or request.
"""

from typing import Final

from neutrino.metrics.instruments import Counter, Gauge, Histogram, Instrument

API, FEED, AGENT, SUPERVISOR = "api", "feed", "agent", "server"  # components: processes with metrics
_SERVER = (API, FEED)

BUILD_INFO: Final = Gauge(
    "neutrino_build_info", "1, with the release of each process.", (SUPERVISOR, FEED, AGENT), ("version", "component")
)

# --- the API: sums over all workers of a server -----------------------------------------------------------------------

REQUESTS: Final = Histogram(
    "neutrino_api_request_duration_seconds",
    "Time to answer API requests, by resource, method and class of the status.",
    (API,),
    ("resource", "method", "status"),
)
WORKERS: Final = Gauge("neutrino_api_workers", "API worker processes that run.", (SUPERVISOR,))
WORKER_RESPAWNS: Final = Counter(
    "neutrino_api_worker_respawns_total", "API workers that ended by themselves and were replaced.", (SUPERVISOR,)
)

# --- the database, of API workers and the feed ------------------------------------------------------------------------

RETRIES: Final = Counter(
    "neutrino_database_retries_total",
    "Writes that were repeated: stale (changed since it was read), constraint, deadlock, or unavailable (failover).",
    _SERVER,
    ("reason",),
    by_process=True,
    initial=("stale", "constraint", "deadlock", "unavailable"),
)
EXHAUSTED: Final = Counter(
    "neutrino_database_retries_exhausted_total",
    "Writes that were given up after too many conflicts and answered with 503.",
    _SERVER,
    by_process=True,
)
UNREACHABLE: Final = Counter(
    "neutrino_database_unreachable_total", "Failures to reach the database.", _SERVER, by_process=True
)
CONNECTIONS: Final = Gauge(
    "neutrino_database_connections",
    "Connections to the database, by pool (read, write) and state (used, idle).",
    _SERVER,
    ("pool", "state"),
    by_process=True,
)

DRIVERS_NOT_READY: Final = Gauge(
    "neutrino_drivers_not_ready",
    "Processes in which a mechanism driver is not initialised: its changes are refused.",
    _SERVER,
    ("driver",),
    by_process=True,
)

# --- the feed ---------------------------------------------------------------------------------------------------------

POSITION: Final = Gauge(
    "neutrino_changelog_position", "Last position of the change log that the feed has read.", (FEED,)
)
CHANGES: Final = Counter(
    "neutrino_changelog_changes_total", "Rows of the change log that were read.", (FEED,), ("kind",)
)
READ_SECONDS: Final = Histogram(
    "neutrino_feed_read_duration_seconds", "Time to read and apply the newest rows of the change log.", (FEED,)
)
SNAPSHOTS: Final = Counter(
    "neutrino_feed_full_reads_total",
    "Times that the feed has read all objects: at its start, or after lost rows.",
    (FEED,),
)
CONNECTED_HOSTS: Final = Gauge("neutrino_feed_connected_hosts", "Hosts that are connected to this feed.", (FEED,))
HOST_LAG: Final = Gauge(
    "neutrino_feed_host_lag_changes",
    "Positions of the change log that a connected host has not applied.",
    (FEED,),
    ("host",),
)
HOST_PENDING: Final = Gauge(
    "neutrino_feed_host_pending_objects", "Objects that wait to be sent to a connected host.", (FEED,), ("host",)
)
SENT_BYTES: Final = Counter("neutrino_feed_sent_bytes_total", "Bytes of frames that were sent to hosts.", (FEED,))
REPORTS: Final = Counter(
    "neutrino_feed_reports_total",
    "Reports of hosts, by type and result (accepted, refused).",
    (FEED,),
    ("type", "result"),
)
PORTS: Final = Gauge("neutrino_ports", "Ports of the cloud by status.", (FEED,), ("status",))
AGENTS: Final = Gauge(
    "neutrino_agents",
    "Agents of the cloud by type and state: alive, late (no report within agent_down_time) or disabled.",
    (FEED,),
    ("agent_type", "state"),
)

# --- agents -----------------------------------------------------------------------------------------------------------

FEED_CONNECTED: Final = Gauge("neutrino_agent_feed_connected", "1 while the agent is connected to a server.", (AGENT,))
FEED_SYNCED: Final = Gauge("neutrino_agent_feed_synced", "1 while the desired state is complete and current.", (AGENT,))
FEED_POSITION: Final = Gauge(
    "neutrino_agent_feed_position", "Position of the change log that the desired state is at.", (AGENT,)
)
APPLIED_POSITION: Final = Gauge(
    "neutrino_agent_applied_position", "Position of the change log up to which a role has applied everything.", (AGENT,),
    ("role",),
)  # fmt: skip
UNACKNOWLEDGED: Final = Gauge(
    "neutrino_agent_unacknowledged_reports", "Reports that no server has acknowledged yet.", (AGENT,)
)
OBJECTS: Final = Gauge("neutrino_agent_objects", "Objects of the desired state, by kind.", (AGENT,), ("kind",))
RECONCILE_SECONDS: Final = Histogram(
    "neutrino_agent_reconcile_duration_seconds",
    "Time of a reconciliation: of all ports (l2), of one network or router (dhcp, l3).",
    (AGENT,),
    ("role", "result"),
)
DONE, FAILED = "done", "failed"  # results
QUEUE: Final = Gauge("neutrino_agent_queue_length", "Objects that wait to be reconciled, or are.", (AGENT,), ("role",))
PROBLEMS: Final = Gauge("neutrino_agent_problems", "Objects that cannot be applied, by role.", (AGENT,), ("role",))
DATAPLANE_UP: Final = Gauge("neutrino_agent_dataplane_up", "1 while Open vSwitch works with the agent.", (AGENT,))
LINK_UP: Final = Gauge(
    "neutrino_agent_link_up",
    "1 while the link of a device works by which packets leave the host: of the underlay or a physical network.",
    (AGENT,),
    ("device", "use"),
)
WIRED_PORTS: Final = Gauge(
    "neutrino_agent_ports",
    "Ports bound to this host: wired, failed or waiting (not plugged yet).",
    (AGENT,),
    ("state",),
)
FLOWS: Final = Gauge("neutrino_agent_flows", "OpenFlow flows of the agent, by bridge.", (AGENT,), ("bridge",))
COMPARED_AT: Final = Gauge(
    "neutrino_agent_takeover_compared_at",
    "Unix time of the last comparison with Neutron's flows, of an agent that they hold.",
    (AGENT,),
)
COMPARED_PACKETS: Final = Gauge("neutrino_agent_takeover_packets", "Packets that the last one has compared.", (AGENT,))
COMPARED_DIFFERENCES: Final = Gauge(
    "neutrino_agent_takeover_differences",
    "Packets that a conversion would let through or stop, by the last one.",
    (AGENT,),
)
COMPARED_CHANGES: Final = Gauge(
    "neutrino_agent_takeover_changes", "Changes that a conversion would make, by the last one.", (AGENT,)
)
DRIFT: Final = Counter(
    "neutrino_agent_drift_repaired_total", "Differences from the desired state that were found and repaired.", (AGENT,),
    ("role",), initial=("l2", "dhcp", "l3"),
)  # fmt: skip
RESPAWNS: Final = Counter(
    "neutrino_agent_process_respawns_total", "Daemons that ended by themselves and were started again.", (AGENT,),
    ("program",),
)  # fmt: skip
DAEMONS: Final = Gauge("neutrino_agent_processes", "Daemons that the agent keeps running.", (AGENT,), ("program",))
HA_ROUTERS: Final = Gauge(
    "neutrino_agent_ha_routers", "HA routers of this host by their state here.", (AGENT,), ("state",)
)
DHCP_REQUESTS: Final = Counter(
    "neutrino_agent_dhcp_requests_total",
    "DHCP packets from ports of this host since the agent's start, by IP version.",
    (AGENT,),
    ("ip_version",),
)
PORT_BYTES: Final = Counter(
    "neutrino_agent_port_bytes_total",
    "Bytes of ports of this host since the agent's start, to the instance or router (in) and from it (out).",
    (AGENT,),
    ("port", "direction"),
)
PORT_PACKETS: Final = Counter(
    "neutrino_agent_port_packets_total",
    "Packets of ports of this host since the agent's start, to the instance or router (in) and from it (out).",
    (AGENT,),
    ("port", "direction"),
)
PORT_DROPS: Final = Counter(
    "neutrino_agent_port_drops_total",
    "Dropped packets of ports of this host since the agent's start, to the instance or router (in) and from it (out).",
    (AGENT,),
    ("port", "direction"),
)
TUNNEL_BYTES: Final = Counter(
    "neutrino_agent_tunnel_bytes_total",
    "Bytes of tunnels since the agent's start, from the other host (in) and to it (out).",
    (AGENT,),
    ("remote", "direction"),
)
TUNNEL_PACKETS: Final = Counter(
    "neutrino_agent_tunnel_packets_total",
    "Packets of tunnels since the agent's start, from the other host (in) and to it (out).",
    (AGENT,),
    ("remote", "direction"),
)
TUNNEL_DROPS: Final = Counter(
    "neutrino_agent_tunnel_drops_total",
    "Dropped packets of tunnels since the agent's start, from the other host (in) and to it (out).",
    (AGENT,),
    ("remote", "direction"),
)
METADATA_REQUESTS: Final = Counter(
    "neutrino_agent_metadata_requests_total",
    "Metadata requests of instances, by class of the status.",
    (AGENT,),
    ("status",),
)

ALL: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Instrument))
