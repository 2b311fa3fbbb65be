"""Builds the tracer of this host from the roles that it has, with real drivers."""

from collections.abc import Sequence

from neutrino.agent.l2.build import DATAPATHS
from neutrino.agent.l2.role import L2Role
from neutrino.agent.l3.role import L3Role
from neutrino.agent.runtime.context import RoleContext
from neutrino.agent.runtime.role import Role
from neutrino.agent.trace.drift import ObjectDrift
from neutrino.agent.trace.host_objects import HostObjects
from neutrino.agent.trace.host_rules import HostRules
from neutrino.agent.trace.hybrid import HybridFilter
from neutrino.agent.trace.local import LocalPorts
from neutrino.agent.trace.namespaces import NamespaceWalk
from neutrino.agent.trace.tracer import HostTracer
from neutrino.dataplane.inspection.real import RealInspection
from neutrino.dataplane.iptables.real import RealIptables
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.model.roles import DHCP


def host_rules(context: RoleContext) -> HostRules | None:
    """The rules that packets of tunnels pass; None: the userspace datapath does not send them by the kernel's stack."""
    conf = context.conf
    return None if conf.ovs.datapath_type == "netdev" else HostRules(RealInspection(), conf.agent.vxlan_udp_port)


def build(context: RoleContext, roles: Sequence[Role]) -> HostTracer | None:
    """None on a host without the L2 role: its switch is another agent's."""
    l2 = next((role for role in roles if isinstance(role, L2Role)), None)
    if l2 is None:
        return None
    l3 = next((role for role in roles if isinstance(role, L3Role)), None)
    conf, netlink = context.conf, RealNetlink()
    inspection = RealInspection(conf.ovs.run_directory, DATAPATHS.get(conf.ovs.datapath_type, ""))
    objects = HostObjects(context.feed, netlink, l3, serves_dhcp=any(role.name == DHCP for role in roles))
    bridges = HybridFilter(RealIptables(), netlink, inspection)
    return HostTracer(
        l2,
        inspection,
        LocalPorts(netlink, inspection, objects.find, bridges, host_rules(context)),
        NamespaceWalk(netlink, inspection, objects.find_mac, objects.is_standby, objects.find_translation),
        ObjectDrift(l2.reconciler.openflow.read_flows, objects.find_changes),
        roles,
    )
