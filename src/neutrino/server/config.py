"""Configuration options of the server, with the names and groups of neutron.conf and ml2_conf.ini."""

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from oslo_config import cfg
from oslo_log import log

from neutrino.configuration.neutron_values import INCLUDED, add_names, list_type, name_type
from neutrino.configuration.options import Configuration
from neutrino.errors import RefusedToStart
from neutrino.metrics.listener import address as metrics_address
from neutrino.metrics.listener import options as metrics_options
from neutrino.server import features, tls
from neutrino.server.api.resources.port import MAX_ADDRESS_PAIRS
from neutrino.server.api.resources.subnet import MAX_HOST_ROUTES, MAX_NAMESERVERS
from neutrino.server.client_address import trusted_proxies
from neutrino.server.db.session import FAILOVER_SECONDS, Database
from neutrino.server.filters import read_filters
from neutrino.server.ui import config as ui

# Neutron's defaults.
QUOTAS = {
    "network": 100,
    "subnet": 100,
    "port": 500,
    "subnetpool": -1,
    "security_group": 10,
    "security_group_rule": 100,
    "rbac_policy": 10,
}


add_names(
    "DEFAULT",
    "service_plugins",
    {
        name: INCLUDED if feature.always else feature.name
        for feature in features.installed()
        for name in (feature.name, feature.neutron_plugin)
        if name
    },
)


def _drivers(name: str, default: Sequence[str]) -> cfg.Opt:
    return cfg.Opt(
        name, type=list_type("ml2", name), default=default, help="Entry points, in the order of their calls."
    )


def quotas() -> dict[str, int]:
    """The default limits of the core and all features."""
    return QUOTAS | {name: limit for feature in features.installed() for name, limit in feature.quotas.items()}


def limits(conf: Configuration) -> dict[str, int]:
    """The limits in force: `default_quota` for what is unlimited otherwise, as Neutron has no option of its own for it."""
    given = {name for group, name in conf.given if group == "quotas"}

    def limit(name: str, default: int) -> int:
        option = f"quota_{name}"
        is_set = default != -1 or option in given
        return int(conf.quotas[option] if is_set else conf.quotas.default_quota)

    return {name: limit(name, default) for name, default in quotas().items()}


CORE: dict[str | None, Sequence[cfg.Opt]] = {
    None: [  # [DEFAULT]
        cfg.HostAddressOpt("bind_host", default="127.0.0.1", help="Address that the API listens on."),
        cfg.PortOpt("bind_port", default=9696, help="Port that the API listens on."),
        cfg.IntOpt(
            "client_socket_timeout",
            min=0,
            default=900,
            help="Seconds after which an idle connection of a client is closed; 0: never. A client that sends its next "
            "request just then gets no answer, so clients should close idle connections earlier.",
        ),
        cfg.IntOpt(
            "graceful_shutdown_timeout",
            min=0,
            default=10,
            help="Seconds that a stop or a reload leaves to requests in progress, before their process is killed; 0: no "
            "limit. systemd kills the whole service after TimeoutStopSec of the unit, 90.",
        ),
        cfg.IntOpt(
            "request_body_timeout",
            min=0,
            default=30,
            help="Seconds within which a request must have arrived, with its body; the connection of a slower client is "
            "closed. 0: no limit, and none by client_min_rate.",
        ),
        cfg.IntOpt(
            "client_min_rate",
            min=0,
            default=4096,
            help="Bytes per second that a client must send of a request, or read of an answer, once it has taken a third "
            "of request_body_timeout; the connection of a slower one is closed. 0: any rate.",
        ),
        cfg.BoolOpt("use_ssl", default=False, help="Serve the API with TLS, with the files in [ssl]."),
        cfg.IntOpt("api_workers", min=1, default=None, help="Processes that serve the API; by default one per CPU."),
        cfg.IntOpt(
            "api_threads",
            min=1,
            default=2,
            help="Requests that each worker handles at once. With 1, a packet trace, which waits for hosts, blocks its "
            "worker for up to 10 seconds.",
        ),
        cfg.IntOpt(
            "compress_from",
            min=0,
            default=16384,
            help="Bytes of a list from which on it is compressed for clients that accept gzip, which makes it ten times "
            "smaller and costs 4 ms of processor time per MB; 0: never, such as where a proxy does it. Lists of objects "
            "with secrets are never compressed.",
        ),
        cfg.URIOpt(
            "network_link_prefix",
            schemes=["http", "https"],
            default=None,
            help="Begin of links in answers, in place of the scheme and host that the client has used; its path comes "
            "before that of the link.",
        ),
        cfg.StrOpt(
            "log_requests",
            choices=["all", "writes", "none"],
            default="writes",
            help="Requests that are logged with status and time: all, or only writes and failures (with debug all).",
        ),
        cfg.StrOpt(
            "auth_strategy", choices=["keystone", "noauth"], default="keystone", help="How callers are authenticated."
        ),
        cfg.BoolOpt(
            "allow_noauth_beyond_loopback",
            default=False,
            help="Start with auth_strategy=noauth although bind_host is not a loopback address: everyone who reaches the "
            "address is then an administrator.",
        ),
        cfg.ListOpt(
            "api_filters",
            default=[],
            help="WSGI filters of other packages, the outermost first: entry points of paste.filter_factory, each with its "
            "options in [filter:NAME]. They come after authentication, or where the word authtoken stands in the list.",
        ),
        cfg.StrOpt(
            "api_paste_config",
            default="",
            help="A file of Neutron's whose pipeline has filters of the site, if api_filters is empty: known ones are "
            "used, others refuse the start.",
        ),
        cfg.StrOpt(
            "state_path",
            default=os.path.expanduser("~/.local/share/neutrino"),
            sample_default="~/.local/share/neutrino",
            help="Where the server keeps files.",
        ),
        cfg.StrOpt(
            "host", default=os.uname().nodename, sample_default="<the machine's name>", help="This machine's name."
        ),
        cfg.Opt(
            "core_plugin",
            type=name_type("DEFAULT", "core_plugin"),
            default="ml2",
            help="Entry point of the core plugin.",
        ),
        cfg.Opt(
            "service_plugins",
            type=list_type("DEFAULT", "service_plugins"),
            default=[one.name for one in features.installed() if one.by_default and not one.always],
            help="Features, each with resources of its own.",
        ),
        cfg.IntOpt("pagination_max_limit", default=-1, help="Maximum number of objects in a list; -1: no maximum."),
        cfg.StrOpt("base_mac", default="fa:16:3e:00:00:00", help="The first three octets of generated MAC addresses."),
        cfg.StrOpt("dns_domain", default="openstacklocal", help="Domain of the names that ports get."),
        cfg.IntOpt(
            "max_dns_nameservers", default=5, min=0, max=MAX_NAMESERVERS, help="The most DNS servers of a subnet."
        ),
        cfg.IntOpt(
            "max_subnet_host_routes", default=20, min=0, max=MAX_HOST_ROUTES, help="The most host routes of a subnet."
        ),
        cfg.BoolOpt(
            "ipv6_pd_enabled",
            default=False,
            deprecated_opts=[cfg.DeprecatedOpt("ipv6_pd_enabled", group="experimental")],
            help="The default subnet pool of IPv6 is a prefix that is delegated to the subnet's router from outside.",
        ),
        cfg.IntOpt(
            "max_allowed_address_pair",
            default=10,
            min=-1,
            max=MAX_ADDRESS_PAIRS,
            help="The most allowed address pairs of a port.",
        ),
        cfg.BoolOpt(
            "vlan_transparent",
            default=None,  # as in Neutron, whose Open vSwitch driver has no such networks
            help="Networks can be created that carry the VLAN tags of instances (vlan_transparent). Not set: no.",
        ),
        cfg.BoolOpt(
            "vlan_qinq",
            default=None,
            help="VLAN networks can be created that carry the VLAN tags of instances in a tag of 802.1ad (qinq). Not set: "
            "no.",
        ),
        cfg.IntOpt("global_physnet_mtu", default=1500, min=0, help="MTU of the physical network below."),
        cfg.IntOpt("agent_down_time", default=75, min=1, help="Seconds without a report after which an agent is dead."),
        cfg.BoolOpt(
            "enable_new_agents",
            default=True,
            help="Agents that report for the first time get networks and routers. Off: they have admin_state_up false, and "
            "get nothing, until an operator enables them.",
        ),
        cfg.BoolOpt(
            "enable_services_on_agents_with_admin_state_down",
            default=False,
            help="Agents with admin_state_up false go on serving their networks and routers, and get no new ones. Off: "
            "networks move to other agents, and routers are not served there.",
        ),
        cfg.StrOpt(
            "dhcp_load_type",
            default="networks",
            choices=["networks", "subnets", "ports"],
            help="What is balanced between DHCP agents: the number of their networks, or of the subnets or ports on them.",
        ),
        cfg.StrOpt(
            "network_scheduler_driver",
            default="WeightScheduler",
            help="How a network's DHCP agents are chosen: WeightScheduler or AZAwareWeightScheduler, both by availability "
            "zone and load, or ChanceScheduler.",
        ),
        cfg.IntOpt("dhcp_agents_per_network", default=1, min=1, help="Agents that serve each network's DHCP."),
        cfg.BoolOpt("network_auto_schedule", default=True, help="Schedule networks to DHCP agents automatically."),
        cfg.BoolOpt("allow_automatic_dhcp_failover", default=True, help="Move networks away from dead DHCP agents."),
        cfg.ListOpt("default_availability_zones", default=[], help="Zones of networks that name none."),
        cfg.BoolOpt(
            "notify_nova_on_port_status_changes",
            default=True,
            help="With [nova] auth_type: notify Nova when a port's status changes. Nova needs it to start servers.",
        ),
        cfg.BoolOpt(
            "notify_nova_on_port_data_changes",
            default=True,
            help="The same when a port's addresses or floating IPs change, so that Nova updates its cache.",
        ),
        cfg.StrOpt("transport_url", default="rabbit://", secret=True, help="The message broker's address."),
        cfg.StrOpt("control_exchange", default="neutron", help="The exchange that notifications are sent to."),
    ],
    "ssl": tls.OPTIONS,
    ui.GROUP: ui.OPTIONS,
    "database": [
        cfg.StrOpt("connection", secret=True, help="SQLAlchemy URL; by default an SQLite file in state_path."),
        cfg.StrOpt(
            "connection_parameters",
            default="",
            help="Parameters that are appended to connection, as param1=value1&param2=value2.",
        ),
        cfg.BoolOpt("auto_upgrade", default=True, help="Bring the schema up to date when the server starts."),
        cfg.IntOpt("max_pool_size", default=10, min=1, help="Connections that each worker keeps open."),
        cfg.FloatOpt(
            "failover_timeout",
            default=FAILOVER_SECONDS,
            min=0.0,
            help="Seconds for which requests wait for a database that does not execute anything, such as during a "
            "failover; then they are answered with 503. An outage that has lasted longer is answered at once.",
        ),
        cfg.IntOpt(
            "mysql_wsrep_sync_wait",
            default=None,
            help="Galera's wsrep_sync_wait for all connections. 1: reads wait for what other nodes have committed; "
            "needed if several nodes are written to. By default the server's setting.",
        ),
    ],
    "oslo_middleware": [
        cfg.IntOpt(
            "max_request_body_size",
            default=114688,  # of oslo.middleware
            min=1024,
            help="Maximum size of a request body, in bytes.",
            deprecated_opts=[cfg.DeprecatedOpt("max_request_body_size", group="DEFAULT")],
        ),
        cfg.BoolOpt(
            "enable_proxy_headers_parsing",
            default=False,
            help="Use the headers that a proxy adds (Forwarded, X-Forwarded-*): for links, and of trusted_proxies for the "
            "address of the client.",
        ),
        cfg.ListOpt(
            "trusted_proxies",
            default=["127.0.0.0/8", "::1"],
            help="Addresses or networks of proxies whose X-Forwarded-For gives the address of the client.",
        ),
    ],
    "ml2": [
        _drivers("type_drivers", ["local", "flat", "vlan", "gre", "vxlan", "geneve"]),
        cfg.ListOpt(
            "project_network_types",
            default=["vxlan"],
            deprecated_name="tenant_network_types",
            help="Types of project networks, tried in this order.",
        ),
        _drivers("mechanism_drivers", ["openvswitch", "l2population"]),
        _drivers("extension_drivers", ["port_security", "dns"]),
        cfg.FloatOpt(
            "driver_timeout",
            default=120.0,
            min=0.0,
            max=240.0,
            help="Seconds after which a call of a mechanism driver written for Neutron is given up, of a precommit at "
            "most 30; 0: never.",
        ),
        cfg.ListOpt("physical_network_mtus", default=[], help="MTU of single physical networks, as name:mtu."),
        cfg.IntOpt("path_mtu", default=0, min=0, help="The largest packet that the tunnels' underlay carries."),
        cfg.StrOpt("external_network_type", default=None, help="Type of external networks whose request names none."),
        cfg.IntOpt("overlay_ip_version", default=4, choices=(4, 6), help="IP version between tunnel endpoints."),
        cfg.IntOpt(
            "inactive_binding_timeout",
            default=86400,
            min=0,
            help="Seconds after which hosts send no copies to an INACTIVE binding that a migration has left; 0: never.",
        ),
    ],
    "ovs_driver": [
        cfg.ListOpt("vnic_type_prohibit_list", default=[], help="VNIC types that the driver does not bind.")
    ],
    "sriov_driver": [
        cfg.ListOpt("vnic_type_prohibit_list", default=[], help="VNIC types that the driver does not bind.")
    ],
    "ml2_type_flat": [cfg.ListOpt("flat_networks", default=["*"], help="Physical networks for flat ones; * is all.")],
    "ml2_type_vlan": [
        cfg.ListOpt("network_vlan_ranges", default=[], help="physical_network[:min:max] for VLAN networks.")
    ],
    "ml2_type_gre": [
        cfg.ListOpt("tunnel_id_ranges", default=["1:10000"], help="Tunnel ids of project networks, as min:max.")
    ],
    "ml2_type_vxlan": [cfg.ListOpt("vni_ranges", default=["1:16000000"], help="VNIs of project networks, as min:max.")],
    "ml2_type_geneve": [
        cfg.ListOpt("vni_ranges", default=["1:16000000"], help="VNIs of project networks, as min:max."),
        cfg.IntOpt("max_header_size", default=30, help="Bytes that Geneve's headers take of a packet."),
    ],
    "feed": [
        cfg.BoolOpt("run", default=True, help="Start the feed process with the API; else run `neutrino feed`."),
        cfg.BoolOpt(
            "announce",
            default=True,
            help="Notify the feeds of a PostgreSQL database after each commit; else they poll once a second.",
        ),
        cfg.ListOpt(
            "bind",
            default=[],
            help="Where hosts reach the feed: unix:/path, or host:port. Without TLS only on this machine. By default "
            "the socket feed.sock in state_path.",
        ),
        cfg.StrOpt(
            "tls_cert_file", default=None, help="Certificate of the feed, for addresses other than this machine's."
        ),
        cfg.StrOpt("tls_key_file", default=None, help="Its key."),
        cfg.IntOpt(
            "keep_changes",
            default=86400,
            min=60,
            help="Seconds for which rows of the change log are kept: hosts need minutes, `neutrino history` has no more.",
        ),
        cfg.FloatOpt("poll_interval", default=0.05, min=0.001, help="Seconds between polls of MariaDB for changes."),
        cfg.FloatOpt(
            "sqlite_poll_interval", default=0.02, min=0.001, help="The same for SQLite if inotify is not available."
        ),
        cfg.FloatOpt("heartbeat", default=10.0, min=0.1, help="Seconds between pings to a host."),
        cfg.FloatOpt(
            "heartbeat_timeout",
            default=20.0,
            min=0.1,
            help="Seconds until a host that does not answer is disconnected.",
        ),
    ],
    "metrics": metrics_options("127.0.0.1:9699"),
    "quotas": [
        cfg.IntOpt(
            "default_quota",
            default=-1,
            min=-1,
            help="How many a project may have of each kind whose own quota is unlimited by default and not set, such as "
            "trunks and subnet pools; -1: any number.",
        ),
        *(
            cfg.IntOpt(
                f"quota_{name}",
                default=limit,
                min=-1,
                deprecated_opts=[cfg.DeprecatedOpt("max_routes", group="DEFAULT")] if name == "router_route" else [],
                help=f"How many of {name} a project may have; -1: any number.",
            )
            for name, limit in quotas().items()
        ),
    ],
    "nova": [  # keystoneauth registers its own options in this group (`events/nova.py`)
        cfg.StrOpt("region_name", help="The region of Nova's endpoint."),
        cfg.StrOpt(
            "endpoint_type",
            default="public",
            choices=["public", "internal", "admin"],
            help="Which of Nova's endpoints in the catalogue to use.",
        ),
    ],
    # Options of oslo.messaging that decide where notifications go, under their own names.
    "oslo_messaging_notifications": [
        cfg.MultiStrOpt(
            "driver",
            default=["noop"],
            help="How notifications are sent: 'noop' (not at all), 'messagingv2' (to RabbitMQ), 'messaging' (the same in "
            "the older format, without envelope) or 'log'; repeatable.",
        ),
        cfg.ListOpt("topics", default=["notifications"], help="The topics that notifications are sent to."),
        cfg.StrOpt("transport_url", secret=True, help="The broker; if not set, [DEFAULT] transport_url."),
    ],
    "oslo_messaging_rabbit": [
        cfg.BoolOpt("amqp_durable_queues", default=False, help="Declare exchange and queues as durable."),
        cfg.BoolOpt("rabbit_quorum_queue", default=False, help="Declare queues as quorum queues."),
        cfg.BoolOpt("ssl", default=False, help="Connect with TLS."),
        cfg.StrOpt("ssl_ca_file", default="", help="CA certificates that the broker's certificate must chain to."),
        cfg.StrOpt("ssl_cert_file", default="", help="The client certificate."),
        cfg.StrOpt("ssl_key_file", default="", help="The key of the client certificate."),
    ],
}


def _with_features() -> dict[str | None, Sequence[cfg.Opt]]:
    together = dict(CORE)
    for feature in features.installed():
        for group, options in feature.options.items():
            together[group] = [*together.get(group, ()), *options]
    return together


OPTIONS: dict[str | None, Sequence[cfg.Opt]] = _with_features()


def configuration(files: Sequence[str]) -> Configuration:
    conf = Configuration()
    for group, options in OPTIONS.items():
        conf.register_opts(options, group=group)
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "alembic=WARN"])
    log.register_options(conf)
    conf([], project="neutrino", default_config_files=list(files), default_config_dirs=[])
    return conf


def check_values(conf: Configuration) -> None:
    """Read every option once: oslo.config reports a value of the wrong type only when it is read."""
    for group, options in OPTIONS.items():
        for option in options:
            getattr(conf[group] if group else conf, option.dest)
    metrics_address(conf)
    read_filters(conf)
    trusted_proxies(conf)


def metrics_directory(conf: cfg.ConfigOpts) -> Path:
    """Where the processes of a server share their metrics."""
    return Path(conf.state_path, "metrics")


def database(conf: cfg.ConfigOpts) -> Database:
    options = conf.database
    return Database(
        database_url(conf),
        pool_size=options.max_pool_size,
        failover_seconds=options.failover_timeout,
        sync_wait=options.mysql_wsrep_sync_wait,
    )


def database_url(conf: cfg.ConfigOpts) -> str:
    url = str(conf.database.connection or f"sqlite:///{os.path.join(conf.state_path, 'neutrino.sqlite')}")
    parameters = conf.database.connection_parameters
    return f"{url}{'&' if '?' in url else '?'}{parameters}" if parameters else url


def api_threads(conf: cfg.ConfigOpts) -> int:
    """2 by default, also with SQLite: while one waits for Keystone or for the hosts of a trace, the other serves."""
    return int(conf.api_threads)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_listening(conf: cfg.ConfigOpts) -> None:
    """Refuse auth_strategy=noauth on an address that other machines reach, unless explicitly allowed."""
    if conf.auth_strategy == "keystone" or conf.allow_noauth_beyond_loopback:
        return
    if not is_loopback(conf.bind_host):
        raise RefusedToStart(
            f"auth_strategy=noauth makes every caller an administrator, and bind_host={conf.bind_host} can be reached "
            "from other machines: use auth_strategy=keystone or a loopback address, or, if this is meant, set "
            "allow_noauth_beyond_loopback=true"
        )
