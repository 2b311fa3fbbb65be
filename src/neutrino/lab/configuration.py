"""The configuration files of a lab's server and agents."""

from __future__ import annotations

from collections.abc import Mapping

from neutrino.lab.metadata import PORT
from neutrino.lab.ovs import RUN
from neutrino.lab.settings import PHYSICAL_NETWORKS, Places, Settings, underlay_address

Options = Mapping[str, Mapping[str, object]]


def render(options: Options) -> str:
    """The text of a configuration file. A dollar sign would be taken for a reference to another option."""
    lines = ["# Written by `neutrino lab`."]
    for section, values in options.items():
        lines += [f"[{section}]", *(f"{name} = {str(value).replace('$', '$$')}" for name, value in values.items()), ""]
    return "\n".join(lines)


def render_server(settings: Settings, places: Places) -> tuple[str, str]:
    """What `neutrino up` also has, and what a lab has over it."""
    from neutrino.cli.up import CONFIG  # here, as most commands of a lab do without it, and start sooner

    lab: Options = {
        "DEFAULT": {"api_workers": 2, "global_physnet_mtu": settings.mtu},
        "ml2": {"overlay_ip_version": settings.underlay_ip_version},
        "feed": {"run": "true"},
    }
    return CONFIG.format(port=settings.port, state=str(places.server).replace("$", "$$")), render(lab)


def render_clouds(settings: Settings) -> str:
    from neutrino.cli.up import CLOUDS

    return CLOUDS.format(url=settings.url)


def render_agent(settings: Settings, places: Places, host: str, metadata_secret: str = "") -> str:
    mappings = ",".join(f"{network}:{bridge}" for network, bridge in PHYSICAL_NETWORKS.items())
    return render(
        {
            "DEFAULT": {
                "host": host,
                "state_path": places.host(host),
                "roles": ",".join(settings.roles),
                **({"agent_mode": settings.agent_mode(host)} if settings.routes else {}),
                **(_metadata(metadata_secret) if settings.serves_metadata else {}),
            },
            "feed": {"server": f"unix:{places.feed_socket}", "credential_file": places.host(host) / "credential"},
            "ovs": {
                "ovsdb_connection": f"unix:{RUN}/db.sock",
                "run_directory": RUN,
                "integration_bridge": "br-int",
                "tunnel_bridge": "br-tun",
                "local_ip": underlay_address(host, settings.underlay_ip_version),
                "bridge_mappings": mappings,
                "datapath_type": settings.datapath,
            },
            "agent": {
                "tunnel_types": "vxlan,gre,geneve",
                "l2_population": "true",
                "arp_responder": "true",
                "enable_distributed_routing": settings.routes,
            },
            "securitygroup": {"firewall_driver": "openvswitch"},
            "ml2": {"overlay_ip_version": settings.underlay_ip_version},
            **({"metadata_haproxy": {"timeout_connect": 3, "timeout_server": 3}} if settings.serves_metadata else {}),
        }
    )


def _metadata(secret: str) -> Mapping[str, object]:
    """Nova's stand-in is on each host itself: see `metadata`."""
    return {
        "nova_metadata_host": "127.0.0.1",
        "nova_metadata_port": PORT,
        "metadata_proxy_shared_secret": secret,
        "enable_isolated_metadata": "true",
    }
