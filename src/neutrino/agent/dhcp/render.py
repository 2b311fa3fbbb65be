"""Desired state of a network's DHCP service, from the contributions of built-in parts and extensions. Pure."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from neutrino.agent.dhcp import command, dnsmasq_files, namespace
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.extension_api import DEVICE_PREFIX, Contribution, DhcpExtension, device_name
from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.namespaces import DesiredNamespace
from neutrino.agent.plugging import Plug
from neutrino.dataplane.process.api import Daemon

# The order of contributions. Extensions follow, in the order of `dhcp_extensions`: of two lines for one client and tag
# dnsmasq uses the last one, so an extension overrides the built-in parts.
PARTS: Final[tuple[Callable[[ServedNetwork, DhcpSettings], Contribution], ...]] = (
    namespace.contribute,
    command.contribute,
    dnsmasq_files.contribute_hosts,
    dnsmasq_files.contribute_options,
)


@dataclasses.dataclass(frozen=True)
class DesiredDhcp:
    plug: Plug
    mtu: int
    namespace: DesiredNamespace
    daemon: Daemon
    files: Mapping[str, str]  # by name, in the network's directory
    problems: tuple[str, ...] = ()
    """Contributions and lines that were left out, and why; everything else is served."""

    @property
    def device(self) -> str:
        return self.files[command.INTERFACE]


def daemon_name(network_id: str) -> str:
    return f"dnsmasq {network_id}"


def find_daemon(settings: DhcpSettings, network_id: str) -> Daemon:
    """The network's dnsmasq, to look for it or to stop it."""
    where = command.directory(settings, network_id)
    return Daemon(daemon_name(network_id), ("dnsmasq",), pid_file=str(where / command.PID))


def render(network: ServedNetwork, settings: DhcpSettings, extensions: Iterable[DhcpExtension] = ()) -> DesiredDhcp:
    """For a network that is served."""
    contributions, problems = _contributions(network, settings, extensions)
    lines = {
        command.HOST: [line for each in contributions for line in each.hosts],
        command.ADDN_HOSTS: [line for each in contributions for line in each.names],
        command.OPTS: [line for each in contributions for line in each.options],
    }
    desired = _namespace(network, contributions)
    where = command.directory(settings, network.id)
    daemon = Daemon(
        name=daemon_name(network.id),
        argv=("dnsmasq", "--keep-in-foreground", *(word for each in contributions for word in each.arguments)),
        namespace=network.namespace,
        pid_file=str(where / command.PID),
        log_file=str(where / "dnsmasq.log"),
        # With --bind-interfaces dnsmasq listens only on addresses that exist when it starts: others need a restart.
        environment={"NEUTRINO_ADDRESSES": " ".join(sorted(each.address for each in desired.addresses))},
        writes_pid_file=True,
    )
    files = {name: "".join(f"{line.text}\n" for line in several if not line.fault) for name, several in lines.items()}
    files[command.INTERFACE] = device_name(network, settings)
    for name, several in lines.items():
        problems += [f"{each.owner}: a line of {name} is left out: {each.fault}" for each in several if each.fault]
    plug = namespace.render_plug(network, settings)
    return DesiredDhcp(plug, network.network.mtu, desired, daemon, files, tuple(problems))


def _contributions(
    network: ServedNetwork, settings: DhcpSettings, extensions: Iterable[DhcpExtension]
) -> tuple[list[Contribution], list[str]]:
    """An extension that fails is left out and reported; the network is served without it."""
    contributions, problems = [contribute(network, settings) for contribute in PARTS], []
    for extension in extensions:
        try:
            contribution = extension.contribute(network, settings)
            names = [device.name for device in contribution.devices if not device.name.startswith(DEVICE_PREFIX)]
            if names:
                raise ValueError(f"device {names[0]}: the names of devices of extensions start with {DEVICE_PREFIX}")
        except Exception as error:  # third-party code: its failure is a problem of its own
            problems.append(f"extension {extension.name} is left out: {error!r}")
        else:
            contributions.append(contribution)
    return contributions, problems


def _namespace(network: ServedNetwork, contributions: Iterable[Contribution]) -> DesiredNamespace:
    several = tuple(contributions)
    return DesiredNamespace(
        name=network.namespace,
        devices=tuple(device for each in several for device in each.devices),
        addresses=frozenset(address for each in several for address in each.addresses),
        routes=frozenset(route for each in several for route in each.routes),
        sysctls={name: value for each in several for name, value in each.sysctls.items()},
        device_prefixes=namespace.PREFIXES,
    )
