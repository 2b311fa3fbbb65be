"""The DHCP role from the configuration."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oslo_config import cfg

from neutrino.agent.config import RefusedToStart
from neutrino.agent.dhcp.dnsmasq import Dnsmasq, Inside
from neutrino.agent.dhcp.reconcile import Reconciler
from neutrino.agent.dhcp.role import DhcpRole
from neutrino.agent.dhcp.settings import Settings
from neutrino.agent.role import RoleFeed
from neutrino.agent.switch import Switch
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.ovsdb.api import Ovsdb
from neutrino.model import agents

LOG = logging.getLogger(__name__)


def build(
    conf: cfg.ConfigOpts, feed: RoleFeed, switch: Switch, repair: Callable[[], float], news: Callable[[], None]
) -> DhcpRole:
    known = settings(conf)

    def connect() -> tuple[Ovsdb, Reconciler]:
        from neutrino.dataplane.netlink.namespaces import Namespaces
        from neutrino.dataplane.netlink.real import RealNetlink

        ovsdb, namespaces = switch.ovsdb(), Namespaces()
        dnsmasq = Dnsmasq(known.dhcp_confs, namespaces)
        return ovsdb, Reconciler(known, ovsdb, RealNetlink(namespaces), dnsmasq, partial(_Conntrack, namespaces))

    return DhcpRole(
        feed,
        connect,
        describe(conf),
        workers=conf.num_sync_threads,
        repair=repair,
        child_action=conf.agent.check_child_processes_action,
        news=news,
    )


@dataclass(frozen=True)
class _Conntrack:
    """The connections that a namespace follows. Entered by name, as its file may be in our mount namespace alone."""

    namespaces: Inside
    name: str

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        from neutrino.dataplane.conntrack.kernel import KernelConntrack

        several = list(entries)
        self.namespaces.run(self.name, lambda: KernelConntrack().flush(several))


def settings(conf: cfg.ConfigOpts) -> Settings:
    if conf.enable_metadata_network and not conf.enable_isolated_metadata:
        raise RefusedToStart("enable_metadata_network needs enable_isolated_metadata")
    if conf.dnsmasq_config_file and not os.access(conf.dnsmasq_config_file, os.R_OK):
        raise RefusedToStart(f"dnsmasq_config_file={conf.dnsmasq_config_file} cannot be read")
    directory = os.path.abspath(conf.dhcp_confs)
    use_veth = conf.ovs_use_veth if conf.ovs_use_veth is not None else conf.ovs.datapath_type != "system"
    return Settings(
        host=conf.host,
        dhcp_confs=directory,
        dhcp_lease_duration=conf.dhcp_lease_duration,
        dhcp_renewal_time=conf.dhcp_renewal_time,
        dhcp_rebinding_time=conf.dhcp_rebinding_time,
        dns_domain=conf.dns_domain.strip("."),
        dnsmasq_config_file=conf.dnsmasq_config_file,
        dnsmasq_dns_servers=tuple(conf.dnsmasq_dns_servers),
        dnsmasq_local_resolv=conf.dnsmasq_local_resolv,
        dnsmasq_lease_max=conf.dnsmasq_lease_max,
        dnsmasq_base_log_dir=conf.dnsmasq_base_log_dir,
        dnsmasq_enable_addr6_list=conf.dnsmasq_enable_addr6_list,
        dnsmasq_txt_record=conf.dnsmasq_txt_record,
        dnsmasq_user="" if is_open_to_all(directory) else "root",
        dhcp_broadcast_reply=conf.dhcp_broadcast_reply,
        enable_isolated_metadata=conf.enable_isolated_metadata,
        force_metadata=conf.force_metadata,
        enable_metadata_network=conf.enable_metadata_network,
        use_gateway_ips=conf.use_gateway_ips,
        dhcp_distributed=conf.dhcp_distributed,
        use_veth=use_veth,
        integration_bridge=conf.ovs.integration_bridge,
    )


def is_open_to_all(directory: str) -> bool:
    """dnsmasq gives up its rights, and reads its files again later: one of the directories above may keep it out."""
    for path in (Path(directory), *Path(directory).parents):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue  # it will be made by us, open
        if not mode & stat.S_IXOTH:
            LOG.warning("%s is closed to others: dnsmasq runs as root, or it could not read its files", path)
            return False
    return True


def describe(conf: cfg.ConfigOpts) -> agents.AgentState:
    """What the server and tools read of this agent."""
    return agents.AgentState(
        agent_type=agents.DHCP,
        binary="neutron-dhcp-agent",
        host=conf.host,
        topic="dhcp_agent",
        availability_zone=conf.availability_zone,
        configurations={
            "dhcp_driver": "neutron.agent.linux.dhcp.Dnsmasq",
            "dhcp_lease_duration": conf.dhcp_lease_duration,
            agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
            agents.DHCP_PORT_BY_SERVER: True,
            **({agents.DHCP_DISTRIBUTED: True} if conf.dhcp_distributed else {}),
            **({agents.USE_GATEWAY_IPS: True} if conf.use_gateway_ips else {}),
        },
    )
