"""Options of the metadata role, under the names of metadata_agent.ini; `messages.py` has those that the proxy needs."""

from oslo_config import cfg

from neutrino.agent.metadata.messages import ProxySettings
from neutrino.agent.runtime.options import options_of

OPTIONS: list[cfg.Opt] = [
    *options_of(ProxySettings),
    cfg.StrOpt("metadata_proxy_socket", default="$state_path/metadata_proxy", help="The proxy's control socket."),
    cfg.StrOpt(
        "metadata_proxy_user",
        default="",
        help="Name or id of the user that the proxy runs as; empty: nobody, or the agent's own user if that is not root.",
    ),
    cfg.StrOpt("metadata_proxy_group", default="", help="Its group; empty: the user's."),
    cfg.StrOpt("auth_ca_cert", default="", help="CA certificates for Nova's certificate; empty: the system's."),
    cfg.StrOpt("nova_client_cert", default="", help="Client certificate for Nova."),
    cfg.StrOpt("nova_client_priv_key", default="", help="Its key."),
    cfg.IntOpt("metadata_backlog", default=4096, min=1, help="Backlog of each listening socket."),
    cfg.StrOpt(
        "monitor_file_dir",
        default="$state_path/monitor",
        help="Directory of a file that the proxy writes the time to, as a sign of life; empty: none.",
    ),
    cfg.FloatOpt("monitor_file_interval", default=5.0, min=0.1, help="Seconds between two such writes."),
]
