"""Configuration files of a lab's server and agents, and the defaults that `neutrino up` shares."""

from collections.abc import Mapping
from pathlib import Path

from neutrino.lab import nova_metadata
from neutrino.lab.hosts.ovs import RUN
from neutrino.lab.settings import BRIDGE_MAPPINGS, LabPaths, LabSettings, underlay_address

Options = Mapping[str, Mapping[str, object]]


def escaped(value: object) -> str:
    """A value for oslo.config, which would expand a dollar sign as a reference to another option."""
    return str(value).replace("$", "$$")


def render(options: Options) -> str:
    lines = ["# Written by the neutrino command."]
    for section, values in options.items():
        lines += [f"[{section}]", *(f"{name} = {escaped(value)}" for name, value in values.items()), ""]
    return "\n".join(lines)


def render_server(port: int, state: Path) -> str:
    """The defaults of `neutrino up` and of a lab."""
    return Path(__file__).with_name("server.conf").read_text().format(port=port, state=escaped(state))


def render_clouds(url: str) -> str:
    return Path(__file__).with_name("clouds.yaml").read_text().format(url=url)


def render_lab_server(settings: LabSettings) -> str:
    """The options that a lab sets in addition."""
    return render(
        {
            "DEFAULT": {"api_workers": 2, "global_physnet_mtu": settings.mtu},
            "ml2": {"overlay_ip_version": settings.underlay_ip_version},
            "feed": {"run": "true"},
        }
    )


def render_agent(settings: LabSettings, paths: LabPaths, host: str, metadata_secret: str = "") -> str:
    routes = "l3" in settings.roles
    default: dict[str, object] = {"host": host, "state_path": paths.host(host), "roles": ",".join(settings.roles)}
    if routes:
        default["agent_mode"] = settings.agent_mode(host)
    more: dict[str, Mapping[str, object]] = {}
    if "metadata" in settings.roles:
        default |= {
            "nova_metadata_host": "127.0.0.1",
            "nova_metadata_port": nova_metadata.PORT,
            "metadata_proxy_shared_secret": metadata_secret,
            "enable_isolated_metadata": "true",
        }
        more["metadata_haproxy"] = {"timeout_connect": 3, "timeout_server": 3}
    return render(
        {
            "DEFAULT": default,
            "feed": {"server": f"unix:{paths.feed_socket}", "credential_file": paths.host(host) / "credential"},
            "ovs": {
                "ovsdb_connection": f"unix:{RUN}/db.sock",
                "run_directory": RUN,
                "integration_bridge": "br-int",
                "tunnel_bridge": "br-tun",
                "local_ip": underlay_address(host, settings.underlay_ip_version),
                "bridge_mappings": ",".join(f"{network}:{bridge}" for network, bridge in BRIDGE_MAPPINGS.items()),
                "datapath_type": settings.datapath,
            },
            "agent": {
                "tunnel_types": "vxlan,gre,geneve",
                "l2_population": "true",
                "arp_responder": "true",
                "enable_distributed_routing": routes,
            },
            "securitygroup": {"firewall_driver": "openvswitch"},
            "ml2": {"overlay_ip_version": settings.underlay_ip_version},
            **more,
        }
    )
