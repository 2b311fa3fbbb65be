"""dnsmasq's command line, and the names of its files: as Neutron has them, so that its hosts can be taken over. Pure.

A changed argument needs a restart, a changed file only a reload.
"""

import ipaddress
from collections.abc import Iterator
from pathlib import PurePosixPath

from neutrino.agent.dhcp.config import INFINITE, DhcpSettings
from neutrino.agent.dhcp.extension_api import Contribution, device_name, subnet_tag
from neutrino.agent.dhcp.network import STATEFUL, STATELESS, ServedNetwork
from neutrino.model.state import Subnet

HOST, ADDN_HOSTS, OPTS, LEASES, PID, INTERFACE = "host", "addn_hosts", "opts", "leases", "pid", "interface"
IPV6_MIN_PREFIX = 64  # dnsmasq serves no shorter IPv6 prefix


def directory(settings: DhcpSettings, network_id: str) -> PurePosixPath:
    return PurePosixPath(settings.dhcp_confs) / network_id


def contribute(network: ServedNetwork, settings: DhcpSettings) -> Contribution:
    where = directory(settings, network.id)
    arguments = (
        "--no-hosts",  # the host's /etc/hosts must not leak to instances
        *(() if settings.dnsmasq_local_resolv and not settings.dnsmasq_dns_servers else ("--no-resolv",)),
        f"--pid-file={where / PID}",
        f"--dhcp-hostsfile={where / HOST}",
        f"--addn-hosts={where / ADDN_HOSTS}",
        f"--dhcp-optsfile={where / OPTS}",
        f"--dhcp-leasefile={where / LEASES}",
        "--dhcp-match=set:ipxe,175",  # iPXE clients get a tag: boot options may depend on it
        "--dhcp-userclass=set:ipxe6,iPXE",
        "--except-interface=lo",  # no service besides that on the port's device
        "--bind-interfaces",
        f"--interface={device_name(network, settings)}",
        *_ranges(network, settings),
        *_times(settings),
        *_names(settings),
        *((f"--user={settings.dnsmasq_user}",) if settings.dnsmasq_user else ()),
        *(("--dhcp-broadcast",) if settings.dhcp_broadcast_reply else ()),
        *_log(network, settings),
        f"--conf-file={settings.dnsmasq_config_file.strip() or '/dev/null'}",
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


def _times(settings: DhcpSettings) -> Iterator[str]:
    if settings.dhcp_renewal_time > 0:
        yield f"--dhcp-option-force=option:T1,{settings.dhcp_renewal_time}s"
    if settings.dhcp_rebinding_time > 0:
        yield f"--dhcp-option-force=option:T2,{settings.dhcp_rebinding_time}s"


def _names(settings: DhcpSettings) -> Iterator[str]:
    if settings.dnsmasq_txt_record:
        yield f"--txt-record={settings.dnsmasq_txt_record}"
    if settings.dnsmasq_dns_servers:
        yield "--strict-order"
    for server in settings.dnsmasq_dns_servers:
        yield f"--server={server}"
    if settings.dns_domain:
        yield f"--domain={settings.dns_domain}"


def _log(network: ServedNetwork, settings: DhcpSettings) -> Iterator[str]:
    if settings.dnsmasq_base_log_dir:
        file = PurePosixPath(settings.dnsmasq_base_log_dir) / network.id / "dhcp_dns_log"
        yield from ("--log-queries", "--log-dhcp", f"--log-facility={file}")
