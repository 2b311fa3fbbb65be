"""Configuration files of a lab's server and agents, and the defaults that `neutrino up` shares."""

from collections.abc import Mapping
from pathlib import Path

from neutrino.lab import nova_metadata
from neutrino.lab.hosts.ovs import RUN
from neutrino.lab.settings import BRIDGE_MAPPINGS, LabPaths, LabSettings, underlay_address

Options = Mapping[str, Mapping[str, object]]
HERE = Path(__file__).parent


def _escaped(value: object) -> str:
    """A value for oslo.config, which would expand a dollar sign as a reference to another option."""
    return str(value).replace("$", "$$")


def render(options: Options) -> str:
    lines = ["# Written by the neutrino command."]
    for section, values in options.items():
        lines += [f"[{section}]", *(f"{name} = {_escaped(value)}" for name, value in values.items()), ""]
    return "\n".join(lines)


def render_template(template: Path, **values: object) -> str:
    return template.read_text().format_map({field: _escaped(value) for field, value in values.items()})


def render_server(port: int, state: Path) -> str:
    """The defaults of `neutrino up` and of a lab."""
    return render_template(HERE / "server.conf", port=port, state=state)


def render_clouds(url: str) -> str:
    return render_template(HERE / "clouds.yaml", url=url)


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
    return render_template(
        HERE / "agent.conf",
        host=host,
        state=paths.host(host),
        roles=",".join(settings.roles),
        agent_mode=settings.agent_mode(host),
        serves_metadata="metadata" in settings.roles,
        metadata_port=nova_metadata.PORT,
        metadata_secret=metadata_secret,
        feed_socket=paths.feed_socket,
        ovs=RUN,
        local_ip=underlay_address(host, settings.underlay_ip_version),
        bridge_mappings=",".join(f"{network}:{bridge}" for network, bridge in BRIDGE_MAPPINGS.items()),
        datapath=settings.datapath,
        routes="l3" in settings.roles,
        ip_version=settings.underlay_ip_version,
    )
