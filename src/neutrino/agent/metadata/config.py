"""Options of the metadata role, under the names of metadata_agent.ini."""

from oslo_config import cfg, types

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt("metadata_proxy_socket", default="$state_path/metadata_proxy", help="The proxy's control socket."),
    cfg.StrOpt(
        "metadata_proxy_user",
        default="",
        help="Name or id of the user that the proxy runs as; empty: nobody, or the agent's own user if that is not root.",
    ),
    cfg.StrOpt("metadata_proxy_group", default="", help="Its group; empty: the user's."),
    cfg.HostAddressOpt("nova_metadata_host", default="127.0.0.1", help="Host of Nova's metadata API."),
    cfg.PortOpt("nova_metadata_port", default=8775, help="Its port."),
    cfg.StrOpt("nova_metadata_protocol", choices=["http", "https"], default="http", help="Its protocol."),
    cfg.BoolOpt("nova_metadata_insecure", default=False, help="With https: accept any certificate."),
    cfg.StrOpt("auth_ca_cert", default="", help="CA certificates for Nova's certificate; empty: the system's."),
    cfg.StrOpt("nova_client_cert", default="", help="Client certificate for Nova."),
    cfg.StrOpt("nova_client_priv_key", default="", help="Its key."),
    cfg.StrOpt(
        "metadata_proxy_shared_secret",
        secret=True,
        default="",
        help="Secret that instance ids are signed with; Nova has the same.",
    ),
    cfg.IntOpt("metadata_backlog", default=4096, min=1, help="Backlog of each listening socket."),
    cfg.IntOpt(
        "metadata_connections",
        default=1024,
        min=1,
        help="Connections that the instances of one router or isolated network may have at a time; at most an eighth of"
        " the descriptors that the process may open. Of them, 64 for each source.",
    ),
    cfg.StrOpt(
        "monitor_file_dir",
        default="$state_path/monitor",
        help="Directory of a file that the proxy writes the time to, as a sign of life; empty: none.",
    ),
    cfg.FloatOpt("monitor_file_interval", default=5.0, min=0.1, help="Seconds between two such writes."),
]

RATE_LIMITING: list[cfg.Opt] = [
    cfg.BoolOpt("rate_limit_enabled", default=False, help="Limit the requests of each instance."),
    cfg.ListOpt(
        "ip_versions",
        default=[4],
        item_type=types.Integer(choices=[4, 6]),
        help="IP versions that are limited: 4, 6 or both.",
    ),
    cfg.IntOpt("base_window_duration", default=10, min=1, help="Seconds over which requests are counted."),
    cfg.IntOpt("base_query_rate_limit", default=10, min=1, help="Maximum requests of one instance in that time."),
    cfg.IntOpt("burst_window_duration", default=10, min=1, help="A second, shorter window, against bursts."),
    cfg.IntOpt("burst_query_rate_limit", default=10, min=1, help="Maximum requests of one instance in that window."),
]

# The group is named after a program that is not used here; the options mean the same.
TIMEOUTS: list[cfg.Opt] = [
    cfg.IntOpt("timeout_connect", default=30, min=1, help="Seconds for a connection to Nova."),
    cfg.IntOpt("timeout_client", default=32, min=1, help="Seconds that an instance may stall in a request or answer."),
    cfg.IntOpt("timeout_server", default=32, min=1, help="Seconds that Nova may stall; slow vendor data needs more."),
    cfg.IntOpt("timeout_http_request", default=30, min=1, help="Seconds for the head of a request."),
    cfg.IntOpt(
        "timeout_http_keep_alive", default=30, min=1, help="Seconds that a connection is kept for another request."
    ),
]
