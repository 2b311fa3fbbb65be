"""How dnsmasq is started for a network, and where its files are: as Neutron lays them out, so that hosts can be taken over.

Pure. What is on the command line needs a restart to change; what is in the files, a signal.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import PurePosixPath

from neutrino.agent.dhcp.hosts_files import subnet_tag
from neutrino.agent.dhcp.served import STATEFUL, STATELESS, Served
from neutrino.agent.dhcp.settings import INFINITE, Settings
from neutrino.model.state import Subnet

HOST, ADDN_HOSTS, OPTS, LEASES = "host", "addn_hosts", "opts", "leases"
PID, INTERFACE, BOUND = "pid", "interface", "bound"
IPV6_LEAST_PREFIX = 64  # dnsmasq serves no larger IPv6 prefix


def directory(settings: Settings, network_id: str) -> PurePosixPath:
    return PurePosixPath(settings.dhcp_confs) / network_id


def render_command(this: Served, settings: Settings, device: str) -> tuple[str, ...]:
    where = directory(settings, this.id)
    return (
        "dnsmasq",
        "--no-hosts",
        *(() if settings.dnsmasq_local_resolv and not settings.dnsmasq_dns_servers else ("--no-resolv",)),
        f"--pid-file={where / PID}",
        f"--dhcp-hostsfile={where / HOST}",
        f"--addn-hosts={where / ADDN_HOSTS}",
        f"--dhcp-optsfile={where / OPTS}",
        f"--dhcp-leasefile={where / LEASES}",
        "--dhcp-match=set:ipxe,175",
        "--dhcp-userclass=set:ipxe6,iPXE",
        "--except-interface=lo",
        *_binding(settings, device),
        *_ranges(this, settings),
        *_times(settings),
        *_names(settings),
        *((f"--user={settings.dnsmasq_user}",) if settings.dnsmasq_user else ()),
        *(("--dhcp-broadcast",) if settings.dhcp_broadcast_reply else ()),
        *_log(this, settings),
        f"--conf-file={settings.dnsmasq_config_file.strip() or '/dev/null'}",
    )


def _binding(settings: Settings, device: str) -> tuple[str, ...]:
    if settings.bridged:
        return "--bind-interfaces", f"--interface={device}"
    return "--bind-dynamic", f"--interface={device}", f"--bridge-interface={device},tap*"


def _ranges(this: Served, settings: Settings) -> Iterator[str]:
    """Static: who is not in the file of hosts gets no answer."""
    lease = "infinite" if settings.dhcp_lease_duration == INFINITE else f"{settings.dhcp_lease_duration}s"
    leases = 0
    for subnet in this.dhcp_subnets:
        if not asks_for_leases(subnet):
            continue
        cidr = ipaddress.ip_network(subnet.cidr)
        size = f"{cidr.netmask}" if cidr.version == 4 else f"{cidr.prefixlen}"
        yield f"--dhcp-range=set:{subnet_tag(subnet.id)},{cidr.network_address},static,{size},{lease}"
        leases += cidr.num_addresses
    if this.network.mtu > 0:
        yield f"--dhcp-option-force=option:mtu,{this.network.mtu}"
    yield f"--dhcp-lease-max={min(leases, settings.dnsmasq_lease_max)}"


def asks_for_leases(subnet: Subnet) -> bool:
    """Whether clients ask dnsmasq on this subnet, for addresses or for the rest."""
    if subnet.ip_version == 4:
        return True
    if ipaddress.ip_network(subnet.cidr).prefixlen < IPV6_LEAST_PREFIX:
        return False
    if subnet.ipv6_address_mode is None:
        return subnet.ipv6_ra_mode is None
    return subnet.ipv6_address_mode in (STATEFUL, STATELESS)


def _times(settings: Settings) -> Iterator[str]:
    if settings.dhcp_renewal_time > 0:
        yield f"--dhcp-option-force=option:T1,{settings.dhcp_renewal_time}s"
    if settings.dhcp_rebinding_time > 0:
        yield f"--dhcp-option-force=option:T2,{settings.dhcp_rebinding_time}s"


def _names(settings: Settings) -> Iterator[str]:
    if settings.dnsmasq_txt_record:
        yield f"--txt-record={settings.dnsmasq_txt_record}"
    if settings.dnsmasq_dns_servers:
        yield "--strict-order"
    for server in settings.dnsmasq_dns_servers:
        yield f"--server={server}"
    if settings.dns_domain:
        yield f"--domain={settings.dns_domain}"


def _log(this: Served, settings: Settings) -> Iterator[str]:
    if settings.dnsmasq_base_log_dir:
        file = PurePosixPath(settings.dnsmasq_base_log_dir) / this.id / "dhcp_dns_log"
        yield from ("--log-queries", "--log-dhcp", f"--log-facility={file}")
