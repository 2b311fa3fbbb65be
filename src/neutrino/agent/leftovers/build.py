"""Builds `Leftovers` from the configuration, with real drivers."""

from functools import partial

from oslo_config import cfg

from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.iptables.real import flush_neutron_scopes, remove_neutron_rules
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.foreign import RealForeignProcesses


def leftovers(conf: cfg.ConfigOpts, services: ServiceNamespaces, namespaces: Namespaces) -> Leftovers:
    return Leftovers(
        services,
        RealForeignProcesses(namespaces),
        conf.state_path,
        conf.agent.remove_stale_namespaces,
        partial(remove_neutron_rules, namespaces),
        partial(flush_neutron_scopes, namespaces),
    )
