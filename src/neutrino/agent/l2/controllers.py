"""OpenFlow controllers of our bridges: this agent needs none, and those of Neutron's agent are replaced. Pure.

Neutron's agent is an OpenFlow controller: at its start it sets its own address (tcp:127.0.0.1:6633) as that of all
bridges, and a second later writes its flows over the connection that the switch makes to it. On a bridge with its
address left behind, a Neutron agent that is started by accident, or whoever listens there first, controls the flows.

An address cannot simply be removed: the switch deletes all flows of a bridge that loses its last controller, or gets its
first one. So it is replaced by one that nobody serves, which takes the connection from a Neutron agent, and costs no flow.
The same address keeps the flows when such an agent sets its own one again.
"""

from ipaddress import ip_address

from neutrino.agent.l2.configuration_plan import ConfigurationPlan
from neutrino.agent.l2.desired import L2Options
from neutrino.dataplane.ovsdb.api import NO_CONTROLLER, PASSIVE, Bridge, SetControllers, Snapshot


def plan_controllers(options: L2Options, snapshot: Snapshot) -> ConfigurationPlan:
    changes = []
    for bridge in _bridges(options, snapshot):
        foreign = foreign_controllers(options, snapshot, bridge)
        if foreign:
            left = bridge.controllers - foreign
            changes.append(SetControllers(bridge.name, left | ({NO_CONTROLLER} if not _active(left) else set())))
    return ConfigurationPlan(tuple(changes))


def all_foreign_controllers(options: L2Options, snapshot: Snapshot) -> frozenset[str]:
    """The addresses of Neutron's agents on all bridges."""
    found = (foreign_controllers(options, snapshot, bridge) for bridge in _bridges(options, snapshot))
    return frozenset().union(*found)


def foreign_controllers(options: L2Options, snapshot: Snapshot, bridge: Bridge) -> frozenset[str]:
    """On our own bridges all that the switch connects to; on a physical network's, which is the operator's, those on
    this host, and those that our own bridges have too.
    """
    own = [snapshot.bridges[name] for name in _own(options) if name in snapshot.bridges]
    of_own = frozenset().union(*(_active(each.controllers) for each in own))
    if bridge.name in _own(options):
        return _active(bridge.controllers)
    return frozenset(target for target in _active(bridge.controllers) if target in of_own or _is_local(target))


def has_controller(bridge: Bridge) -> bool:
    """Whether the switch keeps the bridge's flows when its fail mode changes."""
    return any(not target.startswith(PASSIVE) for target in bridge.controllers)


def _active(targets: frozenset[str]) -> frozenset[str]:
    return frozenset(target for target in targets if target != NO_CONTROLLER and not target.startswith(PASSIVE))


def _own(options: L2Options) -> tuple[str, ...]:
    return (options.integration_bridge, *((options.tunnel_bridge,) if options.tunnel_types else ()))


def _bridges(options: L2Options, snapshot: Snapshot) -> list[Bridge]:
    names = dict.fromkeys((*_own(options), *(bridge for _, bridge in options.bridge_mappings)))
    return [snapshot.bridges[name] for name in names if name in snapshot.bridges]


def _is_local(target: str) -> bool:
    host = target.partition(":")[2].rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
