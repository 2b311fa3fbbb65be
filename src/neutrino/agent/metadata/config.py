"""The options of the metadata role, under the names of metadata_agent.ini."""

from __future__ import annotations

from oslo_config import cfg, types

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "metadata_proxy_socket", default="$state_path/metadata_proxy", help="Where the agent steers the process."
    ),
    cfg.StrOpt(
        "metadata_proxy_user",
        default="",
        help="Name or number of the user that the process runs as; empty: nobody, or the agent's own if that is not root.",
    ),
    cfg.StrOpt("metadata_proxy_group", default="", help="Its group; empty: the user's."),
    cfg.HostAddressOpt("nova_metadata_host", default="127.0.0.1", help="Where Nova's metadata API is."),
    cfg.PortOpt("nova_metadata_port", default=8775, help="Its port."),
    cfg.StrOpt("nova_metadata_protocol", choices=["http", "https"], default="http", help="How it is spoken to."),
    cfg.BoolOpt("nova_metadata_insecure", default=False, help="With https: believe any certificate."),
    cfg.StrOpt("auth_ca_cert", default="", help="Certificates that Nova's is checked against; empty: the system's."),
    cfg.StrOpt("nova_client_cert", default="", help="The certificate that Nova is shown."),
    cfg.StrOpt("nova_client_priv_key", default="", help="Its key."),
    cfg.StrOpt(
        "metadata_proxy_shared_secret",
        secret=True,
        default="",
        help="What instances' ids are signed with; Nova knows it too.",
    ),
    cfg.IntOpt("metadata_backlog", default=4096, min=1, help="Connections that may wait at each socket."),
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
        help="Where the process writes the time, for whoever wants to see that it is alive; empty: nowhere.",
    ),
    cfg.FloatOpt("monitor_file_interval", default=5.0, min=0.1, help="Seconds between two such notes."),
]

RATE_LIMITING: list[cfg.Opt] = [
    cfg.BoolOpt("rate_limit_enabled", default=False, help="Refuse instances that ask too often."),
    cfg.ListOpt(
        "ip_versions",
        default=[4],
        item_type=types.Integer(choices=[4, 6]),
        help="At which of the metadata addresses: 4, 6 or both.",
    ),
    cfg.IntOpt("base_window_duration", default=10, min=1, help="Seconds over which requests are counted."),
    cfg.IntOpt("base_query_rate_limit", default=10, min=1, help="The most requests of one instance in that time."),
    cfg.IntOpt("burst_window_duration", default=10, min=1, help="A second, shorter time, against bursts."),
    cfg.IntOpt("burst_query_rate_limit", default=10, min=1, help="The most requests of one instance in that."),
]

# The group has the name of a program that is not used here; it says the same things.
TIMEOUTS: list[cfg.Opt] = [
    cfg.IntOpt("timeout_connect", default=30, min=1, help="Seconds for a connection to Nova."),
    cfg.IntOpt("timeout_client", default=32, min=1, help="Seconds that an instance may stall in a request or answer."),
    cfg.IntOpt("timeout_server", default=32, min=1, help="Seconds that Nova may stall; slow vendor data needs more."),
    cfg.IntOpt("timeout_http_request", default=30, min=1, help="Seconds for the head of a request."),
    cfg.IntOpt(
        "timeout_http_keep_alive", default=30, min=1, help="Seconds that a connection is kept for another request."
    ),
]
