"""Configuration options of the server, with the names and groups of neutron.conf and ml2_conf.ini."""

import ipaddress
import os
from collections.abc import Sequence

from oslo_config import cfg

from neutrino.server.api.resources.port import MAX_ADDRESS_PAIRS
from neutrino.server.api.resources.subnet import MAX_HOST_ROUTES, MAX_NAMESERVERS
from neutrino.server.l3.config import OPTIONS as L3

QUOTAS = {
    "network": 100,
    "subnet": 100,
    "port": 500,
    "subnetpool": -1,
    "security_group": 10,
    "security_group_rule": 100,
    "rbac_policy": 10,
    "router": 10,
    "floatingip": 50,
    "router_route": 30,
    "trunk": -1,
    "port_forwarding": 100,
    "address_group": 10,
}

GLOBAL = [
    cfg.HostAddressOpt("bind_host", default="127.0.0.1", help="Address that the API listens on."),
    cfg.PortOpt("bind_port", default=9696, help="Port that the API listens on."),
    cfg.IntOpt("api_workers", min=1, default=None, help="Processes that serve the API; by default one per CPU."),
    cfg.IntOpt(
        "api_threads",
        min=1,
        help="Requests that each worker handles at once; by default 1 with SQLite and without Keystone, where only "
        "the disk is waited for, else 2.",
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
    cfg.StrOpt(
        "state_path", default=os.path.expanduser("~/.local/share/neutrino"), help="Where the server keeps files."
    ),
    cfg.StrOpt("host", default=os.uname().nodename, help="This machine's name."),
    cfg.StrOpt("core_plugin", default="ml2", help="Entry point of the core plugin."),
    cfg.ListOpt(
        "service_plugins", default=["router"], help="Entry points of further plugins, each with resources of its own."
    ),
    cfg.IntOpt("pagination_max_limit", default=-1, help="Maximum number of objects in a list; -1: no maximum."),
    cfg.StrOpt("base_mac", default="fa:16:3e:00:00:00", help="The first three octets of generated MAC addresses."),
    cfg.StrOpt("dns_domain", default="openstacklocal", help="Domain of the names that ports get."),
    cfg.IntOpt("max_dns_nameservers", default=5, min=0, max=MAX_NAMESERVERS, help="The most DNS servers of a subnet."),
    cfg.IntOpt(
        "max_subnet_host_routes", default=20, min=0, max=MAX_HOST_ROUTES, help="The most host routes of a subnet."
    ),
    cfg.BoolOpt(
        "ipv6_pd_enabled",
        default=False,
        help="The default subnet pool of IPv6 is a prefix that is delegated to the subnet's router from outside.",
    ),
    cfg.IntOpt(
        "max_address_group_addresses",
        default=1000,
        min=1,
        help="The most addresses of an address group: each is a flow, or several, on every host that has a port whose "
        "rules name the group.",
    ),
    cfg.IntOpt(
        "max_allowed_address_pair",
        default=10,
        min=-1,
        max=MAX_ADDRESS_PAIRS,
        help="The most allowed address pairs of a port.",
    ),
    cfg.IntOpt("global_physnet_mtu", default=1500, min=0, help="MTU of the physical network below."),
    cfg.IntOpt("agent_down_time", default=75, min=1, help="Seconds without a report after which an agent is dead."),
    cfg.IntOpt("dhcp_agents_per_network", default=1, min=1, help="Agents that serve each network's DHCP."),
    cfg.BoolOpt("network_auto_schedule", default=True, help="Schedule networks to DHCP agents automatically."),
    cfg.BoolOpt("allow_automatic_dhcp_failover", default=True, help="Move networks away from dead DHCP agents."),
    cfg.ListOpt("default_availability_zones", default=[], help="Zones of networks that name none."),
]

DATABASE = [
    cfg.StrOpt("connection", secret=True, help="SQLAlchemy URL; by default an SQLite file in state_path."),
    cfg.BoolOpt("auto_upgrade", default=True, help="Bring the schema up to date when the server starts."),
    cfg.IntOpt("max_pool_size", default=10, min=1, help="Connections that each worker keeps open."),
]

OSLO_MIDDLEWARE = [
    cfg.IntOpt(
        "max_request_body_size",
        default=114688,
        min=1024,
        help="Maximum size of a request body, in bytes.",
        deprecated_opts=[cfg.DeprecatedOpt("max_request_body_size", group="DEFAULT")],
    ),
]

ML2 = [
    cfg.ListOpt("type_drivers", default=["local", "flat", "vlan", "gre", "vxlan", "geneve"]),
    cfg.ListOpt("tenant_network_types", default=["vxlan"], help="Types of project networks, tried in this order."),
    cfg.ListOpt("mechanism_drivers", default=["openvswitch", "l2population"]),
    cfg.ListOpt("extension_drivers", default=["port_security", "dns"]),
    cfg.ListOpt("physical_network_mtus", default=[], help="MTU of single physical networks, as name:mtu."),
    cfg.IntOpt("path_mtu", default=0, min=0, help="The largest packet that the tunnels' underlay carries."),
    cfg.StrOpt("external_network_type", default=None, help="Type of external networks whose request names none."),
    cfg.IntOpt("overlay_ip_version", default=4, choices=(4, 6), help="IP version between tunnel endpoints."),
]
FLAT = [cfg.ListOpt("flat_networks", default=["*"], help="Physical networks for flat ones; * is all.")]
VLAN = [cfg.ListOpt("network_vlan_ranges", default=[], help="physical_network[:min:max] for VLAN networks.")]
GRE = [cfg.ListOpt("tunnel_id_ranges", default=["1:10000"])]
VXLAN = [cfg.ListOpt("vni_ranges", default=["1:16000000"])]
GENEVE = [
    cfg.ListOpt("vni_ranges", default=["1:16000000"]),
    cfg.IntOpt("max_header_size", default=30, help="Bytes that Geneve's headers take of a packet."),
]
FEED = [
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
    cfg.StrOpt("tls_cert_file", default=None, help="Certificate of the feed, for addresses other than this machine's."),
    cfg.StrOpt("tls_key_file", default=None, help="Its key."),
    cfg.IntOpt("keep_changes", default=3600, min=60, help="Seconds for which rows of the change log are kept."),
    cfg.FloatOpt("poll_interval", default=0.05, min=0.001, help="Seconds between polls of MariaDB for changes."),
    cfg.FloatOpt(
        "sqlite_poll_interval", default=0.02, min=0.001, help="The same for SQLite if inotify is not available."
    ),
    cfg.FloatOpt("heartbeat", default=10.0, min=0.1, help="Seconds between pings to a host."),
    cfg.FloatOpt(
        "heartbeat_timeout", default=20.0, min=0.1, help="Seconds until a host that does not answer is disconnected."
    ),
]
QUOTA = [
    cfg.IntOpt(f"quota_{name}", default=limit, min=-1, help=f"How many of {name} a project may have; -1: any number.")
    for name, limit in QUOTAS.items()
]


class RefusedToStart(Exception):
    """The configuration is valid but insecure: the server does not start with it."""


GROUPS: tuple[tuple[str | None, Sequence[cfg.Opt]], ...] = (
    (None, GLOBAL),
    (None, L3),
    ("database", DATABASE),
    ("oslo_middleware", OSLO_MIDDLEWARE),
    ("ml2", ML2),
    ("ml2_type_flat", FLAT),
    ("ml2_type_vlan", VLAN),
    ("ml2_type_gre", GRE),
    ("ml2_type_vxlan", VXLAN),
    ("ml2_type_geneve", GENEVE),
    ("quotas", QUOTA),
    ("feed", FEED),
)


def register(conf: cfg.ConfigOpts) -> None:
    for group, options in GROUPS:
        conf.register_opts(options, group=group)


def check_values(conf: cfg.ConfigOpts) -> None:
    """Read every option once: oslo.config reports a value of the wrong type only when it is read."""
    for group, options in GROUPS:
        for option in options:
            getattr(conf[group] if group else conf, option.dest)


def database_url(conf: cfg.ConfigOpts) -> str:
    return conf.database.connection or f"sqlite:///{os.path.join(conf.state_path, 'neutrino.sqlite')}"


def api_threads(conf: cfg.ConfigOpts) -> int:
    """More threads help only if they wait for a server; else they compete for the interpreter lock."""
    waits = conf.auth_strategy == "keystone" or not database_url(conf).startswith("sqlite")
    return int(conf.api_threads or (2 if waits else 1))


def quota_defaults(conf: cfg.ConfigOpts) -> dict[str, int]:
    return {name: conf.quotas[f"quota_{name}"] for name in QUOTAS}


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
