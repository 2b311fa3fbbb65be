"""Desired state of a network's DHCP service, from the contributions of built-in parts and extensions. Pure.

Names of files are as Neutron has them, so that its hosts can be taken over.

The device is `tap` and the start of the port's id. On the userspace datapath of Open vSwitch, or with `ovs_use_veth`, it
is a veth pair: `tap…` on the bridge and `ns-…` in the namespace, as an internal port does not survive a restart of
ovs-vswitchd there.

A request of an instance reaches dnsmasq through br-int and this device. dnsmasq finds the MAC in `host`, which has the
address and may set the port's tag, and answers with the options in `opts` of that tag and the subnet's; a MAC that is
not in `host` gets no answer.
"""

import dataclasses
import hashlib
import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from neutrino.agent.dhcp import dnsmasq_files
from neutrino.agent.dhcp.config import INFINITE, DhcpSettings
from neutrino.agent.dhcp.extension_api import (
    DEVICE_PREFIX,
    SET_TAG,
    Contribution,
    DhcpExtension,
    device_name,
    plugged_name,
    subnet_tag,
)
from neutrino.agent.dhcp.network import SLAAC, STATEFUL, STATELESS, ServedNetwork
from neutrino.agent.runtime.namespaces import LOOPBACK, DesiredDevice, DesiredNamespace, Plug
from neutrino.dataplane.netlink.values import Route, address, route
from neutrino.dataplane.process.api import Daemon
from neutrino.model.state import Subnet

HOSTS, ADDN_HOSTS, OPTS, LEASES, PID, INTERFACE = "host", "addn_hosts", "opts", "leases", "pid", "interface"
METADATA: Final = {4: "169.254.169.254/32", 6: "fe80::a9fe:a9fe/128"}
SYSCTLS: Final = {"net/ipv6/conf/default/accept_ra": "0"}  # RAs would add addresses and routes besides ours
MARK_KIND: Final = "dhcp"  # of a switch port in OVSDB: an agent that has lost its memory recognises its own by the mark
PREFIXES: Final = ("tap", "ns-", DEVICE_PREFIX)
IPV6_MIN_PREFIX: Final = 64  # dnsmasq serves no shorter IPv6 prefix


@dataclasses.dataclass(frozen=True)
class DesiredDhcp:
    namespace: DesiredNamespace
    daemon: Daemon
    files: Mapping[str, str]  # by name, in the network's directory
    problems: tuple[str, ...] = ()
    """Contributions and lines that were left out, and why; everything else is served."""

    @property
    def device(self) -> str:
        return self.files[INTERFACE]


def directory(settings: DhcpSettings, network_id: str) -> PurePosixPath:
    return PurePosixPath(settings.dhcp_confs) / network_id


def daemon_name(network_id: str) -> str:
    return f"dnsmasq {network_id}"


# --- the namespace ---


def render_plug(network: ServedNetwork, settings: DhcpSettings) -> Plug:
    own = network.own
    assert own is not None
    return Plug(
        bridge=settings.integration_bridge,
        name=plugged_name(network),
        port_id=own.id,
        mac=own.mac_address,
        internal=not settings.use_veth,
        mark=f"{MARK_KIND}:{network.id}",
    )


def contribute_namespace(network: ServedNetwork, settings: DhcpSettings) -> Contribution:
    own = network.own
    assert own is not None
    name = device_name(network, settings)
    # Replies must carry their UDP checksum. With offload the kernel leaves it to hardware that never comes: DHCP clients,
    # which read raw frames, drop them; Open vSwitch's userspace datapath passes none of them on.
    device = DesiredDevice(name, mac=own.mac_address, mtu=network.network.mtu, tx_checksum=False)
    if settings.use_veth:
        device = dataclasses.replace(device, peer=plugged_name(network))
    return Contribution(
        devices=(LOOPBACK, device),
        addresses=tuple(address(name, text, nodad=True) for text in _addresses(network, settings)),
        routes=tuple(_routes(network, settings, name)),
        sysctls=SYSCTLS,
    )


def _addresses(network: ServedNetwork, settings: DhcpSettings) -> Iterator[str]:
    for subnet in network.dhcp_subnets:
        here = subnet.gateway_ip if settings.use_gateway_ips else network.own_address(subnet.id)
        if here is not None:
            yield f"{here}/{ipaddress.ip_network(subnet.cidr).prefixlen}"
    if settings.force_metadata or settings.enable_isolated_metadata:
        yield METADATA[4]  # the metadata proxy listens on it in this namespace
        if any(subnet.ip_version == 6 for subnet in network.network.subnets):
            yield METADATA[6]


def _routes(network: ServedNetwork, settings: DhcpSettings, name: str) -> Iterator[Route]:
    """A default route per family, through the gateway of the first subnet that has one."""
    for version, anywhere in ((4, "0.0.0.0/0"), (6, "::/0")):
        subnet = next((s for s in network.dhcp_subnets if s.ip_version == version and _has_usable_gateway(s)), None)
        # With use_gateway_ips the namespace has the gateway's address itself.
        if subnet is None or subnet.gateway_ip is None or settings.use_gateway_ips:
            continue
        if network.own_address(subnet.id) is None:
            continue
        outside = ipaddress.ip_address(subnet.gateway_ip) not in ipaddress.ip_network(subnet.cidr)
        link_local = ipaddress.ip_address(subnet.gateway_ip).is_link_local
        yield route(anywhere, name, via=subnet.gateway_ip, onlink=outside and not (version == 6 and link_local))


def _has_usable_gateway(subnet: Subnet) -> bool:
    if subnet.gateway_ip is None:
        return False
    if subnet.ip_version == 4:
        return True
    length = ipaddress.ip_network(subnet.cidr).prefixlen
    self_configured = {subnet.ipv6_address_mode, subnet.ipv6_ra_mode} & {SLAAC, STATELESS}
    return 0 < length <= 126 and (length == 64 or not self_configured)


# --- dnsmasq's arguments ---

# Arguments of options that are set.
ARGUMENTS: Final = {
    "dhcp_renewal_time": "--dhcp-option-force=option:T1,{}s",
    "dhcp_rebinding_time": "--dhcp-option-force=option:T2,{}s",
    "dnsmasq_txt_record": "--txt-record={}",
    "dns_domain": "--domain={}",
    "dnsmasq_user": "--user={}",
    "dhcp_broadcast_reply": "--dhcp-broadcast",
}


def contribute_command(network: ServedNetwork, settings: DhcpSettings) -> Contribution:
    """dnsmasq's arguments. A changed argument needs a restart, a changed file only a reload."""
    where = directory(settings, network.id)
    arguments = (
        "--no-hosts",  # the host's /etc/hosts must not leak to instances
        *(() if settings.dnsmasq_local_resolv and not settings.dnsmasq_dns_servers else ("--no-resolv",)),
        f"--pid-file={where / PID}",
        f"--dhcp-hostsfile={where / HOSTS}",
        f"--addn-hosts={where / ADDN_HOSTS}",
        f"--dhcp-optsfile={where / OPTS}",
        f"--dhcp-leasefile={where / LEASES}",
        "--dhcp-match=set:ipxe,175",  # iPXE clients get a tag: boot options may depend on it
        "--dhcp-userclass=set:ipxe6,iPXE",
        "--except-interface=lo",  # no service besides that on the port's device
        "--bind-interfaces",
        f"--interface={device_name(network, settings)}",
        *_ranges(network, settings),
        *(argument.format(value) for name, argument in ARGUMENTS.items() if (value := getattr(settings, name))),
        *(("--strict-order",) if settings.dnsmasq_dns_servers else ()),  # else dnsmasq prefers servers that were up
        *(f"--server={server}" for server in settings.dnsmasq_dns_servers),
        *_log(network, settings),
        f"--conf-file={settings.dnsmasq_config_file.strip() or '/dev/null'}",  # never the host's /etc/dnsmasq.conf
    )
    return Contribution(arguments=arguments)


def _ranges(network: ServedNetwork, settings: DhcpSettings) -> Iterator[str]:
    """Static ranges: a client that is not in the `host` file gets no reply."""
    lease = "infinite" if settings.dhcp_lease_duration == INFINITE else f"{settings.dhcp_lease_duration}s"
    leases = 0
    for subnet in network.dhcp_subnets:
        if not has_dhcp_clients(subnet):
            continue
        cidr = ipaddress.ip_network(subnet.cidr)
        size = f"{cidr.netmask}" if cidr.version == 4 else f"{cidr.prefixlen}"
        yield f"--dhcp-range=set:{subnet_tag(subnet.id)},{cidr.network_address},static,{size},{lease}"
        leases += cidr.num_addresses
    if network.network.mtu > 0:
        # Forced: many clients do not request the MTU, and would send packets that tunnels cannot carry.
        yield f"--dhcp-option-force=option:mtu,{network.network.mtu}"
    yield f"--dhcp-lease-max={min(leases, settings.dnsmasq_lease_max)}"


def has_dhcp_clients(subnet: Subnet) -> bool:
    """Whether instances on the subnet send DHCP requests, for addresses or only for options."""
    if subnet.ip_version == 4:
        return True
    if ipaddress.ip_network(subnet.cidr).prefixlen < IPV6_MIN_PREFIX:
        return False
    # Without modes the RAs come from a router outside of OpenStack; addresses are served as stateful.
    if subnet.ipv6_address_mode is None:
        return subnet.ipv6_ra_mode is None
    return subnet.ipv6_address_mode in (STATEFUL, STATELESS)


def _log(network: ServedNetwork, settings: DhcpSettings) -> Iterator[str]:
    if settings.dnsmasq_base_log_dir:
        file = PurePosixPath(settings.dnsmasq_base_log_dir) / network.id / "dhcp_dns_log"
        yield from ("--log-queries", "--log-dhcp", f"--log-facility={file}")


# --- all contributions ---

# The order of contributions. Extensions follow, in the order of `dhcp_extensions`: of two lines for one client and tag
# dnsmasq uses the last one, so an extension overrides the built-in parts.
PARTS: Final[tuple[Callable[[ServedNetwork, DhcpSettings], Contribution], ...]] = (
    contribute_namespace,
    contribute_command,
    dnsmasq_files.contribute_hosts,
    dnsmasq_files.contribute_options,
)


def render(network: ServedNetwork, settings: DhcpSettings, extensions: Iterable[DhcpExtension] = ()) -> DesiredDhcp:
    """Render what dnsmasq needs for a network that is served."""
    contributions, problems = _contributions(network, settings, extensions)
    problems += [text for contribution in contributions for text in contribution.problems]
    lines = {
        HOSTS: [line for contribution in contributions for line in contribution.hosts],
        ADDN_HOSTS: [line for contribution in contributions for line in contribution.names],
        OPTS: [line for contribution in contributions for line in contribution.options],
    }
    desired = _namespace(network, settings, contributions)
    where = directory(settings, network.id)
    files = {name: "".join(f"{line.text}\n" for line in several if not line.fault) for name, several in lines.items()}
    daemon = Daemon(
        name=daemon_name(network.id),
        argv=(
            "dnsmasq",
            "--keep-in-foreground",
            *(word for contribution in contributions for word in contribution.arguments),
        ),
        namespace=network.namespace,
        pid_file=str(where / PID),
        log_file=str(where / "dnsmasq.log"),
        # With --bind-interfaces dnsmasq listens only on addresses that exist when it starts: others need a restart.
        environment={
            "NEUTRINO_ADDRESSES": " ".join(sorted(each.address for each in desired.addresses)),
            **_restart_instead_of_reload(files),
        },
        writes_pid_file=True,
    )
    files[INTERFACE] = device_name(network, settings)
    for name, several in lines.items():
        problems += [f"{each.owner}: a line of {name} is left out: {each.fault}" for each in several if each.fault]
    return DesiredDhcp(desired, daemon, files, tuple(problems))


def _restart_instead_of_reload(files: Mapping[str, str]) -> Mapping[str, str]:
    """Where a client gets a tag by `host`: what makes every change of a file a restart, as it is a part of the digest.

    dnsmasq links such tags with those of a request, and at SIGHUP frees them with all that they are linked to (2.90): after
    one request of such a client, a reload ends in a segmentation fault.
    """
    if f",{SET_TAG}" not in files[HOSTS]:
        return {}
    text = "\0".join(f"{name}\0{files[name]}" for name in (HOSTS, ADDN_HOSTS, OPTS))
    return {"NEUTRINO_FILES": hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}


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


def _namespace(network: ServedNetwork, settings: DhcpSettings, several: Sequence[Contribution]) -> DesiredNamespace:
    return DesiredNamespace(
        name=network.namespace,
        devices=tuple(device for each in several for device in each.devices),
        addresses=frozenset(address for each in several for address in each.addresses),
        routes=frozenset(route for each in several for route in each.routes),
        sysctls={name: value for each in several for name, value in each.sysctls.items()},
        device_prefixes=PREFIXES,
        plugs=(render_plug(network, settings),),
    )
