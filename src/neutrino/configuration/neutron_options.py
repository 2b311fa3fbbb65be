"""Neutron's options that neither the server nor the agent registers, with the reason; as data.

`findings.py` compares configuration files with these tables, and docs/options.md is generated from them. An option that we
register needs no entry: it is the same, unless DIFFERENT has a note. The names are those of neutron.conf, ml2_conf.ini,
openvswitch_agent.ini, dhcp_agent.ini, l3_agent.ini, metadata_agent.ini and sriov_agent.ini of Neutron 29 and of earlier
releases.
"""

from dataclasses import dataclass

SERVER, AGENT = "server", "agent"
TRUE = ("true", "1", "yes", "on")
FALSE = ("false", "0", "no", "off")
EMPTY = ("", "none")


@dataclass(frozen=True)
class Refusal:
    """An option that asks for something that is not here, unless its value is one of `accepted` (in lower case)."""

    accepted: tuple[str, ...]
    reason: str


_RPC = "agents use the feed, not RPC"
_RABBIT = "notifications reconnect and retry by themselves"
_CONTROLLER = "flows are installed by bundles, without an OpenFlow controller"
_NFT = "routers use nftables"
_PROCESSES = "the API server has its own worker processes"
_POLLING = "events of OVSDB replace polling"
_OLD_AUTH = "the feed authenticates hosts with credentials"
_MULTICAST = "multicast goes to all ports of its network: see Multicast in operator-guide.md"
_ROOT = "the agent runs with its own privileges, without helper programs"

# --- accepted, without effect: section → names that share a reason → the reason ------------------------------------------

NOT_NEEDED: dict[str, dict[str, str]] = {
    "DEFAULT": {
        "rpc_workers rpc_state_report_workers rpc_response_max_timeout rpc_response_timeout rpc_ping_enabled "
        "rpc_resources_processing_step executor_thread_pool_size rpc_thread_pool_size rpc_conn_pool_size rpc_backend "
        "dhcp_agent_notification": _RPC,
        "send_events_interval http_retries": "events are sent at once, and retried for 300 s",
        "periodic_interval periodic_fuzzy_delay run_external_periodic_tasks": "there are no periodic tasks",
        "allow_bulk allow_pagination allow_sorting": "always on",
        "filter_validation": "an unknown filter is always an error",
        "setproctitle": "processes always have names",
        "my_ip my_ipv6": "addresses are given by bind_host, [feed] bind and [ovs] local_ip",
        "enable_traditional_dhcp": "DHCP is served by hosts with the role dhcp, and only by them",
        "enable_dvr": "routers are distributed if they are created so, on hosts with a dvr mode",
        "host_dvr_for_dhcp": "a distributed router is served where its ports are, DHCP ports included",
        "log_options": "the values of all options are logged at DEBUG, at the start and at SIGHUP",
        "fatal_deprecations": "for tests of Neutron",
        "backdoor_port backdoor_socket": "there is no backdoor",
        "min_l3_agents_per_router": "an HA router is created with the agents that there are",
        # DHCP
        "resync_interval resync_throttle": "failed networks are retried at once, with back-off",
        "bulk_reload_interval": "changes that wait for their turn are applied together",
        # L3
        "ha_conntrackd_unix_backlog": "conntrackd ignores it since version 1.4.6",
        "metadata_access_mark external_ingress_mark": f"{_NFT}, with marks of their own",
        "per_router_log_files router_log_files_in_ha_confs": "each daemon logs in its own directory",
        "router_id router_delete_namespaces dhcp_delete_namespaces use_namespaces": "namespaces are always used, and "
        "deleted with their router or network",
        # Metadata
        "metadata_workers": "one process serves all instances of a host",
        "metadata_proxy_socket_mode": "only the agent uses the socket",
        "metadata_proxy_watch_log": "the proxy opens its log before it changes its user",
        "auth_url auth_region admin_tenant_name admin_user admin_password endpoint_type": _OLD_AUTH,
        # Earlier releases
        "verbose": "use debug",
        "notification_driver notification_topics": "use [oslo_messaging_notifications] driver and topics",
        "allow_overlapping_ips": "always on",
        "advertise_mtu force_gateway_on_subnet max_fixed_ips_per_port": "without effect in Neutron too, since long",
        "lock_path": "no file locks are used",
        "backlog tcp_keepidle wsgi_keep_alive wsgi_default_pool_size wsgi_log_format "
        "wsgi_server_debug max_header_line retry_until_window": _PROCESSES,
        "nova_url nova_admin_username nova_admin_password nova_admin_tenant_name nova_admin_tenant_id "
        "nova_admin_auth_url nova_region_name nova_ca_certificates_file nova_api_insecure": "use [nova]",
        "ovs_integration_bridge": "use [ovs] integration_bridge",
        "ovs_vsctl_timeout": "use [ovs] ovsdb_timeout",
    },
    "agent": {
        "check_child_processes_interval": "the exit of a daemon is noticed at once",
        "comment_iptables_rules debug_iptables_rules use_random_fully": _NFT,
        "kill_scripts_path": "daemons never run in containers of their own, and are ended by signals",
        "root_helper root_helper_daemon use_helper_for_ns_read": _ROOT,
        "explicitly_egress_direct": "packets to known addresses are never flooded",
        "minimize_polling ovsdb_monitor_respawn_interval polling_interval": _POLLING,
        "veth_mtu": "bridges are connected by patch ports",
        "agent_type": "each role has Neutron's agent type",
    },
    "ovs": {
        "of_connect_timeout of_inactivity_probe of_listen_address of_listen_port of_request_timeout of_interface "
        "openflow_processed_per_port": _CONTROLLER,
        "ovsdb_debug": "use debug",
        "ovsdb_interface": "OVSDB is always used through its protocol",
        "trunk_enabled": "trunks are wired wherever the server has bound one",
        "qos_meter_bandwidth": "bandwidth is limited by meters, towards instances on the kernel datapath by queues",
        "igmp_flood igmp_flood_reports igmp_flood_unregistered": _MULTICAST,
        "enable_tunneling tunnel_type": "use [agent] tunnel_types",
        "tenant_network_type network_vlan_ranges tunnel_id_ranges": "use [ml2]",
    },
    "ml2_type_vxlan": {"vxlan_group": "tunnels are unicast"},
    "ovs_driver": {"ovs_create_tap": "os-vif creates the device"},
    "securitygroup": {"enable_ipset": "address sets are flows, or nft sets"},
    "database": {
        "asyncio_connection": "all requests use connection",
        "asyncio_slave_connection slave_connection synchronous_reader": "a list would have to be checked with "
        "both databases to show what its client wrote before; of a list the database does a fifth at most: see database.md",
        "backend engine": "connection selects the database",
        "connection_debug connection_trace": "use default_log_levels = sqlalchemy=DEBUG",
        "connection_recycle_time max_overflow pool_timeout max_retries retry_interval db_inc_retry_interval "
        "db_max_retries db_max_retry_interval db_retry_interval use_db_reconnect": "connections are checked before "
        "use, and transactions are retried",
        "mysql_sql_mode sqlite_synchronous": "set by the server, as its transactions need it",
    },
    "quotas": {"track_quota_usage": "usage is counted where there is a limit", "quota_items": "all quotas apply"},
    "service_providers": {
        "service_provider": "the providers of routers and VPNs are built in; GET /v2.0/service-providers "
        "lists them, and flavors choose between them"
    },
    "oslo_messaging_notifications": {"retry": _RABBIT},
    "oslo_messaging_rabbit": {
        "amqp_auto_delete conn_pool_min_size conn_pool_ttl direct_mandatory_flag enable_cancel_on_failover "
        "heartbeat_rate heartbeat_timeout_threshold hostname kombu_compression kombu_failover_strategy "
        "kombu_missing_consumer_retry_timeout kombu_reconnect_timeout kombu_reconnect_delay kombu_reconnect_splay "
        "processname rabbit_ha_queues rabbit_interval_max rabbit_login_method rabbit_qos_prefetch_count "
        "rabbit_quorum_delivery_limit rabbit_quorum_max_memory_bytes rabbit_quorum_max_memory_length "
        "rabbit_retry_backoff rabbit_retry_interval rabbit_stream_fanout rabbit_transient_queues_ttl "
        "rabbit_transient_quorum_queue rpc_conn_pool_size ssl_enforce_fips_mode ssl_enforce_hostname_verification "
        "ssl_version use_queue_manager": _RABBIT,
    },
    "dhcp": {"enable_ipv6": "subnets decide"},
    "metadata": {
        "auth_ca_cert host_proxy_listen_port metadata_proxy_shared_secret nova_client_cert nova_client_priv_key "
        "nova_metadata_host nova_metadata_insecure nova_metadata_port nova_metadata_protocol provider_base_mac "
        "provider_cidr provider_vlan_id": "of the L2 extension metadata_path; the role metadata has these in [DEFAULT]",
    },
}

# Sections that have no meaning as a whole.
NOT_NEEDED_SECTIONS: dict[str, str] = {
    "LOCAL_IP": "local IPs are translated by conntrack, with every firewall",
    "cache": "metadata requests are answered from the state of the host",
    "oslo_concurrency": "no file locks are used",
    "oslo_messaging_kafka": "notifications are sent to RabbitMQ",
    "oslo_reports": "there are no reports by signal",
    "oslo_versionedobjects": _RPC,
    "ovn": "of the mechanism driver ovn",
    "ovn_nb_global": "of the mechanism driver ovn",
    "privsep": _ROOT,
    "profiler": "logs have the request id, and the profiler is not used",
    "profiler_jaeger": "the profiler is not used",
    "profiler_otlp": "the profiler is not used",
}

# Those of the above whose function is not here: an operator who has set them loses something.
_MISSING: dict[str, str] = {
    "DEFAULT": "backdoor_port backdoor_socket",
    "agent": "kill_scripts_path comment_iptables_rules",
    "ovs": "igmp_flood igmp_flood_reports igmp_flood_unregistered",
    "ml2_type_vxlan": "vxlan_group",
    "database": "slave_connection asyncio_slave_connection synchronous_reader",
    "service_providers": "service_provider",
}
_MISSING_SECTIONS = ("oslo_messaging_kafka", "oslo_reports", "profiler", "profiler_jaeger", "profiler_otlp")

# Sections whose options libraries of the server register, most only when they are used: an option that shows the use, and
# the reason why others have no effect.
LIBRARY_SECTIONS: dict[str, tuple[str, str]] = {
    "keystone_authtoken": ("auth_type", "read with auth_strategy = keystone"),
    "nova": ("auth_type", "read with credentials in this section"),
    "designate": ("auth_type", "read with external_dns_driver = designate"),
    "placement": ("auth_type", "read with credentials in this section"),
    "ironic": ("auth_type", "read with enable_notifications or report_nodes"),
    "healthcheck": ("disable_by_file_path", "read with the backend in backends that has the option"),
    "oslo_policy": ("policy_file", "read by the server"),
    "cors": ("allowed_origin", "read by the server"),
    "oslo_middleware": ("enable_proxy_headers_parsing", "read by the server"),
}

# --- refused by the program that would need it, unless the value asks for what is the case anyway ------------------------

REFUSED: dict[str, dict[str, dict[str, Refusal]]] = {
    SERVER: {
        "DEFAULT": {
            "ipam_driver": Refusal(("", "internal"), "addresses are allocated by the server itself"),
            "api_extensions_path": Refusal(EMPTY, "packages add API resources by the entry point neutrino.features"),
        },
        "quotas": {
            "quota_driver": Refusal(
                (
                    "",
                    "neutron.db.quota.driver.dbquotadriver",
                    "neutron.db.quota.driver_nolock.dbquotanolockdriver",
                ),
                "quotas are kept in the database; default_quota = -1 is no limit for what has no quota of its own",
            ),
        },
        "ssl": {"ciphers": Refusal(EMPTY, "the cipher suites of TLS 1.2 and 1.3 are fixed, without weak ones")},
    },
    AGENT: {
        "DEFAULT": {
            "interface_driver": Refusal(
                ("", "openvswitch", "neutron.agent.linux.interface.ovsinterfacedriver"),
                "devices are plugged into Open vSwitch; there is no other driver",
            ),
            "dhcp_driver": Refusal(("", "dnsmasq", "neutron.agent.linux.dhcp.dnsmasq"), "DHCP is served by dnsmasq"),
            "cleanup_on_shutdown": Refusal(FALSE, "routers keep forwarding while the agent is stopped"),
            "enable_inat_enat": Refusal(FALSE, "it is an option of one vendor's product"),
        },
        "agent": {
            "baremetal_smartnic": Refusal(FALSE, "smart NICs without an agent of their own are not supported"),
            "prevent_arp_spoofing": Refusal(
                TRUE, "protection is always on: disable port security of a port, or add allowed address pairs"
            ),
        },
        "ovs": {
            "use_veth_interconnection": Refusal(FALSE, "bridges are connected by patch ports, which cost less"),
            "igmp_snooping_enable": Refusal(FALSE, _MULTICAST),
        },
    },
}

# --- registered here, with another default or meaning (for docs/options.md) ----------------------------------------------

DIFFERENT: dict[str, dict[str, str]] = {
    "DEFAULT": {
        "allowed_conntrack_helpers": "",
        "api_paste_config": "filters that the server has anyway are left out, audit is used, others are refused by name",
        "control_exchange": "Neutron's own default, in place of the library's",
        "core_plugin": "the only one included",
        "graceful_shutdown_timeout": "of requests to the API that are in progress; a restart is quick",
        "ha_vrrp_advert_int": "failover in half the time; a copied value is used as it is",
        "ha_vrrp_health_check_interval": "a host steps back when it has lost all gateways, not when one is silent",
        "host": "the name of the machine",
        "ovs_use_veth": "on the userspace datapath veth pairs are used",
        "network_scheduler_driver": "class names and Neutron's class paths; zones count with both weights",
        "router_scheduler_driver": "class names and Neutron's class paths",
        "service_plugins": "names of Neutron's plugins that are always included are accepted",
        "state_path": "set it for a service that runs as root",
    },
    "agent": {
        "arp_responder": "needs l2_population, which is on too",
        "l2_population": "the server always has the forwarding entries",
    },
    "database": {"max_pool_size": "of each worker process"},
    "ml2": {
        "extension_drivers": "",
        "mechanism_drivers": "",
        "project_network_types": "",
    },
    "ml2_type_geneve": {"vni_ranges": "usable without a range in the configuration"},
    "ml2_type_gre": {"tunnel_id_ranges": "usable without a range in the configuration"},
    "ml2_type_vxlan": {"vni_ranges": "usable without a range in the configuration"},
    "oslo_messaging_notifications": {"driver": "noop, log, messaging and messagingv2; not routing"},
    "ovs": {
        "ovsdb_connection": "also unix: addresses",
        "resource_provider_bandwidths": "also the rates that uplinks guarantee minimum bandwidths within",
    },
    "securitygroup": {"firewall_driver": "Neutron's short names and class paths; iptables without hybrid is refused"},
}


def _by_option(table: dict[str, dict[str, str]]) -> dict[tuple[str, str], str]:
    return {(s, n): reason for s, rows in table.items() for names, reason in rows.items() for n in names.split()}


REASONS = _by_option(NOT_NEEDED)
REFUSALS = {  # program → section and name → refusal
    program: {(section, name): refusal for section, rows in sections.items() for name, refusal in rows.items()}
    for program, sections in REFUSED.items()
}
NOTES = _by_option(DIFFERENT)
# Options of libraries with another meaning here.
LIBRARY_NOTES = {
    ("oslo_policy", "policy_file"): "an invalid or removed file refuses all access, an invalid rule what it governs",
    ("oslo_policy", "policy_dirs"): "an invalid file refuses all access, an invalid rule what it governs",
}


MISSING = frozenset((section, name) for section, names in _MISSING.items() for name in names.split())


def is_missing(section: str, name: str) -> bool:
    """Whether an option without effect is one whose function is not here."""
    return (section, name) in MISSING or section in _MISSING_SECTIONS


def reason(section: str, name: str) -> str | None:
    """Why an option has no effect; None if the tables do not have it."""
    return REASONS.get((section, name)) or NOT_NEEDED_SECTIONS.get(section)
