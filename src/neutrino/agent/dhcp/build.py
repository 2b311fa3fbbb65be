"""Builds the DHCP role from the configuration."""

import logging
import os
import stat
from pathlib import Path

from oslo_config import cfg

from neutrino.agent.config import load_extensions
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.agent.dhcp.extension_api import GROUP
from neutrino.agent.dhcp.reconcile import Reconciler
from neutrino.agent.dhcp.role import DhcpRole
from neutrino.agent.leftovers.build import leftovers
from neutrino.agent.runtime.context import RoleContext
from neutrino.agent.runtime.options import read_settings
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.process.real import RealProcesses
from neutrino.errors import RefusedToStart
from neutrino.model import agents

LOG = logging.getLogger(__name__)


def build(context: RoleContext) -> DhcpRole:
    conf, namespaces = context.conf, Namespaces()
    settings, processes = dhcp_settings(conf), RealProcesses(conf.state_path, namespaces)
    extensions = load_extensions(GROUP, conf.dhcp_extensions, conf)
    services = ServiceNamespaces(RealNetlink(namespaces), context.switch.ovsdb, owner=conf.state_path)
    dnsmasq = Dnsmasq(settings.dhcp_confs, namespaces)
    return DhcpRole(
        context.feed,
        Reconciler(
            settings,
            services,
            processes,
            dnsmasq,
            KernelConntrack,
            extensions,
            leftovers(conf, services, namespaces),
        ),
        describe(conf),
        workers=conf.num_sync_threads,
        repair=lambda: context.intervals.repair,
        child_action=conf.agent.check_child_processes_action,
        foreign_tables=RealNft(namespaces).foreign_drops,
        report_soon=context.report_soon,
    )


def dhcp_settings(conf: cfg.ConfigOpts) -> DhcpSettings:
    if conf.enable_metadata_network and not conf.enable_isolated_metadata:
        raise RefusedToStart("enable_metadata_network needs enable_isolated_metadata")
    if conf.dnsmasq_config_file and not os.access(conf.dnsmasq_config_file, os.R_OK):
        raise RefusedToStart(f"dnsmasq_config_file={conf.dnsmasq_config_file} cannot be read")
    directory = os.path.abspath(conf.dhcp_confs)
    return read_settings(
        DhcpSettings,
        conf,
        host=conf.host,
        dhcp_confs=directory,
        dns_domain=conf.dns_domain.strip("."),
        dnsmasq_user="" if is_passable(directory) else "root",
        use_veth=conf.ovs_use_veth if conf.ovs_use_veth is not None else conf.ovs.datapath_type != "system",
        keeps_device=conf.ovs_use_veth is None,
        integration_bridge=conf.ovs.integration_bridge,
    )


def is_passable(directory: str) -> bool:
    """Whether other users may enter all directories above: dnsmasq drops its privileges and reads its files later."""
    for path in (Path(directory), *Path(directory).parents):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue  # we will create it, passable
        if not mode & stat.S_IXOTH:
            LOG.warning("%s is closed to other users: dnsmasq runs as root, or it could not read its files", path)
            return False
    return True


def describe(conf: cfg.ConfigOpts) -> agents.AgentState:
    """The agent as the API shows it."""
    configurations = {
        "dhcp_driver": "neutron.agent.linux.dhcp.Dnsmasq",
        "dhcp_lease_duration": conf.dhcp_lease_duration,
        agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
        agents.DHCP_PORT_BY_SERVER: True,
        **({agents.DHCP_DISTRIBUTED: True} if conf.dhcp_distributed else {}),
        **({agents.USE_GATEWAY_IPS: True} if conf.use_gateway_ips else {}),
    }
    return agents.AgentState(
        agents.DHCP, "neutron-dhcp-agent", conf.host, "dhcp_agent", conf.agent.availability_zone, configurations
    )
