"""Builds the tracer of this host from the roles that it has, with real drivers."""

from collections.abc import Sequence

from neutrino.agent.context import RoleContext
from neutrino.agent.l2.build import DATAPATHS
from neutrino.agent.l2.role import L2Role
from neutrino.agent.role import Role
from neutrino.agent.trace.drift import ObjectDrift
from neutrino.agent.trace.local import LocalPorts
from neutrino.agent.trace.namespaces import NamespaceWalk
from neutrino.agent.trace.tracer import HostTracer
from neutrino.dataplane.inspection.real import RealInspection
from neutrino.dataplane.netlink.real import RealNetlink


def build(context: RoleContext, roles: Sequence[Role]) -> HostTracer | None:
    """None on a host without the L2 role: its switch is another agent's."""
    l2 = next((role for role in roles if isinstance(role, L2Role)), None)
    if l2 is None:
        return None
    conf = context.conf
    inspection = RealInspection(conf.ovs.run_directory, DATAPATHS.get(conf.ovs.datapath_type, ""))
    return HostTracer(
        l2,
        inspection,
        LocalPorts(RealNetlink(), inspection, lambda port_id: None),
        NamespaceWalk(),
        ObjectDrift(l2.reconciler.openflow.read_flows),
        roles,
    )
